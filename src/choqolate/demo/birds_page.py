"""The report of the demo on bird scenes: numbers of a run, put into a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

import choqolate
from choqolate._util.files import write_bytes
from choqolate._util.numbers import Spread, decimal
from choqolate.data.splits import SPLITS
from choqolate.datasets.birds import GROUPS, N_IMAGES
from choqolate.demo.birds import FEW, N_RUNS, BirdsDemo, Choice
from choqolate.demo.contact_sheet import contact_sheet
from choqolate.demo.outcome import Outcome
from choqolate.explain import explain_model
from choqolate.report import data_uri, mean_std, render, share

if TYPE_CHECKING:
    from choqolate.data.scores import ConceptScores
    from choqolate.estimators.classifier import ChoqolateClassifier

TOP = 6  # leading concepts of a node
HYPERPARAMETERS = (
    *("n_nodes", "temperature", "l1", "epochs", "batch_size", "learning_rate", "interactions"),
    *("bipolar", "init", "schedule"),
)


def write_demo_page(demo: BirdsDemo) -> Path:
    """Write the contact sheet of the images and the page into the demo's folder; returns the path of the page."""
    sheet, path = contact_sheet(demo.rows, GROUPS), demo.folder / "report.html"
    write_bytes(demo.folder / "contact-sheet.jpg", sheet)
    write_bytes(path, demo_page(demo, sheet).encode())
    return path


def demo_page(demo: BirdsDemo, sheet: bytes) -> str:
    """The page.

    Args:
        demo: all that was measured.
        sheet: the contact sheet, a JPEG file with a row of images for each group.
    """
    groups = _groups(demo)
    n_runs = len(demo.ours.runs)
    assert demo.edited.removal_ is not None
    removed = demo.edited.removal_.concepts

    def rows(before: Outcome, *after: Outcome) -> list[dict[str, Any]]:
        return [_row(one, before, groups) for one in after]

    outcomes = [
        ("CHOQOLATE", rows(demo.ours, demo.ours)),
        ("Concepts removed, nothing trained again", rows(demo.ours, *demo.removals, demo.placebo)),
        ("What else one could do about these words", rows(demo.ours, *demo.alternatives)),
        ("The linear bottleneck", rows(demo.linear, demo.linear, *demo.linear_alternatives)),
    ]
    return render(
        "demo.html",
        package="choqolate.demo",
        summary=_summary(demo, len(removed)),
        sheet=data_uri(sheet, "image/jpeg"),
        groups=groups,
        sizes=_sizes(demo.table, groups),
        n_runs=n_runs,
        trained=[("CHOQOLATE", demo.ours), ("linear bottleneck", demo.linear)],
        search=_search(demo),
        choices=[_choice(demo.rate, "the linear bottleneck")],
        nodes=_nodes(demo.model, demo.table.spurious),
        unmixed=demo.unmixed,
        outcomes=outcomes,
        compared=_compared(demo, groups),
        removed=removed,
        redundancy=demo.redundancy.lines(),
        provenance=_provenance(demo),
        command=_command(len(demo.rows), n_runs),
        seconds=list(demo.seconds.items()),
    )


def _groups(demo: BirdsDemo) -> list[str]:
    """The groups of the test rows, in the data set's order."""
    found = demo.ours.runs[0].group_accuracy
    return [*(name for name in GROUPS if name in found), *(name for name in found if name not in GROUPS)]


def _sizes(table: ConceptScores, groups: Sequence[str]) -> list[dict[str, Any]]:
    """How many images of each group are for what."""
    assert table.split is not None
    assert table.groups is not None
    counts = Counter(zip(table.groups.tolist(), table.split.tolist(), strict=True))
    return [{"name": name, **{split: counts[name, split] for split in SPLITS}} for name in groups]


# ---------------------------------------------------------------------- sentences


def _summary(demo: BirdsDemo, n_removed: int) -> list[str]:
    """What was done and what came out, in whole sentences."""
    table, n_runs = demo.table, len(demo.ours.runs)
    train, test = table.part("train"), table.part("test")
    models = "One model was" if n_runs == 1 else f"{n_runs:,} models were"
    sentences = [
        f"{models} trained on {len(train):,} of {len(demo.rows):,} drawn images, where the background goes "
        f"with the class in {share(_agreement(train))}; among the {len(test):,} test images it does in "
        f"{share(_agreement(test))}."
    ]
    trained = f"As trained, CHOQOLATE is right on {share(demo.ours.accuracy.mean)} of the test images"
    words, after = "background word" if n_removed == 1 else "background words", demo.removals[0]
    change = mean_std(Spread.over(_changes(demo.ours, demo.placebo)), 1, scale=100, signed=True)
    sentences += [
        f"{trained}; with {n_removed} {words} removed and nothing trained again, on {share(after.accuracy.mean)}, and "
        f"{_change(demo.ours, after)}.",
        "Removing as many random words of the bird instead, so that the background decides, changes the worst group by "
        f"{change} points.",
    ]
    if len(demo.rows) < FEW:
        sentences.append(f"With {len(demo.rows):,} images, numbers of groups are mostly chance.")
    return sentences


