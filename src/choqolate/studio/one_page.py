"""One HTML file that needs nothing but itself: the page of the studio, its style, its modules and a bundle."""

from __future__ import annotations

import base64
import hashlib
import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from choqolate._util.json_files import text_checksum
from choqolate.errors import ChoqolateError

if TYPE_CHECKING:
    from choqolate.studio.bundle import Bundle

PAGE = Path(__file__).parent / "page"
CHARSET = '<meta charset="utf-8">'
STYLE_LINK = re.compile(r'<link rel="stylesheet" href="([^"]+)">\n?')
MAIN_SCRIPT = '<script type="module" src="app/main.js"></script>'
FIRST_MODULE = "app/main.js"

_IMPORT = re.compile(r'^import\s*\{([^{}]*)\}\s*from\s*"(\.{1,2}/[^"]+\.js)";', re.M)
_EXPORT = re.compile(r"^export (?=(?:async )?function\*? ?(\w+)|class (\w+)|const (\w+) =)", re.M)
_NAME = re.compile(r"(\w+)(?:\s+as\s+(\w+))?")
# what is left of the other forms once the allowed ones are gone; fails on the safe side also within a text
_NOT_ALLOWED = {
    re.compile(
        r"^(?:import|export)\b|^\s+(?:import\s*[\"'{*]|import\s+\w+\s+from\b|export\s*[{*]|"
        r"export\s+(?:default|async|function|class|const|let|var)\b)",
        re.M,
    ): "an import or export of another form",
    re.compile(r"\bimport\s*[.(]"): "an import while the page runs",
    re.compile(r"^(?!\s|//|/\*|.*\basync\b).*\bawait\b", re.M): "an await outside of a function",
    re.compile(r"</script|<!--", re.I): "a text that would end the script of the page",
}
_NOT_IN_STYLE = re.compile(r"</style|<!--|@import|url\((?!\s*[\"']?data:)", re.I)


@dataclass(frozen=True)
class PageModule:
    """A JavaScript module of the page.

    Attributes:
        name: its path in the folder of the page, with slashes.
        code: what is left of it without ``import`` and ``export``, as many lines as before.
        imports: module, its name for a thing, the own name for it, and the line of the import.
        exports: names that others can import.
    """

    name: str
    code: str
    imports: tuple[tuple[str, str, str, int], ...]
    exports: tuple[str, ...]


def inline_page(bundle: Bundle, images: Sequence[bytes | None], page: Path = PAGE) -> str:
    """Put the page and a bundle into one HTML file.

    Nothing is requested by the file, and its content security policy allows no other script or style.

    Args:
        bundle: what the page shows.
        images: a JPEG file for each row of the bundle, ``None`` where there is none.
        page: the folder of the page.

    Raises:
        ChoqolateError: if a file of the page is not as it must be to be inlined; the message names file and line.
    """
    encoded = [None if image is None else base64.b64encode(image).decode() for image in images]
    data = _data("studio-data", "application/octet-stream;base64", _base64(bundle.to_bytes()))
    data += _data("studio-images", "application/json", json.dumps(encoded, separators=(",", ":")))
    html = _read(page / "index.html")
    style, script = inline_styles(page, STYLE_LINK.findall(html)), inline_modules(page)
    return _replaced(
        STYLE_LINK.sub("", html),
        {
            CHARSET: f"{CHARSET}\n{policy(script, style)}",
            "</head>": f"<style>{style}</style>\n</head>",
            MAIN_SCRIPT: f'<script type="module">{script}</script>',
            "</body>": f"{data}</body>",
        },
    )


def _data(name: str, kind: str, text: str) -> str:
    """A part of the file that the page reads, with its checksum."""
    return f'<script type="{kind}" id="{name}" data-checksum="{text_checksum(text)}">{text}</script>\n'


