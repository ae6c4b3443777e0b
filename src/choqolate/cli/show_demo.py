"""What the demos did and measured, on the terminal."""

from __future__ import annotations

import shlex

from rich.console import Console
from rich.table import Table
from rich.text import Text

from choqolate._util.numbers import Spread
from choqolate._util.text import counted, listed
from choqolate.cli import show_model as show
from choqolate.cli.terminal import number, plain_table, printable_name
from choqolate.datasets.birds import GROUPS
from choqolate.demo.birds import FEW, BirdsDemo, Choice
from choqolate.demo.breast_cancer import BreastCancerDemo
from choqolate.demo.outcome import Outcome

NEXT = (
    "choqolate score PHOTOS/ --concepts words.txt -o scores.parquet",
    "choqolate fit scores.parquet -o model",
)
_LEAST_WIDTH = 100
_HEADS = [name.replace("bird on", "bird\non") for name in GROUPS]
_SHORT = {
    "rescale, recalibrated": "recalibrated",
    "retrained without them": "retrained",
    "trained on unbiased images": "unbiased",
    "frozen at their mean": "frozen",
}
_LEGEND = (
    "recalibrated: rescale, then classes as frequent as in training; placebo: {n} random core concepts removed; "
    "retrained: without the words; unbiased: the same birds before places that say nothing; frozen: words at their mean"
)


def show_birds(console: Console, demo: BirdsDemo) -> None:
    """The demo on bird scenes, from the images to what to do next."""
    table, runs = demo.table, len(demo.ours.runs)
    core, spurious = len(table.concepts) - len(table.spurious), len(table.spurious)
    words = f"{core} core and {spurious} background concepts"
    sizes = f"{counted(len(demo.rows), 'image')}, {words}, {demo.model.network_.n_nodes} nodes, {counted(runs, 'run')}"
    console.print(Text.assemble(("CHOQOLATE", "bold"), f" on bird scenes: {sizes}"))
    _show_images(console, demo)
    partnered, least = f"{demo.redundancy.partnered:.0%}", f"correlation of at least {demo.redundancy.threshold:.2f}"
    console.print(
        Text(f"redundancy: {partnered} of the concepts rise and fall with another one ({least})", style="dim")
    )
    _show_models(console, demo)
    console.print(Text("\nWhat each node of the first run reads, and what it counts for", style="bold"), end="")
    show.show_nodes(console, demo.model)
    found, nodes = demo.unmixed
    kinds = f"leading words all of the bird or all of the background: {found} of the {nodes} nodes of all runs"
    console.print(Text(kinds, style="dim"))
    _show_removals(console, demo)
    steps = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in demo.seconds.items())
    console.print(Text(f"\n{steps}", style="dim"))
    _show_places(console, demo)


def _show_images(console: Console, demo: BirdsDemo) -> None:
    table = plain_table("", *_HEADS)
    groups, split = demo.rows.groups, demo.rows.split
    assert groups is not None
    assert split is not None
    for part in ("train", "val", "test"):
        table.add_row(part, *(f"{((groups == group) & (split == part)).sum():,}" for group in GROUPS))
    console.print()
    _print_table(console, table)
    if len(demo.rows) < FEW:
        console.print(Text(f"with {len(demo.rows):,} images, numbers of groups are mostly chance", style="yellow"))


def _show_models(console: Console, demo: BirdsDemo) -> None:
    console.print()
    table = plain_table("as trained", "accuracy\n%", "worst\ngroup, %", "Attribution\nGini", "Node\nCoherence")
    for name, outcome in (("CHOQOLATE", demo.ours), ("linear bottleneck", demo.linear)):
        shares = map(_percent, (outcome.accuracy, outcome.worst_group))
        table.add_row(name, *shares, *map(_spread, (outcome.gini, outcome.coherence)))
    _print_table(console, table)
    if len(demo.ours.runs) > 1:
        console.print(Text(f"mean ± standard deviation over {len(demo.ours.runs)} runs, here and below", style="dim"))
    for line in demo.search.lines():
        console.print(Text(f"CHOQOLATE: {line}", style="dim"))
    console.print(Text(f"linear bottleneck: {_reason(demo.rate)}", style="dim"))


