"""Tables of means over runs, ours beside the paper's: Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from string import ascii_lowercase
from typing import NamedTuple

from choqolate._util.markup import DASH, latex, latex_row, latex_text, markdown, pipes
from choqolate._util.numbers import MINUS, Spread
from choqolate._util.spreadsheet import as_cell
from choqolate._util.text import counted, listed
from choqolate.errors import ChoqolateError


@dataclass(frozen=True)
class Cell:
    """What the runs of one method have of one metric.

    Attributes:
        values: one per run, NaN or ``None`` where it is undefined; ``None`` if nothing was run.
        paper: mean and standard deviation that the paper prints.
        note: for the foot of the table: why nothing was run, or what to know of the value.
    """

    values: tuple[float | None, ...] | None = None
    paper: tuple[float, float | None] | None = None
    note: str | None = None

    @property
    def defined(self) -> list[float]:
        return [float(value) for value in self.values or () if value is not None and math.isfinite(value)]

    @property
    def mean(self) -> float | None:
        return Spread.over(self.defined).mean if self.defined else None

    @property
    def std(self) -> float | None:
        """With n - 1 in the denominator; a single run has none."""
        return Spread.over(self.defined).std

    @property
    def counts(self) -> bool:
        """Whether the mean may be the best of a column: it is that of at least half of the runs."""
        return 2 * len(self.defined) >= len(self.values or ())

    def notes(self, usual: int) -> list[str]:
        """What the foot of the table says of this cell, where the usual number of runs goes without saying."""
        runs, undefined = len(self.values or ()), len(self.values or ()) - len(self.defined)
        if not runs:
            return [self.note or "not run"]
        notes = [self.note] if self.note else []
        if undefined:
            notes.append(
                f"undefined in {undefined} of {counted(runs, 'run')}" + ", which are left out" * (undefined < runs)
            )
        elif runs != usual:
            notes.append(counted(runs, "run"))
        return notes


@dataclass(frozen=True)
class Column:
    """A metric, perhaps on one of several data sets.

    Attributes:
        name: of the metric.
        group: of columns that stand under a common head, such as a data set.
        percent: shares are printed times 100 with 2 decimals; all else with 3.
        higher_is_better: the best mean is bold; ``None``: no value is better than another.
    """

    name: str
    group: str = ""
    percent: bool = False
    higher_is_better: bool | None = None

    @property
    def title(self) -> str:
        """The name with unit and direction."""
        arrow = {None: "", True: " ↑", False: " ↓"}[self.higher_is_better]
        return f"{self.name}{' (%)' * self.percent}{arrow}"

    @property
    def full_name(self) -> str:
        return f"{self.group}: {self.name}" if self.group else self.name

    def show(self, value: float | None) -> str:
        """A mean or deviation as it is printed; empty for ``None``."""
        if value is None:
            return ""
        return f"{100 * value:z.2f}" if self.percent else f"{value:z.3f}"


class Row(NamedTuple):
    """The texts under the heads, and a cell for each column."""

    texts: tuple[str, ...]
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """Methods in rows, metrics in columns.

    Attributes:
        title: what the caption begins with.
        heads: of the leading columns of text, such as ``("Method",)``; a text ``"✓"`` is a check mark.
        columns: of numbers; there may be none. Where a cell has a number of the paper, a second column shows it.
        rows: from top to bottom.

    >>> accuracy = Column("accuracy", percent=True, higher_is_better=True)
    >>> rows = [Row(("PCBM",), (Cell((0.96, 0.98), paper=(0.967, 0.0072)),)), Row(("DFR",), (Cell(note="no groups"),))]
    >>> print(Table("Accuracy", ("Method",), (accuracy,), rows).to_markdown())
    **Accuracy.** Mean ± standard deviation over 2 runs.
    <BLANKLINE>
    | Method | accuracy (%) ↑ |        paper |
    | :----- | -------------: | -----------: |
    | PCBM   |   97.00 ± 1.41 | 96.70 ± 0.72 |
    | DFR    |          – (a) |              |
    <BLANKLINE>
    - (a) no groups
    """

    title: str
    heads: Sequence[str]
    columns: Sequence[Column]
    rows: Sequence[Row]

    def __post_init__(self) -> None:
        if not (self.heads or self.columns):
            raise ChoqolateError("expected at least one column, got none")
        for row in self.rows:
            if (len(row.texts), len(row.cells)) != (len(self.heads), len(self.columns)):
                wanted = f"{len(self.heads)} texts and {len(self.columns)} cells"
                raise ChoqolateError(f"expected {wanted} in row {row.texts}, got {len(row.texts)} and {len(row.cells)}")
        names = Counter([*self.heads, *(column.full_name for column in self.columns)])
        twice = [name for name, count in names.items() if count > 1 and name]
        if twice:
            raise ChoqolateError(
                f"expected every column once, got {listed(twice)} more than once: rename or group them"
            )

    def to_markdown(self) -> str:
        """A pipe table that reads as plain text too, its caption above and its notes below; numbers with "−"."""
        layout = _Layout.of(self)
        heads = [markdown(head) for head in self.heads]
        grid = [heads + [_markdown_head(leaf.heads) for leaf in layout.leaves]]
        for row, entries in zip(self.rows, layout.entries, strict=True):
            texts = [markdown(_with_minus(text)) for text in row.texts]
            grid.append(texts + [_markdown_entry(entry) for entry in entries])
        notes = [f"- ({mark}) {markdown(note)}" for note, mark in layout.marks.items()]
        caption = f"**{markdown(_sentence(self.title))}** {markdown(layout.remark)}".rstrip()
        blocks = [caption, "\n".join(pipes(grid, n_left=len(heads))), "\n".join(notes)]
        return "\n\n".join(block for block in blocks if block) + "\n"

    def to_latex(self) -> str:
        """A ``table`` environment; its first line says which packages it needs."""
        layout = _Layout.of(self)
        body = _latex_heads(self.heads, layout.leaves)
        for row, entries in zip(self.rows, layout.entries, strict=True):
            body.append(
                latex_row([latex_text(text) for text in row.texts] + [_latex_entry(entry) for entry in entries])
            )
        notes = [rf"\textsuperscript{{{mark}}}~{latex(note)}" for note, mark in layout.marks.items()]
        caption = rf"\textbf{{{latex(_sentence(self.title))}}} {latex(layout.remark)}"
        lines = [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{caption.rstrip()}}}",
            rf"\begin{{tabular}}{{{'l' * len(self.heads)}{'c' * len(layout.leaves)}}}",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            *([r"\par\smallskip{\footnotesize " + r" \quad ".join(notes) + r"\par}"] if notes else []),
            r"\end{table}",
        ]
        text = "\n".join(lines) + "\n"
        packages = ["booktabs"] + ["amssymb"] * (r"\checkmark" in text)
        return f"% needs \\usepackage{{{','.join(packages)}}}\n{text}"

    def printed(self) -> Printed:
        """The same for the terminal: without markup, heads of several lines, numbers with "-"."""
        layout = _Layout.of(self)
        heads = [*self.heads, *("\n".join(part for part in leaf.heads if part) for leaf in layout.leaves)]
        rows = [
            [
                *((_with_hyphen(text), False) for text in row.texts),
                *((_plain_entry(entry), entry.best) for entry in entries),
            ]
            for row, entries in zip(self.rows, layout.entries, strict=True)
        ]
        notes = [f"({mark}) {note}" for note, mark in layout.marks.items()]
        return Printed(f"{_sentence(self.title)} {layout.remark}".rstrip(), heads, rows, notes)

    def to_csv(self) -> str:
        """Numbers in full precision, shares as shares: mean, std and runs with a value, and what the paper prints."""
        in_paper = [any(row.cells[k].paper for row in self.rows) for k in range(len(self.columns))]
        heads = list(self.heads)
        for column, printed in zip(self.columns, in_paper, strict=True):
            parts = ("mean", "std", "runs", *(("paper mean", "paper std") if printed else ()))
            heads += [f"{column.full_name} {part}" for part in parts]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(map(as_cell, heads))
        for row in self.rows:
            values: list[object] = [as_cell(_with_hyphen(text)) for text in row.texts]
            for cell, printed in zip(row.cells, in_paper, strict=True):
                values += [cell.mean, cell.std, len(cell.defined), *((cell.paper or (None, None)) if printed else ())]
            writer.writerow(values)
        return text.getvalue()


class Printed(NamedTuple):
    """A table as plain text: its entries come with whether they are the best of their column."""

    caption: str
    heads: list[str]
    rows: list[list[tuple[str, bool]]]
    notes: list[str]


class _Entry(NamedTuple):
    """A cell as it is printed, before any markup."""

    mean: str
    std: str = ""
    best: bool = False
    marks: tuple[str, ...] = ()


class _Leaf(NamedTuple):
    """A printed column: its heads from the top down, and its entries."""

    heads: tuple[str, str, str]
    entries: list[_Entry]


class _Layout(NamedTuple):
    """What both printed forms have in common.

    Attributes:
        leaves: the columns of numbers.
        entries: the same row by row.
        remark: what the caption says after the title.
        marks: of each note, in the order of reading.
    """

    leaves: list[_Leaf]
    entries: list[tuple[_Entry, ...]]
    remark: str
    marks: dict[str, str]

    @classmethod
    def of(cls, table: Table) -> _Layout:
        cells = [cell for row in table.rows for cell in row.cells]
        usual = _usual_runs(cells)
        notes = dict.fromkeys(note for cell in cells for note in cell.notes(usual))
        marks = {note: ascii_lowercase[k % 26] * (k // 26 + 1) for k, note in enumerate(notes)}
        leaves: list[_Leaf] = []
        for k, column in enumerate(table.columns):
            leaves += _leaves(column, [row.cells[k] for row in table.rows], usual, marks)
        entries = [tuple(leaf.entries[k] for leaf in leaves) for k in range(len(table.rows))]
        return cls(leaves, entries, _remark(cells, usual, leaves), marks)


def _leaves(column: Column, cells: Sequence[Cell], usual: int, marks: dict[str, str]) -> Iterator[_Leaf]:
    """The column of our numbers and, if there are any, that of the paper's."""
    means = [column.show(cell.mean) for cell in cells]
    rivals = [mean if cell.counts else "" for mean, cell in zip(means, cells, strict=True)]
    best, has_paper = _best(column, rivals), any(cell.paper for cell in cells)
    ours = [
        _Entry(mean or DASH, column.show(cell.std), rival == best, tuple(marks[note] for note in cell.notes(usual)))
        for mean, rival, cell in zip(means, rivals, cells, strict=True)
    ]
    yield _Leaf((column.group, column.title, "ours" if has_paper else ""), ours)
    if has_paper:
        printed = (cell.paper or (None, None) for cell in cells)
        theirs = [_Entry(column.show(mean), column.show(std)) for mean, std in printed]
        yield _Leaf((column.group, column.title, "paper"), theirs)