def policy(script: str, style: str) -> str:
    """The content security policy of a page with one script and one style: these alone, and no requests."""
    rules = (
        "default-src 'none'",
        f"script-src '{_digest(script)}'",
        f"style-src '{_digest(style)}'",
        "img-src data: blob:",
        "connect-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return f'<meta http-equiv="Content-Security-Policy" content="{"; ".join(rules)}">'


def inline_styles(page: Path, names: Sequence[str]) -> str:
    """The styles of the page, one after the other; they must not ask for other files.

    Args:
        page: the folder of the page.
        names: paths in it.
    """
    styles = [_read(page / name) for name in names]
    for name, style in zip(names, styles, strict=True):
        if found := _NOT_IN_STYLE.search(style):
            raise _not_inlined(name, style, found.start(), repr(found[0]))
    return "\n" + "\n".join(styles)


# ---------------------------------------------------------------------- modules


def inline_modules(page: Path = PAGE, first: str = FIRST_MODULE) -> str:
    """One script of a module and all that it imports, each in a scope of its own, in the order of their imports.

    Args:
        page: the folder of the page.
        first: path of the module in it.

    Raises:
        ChoqolateError: if an import or export is not of an allowed form, leads nowhere, or modules import each other
            in a circle.
    """
    modules = list(_in_order(page, first))
    places = {module.name: index for index, module in enumerate(modules)}
    return "\n" + "".join(_wrapped(module, places) for module in modules)


def read_module(page: Path, name: str) -> PageModule:
    """Read a module of the page and check the forms of its imports and exports."""
    text = _read(page / name)
    imports: list[tuple[str, str, str, int]] = []

    def take_import(match: re.Match[str]) -> str:
        target, line = _resolved(name, match[2]), text.count("\n", 0, match.start()) + 1
        for part in filter(None, (part.strip() for part in match[1].split(","))):
            named = _NAME.fullmatch(part)
            if named is None:
                raise _not_inlined(name, text, match.start(), f"the import {part!r}")
            imports.append((target, named[1], named[2] or named[1], line))
        return "\n" * match[0].count("\n")  # lines keep their numbers

    exports = tuple(next(filter(None, match.groups())) for match in _EXPORT.finditer(text))
    code = _EXPORT.sub("", _IMPORT.sub(take_import, text))
    for form, what in _NOT_ALLOWED.items():
        if found := form.search(code):
            place = found.start() + len(found[0]) - len(found[0].lstrip())
            raise _not_inlined(name, code, place, what)
    return PageModule(name, code, tuple(imports), exports)


def _in_order(page: Path, first: str) -> Iterator[PageModule]:
    """Modules, each after all that it imports."""
    done: dict[str, PageModule] = {}

    def visit(name: str, way: tuple[str, ...]) -> Iterator[PageModule]:
        if name in way:
            raise ChoqolateError(f"Expected modules without circles but got {' -> '.join((*way, name))}.")
        if name in done:
            return
        module = read_module(page, name)
        for target, wanted, _, line in module.imports:
            if not (page / target).is_file():
                raise ChoqolateError(f"{name}, line {line}: expected a module to import, but there is no {target}.")
            yield from visit(target, (*way, name))
            if wanted not in done[target].exports:
                raise ChoqolateError(f"{name}, line {line}: {target} does not export {wanted!r}.")
        done[name] = module
        yield module

    yield from visit(first, ())


def _resolved(name: str, relative: str) -> str:
    """Path of an imported module in the folder of the page."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(name), relative))
    if path.startswith(".."):
        raise ChoqolateError(f"{name}: expected an import from the folder of the page, but got {relative!r}.")
    return path


def _wrapped(module: PageModule, places: dict[str, int]) -> str:
    names: dict[str, list[str]] = {}
    for target, theirs, own, _ in module.imports:
        names.setdefault(target, []).append(theirs if theirs == own else f"{theirs}: {own}")
    taken = "".join(f" const {{ {', '.join(own)} }} = module{places[target]};" for target, own in names.items())
    given = f"return {{ {', '.join(module.exports)} }};"
    return f"// {module.name}\nconst module{places[module.name]} = (() => {{{taken}\n{module.code}\n{given}\n}})();\n"


# ---------------------------------------------------------------------- text


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise ChoqolateError(
            f"The page of the studio lacks {file.name} ({error.strerror}). Install choqolate again."
        ) from None


def _replaced(html: str, texts: Mapping[str, str]) -> str:
    """The page with some texts, each of which it has once, replaced by others."""
    for text in texts:
        if html.count(text) != 1:
            raise ChoqolateError(f"Expected {text} once in index.html but found it {html.count(text)} times.")
    return re.sub("|".join(map(re.escape, texts)), lambda match: texts[match[0]], html)


def _not_inlined(name: str, text: str, place: int, what: str) -> ChoqolateError:
    line = text.count("\n", 0, place) + 1
    return ChoqolateError(f"{name}, line {line}: {what} cannot be put into one file.")


def _digest(text: str) -> str:
    return f"sha256-{_base64(hashlib.sha256(text.encode()).digest())}"


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
