"""The command that chooses concepts from big word lists: vocabulary."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from choqolate.cli.application import app
from choqolate.cli.data_commands import BackboneName, DeviceName, ManifestFile, Precision, PrecisionName, Workers
from choqolate.errors import ChoqolateError


class Way(StrEnum):
    """How to choose the words to keep."""

    medoids = "medoids"
    relevance = "relevance"


@app.command()
def vocabulary(
    words: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="WORDS",
            help="Word lists: text with one concept per line, or JSON with one list per class. Can be left out if "
            "--for is a table of scores.",
            show_default=False,
        ),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--for",
            metavar="SOURCE",
            help="What to choose words for: table of scores, folder of embeddings, or images (folder or CSV file). "
            "Only training rows are used.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Text file to write.")] = Path(
        "concepts.txt"
    ),
    keep: Annotated[
        int | None,
        typer.Option("--keep", "-k", metavar="N", help="Number of words to keep.", show_default="all that are left"),
    ] = None,
    by: Annotated[
        Way,
        typer.Option(
            metavar="WAY",
            help="How to choose N words: medoids (one per cluster of similar words) or relevance (words that tell the "
            "classes apart).",
        ),
    ] = Way.medoids,
    classes: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Text file with one class per line, besides the classes of SOURCE and of JSON lists.",
            show_default=False,
        ),
    ] = None,
    keep_class_phrases: Annotated[
        bool,
        typer.Option(
            "--keep-class-phrases",
            help='Keep words that contain a class name, such as "dog collar", or are part of it.',
        ),
    ] = False,
    max_words: Annotated[
        int | None,
        typer.Option(metavar="N", help="Drop concepts of more than N words.", show_default=False),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="CSV", help="Write all dropped words with the reasons.", show_default=False),
    ] = None,
    template: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help='Prompt such as "a photo of {}" for comparing words by meaning.'),
    ] = None,
    manifest: ManifestFile = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the clusters.")] = 0,
    backbone: BackboneName = None,
    device: DeviceName = "auto",
    precision: PrecisionName = Precision.auto,
    workers: Workers = None,
) -> None:
    """Choose concepts for a data set from big word lists, and say what was dropped and why.

    Drops words that name a class, near duplicates, and words that never vary on the training images.

    Example: [bold]choqolate vocabulary laion.txt labo.json --for embeddings/ -k 200 -o concepts.txt[/]
    """
    from choqolate.cli.terminal import note, note_existing, show_next, show_start

    first = words[0] if words else source
    if first is not None:
        show_start("reading", first)
    from choqolate._util.files import check_output, same_file
    from choqolate.cli.show_data import show_vocabulary_choice
    from choqolate.concepts.backbones import load_backbone
    from choqolate.concepts.vocabulary import TEMPLATES
    from choqolate.concepts.vocabulary_choice import choose_vocabulary, open_source
    from choqolate.concepts.word_lists import WordList, read_words
    from choqolate.data.scores import ConceptScores

    targets = [output, *([report] if report else [])]
    for target in targets:
        check_output(target)
        if any(same_file(target, file) for file in (*(words or ()), source, classes, manifest) if file is not None):
            raise ChoqolateError(f"Expected another name for the output, but {target} is an input. Choose another one.")
    if report is not None and same_file(output, report):
        raise ChoqolateError(f"Expected two files, but {output} is both the output and the report. Choose another one.")
    found = read_words(*words) if words else None
    if found is None and source is None:
        raise ChoqolateError("Expected word lists or a table of scores, got neither. Name a text or JSON file.")
    names = read_words(classes).names if classes else ()
    encoder = load_backbone(backbone, device=device, precision=precision.value) if backbone else None
    opened = None
    if source is not None:
        opened = open_source(
            source,
            manifest=manifest,
            backbone=encoder,
            device=device,
            precision=precision.value,
            workers=workers,
            tell=note,
            verbose=True,
        )
    if found is None:
        if not isinstance(opened, ConceptScores):
            raise ChoqolateError(f"Expected word lists, because {source} names no concepts. Name a text or JSON file.")
        found = WordList.of(opened.concepts)
    choice = choose_vocabulary(
        found,
        opened,
        keep=keep,
        by=by.value,
        classes=names,
        keep_class_phrases=keep_class_phrases,
        max_words=max_words,
        templates=tuple(template or TEMPLATES),
        backbone=encoder,
        seed=seed,
        verbose=True,
    )
    note_existing(output, report)
    choice.save(output)
    if report is not None:
        choice.save_report(report)
    show_vocabulary_choice(choice)
    images = "IMAGES" if source is None or isinstance(opened, ConceptScores) else source
    show_next("The concepts are", output, ["score", images, "--concepts", output, "-o", "scores.parquet"])
