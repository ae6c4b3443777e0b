"""The engine of the studio in a real browser: a blank page that has imported all of its modules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, Route

import choqolate

ENGINE = Path(choqolate.__file__).parent / "studio" / "page" / "engine"
ADDRESS = "http://studio.test/"

# `engine` holds all exports; `load(text)` reads a blob; `plain(x)` makes what JSON can hold of typed arrays.
START = """
async (files) => {
  window.engine = {};
  for (const file of files) Object.assign(engine, await import(`/${file}`));
  window.load = (text) => {
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    const { document, arrays } = engine.parseBundle(bytes.buffer);
    const rows = new engine.RowTable(document, arrays);
    return { document, arrays, rows, network: new engine.Network(document, arrays, rows) };
  };
  window.plain = (value) => {
    if (typeof value === "number" && !Number.isFinite(value)) return String(value);
    if (ArrayBuffer.isView(value)) return Array.from(value, plain);
    if (Array.isArray(value)) return value.map(plain);
    if (value === null || typeof value !== "object") return value ?? null;
    return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, plain(part)]));
  };
  window.finish = (generator) => {
    let step = generator.next();
    while (!step.done) step = generator.next();
    return step.value;
  };
}
"""


@contextmanager
def open_engine(browser: Browser) -> Iterator[Page]:
    """A page with the engine; nothing is served but its files."""

    def answer(route: Route) -> None:
        file = ENGINE / route.request.url.removeprefix(ADDRESS)
        if file.is_file():
            route.fulfill(path=file, content_type="text/javascript")
        else:
            route.fulfill(body="<!doctype html><title>engine</title>", content_type="text/html")

    context = browser.new_context()
    page = context.new_page()
    page.route("**/*", answer)
    try:
        page.goto(ADDRESS)
        page.evaluate(START, sorted(path.name for path in ENGINE.glob("*.js")))
        yield page
    finally:
        context.close()


def numbers(value: Any) -> Any:
    """Numbers that JSON cannot hold, back from text."""
    if isinstance(value, dict):
        return {name: numbers(part) for name, part in value.items()}
    if isinstance(value, list):
        return [numbers(part) for part in value]
    return (
        {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}.get(value, value)
        if isinstance(value, str)
        else value
    )