def _change(before: Outcome, after: Outcome) -> str:
    """What happens to the worst group, with no claim beyond what the runs show."""
    changes = _changes(before, after)
    mean, std = spread = Spread.over(changes)
    start, end = share(before.worst_group.mean), share(after.worst_group.mean)
    points = mean_std(spread, 1, scale=100, signed=True)
    if decimal(100 * mean, 1) == decimal(0, 1):
        return f"the worst group stays where it was on average ({start} before, {end} after)"
    if std is not None and abs(mean) <= std:
        return f"the worst group does not clearly change: {start} before, {end} after, {points} points run by run"
    verb = "rises" if mean > 0 else "falls"
    agreeing = sum(change * mean > 0 for change in changes)
    if std is None:
        runs = "in a single run"
    elif agreeing == len(changes):
        runs = f"in each of the {len(changes)} runs"
    else:
        runs = f"in {agreeing} of {len(changes)} runs"
    return f"the worst group {verb} from {start} to {end} ({points} points, {runs})"


def _agreement(rows: ConceptScores) -> float:
    """Share of the rows that are in the largest group of their class."""
    assert rows.labels is not None
    assert rows.groups is not None
    counts = Counter(zip(rows.labels.tolist(), rows.groups.tolist(), strict=True))
    largest: dict[str, int] = {}
    for (label, _), size in counts.items():
        largest[label] = max(size, largest.get(label, 0))
    return sum(largest.values()) / len(rows)


# ---------------------------------------------------------------------- tables


def _row(outcome: Outcome, before: Outcome, groups: Sequence[str]) -> dict[str, Any]:
    return {
        "name": outcome.name,
        "accuracy": outcome.accuracy,
        "worst_group": outcome.worst_group,
        "change": None if outcome is before else Spread.over(_changes(before, outcome)),
        "groups": [outcome.group(group) for group in groups],
    }


def _compared(demo: BirdsDemo, groups: Sequence[str]) -> dict[str, Any]:
    """Accuracy by group as trained and after the first removal."""
    after = demo.removals[0]
    bars = [{"group": group, "before": demo.ours.group(group), "after": after.group(group)} for group in groups]
    return {"name": after.name, "bars": bars}


def _search(demo: BirdsDemo) -> dict[str, Any]:
    """The settings that were tried, the chosen one first, and how it was chosen."""
    found = demo.search
    chosen, others = found.choice, [trial for trial in found.trials if trial is not found.choice]
    tried = [("chosen", chosen), *(("", trial) for trial in sorted(others, key=lambda one: -one.accuracy))]
    rows = [*tried, *([("the paper's settings", found.paper)] if found.paper is not None else [])]
    return {"rows": rows, "rule": found.rule, "validation": found.rows, "doubts": found.doubts}


def _choice(choice: Choice, model: str) -> dict[str, Any]:
    return {
        "name": choice.name,
        "model": model,
        "value": f"{choice.value:g}",
        "tried": [(f"{value:g}", accuracy) for value, accuracy in choice.accuracy.items()],
        "rule": choice.rule,
    }


def _changes(before: Outcome, after: Outcome) -> list[float]:
    """Change of the worst group's accuracy, run by run."""
    return [new - old for old, new in zip(before.worst_groups, after.worst_groups, strict=True)]


# ---------------------------------------------------------------------- nodes


def _nodes(model: ChoqolateClassifier, spurious: Sequence[str]) -> list[dict[str, Any]]:
    """What each node reads and counts for; bars are relative to the largest value of all."""
    explanation = explain_model(model, spurious=spurious, most=0)
    marked = np.isin(explanation.concepts, explanation.spurious)
    largest = float(explanation.node_attributions.max())
    nodes = []
    for node, values in enumerate(explanation.node_attributions):
        marked_names = explanation.names_of(explanation.spurious, node)
        readings = [
            {"name": name, "value": value, "width": 100 * value / largest, "spurious": name in marked_names}
            for name, value in explanation.leading(node, TOP)
        ]
        nodes.append(
            {
                "readings": readings,
                "spurious": float(values[marked].sum()),
                "classes": list(
                    zip(explanation.classes, explanation.class_attributions[:, node].tolist(), strict=True)
                ),
            }
        )
    return nodes


# ---------------------------------------------------------------------- where it comes from


def _provenance(demo: BirdsDemo) -> list[tuple[str, str]]:
    backbone = demo.table.provenance.backbone
    parameters = demo.model.get_params()
    n_runs = len(demo.ours.runs)
    return [
        ("choqolate", choqolate.__version__),
        ("encoder", backbone.name or "not known"),
        ("its identity", backbone.identity or "not known"),
        ("images", f"{len(demo.rows):,}"),
        ("concepts", f"{len(demo.table.concepts):,}, {len(demo.table.spurious):,} of them spurious"),
        ("seeds", "0" if n_runs == 1 else f"0 to {n_runs - 1}"),
        ("CHOQOLATE", ", ".join(f"{name} {parameters[name]}" for name in HYPERPARAMETERS)),
        ("linear bottleneck", f"{demo.rate.name} {demo.rate.value:g}"),
        ("threads", f"{torch.get_num_threads()} of torch {torch.__version__}; others may change the last digits"),
    ]


def _command(n_images: int, n_runs: int) -> str:
    """What to type for the same run; defaults are left out."""
    images = "" if n_images == N_IMAGES else f" --images {n_images}"
    return f"choqolate demo{images}" + ("" if n_runs == N_RUNS else f" --seeds {n_runs}")
