"""One HTML file of the page: how modules are put together, what is refused, and what a browser makes of it."""

from __future__ import annotations

import base64
import hashlib
import re
from zlib import crc32

import pytest

from choqolate.errors import ChoqolateError, ChoqolateWarning
from choqolate.studio import build_bundle
from choqolate.studio.one_page import inline_modules, inline_page, read_module
from tests.browser import open_browser, visit
from tests.reports import NASTY, nasty_table, small_model
from tests.studio.small_page import FILES, INDEX, write_page


@pytest.fixture(scope="module")
def bundle():
    """A bundle in which every name tries to break the page."""
    table = nasty_table()
    names = ("</script><script>window.injected = 1</script>", "<!--<script>")
    with pytest.warns(ChoqolateWarning, match="were not found"):
        return build_bundle(small_model(table), table, rows=60, names=names, title="</script><!-- <b>hostile</b>")


@pytest.fixture(scope="module")
def browser():
    with open_browser() as running:
        yield running


def parts_of(html, tag):
    """The content of all elements of a kind, with what stands in their opening tag."""
    return re.findall(rf"<{tag}([^>]*)>(.*?)</{tag}>", html, re.S)


def sha256(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


# ---------------------------------------------------------------------- the file


def test_the_policy_allows_this_script_and_this_style_alone(bundle, tmp_path):
    html = inline_page(bundle, [None] * 60, write_page(tmp_path))
    (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]+)">', html)
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    ((_, style),) = parts_of(html, "style")
    script, data, images = parts_of(html, "script")
    assert rules == {
        "default-src": "'none'",
        "script-src": sha256(script[1]),
        "style-src": sha256(style),
        "img-src": "data: blob:",
        "connect-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert html.index("Content-Security-Policy") < html.index("<style>")
    assert [attributes for attributes, _ in (script, data, images)] == [
        ' type="module"',
        f' type="application/octet-stream;base64" id="studio-data" data-checksum="crc32 {crc32(data[1].encode()):08x}"',
        f' type="application/json" id="studio-images" data-checksum="crc32 {crc32(images[1].encode()):08x}"',
    ]
    assert base64.b64decode(data[1]) == bundle.to_bytes()
    assert FILES["style.css"] in style
    assert style.index(FILES["style.css"]) < style.index(FILES["views/more.css"])
    assert "src=" not in html
    assert 'href="style.css"' not in html


def test_nothing_of_hostile_names_is_in_the_page_as_markup(bundle, tmp_path):
    html = inline_page(bundle, [None] * 60, write_page(tmp_path))
    assert len(re.findall(r"<script", html)) == len(re.findall(r"</script", html)) == 3
    assert "<!--" not in html
    assert not any(name in html for name in (*NASTY[:3], "hostile", "injected"))


def test_the_file_runs_in_a_browser_without_a_request(bundle, browser, tmp_path):
    pixel = base64.b64decode(
        "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAgGBgcGBQgHBwcJCQgKDBQNDAsLDBkSEw8UHRofHh0aHBwgJC4nICIsIxwcKDcpLDAxNDQ0Hyc5"
        "PTgyPC4zNDL/wAALCAABAAEBAREA/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQR"
        "BRIhMUEGE1FhByJxFDKBkaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4"
        "eXqDhIWGh4iJipKTlJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/9oACAEB"
        "AAA/APn+v//Z"
    )
    file = tmp_path / "small.html"
    file.write_text(inline_page(bundle, [pixel, None, pixel] + [None] * 57, write_page(tmp_path / "page")), "utf-8")
    with visit(browser, file) as seen:
        seen.page.wait_for_selector("html[data-ready=yes]")
        assert seen.console == []
        assert seen.requests[0] == file.as_uri()
        assert all(request.startswith("data:") for request in seen.requests[1:])
        assert seen.page.inner_text("h1") == bundle.document["title"]
        assert seen.page.inner_text("output") == "2"
        assert seen.page.evaluate("window.told") == bundle.document
        assert seen.page.evaluate("window.injected") is None
        assert seen.page.evaluate("[...document.images].map((one) => one.naturalWidth)") == [1, 1]
        colors = "['h1', 'p'].map((tag) => getComputedStyle(document.querySelector(tag)).color)"
        assert seen.page.evaluate(colors) == ["rgb(1, 2, 3)", "rgb(4, 5, 6)"]
        seen.page.evaluate(  # what is not in the file does not run
            "document.body.append(Object.assign(document.createElement('script'), { textContent: 'window.late = 1' }))"
        )
        assert seen.page.evaluate("window.late") is None


# ---------------------------------------------------------------------- modules


def test_every_module_is_there_once_after_those_that_it_imports(tmp_path):
    script = inline_modules(write_page(tmp_path))
    order = [script.index(f"// {name}\n") for name in ("app/dom.js", "engine/reading.js", "app/main.js")]
    assert order == sorted(order)
    assert script.count("class Counter") == 1
    assert not re.search(r"^\s*(import|export) ", script, re.M)


def test_lines_of_a_module_keep_their_numbers(tmp_path):
    folder = write_page(tmp_path)
    original = FILES["app/main.js"].split("\n")
    code = read_module(folder, "app/main.js").code.split("\n")
    assert len(code) == len(original)
    assert code[6:] == original[6:]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('import * as all from "./dom.js";', "an import or export of another form"),
        ('import dom from "./dom.js";', "an import or export of another form"),
        ('import "./dom.js";', "an import or export of another form"),
        ('import { h } from "dom";', "an import or export of another form"),
        ("import { h } from './dom.js';", "an import or export of another form"),
        ('import { h } from "https://example.com/x.js";', "an import or export of another form"),
        ('  import { h } from "./dom.js";', "an import or export of another form"),
        ("export default function f() {}", "an import or export of another form"),
        ("export { place };", "an import or export of another form"),
        ('export * from "./dom.js";', "an import or export of another form"),
        ("export let count = 0;", "an import or export of another form"),
        ("export const { a } = place;", "an import or export of another form"),
        ('const late = () => import("./dom.js");', "an import while the page runs"),
        ("const here = import.meta.url;", "an import while the page runs"),
        ("await null;", "an await outside of a function"),
        ("const x = await null;", "an await outside of a function"),
        ('const text = "</SCRIPT>";', "a text that would end the script of the page"),
        ('const text = "<!--";', "a text that would end the script of the page"),
    ],
)
def test_other_forms_are_refused_with_file_and_line(tmp_path, line, what):
    folder = write_page(tmp_path, **{"app/main.js": f"const place = 1;\n\n{line}\n"})
    with pytest.raises(ChoqolateError, match=rf"^app/main\.js, line 3: {what} cannot be put into one file\.$"):
        inline_modules(folder)


