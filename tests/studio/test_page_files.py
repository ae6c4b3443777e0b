"""The files of the page: forms that fit into one file, nothing that makes markup of text, and all of it opens."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import numpy as np
import pytest

from choqolate.studio import build_bundle, export_studio
from choqolate.studio import bundle as bundles
from choqolate.studio.one_page import PAGE, STYLE_LINK, inline_modules, read_module
from tests.browser import open_browser, visit
from tests.reports import NASTY, bird_table, nasty_table, small_model
from tests.studio.engine_page import open_engine

MODULES = sorted(file.relative_to(PAGE).as_posix() for file in PAGE.rglob("*.js"))
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser|srcdoc|javascript:"
    r"|createContextualFragment|setAttribute\(\s*[\"']style|\sstyle=[\"']|\son\w+=[\"']"
)


@pytest.fixture(scope="module")
def browser():
    with open_browser() as running:
        yield running


@pytest.mark.parametrize("name", MODULES)
def test_a_module_keeps_the_rules_of_the_page(name):
    text = (PAGE / name).read_text(encoding="utf-8")
    assert FORBIDDEN.findall(text) == []
    assert text.count("\n") <= 400
    module = read_module(PAGE, name)  # raises for forms that are not allowed
    exported = {target: read_module(PAGE, target).exports for target, *_ in module.imports}
    assert [(target, wanted) for target, wanted, *_ in module.imports if wanted not in exported[target]] == []


def test_every_import_is_used_and_every_export_is_imported():
    modules = {name: read_module(PAGE, name) for name in MODULES}
    unused = [(m.name, own) for m in modules.values() for _, _, own, _ in m.imports if not uses(m.code, own)]
    assert unused == []
    tests = "".join(file.read_text(encoding="utf-8") for file in Path(__file__).parent.glob("*.py"))
    imported = {(target, theirs) for module in modules.values() for target, theirs, *_ in module.imports}
    exported = [(module.name, name) for module in modules.values() for name in module.exports]
    assert [one for one in exported if one not in imported and f"engine.{one[1]}(" not in tests] == []


def test_every_class_and_variable_of_the_styles_is_used():
    styles = "".join(file.read_text(encoding="utf-8") for file in PAGE.rglob("*.css"))
    styles = re.sub(r"/\*.*?\*/", "", styles, flags=re.S)
    code = "".join((PAGE / name).read_text(encoding="utf-8") for name in ["index.html", *MODULES])
    selectors = " ".join(re.findall(r"([^{}]*)\{", styles))
    assert [name for name in sorted(set(re.findall(r"\.([a-zA-Z][\w-]*)", selectors))) if not uses(code, name)] == []
    variables = sorted(set(re.findall(r"(--[\w-]+)\s*:", styles)))
    assert [name for name in variables if f"var({name}" not in styles] == []


def uses(code, name):
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", code) is not None


def test_the_page_has_no_markup_that_a_strict_policy_forbids():
    html = (PAGE / "index.html").read_text(encoding="utf-8")
    assert FORBIDDEN.findall(html) == []
    assert re.findall(r"<script[^>]*>", html) == ['<script type="module" src="app/main.js">']
    assert "<style" not in html
    assert re.findall(r"https?://", html) == []


def test_every_style_is_linked_once_and_file_names_are_unique():
    styles = sorted(file.relative_to(PAGE).as_posix() for file in PAGE.rglob("*.css"))
    assert sorted(STYLE_LINK.findall((PAGE / "index.html").read_text(encoding="utf-8"))) == styles
    names = [file.name for file in PAGE.rglob("*") if file.is_file()]
    assert len(names) == len(set(names))
    assert len(inline_modules()) > 10_000  # no circles either


def opens(seen):
    """The page is ready, has said nothing, and has asked for nothing but itself."""
    seen.page.wait_for_selector("html[data-ready=yes]")
    assert seen.console == []
    assert all(request.startswith(("file:", "data:", "blob:")) for request in seen.requests)
    assert len([request for request in seen.requests if request.startswith("file:")]) == 1


def test_the_exported_file_opens_without_a_server(browser, tmp_path):
    table = bird_table(tmp_path / "images")
    export_studio(small_model(table), table, tmp_path / "audit.html", title="birds at sea")
    with visit(browser, tmp_path / "audit.html") as seen:
        opens(seen)
        assert "birds at sea" in seen.page.inner_text("body")


@pytest.mark.filterwarnings("ignore:.*were not found")
def test_names_with_markup_do_nothing_in_the_exported_file(browser, tmp_path):
    table = nasty_table()
    model = small_model(table).remove_concepts(NASTY[0], mode="impute", note="<img src=x onerror=alert(1)>")
    title = "</script><script>window.injected = 1</script>"
    export_studio(model, table, tmp_path / "audit.html", title=title, names=(title, "<!--"))
    with visit(browser, tmp_path / "audit.html") as seen:
        opens(seen)
        for view in ("concept", "images", "suspects", "history", "export", "overview"):
            seen.page.click(f"[data-view={view}]")
            seen.page.wait_for_timeout(100)  # what a view computes later is drawn too
        opens(seen)
        assert title in seen.page.inner_text("body")
        assert seen.page.evaluate("window.injected") is None


def test_scores_in_16_bits_are_read_as_they_were(browser, monkeypatch):
    table = bird_table(None).with_columns(paths=None)
    model = small_model(table)
    monkeypatch.setattr(bundles, "MOST_SCORE_BYTES", 300 * 6 * 2)
    bundle = build_bundle(model, table, rows=200)
    blobs = bundle.to_bytes(), bundle.rows_blob(200, 100)
    assert bundle.arrays["rows.z"].dtype == np.uint16
    with open_engine(browser) as page:
        values = page.evaluate(
            """async ([first, more]) => {
              const { rows, network } = load(first);
              await network.prepare();
              const bytes = Uint8Array.from(atob(more), (character) => character.charCodeAt(0));
              rows.append(engine.parseBundle(bytes.buffer).arrays);
              await network.extend();
              return plain(network.state([]).nodeValues);
            }""",
            [base64.b64encode(blob).decode() for blob in blobs],
        )
    expected = model.transform(table.take(bundle.rows.choice.order))
    assert np.abs(np.reshape(values, expected.shape) - expected).max() <= 1e-5