def _show_removals(console: Console, demo: BirdsDemo) -> None:
    console.print(Text("\nWithout the background concepts, after training (per cent)", style="bold"))
    console.print(Text(f"removed: {listed(demo.table.spurious, 30)}", style="dim"))
    table = plain_table("", "accuracy", "worst\ngroup", *_HEADS)
    ours = (demo.ours, *demo.removals, demo.placebo, *demo.alternatives)
    for title, outcomes in (("CHOQOLATE", ours), ("linear", (demo.linear, *demo.linear_alternatives))):
        table.add_row(Text(title, style="bold"))
        for outcome in outcomes:
            name = (
                "as trained"
                if outcome is demo.ours or outcome is demo.linear
                else _SHORT.get(outcome.name, outcome.name)
            )
            groups = (f"{100 * outcome.group(group).mean:.1f}" for group in GROUPS)
            table.add_row(Text(f"  {name}"), _percent(outcome.accuracy), _percent(outcome.worst_group), *groups)
    _print_table(console, table)
    console.print(Text(_LEGEND.format(n=len(demo.table.spurious)), style="dim"))
    _show_change(console, demo.ours, demo.removals[0])
    _show_change(console, demo.ours, demo.placebo)


def _show_change(console: Console, before: Outcome, after: Outcome) -> None:
    pairs = list(zip(before.worst_groups, after.worst_groups, strict=True))
    change, higher = 100 * (after.worst_group.mean - before.worst_group.mean), sum(new > old for old, new in pairs)
    runs = f" in the mean, higher in {higher} of {len(pairs)} runs" if len(pairs) > 1 else ""
    console.print(Text(f"{after.name}: worst group {change:+.1f} points{runs}"))


def _show_places(console: Console, demo: BirdsDemo) -> None:
    folder = printable_name(demo.folder)
    console.print(Text(f"\nThe images are in {folder}/images, unbiased ones in {folder}/unbiased."), soft_wrap=True)
    console.print(Text(f"All of this is in {folder}/report.html."), soft_wrap=True)
    console.print(Text("To look into the model, node by node and image by image:"))
    scores, page = demo.folder / "scores.parquet", demo.folder / "model.html"
    look = shlex.join(["choqolate", "explain", str(demo.folder / "model"), "--scores", str(scores), "-o", str(page)])
    console.print(Text(f"  {printable_name(look)}"), soft_wrap=True)
    console.print(Text("To audit it in the browser and take concepts out:"))
    audit = shlex.join(["choqolate", "studio", str(demo.folder / "model"), "--scores", str(scores)])
    console.print(Text(f"  {printable_name(audit)}"), soft_wrap=True)
    console.print(Text("With your own images, a folder for each class, and words, one per line (loads CLIP once):"))
    for command in NEXT:
        console.print(Text(f"  {command}"), soft_wrap=True)


def _print_table(console: Console, table: Table) -> None:
    """Numbers are never cut: on a narrow terminal lines run over."""
    console.print(table, width=max(console.width, _LEAST_WIDTH), crop=False, no_wrap=True, overflow="ignore")


def _reason(choice: Choice) -> str:
    tried = ", ".join(f"{value:g}: {100 * accuracy:.1f}%" for value, accuracy in choice.accuracy.items())
    return f"{choice.name} {choice.value:g}, {choice.rule} in validation accuracy ({tried})"


def _spread(spread: Spread) -> str:
    return spread.text(3, minus="-")


def _percent(spread: Spread) -> str:
    return spread.text(1, scale=100, minus="-")


def show_breast_cancer(console: Console, demo: BreastCancerDemo) -> None:
    """The demo on a table."""
    sizes = (
        f"{len(demo.model.concepts_)} measurements, {demo.model.network_.n_nodes} nodes, {counted(demo.runs, 'run')}"
    )
    console.print(Text.assemble(("CHOQOLATE", "bold"), f" on breast-cancer: {sizes}"))
    summary = plain_table("", "mean", "std")
    summary.add_row("test accuracy", *map(number, demo.accuracy))
    summary.add_row("Attribution Gini", *map(number, demo.gini))
    summary.add_row("Node Coherence", *map(number, demo.coherence))
    console.print("", summary)
    console.print(Text("\nWhat each node of the first run reads, and what it counts for", style="bold"), end="")
    show.show_nodes(console, demo.model)
    console.print(Text(f"\nRemoving {demo.removed}, the concept that the nodes rely on most", style="bold"))
    table = plain_table("test accuracy", "plain", "recalibrated")
    table.add_row("before", number(demo.before), "")
    for mode, accuracies in demo.after.items():
        table.add_row(f"after, {mode}", *map(number, accuracies))
    console.print(table)
    low, high = demo.before_share.interval
    console.print(Text(f"on {demo.rows:,} rows; 95% interval before: {low:.2f} – {high:.2f}", style="dim"))
    assert demo.edited.removal_ is not None
    lost = ", ".join(f"{share:.0%}" for share in demo.edited.removal_.mass_lost)
    console.print(Text(f"weight that the nodes lost: {lost}"))
    place = printable_name(demo.folder)
    console.print(Text(f"\nThe model is in {place}: choqolate.load({place!r})"), soft_wrap=True)