def _best(column: Column, means: Sequence[str]) -> str | None:
    """The best mean as printed, so that rounding makes ties; none if there is nothing to compare."""
    shown = [mean for mean in means if mean]
    if column.higher_is_better is None or len(shown) < 2:
        return None
    return (max if column.higher_is_better else min)(shown, key=float)


def _usual_runs(cells: Iterable[Cell]) -> int:
    """The number of runs that most cells have, the larger of equally frequent ones; 0 if nothing was run."""
    counts = Counter(len(cell.values) for cell in cells if cell.values)
    return max(counts, key=lambda runs: (counts[runs], runs), default=0)


def _remark(cells: Sequence[Cell], usual: int, leaves: Sequence[_Leaf]) -> str:
    """How many runs the numbers are over, and what is bold."""
    if not usual:
        return ""
    unless = ", unless a note says otherwise" * any(cell.values and len(cell.values) != usual for cell in cells)
    what = "Mean ± standard deviation over" if any(cell.std is not None for cell in cells) else "Values of"
    bold = " The best mean of a column is bold." * any(entry.best for leaf in leaves for entry in leaf.entries)
    return f"{what} {counted(usual, 'run')}{unless}.{bold}"


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _with_minus(text: str) -> str:
    """A text that is a number, with the minus sign of typography."""
    return text.replace("-", MINUS) if re.fullmatch(r"[<>]?-\d+(\.\d+)?", text) else text