@pytest.mark.parametrize(
    "code",
    [
        "const keys = {\n  export: 1,\n  import: 2,\n};",
        "// import and export are words, await too\nconst x = 1;",
        "/**\n * export what was edited\n */\nexport const exported = (imports) => imports;",
        "export const wait = async () => await null;",
        "export function exportEdits() {}\nexportEdits();\nconst importEdits = 1;",
    ],
)
def test_words_that_are_no_statements_are_left_alone(tmp_path, browser, code):
    folder = write_page(tmp_path, **{"app/main.js": f"{code}\ndocument.documentElement.dataset.ready = 'yes';\n"})
    html = INDEX.replace('<script type="module" src="app/main.js"></script>', "")
    (tmp_path / "x.html").write_text(f'{html}<script type="module">{inline_modules(folder)}</script>', "utf-8")
    with visit(browser, tmp_path / "x.html") as seen:
        assert seen.page.evaluate("document.documentElement.dataset.ready") == "yes"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"app/main.js": 'import { x } from "./none.js";\n'}, r"app/main\.js, line 1: .* there is no app/none\.js"),
        (
            {"app/main.js": '\nimport { x } from "./dom.js";\n'},
            r"app/main\.js, line 2: app/dom\.js does not export 'x'",
        ),
        ({"app/main.js": 'import { x } from "../../secret.js";\n'}, r"expected an import from the folder of the page"),
        (
            {"app/dom.js": 'import { read } from "../engine/reading.js";\nexport const h = read;\n'},
            r"without circles but got .*app/dom\.js -> engine/reading\.js -> app/dom\.js",
        ),
        ({"app/main.js": 'import { a-b } from "./dom.js";\n'}, r"app/main\.js, line 1: the import 'a-b'"),
        ({"style.css": "p {}\n@import 'x.css';"}, r"style\.css, line 2: '@import'"),
        ({"views/more.css": "p { background: url(x.png) }"}, r"views/more\.css, line 1: 'url\('"),
        ({"index.html": INDEX.replace("</body>", "")}, "Expected </body> once in index.html but found it 0 times"),
        ({"index.html": INDEX.replace("style.css", "none.css")}, "The page of the studio lacks none.css"),
    ],
)
def test_a_page_that_does_not_hold_together_is_refused(bundle, tmp_path, files, message):
    with pytest.raises(ChoqolateError, match=message):
        inline_page(bundle, [None] * 60, write_page(tmp_path, **files))
