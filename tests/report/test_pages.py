"""Pages in a real browser: they ask for nothing, nothing complains, and all can be read, whatever it is called."""

from __future__ import annotations

import itertools

import pytest

from choqolate.demo.birds_page import demo_page
from choqolate.errors import ChoqolateWarning
from choqolate.report.model_page import write_report
from tests.browser import open_browser, visit
from tests.demo.test_birds_page import small_demo
from tests.reports import NASTY, bird_table, nasty_table, small_model

SIZES = {"phone": (360, 740), "desktop": (1280, 900)}
CONTRAST = 4.5  # of text with what is behind it, as WCAG AA asks for

# The contrast of all texts with the nearest filled background, lowest first.
LOWEST_CONTRAST = """() => {
  const parse = text => {  // rgb(0 to 255) or, of a mixed colour, color(srgb 0 to 1)
    const numbers = (text.match(/[\\d.]+(e-?\\d+)?/g) || []).map(Number);
    return text.startsWith("color") ? numbers.map((v, i) => i < 3 ? 255 * v : v) : numbers;
  };
  const luminance = rgb => rgb.slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const fill = parse(getComputedStyle(e).backgroundColor);
      if (fill.length === 3 || fill[3] > 0.5) return fill;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || element.tagName === "title" || !element.getClientRects().length) continue;
    const style = getComputedStyle(element), svg = element instanceof SVGElement;
    const [a, b] = [luminance(parse(svg ? style.fill : style.color)), luminance(behind(element))];
    found.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), element.textContent.slice(0, 40)]);
  }
  return found.sort((one, other) => one[0] - other[0])[0];
}"""

CLOUDS = """() => [...document.querySelectorAll("svg.cloud")].map(cloud => {
  const box = e => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
  return {frame: box(cloud), words: [...cloud.querySelectorAll("text")].map(t => ({
    box: box(t), name: t.firstChild.textContent, size: parseFloat(t.getAttribute("font-size"))}))};
})"""


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Pages by name: of a model, of an edited model, of one with odd names, and of the demo."""
    folder = tmp_path_factory.mktemp("pages")
    table = bird_table(folder / "images")
    model = small_model(table)
    odd = nasty_table()
    (folder / "demo.html").write_text(demo_page(small_demo(), b"\xff\xd8\xff"))
    with pytest.warns(ChoqolateWarning, match="not found"):
        odd_page = write_report(small_model(odd), odd, folder / "odd.html", title=NASTY[0])
    return {
        "model": write_report(model, table, folder / "model.html"),
        "edited": write_report(model.remove_concepts(["sea"], mode="impute"), table, folder / "edited.html"),
        "odd": odd_page,
        "one layer": write_report(small_model(table, n_nodes=None), table, folder / "layer.html"),
        "demo": folder / "demo.html",
    }


PAGES = ("model", "edited", "odd", "one layer", "demo")


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("size", SIZES)
def test_a_page_asks_for_nothing_and_can_be_read(browser, pages, name, size):
    width, height = SIZES[size]
    with visit(browser, pages[name], width=width, height=height) as seen:
        page = seen.page
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
            for opened in (False, True):
                page.evaluate("open => document.querySelectorAll('details').forEach(d => d.open = open)", opened)
                assert page.evaluate("document.documentElement.scrollWidth") <= width
            contrast, text = page.evaluate(LOWEST_CONTRAST)
            assert contrast >= CONTRAST, (scheme, text)
        assert seen.console == []
        assert [url for url in seen.requests if not url.startswith(("file:", "data:"))] == []
        assert sum(url.startswith("file:") for url in seen.requests) == 1


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["model", "odd"])
def test_words_of_a_cloud_lie_apart_and_inside(browser, pages, name, size):
    with visit(browser, pages[name], width=SIZES[size][0]) as seen:
        clouds = seen.page.evaluate(CLOUDS)
    assert len(clouds) == 4
    for cloud in clouds:
        left, top, right, bottom = cloud["frame"]
        assert cloud["words"]
        for box in map(_letters, cloud["words"]):
            assert left - 1 <= box[0] < box[2] <= right + 1
            assert top - 1 <= box[1] < box[3] <= bottom + 1
        for one, other in itertools.combinations(cloud["words"], 2):
            # the box of a line is higher than its letters by what fonts keep free above and below them
            a, b = (_letters(word) for word in (one, other))
            apart = a[2] <= b[0] + 1 or b[2] <= a[0] + 1 or a[3] <= b[1] + 1 or b[3] <= a[1] + 1
            assert apart, (one["name"], other["name"])


def _letters(word):
    left, top, right, bottom = word["box"]
    free = 0.12 * (bottom - top)
    return left, top + free, right, bottom - free


def test_names_are_text_and_run_nothing(browser, pages):
    with visit(browser, pages["odd"]) as seen:
        page = seen.page
        assert page.evaluate("window.injected") is None
        assert page.evaluate("document.scripts.length") == 0
        assert page.evaluate("document.querySelectorAll('b, i, u, a:not(nav a)').length") == 0
        assert page.title() == NASTY[0]
        text = page.evaluate("document.body.textContent")
        for name in NASTY:
            assert name in text
        assert seen.console == []


def test_every_image_is_shown(browser, pages):
    with visit(browser, pages["model"]) as seen:
        widths = seen.page.evaluate("[...document.images].map(image => image.naturalWidth)")
    assert len(widths) > 5
    assert all(widths)


def test_links_of_the_page_lead_to_its_sections(browser, pages):
    with visit(browser, pages["edited"]) as seen:
        links = seen.page.evaluate("[...document.querySelectorAll('nav a')].map(a => a.getAttribute('href').slice(1))")
        assert len(links) > 7
        for target in links:
            assert seen.page.evaluate("id => document.getElementById(id) !== null", target)


def test_a_page_prints_on_white_paper_and_cuts_nothing(browser, pages, tmp_path):
    with visit(browser, pages["model"], width=700, scheme="dark") as seen:
        page = seen.page
        page.emulate_media(media="print", color_scheme="dark")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
        assert page.evaluate(LOWEST_CONTRAST)[0] >= CONTRAST
        assert page.evaluate("document.documentElement.scrollWidth") <= 700
        assert page.pdf(path=tmp_path / "page.pdf", format="A4").startswith(b"%PDF")


def test_details_open_at_a_click(browser, pages):
    with visit(browser, pages["model"]) as seen:
        first = seen.page.locator("#nodes details").first
        assert not first.locator("ul").is_visible()
        first.locator("summary").click()
        assert first.locator("ul").is_visible()


def test_a_table_that_is_wider_than_the_screen_scrolls_alone(browser, pages):
    with visit(browser, pages["edited"], width=SIZES["phone"][0]) as seen:
        wide = seen.page.evaluate(
            "[...document.querySelectorAll('.scroll')].filter(box => box.scrollWidth > box.clientWidth).length"
        )
        assert wide > 0
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= SIZES["phone"][0]
