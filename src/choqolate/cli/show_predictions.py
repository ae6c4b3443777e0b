"""Predictions and drift on the terminal: what was predicted, what to review, what has changed."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.text import Text

from choqolate._util.text import counted
from choqolate.analysis.drift import Drift
from choqolate.analysis.interval_text import p_text, percent_range, share_text
from choqolate.analysis.predicting import Predictions
from choqolate.cli.terminal import cut, plain_table, printable_name
from choqolate.estimators.calibration import calibration_text

_MOST_CLASSES = 20
_MOST_CONCEPTS = 15


def show_predictions(console: Console, found: Predictions, output: Path) -> None:
    """How often each class was predicted, how many rows to review and why, and where the file is."""
    counts = found.class_counts()
    shown = sorted((name for name in counts if counts[name]), key=lambda name: -counts[name])[:_MOST_CLASSES]
    table = plain_table("predicted", "rows", "share")
    total = max(1, sum(counts.values()))
    for name in shown:
        table.add_row(Text(cut(name)), f"{counts[name]:,}", f"{counts[name] / total:.1%}")
    console.print(table)
    if len(shown) < sum(count > 0 for count in counts.values()):
        console.print(Text(f"the most frequent of {len(counts):,} classes", style="dim"))
    look = int(found.table["look"].sum())
    review = f"{look:,} of {counted(len(found), 'row')} flagged for review ({look / len(found):.1%})"
    if not found.checked:
        review = f"Not compared with the training images{f': {review}' if look else ''}"
    console.print(f"\n{review}", highlight=False)
    reasons = plain_table("reason", "rows")
    for said, count in found.look_counts().items():
        reasons.add_row(said, f"{count:,}")
    if look:
        console.print(reasons)
    stale = found.model.calibration_ is not None and not found.model.calibration_is_current_
    said = f"The probabilities {'were' if stale else 'are'} {printable_name(calibration_text(found.model))}."
    console.print(Text(f"\n{said}", style="dim"), soft_wrap=True)
    if found.abstention is not None:
        console.print(Text(str(found.abstention), style="dim"), soft_wrap=True)
    console.print(Text(f"\nThe predictions are in {printable_name(output)}."), soft_wrap=True)


def show_drift(console: Console, found: Drift) -> None:
    """The verdict, the concepts that drifted and weigh most, and the classes."""
    console.print(Text(printable_name(found.verdict), style="bold"), soft_wrap=True)
    if found.too_few:
        return
    if found.drifted:
        table = plain_table("concept", "model share", "shift", "KS", "p", "outside A", "outside B")
        for one in found.drifted[:_MOST_CONCEPTS]:
            p = p_text(one.p_value)
            outside = (f"{share.value:.1%} ({percent_range(share.interval)})" for share in found.outside(one))
            table.add_row(
                Text(cut(one.concept)), f"{one.share:.1%}", f"{one.shift:+.3f}", f"{one.statistic:.3f}", p, *outside
            )
        console.print("", table)
        if len(found.drifted) > _MOST_CONCEPTS:
            console.print(Text(f"{_MOST_CONCEPTS} of {len(found.drifted):,} shown; --json lists all", style="dim"))
        said = "shift: change of the mean, in units of the training range; KS: Kolmogorov-Smirnov statistic; "
        said += "p: corrected for all tests; outside: share of the rows outside the training range (95%)"
        console.print(Text(said, style="dim"), soft_wrap=True)
    _show_classes(console, found)


def _show_classes(console: Console, found: Drift) -> None:
    table = plain_table("class", "predicted in A", "in B", "difference (95%)", "p")
    ordered = sorted(found.classes, key=lambda one: -abs(one.change))[:_MOST_CLASSES]
    for one in ordered:
        low, high = one.interval
        shares = f"{one.first.value:.1%}", f"{one.second.value:.1%}"
        table.add_row(Text(cut(one.name)), *shares, f"{low:+.1%} to {high:+.1%}", p_text(one.p_value))
    console.print("", table)
    corrected = f"differences: intervals are corrected for {len(found.classes):,} classes"
    more = "; only the largest changes are shown, --json lists all" if len(ordered) < len(found.classes) else ""
    console.print(Text(corrected + more, style="dim"))
    if all(share.rows for share in found.accuracy):
        table = plain_table("accuracy", "in A (95%)", "in B (95%)")
        table.add_row("all rows", *map(share_text, found.accuracy))
        for one in ordered:
            table.add_row(Text(cut(one.name, 24)), share_text(one.accuracy_first), share_text(one.accuracy_second))
        console.print("", table)
    if found.unlike is not None:
        first, second = map(share_text, found.unlike)
        console.print(Text(f"\nunlike any training image: {first} in A, {second} in B"), soft_wrap=True)
    trained = [name for name, was in zip("AB", found.trained_on, strict=True) if was]
    if trained:
        said = (
            f"The model was trained on rows of {' and '.join(trained)}, so accuracies and unlike images are not judged."
        )
        console.print(Text(said, style="dim"), soft_wrap=True)
