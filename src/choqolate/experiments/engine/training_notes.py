"""What is to be said about how methods were trained: what was chosen for each, and what had not converged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import median
from typing import Any

from choqolate._util.text import counted
from choqolate.experiments.engine.experiment import Collected, Runs
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.tuning import validation_split

STILL_FALLING = 0.01  # decrease of the loss from which on a training is called unfinished


def training_notes(collected: Collected) -> list[str]:
    """Both notes on every data set, which is named if there are several."""
    found = []
    for source, runs in collected.runs.items():
        notes = " ".join(note for note in (chosen(source, runs), unfinished(runs)) if note)
        found.append(f"{source.title}: {notes}" if notes and len(collected.runs) > 1 else notes)
    return [note for note in found if note]


def chosen(source: Source, runs: Mapping[Any, Runs]) -> str:
    """What was chosen for each method, and on how many rows."""
    said = []
    for one in runs.values():
        if one.runs and one.chosen and one.setting.control is None and not one.setting.tuned_at.get("strength"):
            title = one.setting.title + (" without the spurious concepts" if one.setting.core_only else "")
            values = ", ".join(f"{name} {_value(value)}" for name, value in one.chosen.items())
            said.append(f"{title}: {values}" + (f" (without {one.untried})" if one.untried else ""))
    return f"Chosen on {_validation_rows(source)}: {'; '.join(dict.fromkeys(said))}." if said else ""


def unfinished(runs: Mapping[Any, Runs]) -> str:
    """Say which methods had a training loss that was still falling, and which had runs that were lost."""
    falling, lost = {}, {}
    for one in runs.values():
        decreases = [value for value in one.values("late_decrease") if math.isfinite(value)]
        if one.setting.control is not None or not decreases:
            continue
        title, middle = one.setting.title, median(decreases)
        n_lost = sum(value == 1 for value in one.values("went_back"))
        if middle > STILL_FALLING:
            falling[title] = f"{title} by {middle:.1%}"
        if n_lost:
            lost[title] = f"{title} in {n_lost} of {counted(len(one.runs), 'run')}"
    said = []
    if falling:
        said.append(
            "Not converged: the loss was still falling in the last tenth of training (median over the runs): "
            f"{', '.join(falling.values())}."
        )
    if lost:
        said.append(f"Ended well above its lowest loss and went back to its best epoch: {', '.join(lost.values())}.")
    return " ".join(said)


def _validation_rows(source: Source) -> str:
    table = source.load()
    own = table.rows.has_part("val")
    kind = "validation rows" if own else "training rows held out for tuning"
    return f"{len(validation_split(table)[1]):,} {kind}"


def _value(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
