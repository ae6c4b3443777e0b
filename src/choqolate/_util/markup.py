"""Text as Markdown and LaTeX take it, and the lines of a table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from choqolate._util.text import visible

DASH = "–"  # stands where there is no number
CHECK = "✓"

# What would be markup, and nothing else, so that the source stays readable: 8_nodes and <0.001 are no markup.
_MARKDOWN = re.compile(r"[\\`*\[|~]|<(?=[A-Za-z/!?])|&(?=#?\w+;)|(?<![^\W_])_|_(?![^\W_])")


def markdown(text: str) -> str:
    r"""Text on one line in which nothing is markup.

    >>> print(markdown("a | b, <0.001"))
    a \| b, <0.001
    """
    return _MARKDOWN.sub(r"\\\g<0>", visible(" ".join(text.split())))


def pipes(grid: Sequence[Sequence[str]], n_left: int) -> Iterator[str]:
    """The lines of a pipe table, padded; the first columns to the left, the others to the right."""
    widths = [max(3, *map(len, column)) for column in zip(*grid, strict=True)]
    rule = [":" + "-" * (w - 1) if k < n_left else "-" * (w - 1) + ":" for k, w in enumerate(widths)]
    for cells in (grid[0], rule, *grid[1:]):
        padded = (f"{cell:{'<' if k < n_left else '>'}{widths[k]}}" for k, cell in enumerate(cells))
        yield f"| {' | '.join(padded)} |"


_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
        **{sign: f"${sign}$" for sign in "<>|"},
        **{sign: f"{{{sign}}}" for sign in "[]*"},  # after a line break they would belong to it
        **{"±": r"$\pm$", "×": r"$\times$", "−": "$-$", "↑": r"$\uparrow$", "↓": r"$\downarrow$"},
        **{"Δ": r"$\Delta$", "ℓ": r"$\ell$", "≤": r"$\le$", "≥": r"$\ge$", "₁": "$_1$", "₂": "$_2$"},
        **{DASH: "--", CHECK: r"\checkmark{}"},
    }
)


def latex(text: str) -> str:
    """The same for LaTeX."""
    return visible(" ".join(text.split())).translate(_LATEX)


def latex_text(text: str) -> str:
    """A text under a head; a number with the right minus sign."""
    return f"${text}$" if re.fullmatch(r"[<>]?-?\d+(\.\d+)?", text) else latex(text)


def latex_row(cells: Iterable[str]) -> str:
    """A line of a ``tabular``."""
    return rf"{' & '.join(cells)} \\"
