"""What the paper leaves open, and where it contradicts itself: said beside the tables that it matters for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from choqolate.experiments.engine.experiment import Collected, Shown
from choqolate.experiments.paper.published import CLASSES, accuracy
from choqolate.integral.layer import INITIAL_SPREAD

START = f"Trained with Adam; the parameters of CHOQOLATE start from N(0, {INITIAL_SPREAD:g}²)"
DEVIATION = "Standard deviations have n − 1 in the denominator."
OURS = f"{START}. {DEVIATION}"
ONE_RUN = f"{START}; linear layers start uniformly within ±1/√(number of inputs)."
ALL_METHODS = f"{ONE_RUN} {DEVIATION}"

Note = str | Callable[[Collected], str]
"""A text, or what makes one; it may be empty."""


def with_notes(show: Callable[[Collected], Shown], *notes: Note) -> Callable[[Collected], Shown]:
    """Show the same and say more about it."""

    def with_more(collected: Collected) -> Shown:
        shown = show(collected)
        more = [note if isinstance(note, str) else note(collected) for note in notes]
        return replace(shown, notes=[*shown.notes, *(text for text in more if text)])

    return with_more


def cub_contradiction(collected: Collected) -> str:
    """A remark on the paper's two accuracies on CUB-200-2011, where one of them stands beside ours."""
    if not any(source.in_paper and source.name == "cub" for source in collected.runs):
        return ""
    table, sweep = accuracy("cub", "choqolate"), CLASSES[200].accuracy
    assert table is not None
    return (
        f"The paper contradicts itself on CUB-200-2011: the accuracy of CHOQOLATE is {100 * table[0]:.2f} in Table A3 "
        f'and {100 * sweep[0]:.2f} in Table A7, for all 200 classes "with the standard configuration".'
    )