def _with_hyphen(text: str) -> str:
    """A text whose numbers have the minus sign of plain text, as programs and terminals take it."""
    return re.sub(rf"{MINUS}(?=\d)", "-", text)


def _plain_entry(entry: _Entry) -> str:
    return _with_marks(f"{entry.mean} ± {entry.std}" if entry.std else entry.mean, entry)


def _with_marks(text: str, entry: _Entry) -> str:
    return f"{text} ({', '.join(entry.marks)})" if entry.marks else text


def _markdown_head(heads: tuple[str, str, str]) -> str:
    group, title, kind = heads
    return kind if kind == "paper" else markdown(f"{group}: {title}" if group else title)


def _markdown_entry(entry: _Entry) -> str:
    plain = _plain_entry(entry._replace(marks=(), mean=_with_minus(entry.mean)))
    return _with_marks(f"**{plain}**" if entry.best else plain, entry)


def _latex_entry(entry: _Entry) -> str:
    number = rf"{entry.mean} \pm {entry.std}" if entry.std else entry.mean
    text = rf"$\mathbf{{{number}}}$" if entry.best else f"${number}$" if number not in ("", DASH) else latex(number)
    return rf"{text}\textsuperscript{{{', '.join(entry.marks)}}}" if entry.marks else text


def _latex_heads(heads: Sequence[str], leaves: Sequence[_Leaf]) -> list[str]:
    """Heads from the top down: those that neighbours share stand above them once, with a rule below."""
    levels = [level for level in range(3) if any(leaf.heads[level] for leaf in leaves)] or [0]
    lines = [r"\toprule"]
    for level in levels:
        is_last, place = level == levels[-1], len(heads)
        cells, rules = [latex(head) if is_last else "" for head in heads], []
        for names, members in groupby(leaf.heads[: level + 1] for leaf in leaves):
            width, text = len(list(members)), latex(names[-1])
            cells.append(text if width == 1 else rf"\multicolumn{{{width}}}{{c}}{{{text}}}")
            if width > 1 and text and not is_last:
                rules.append(rf"\cmidrule(lr){{{place + 1}-{place + width}}}")
            place += width
        lines += [latex_row(cells), "".join(rules)] if rules else [latex_row(cells)]
    return [*lines, r"\midrule"]
