"""A person at the studio's page, in a real browser."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from decimal import ROUND_HALF_UP, Decimal


class Auditor:
    """A person at the page."""

    def __init__(self, page, address):
        self.page, self.address = page, address
        self.said, self.requests = [], []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("dialog", lambda dialog: (self.said.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: self.requests.append(request.url))

    def open(self, place=""):
        self.page.goto(self.address + place)
        return self.ready()

    def ready(self):
        self.page.wait_for_selector("html[data-ready]")
        return self.settled()

    def settled(self):
        """Two frames: what was asked for is painted."""
        self.page.evaluate("() => new Promise((f) => requestAnimationFrame(() => requestAnimationFrame(f)))")
        return self

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)
            self.settled()

    def click(self, name, role="button", **options):
        self.page.get_by_role(role, name=name, **options).first.click()
        self.settled()

    def remove(self, concept, reason=None):
        """Search a concept, take it out everywhere, and commit that with a reason."""
        self.press("/")
        self.page.keyboard.type(concept)
        self.press("Enter")
        self.click("Remove everywhere")
        if reason is not None:
            self.commit(reason)

    def commit(self, reason):
        self.page.get_by_label("Reason").fill(reason)
        self.page.get_by_label("Author").fill("Ada")
        self.click("Commit", exact=True)

    def number(self, label, step="now"):
        """A number of the summary, in percent."""
        figure = self.page.locator(".strip-figure", has_text=label)
        return float(figure.locator(".strip-step", has_text=step).inner_text().split("%")[0])

    @property
    def predicted(self):
        """The class and the probability in percent that the open image is predicted with."""
        facts = self.page.locator(".one-image").inner_text()
        name, share = re.search(r"Predicted\s+(?:[✓✗]\s+\w+:\s+)?(.+?) ([\d.]+)%", facts).groups()
        return name, float(share)

    @property
    def history(self):
        """What the browser keeps of the audit."""
        kept = self.page.evaluate(
            "() => Object.entries(localStorage).filter(([k]) => k.startsWith('choqolate-studio/')).map(([, v]) => v)"
        )
        return [json.loads(one)["history"] for one in kept]


@contextmanager
def auditor(browser, address, *, width=1280, height=900, **options):
    context = browser.new_context(viewport={"width": width, "height": height}, accept_downloads=True, **options)
    try:
        one = Auditor(context.new_page(), address)
        yield one
        assert one.said == []
        outside = [url for url in one.requests if not url.startswith((address.split("#")[0], "data:", "blob:"))]
        assert outside == []
    finally:
        context.close()


def audited(model, table, *removed):
    """Accuracy and that of the worst group on the validation rows in percent, as Python finds them."""
    edited = model.remove_concepts(removed) if removed else model
    rows = table.part("val")
    right = edited.predict(rows) == rows.labels
    worst = min(right[rows.groups == group].mean() for group in measurable(rows))
    return as_shown(right.mean()), as_shown(worst)


def measurable(rows):
    """The groups with enough rows to tell."""
    return [group for group in set(rows.groups) if (rows.groups == group).sum() >= 10]


def as_shown(share):
    """A share in percent with one decimal, rounded as browsers do."""
    return float(Decimal(100 * float(share)).quantize(Decimal("0.1"), ROUND_HALF_UP))
