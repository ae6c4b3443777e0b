"""Tables and figures as files, and one page of all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from choqolate.experiments.experiment import Experiment, Shown
from choqolate.files import write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DPI = 150


def write_shown(shown: Shown, folder: Path) -> Iterator[Path]:
    """Write every table as Markdown, LaTeX and CSV and every figure as PNG and PDF; the paths."""
    for name, table in shown.tables.items():
        forms = {"md": table.to_markdown, "tex": table.to_latex, "csv": table.to_csv}
        for suffix, form in forms.items():
            path = folder / "tables" / f"{name}.{suffix}"
            write_bytes(path, form().encode())
            yield path
    for name, figure in shown.figures.items():
        for suffix in ("png", "pdf"):
            path = folder / "figures" / f"{name}.{suffix}"
            write_bytes(path, _drawn(figure, suffix))
            yield path
        _close(figure)


def write_summary(path: Path, parts: Sequence[tuple[Experiment, Shown | None, Mapping[str, str]]]) -> None:
    """All tables and figures on one Markdown page."""
    blocks = ["# Results"]
    for experiment, shown, lacking in parts:
        blocks.append(f"## {experiment.title}")
        blocks.append(f"{experiment.paper}. `choqolate reproduce {experiment.name}`")
        if shown is not None:
            blocks += [table.to_markdown().strip() for table in shown.tables.values()]
            blocks += [f"![{name}](figures/{name}.png)" for name in shown.figures]
            blocks += list(shown.notes)
        blocks += [f"Not on {name}: {reason}." for name, reason in lacking.items()]
    write_bytes(path, ("\n\n".join(blocks) + "\n").encode())


def _drawn(figure: Figure, suffix: str) -> bytes:
    content = BytesIO()
    figure.savefig(content, format=suffix, dpi=_DPI)
    return content.getvalue()


def _close(figure: Figure) -> None:
    import matplotlib.pyplot as plt

    plt.close(figure)
