"""Data sets, embeddings and scores on the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from choqolate._util.text import counted
from choqolate.cli.terminal import note, open_console, plain_table, printable_name, say, show_next
from choqolate.data.splits import SPLITS

if TYPE_CHECKING:
    from choqolate.concepts.embedding import Embeddings
    from choqolate.concepts.vocabulary_choice import VocabularyChoice
    from choqolate.data.manifest import Manifest
    from choqolate.data.rows import Rows
    from choqolate.datasets import CopyCheck, Dataset
    from choqolate.datasets.places import PlacePredictions
    from choqolate.explain.redundancy import Redundancy

_SHOWN_FAILURES = 5


def show_datasets(datasets: Iterable[Dataset]) -> None:
    """What there are readers for."""
    console, table = open_console(), Table(box=None, pad_edge=False)
    for head, justify in (("name", "left"), ("classes", "right"), ("concepts", "right"), ("split", "left")):
        table.add_column(head, justify=justify, no_wrap=head == "name")  # type: ignore[arg-type]
    table.add_column("groups")
    derived = []
    for dataset in datasets:
        derived += [f"labels of {dataset.name}: {dataset.labels}"] if dataset.labels else []
        concepts = f"{len(dataset.core)} + {len(dataset.spurious)}" if dataset.spurious else f"{len(dataset.concepts)}"
        table.add_row(dataset.name, f"{dataset.n_classes}", concepts, dataset.split, dataset.groups)
    console.print(table)
    console.print(Text("\n".join(["", *derived])))
    console.print(Text("\nchoqolate datasets NAME         shows the files of a copy, and where to get one"))
    console.print(Text("choqolate datasets NAME FOLDER  checks a copy"))


def show_dataset(dataset: Dataset) -> None:
    """One data set: what a copy looks like, where to get it, its words."""
    console = open_console()
    console.print(Text(dataset.title, style="bold"))
    console.print(Text(dataset.origin), soft_wrap=True)
    layout = "\n".join(f"  {line}" for line in dataset.layout.splitlines())
    console.print(Text(f"\nexpected files\n{layout}"), soft_wrap=True)
    if dataset.options:
        console.print(Text(f"\noptions: {', '.join(f'--option {name}=…' for name in dataset.options)}"))
    if dataset.classes:
        console.print(Text(f"\n{counted(dataset.n_classes, 'class', 'classes')}: {'; '.join(dataset.classes)}"))
    console.print(Text(f"\n{counted(len(dataset.core), 'concept')}: {'; '.join(dataset.core)}"))
    if dataset.labels:
        console.print(Text(f"\nlabels: {dataset.labels}"), soft_wrap=True)
    if dataset.spurious:
        console.print(Text(f"\n{counted(len(dataset.spurious), 'spurious concept')}: {'; '.join(dataset.spurious)}"))
    console.print(Text(f"\nsplit: {dataset.split}" + (f"\ngroups: {dataset.groups}" if dataset.groups else "")))


def show_copy(dataset: Dataset, manifest: Manifest, found: CopyCheck) -> None:
    """What a copy holds."""
    console = open_console()
    console.print(Text(f"{dataset.title} in {printable_name(manifest.root)}", style="bold"), soft_wrap=True)
    _show_counts(console, manifest)
    for text in manifest.notes:
        console.print(Text(f"note: {text}", style="dim"), soft_wrap=True)
    console.print(Text(str(found), style="green" if found.complete else "red"), soft_wrap=True)


def _show_counts(console: Console, manifest: Manifest) -> None:
    """Rows by split; by class, or by group where there are groups; many classes as their number only."""
    rows: dict[str, dict[str, int]] = {}
    by_group = manifest.groups is not None
    for split, label, group, count in manifest.rows.counts():
        cells = rows.setdefault(group if by_group else label, {})
        cells[split] = cells.get(split, 0) + count
    splits = [name for name in (*SPLITS, "") if any(name in cells for cells in rows.values())]
    table = Table(box=None, pad_edge=False)
    table.add_column("group" if by_group else "class")
    for name in splits:
        table.add_column(name or "no split", justify="right")
    if len(rows) <= 20:
        for name, cells in rows.items():
            table.add_row(Text(printable_name(name or "no label")), *(f"{cells.get(split, 0):,}" for split in splits))
    totals = [sum(cells.get(split, 0) for cells in rows.values()) for split in splits]
    kinds = counted(len(rows), "group") if by_group else counted(len(rows), "class", "classes")
    table.add_row(f"total ({kinds})", *(f"{total:,}" for total in totals))
    console.print(table)


def show_notes(manifest: Manifest) -> None:
    """What a reader has to say of the rows of a source."""
    for text in manifest.notes:
        note(text)


def show_places(predicted: PlacePredictions, source: Path, output: Path) -> None:
    """How many images show a place of each location type, and what to do with the file."""
    console, table = open_console(), plain_table("location type", "images")
    counts = Counter(predicted.classes)
    for name in sorted(name for name in counts if name is not None):
        table.add_row(name, f"{counts[name]:,}")
    table.add_row("none (left out)", f"{counts[None]:,}")
    console.print(Text(f"{counted(len(predicted), 'image')}, places predicted by {predicted.model}"), soft_wrap=True)
    console.print(table)
    console.print(Text("pseudo-labels, not annotations", style="dim"))
    from choqolate.concepts.embedding import Embeddings

    copy = source if source.is_dir() and not Embeddings.are_in(source) else "COCO"
    reading = ["--dataset", "coco", "--option", f"places={output}"]
    show_next("The places are", output, ["score", copy, *reading, "-o", "scores.parquet"])


def show_embeddings(encoded: Embeddings, quarantine: Path) -> None:
    """How many images were encoded, found, and not readable."""
    known = len(encoded) - encoded.n_encoded
    parts = [f"{encoded.n_encoded:,} encoded now", *([f"{known:,} known already"] if known else [])]
    if len(encoded.failures) > len(encoded):
        note("most images cannot be read: is it the right folder, and is it complete?")
    name = printable_name(encoded.folder.backbone.name)
    say(f"{counted(len(encoded), 'image')} with {name}: {', '.join(parts)}")
    if not encoded.failures:
        return
    say(f"{len(encoded.failures):,} could not be read, listed in {printable_name(quarantine)}:")
    for failure in encoded.failures[:_SHOWN_FAILURES]:
        say(f"  {printable_name(failure.path)}: {printable_name(failure.reason)}")
    if len(encoded.failures) > _SHOWN_FAILURES:
        say(f"  and {len(encoded.failures) - _SHOWN_FAILURES:,} more")


def show_scores(rows: Rows, n_concepts: int, redundancy: Redundancy | None) -> None:
    """What was scored, and how redundant the concepts are, perhaps on a sample of the rows."""
    console = open_console()
    sizes = [counted(len(rows), "image"), counted(n_concepts, "concept")]
    if rows.classes:
        sizes.append(counted(len(rows.classes), "class", "classes"))
    if rows.groups is not None:
        sizes.append(counted(len(set(rows.groups) - {None}), "group"))
    console.print(Text(", ".join(sizes), style="bold"))
    if redundancy is not None and redundancy.n_rows < len(rows):
        console.print(f"on a sample of {counted(redundancy.n_rows, 'row')}:")
    for line in () if redundancy is None else redundancy.lines():
        style = "yellow" if line.startswith("doubtful: ") else ""
        console.print(Text(printable_name(line), style=style), soft_wrap=True)


def show_next_to_scores(rows: Rows, output: Path) -> None:
    """Where the scores are, and what to do with them."""
    if rows.labels is None:
        console = open_console()
        console.print(Text(f"\nThe scores are in {printable_name(output)}."), soft_wrap=True)
        console.print(Text("There are no labels to train on: put each class into a folder, or use --manifest."))
    else:
        show_next("The scores are", output, ["fit", str(output), "-o", "model"])


def show_vocabulary_choice(choice: VocabularyChoice) -> None:
    """What was read, what was dropped and why, and what was kept."""
    console = open_console()
    for line in choice.lines():
        style = "bold" if line.startswith("kept ") else ""
        console.print(Text(printable_name(line), style=style), soft_wrap=True)
