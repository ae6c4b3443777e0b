"""Tables and figures as files, and one page of all of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from choqolate._util.files import write_bytes
from choqolate._util.json_files import parse_json
from choqolate.experiments.engine.experiment import Experiment, Shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGES, SUMMARY = "pages", "summary.md"
TABLES, FIGURES = "tables", "figures"
_DPI = 150


def write_shown(shown: Shown, folder: Path) -> Iterator[Path]:
    """Write every table as Markdown, LaTeX and CSV and every figure as PNG and PDF; the paths."""
    for name, table in shown.tables.items():
        forms = {"md": table.to_markdown, "tex": table.to_latex, "csv": table.to_csv}
        for suffix, form in forms.items():
            path = folder / TABLES / f"{name}.{suffix}"
            write_bytes(path, form().encode())
            yield path
    for name, figure in shown.figures.items():
        for suffix in ("png", "pdf"):
            path = folder / FIGURES / f"{name}.{suffix}"
            write_bytes(path, _drawn(figure, suffix))
            figure.set_layout_engine("none")  # it is laid out, and that takes longer than drawing
            yield path
        _close(figure)


def write_page(
    folder: Path, experiment: Experiment, shown: Shown | None, lacking: Mapping[str, str], made: str
) -> None:
    """An experiment's tables and figures as a part of the summary; ``made`` says how they came about."""
    blocks = [f"## {experiment.title}", f"{experiment.paper} of the paper. {made}"]
    if shown is not None:
        blocks += [table.to_markdown().strip() for table in shown.tables.values()]
        blocks += [f"![{name}]({FIGURES}/{name}.png)" for name in shown.figures]
        blocks += list(shown.notes)
    blocks += [f"Not on {name}: {' '.join(reason.split())}" for name, reason in lacking.items()]
    write_bytes(folder / PAGES / f"{experiment.name}.md", ("\n\n".join(blocks) + "\n").encode())


def remove_stale(folder: Path, experiment: Experiment, files: Iterable[Path]) -> None:
    """Remove the tables and figures that an experiment made before and no longer makes.

    Args:
        folder: of the results.
        experiment: which one.
        files: all that it has made now. They are kept in a file beside its page, so that no file of others is removed.
    """
    record = folder / PAGES / f"{experiment.name}.json"
    made = [path.relative_to(folder).as_posix() for path in files]
    for name in _recorded(record) - set(made):
        if str(PurePosixPath(name).parent) in (TABLES, FIGURES) and (folder / name).is_file():
            (folder / name).unlink()
    write_bytes(record, json.dumps({"files": made}, indent=2).encode() + b"\n")


def _recorded(record: Path) -> set[str]:
    try:
        return set(map(str, parse_json(record.read_bytes(), str(record))["files"]))
    except (OSError, ValueError, KeyError, TypeError):  # of an earlier version, or damaged: nothing is known
        return set()


def write_summary(folder: Path, order: Sequence[str]) -> None:
    """One Markdown page of all experiments that the folder has, also from earlier."""
    pages = {page.stem: page for page in sorted((folder / PAGES).glob("*.md"))}
    known = [name for name in order if name in pages] + [name for name in pages if name not in order]
    parts = ["# Results\n", *(pages[name].read_text(encoding="utf-8") for name in known)]
    write_bytes(folder / SUMMARY, "\n".join(parts).encode())


def _drawn(figure: Figure, suffix: str) -> bytes:
    content = BytesIO()
    figure.savefig(content, format=suffix, dpi=_DPI)
    return content.getvalue()


def _close(figure: Figure) -> None:
    import matplotlib.pyplot as plt

    plt.close(figure)
