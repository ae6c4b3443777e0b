"""A real browser: pages are opened as a reader opens them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Chromium; where there is none the test is skipped, in CI it fails."""
    path = next((found for found in map(shutil.which, NAMES) if found), None)
    if path is None:
        message = "no Chromium found: install the package chromium"
        if os.environ.get("CHOQOLATE_BROWSER") == "required":
            pytest.fail(message)
        pytest.skip(message)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Visit:
    """An open page, and all that it said or asked for."""

    page: Page
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@contextmanager
def visit(browser: Browser, file: Path, *, width: int = 1280, height: int = 900, scheme: str = "light"):
    """Open a file at some width, in light or dark colours."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    page = context.new_page()
    seen = Visit(page)
    page.on("console", lambda message: seen.console.append(message.text))
    page.on("pageerror", lambda error: seen.console.append(str(error)))
    page.on("dialog", lambda dialog: (seen.console.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: seen.requests.append(request.url))
    try:
        page.goto(file.as_uri(), wait_until="load")
        yield seen
    finally:
        context.close()
