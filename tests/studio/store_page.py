"""The store of the studio in a real browser: a blank page that has an audit, and nothing that draws it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, Route

from choqolate.studio.bundle import Bundle
from choqolate.studio.one_page import PAGE

ADDRESS = "http://studio.test/"
KINDS = {".js": "text/javascript", ".css": "text/css"}

# `app` is the audit, `said` what it said; `open()` begins as a page does that is loaded
START = """
async () => {
  const modules = ["engine/bundle", "engine/network", "engine/row_table", "app/store", "app/keeping", "app/serving"];
  const page = {};
  for (const name of modules) Object.assign(page, await import(`/${name}.js`));
  window.open = async () => {
    const api = new page.Api();
    const { document, arrays } = page.parseBundle(await api.bytes("api/bundle"));
    const rows = new page.RowTable(document, arrays);
    const network = new page.Network(document, arrays, rows);
    await network.prepare();
    const keeper = new page.Keeper(document);
    window.said = [];
    window.app = new page.Studio({ document, network, rows, images: () => null, api, keeper });
    app.onSay = (text) => said.push(text);
    return app.resume();
  };
  await open();
}
"""


@contextmanager
def open_store(browser: Browser, bundle: Bundle, place: str = "") -> Iterator[Page]:
    """A page with an audit of a bundle; errors of the page are errors here."""
    blob = bundle.to_bytes()

    def answer(route: Route) -> None:
        path = route.request.url.removeprefix(ADDRESS).partition("?")[0]
        file = PAGE / path
        if path == "api/bundle":
            route.fulfill(body=blob, content_type="application/octet-stream")
        elif file.suffix in KINDS and file.is_file():
            route.fulfill(path=file, content_type=KINDS[file.suffix])
        else:
            route.fulfill(body="<!doctype html><title>store</title>", content_type="text/html")

    context = browser.new_context()
    page = context.new_page()
    page.route("**/*", answer)
    try:
        page.goto(ADDRESS + place)
        page.evaluate(START)
        yield page
    finally:
        context.close()
