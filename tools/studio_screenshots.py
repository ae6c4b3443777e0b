"""Make the images of docs/studio.md and the README: the audit of the demo's birds that the guide tells, in a browser.

    choqolate demo
    python tools/studio_screenshots.py choqolate-demo docs/figures

Numbers of the guide are printed on the way.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page

import choqolate as cq
from choqolate.studio import export_studio

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.browser import open_browser

OTHERS = ["beach", "sand", "river", "stream", "rocks", "boulders"]
LAND = ["forest", "woods", "meadow", "grass", "trees", "parkland", "bamboo", "canes"]


def main() -> None:
    """Export the studio of the demo and audit it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("demo", type=Path, help="folder of choqolate demo")
    parser.add_argument("output", type=Path, help="folder for the images")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, open_browser() as browser:
        file = Path(folder) / "audit.html"
        table = cq.ConceptScores.load(given.demo / "scores.parquet")
        export_studio(cq.load(given.demo / "model"), table, file, title="birds")
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready]")
        audit(page, given.output)


def audit(page: Page, output: Path) -> None:
    """Do what the guide tells, step by step."""
    say(page, "original")
    go(page, view="suspects")
    page.get_by_role("button", name="Try").first.click()
    page.get_by_label("Reason").fill("Water is background, not part of the bird.")
    page.get_by_label("Author").fill("Ada")
    page.wait_for_timeout(400)
    page.screenshot(path=output / "studio-suspects.png")
    say(page, "without water")
    page.get_by_role("button", name="Commit", exact=True).click()
    go(page, view="concept", concept="sea")
    page.wait_for_timeout(2_000)
    print(page.locator(".residuals").last.inner_text())
    remove(page, OTHERS, "Shores and rocks are background too.")
    say(page, "without shores")
    remove(page, LAND, "So are forests and meadows.")
    say(page, "without any background")
    page.wait_for_timeout(6_000)  # until messages are gone
    go(page, view="overview")
    page.wait_for_timeout(600)
    page.locator(".node-card").nth(9).scroll_into_view_if_needed()
    page.mouse.move(0, 0)
    page.screenshot(path=output / "studio-nodes.png")
    go(page, view="history")
    for box in page.get_by_role("checkbox", name="is reviewed").all():
        box.check()
    page.wait_for_timeout(400)
    page.screenshot(path=output / "studio-history.png")
    go(page, view="overview", rows="covered")
    page.get_by_role("button", name="Final check…").click()
    page.get_by_role("button", name="Show the numbers").click()
    page.wait_for_timeout(400)
    print(page.get_by_role("table").first.inner_text())


def remove(page: Page, concepts: list[str], reason: str) -> None:
    """Tick concepts in the list, remove them together, and commit that."""
    for name in concepts:
        page.fill("#concept-search", name)
        page.wait_for_timeout(150)
        page.get_by_role("checkbox", name=name, exact=False).first.check()
    page.get_by_role("button", name="Remove", exact=True).click()
    page.get_by_label("Reason").fill(reason)
    page.get_by_role("button", name="Commit", exact=True).click()
    page.wait_for_timeout(300)


def go(page: Page, **route: str) -> None:
    """Go to a view."""
    address = "&".join(f"{key}={value}" for key, value in route.items())
    page.evaluate("(to) => { location.hash = to; }", address)
    page.wait_for_timeout(500)


def say(page: Page, what: str) -> None:
    """Print the summary of the page."""
    page.wait_for_timeout(300)
    print(what, "|", " ".join(page.locator(".strip").inner_text().split()))


if __name__ == "__main__":
    main()
