"""Commands on the way from images to concept scores: datasets, embed, score."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from choqolate.cli.application import app
from choqolate.cli.engine_options import Address, Engine, EngineName, check_engine
from choqolate.errors import ChoqolateError

if TYPE_CHECKING:
    from choqolate.concepts.vocabulary import Vocabulary
    from choqolate.explain.redundancy import Redundancy


class OnError(StrEnum):
    """What to do about images that cannot be read."""

    skip = "skip"
    fail = "fail"


class Precision(StrEnum):
    """Number format of the encoder."""

    auto = "auto"
    float32 = "float32"
    float16 = "float16"
    bfloat16 = "bfloat16"


DatasetName = Annotated[
    str | None,
    typer.Option("--dataset", metavar="NAME", help="SOURCE is a copy of this data set; `datasets` lists them."),
]
DatasetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="KEY=VALUE",
        help="For the data set's reader, such as n_classes=50 (cub) or places=places.csv (coco); can be repeated.",
    ),
]
ManifestFile = Annotated[
    Path | None,
    typer.Option("--manifest", metavar="CSV", help="Table with path and label, split or group to join by path."),
]
BackboneName = Annotated[
    str | None,
    typer.Option(
        "--backbone",
        metavar="NAME",
        help="Encoder: a CLIP or SigLIP checkpoint by hub name or folder, open_clip:ARCHITECTURE/WEIGHTS, or mini "
        "(comes with the package, for drawn birds). By default openai/clip-vit-large-patch14-336, as in the paper.",
    ),
]
DeviceName = Annotated[str, typer.Option("--device", metavar="NAME", help="Where to encode: auto, cpu, cuda, ...")]
PrecisionName = Annotated[
    Precision, typer.Option("--precision", metavar="KIND", help="auto (half on a GPU), float32, float16 or bfloat16.")
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        help="Processes that decode images, 0 for none. With Ray, processes that encode images.",
        show_default=False,
    ),
]
BatchSize = Annotated[
    int | None,
    typer.Option("--batch-size", metavar="N", help="Number of images to encode at a time.", show_default=False),
]
OnErrorOption = Annotated[
    OnError,
    typer.Option(
        "--on-error",
        metavar="WAY",
        help="skip lists images that cannot be read beside the output; fail stops at the first.",
    ),
]


@app.command()
def datasets(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Show what is expected of a copy.", show_default=False)
    ] = None,
    folder: Annotated[
        Path | None, typer.Argument(metavar="[FOLDER]", help="Check this copy.", show_default=False)
    ] = None,
    option: DatasetOption = None,
) -> None:
    """List the data sets that can be read, show one, or check a copy of it.

    Example: [bold]choqolate datasets cub CUB_200_2011[/]
    """
    from choqolate._util.progress import item_bar
    from choqolate.cli.terminal import show_start

    if folder is not None:
        show_start("looking for images in", folder)
    from choqolate.cli import show_data as show
    from choqolate.datasets import DATASETS, check_copy, find_dataset

    if name is None:
        show.show_datasets(DATASETS.values())
        return
    dataset = find_dataset(name)
    if folder is None:
        if option:
            raise ChoqolateError("expected the folder of a copy with --option, got none")
        show.show_dataset(dataset)
        return
    manifest = dataset.read(folder, **_options(option, name))
    with item_bar(len(manifest), "looking for images", enabled=True) as advance:
        found = check_copy(manifest, progress=lambda done, total: advance(min(1000, total)))
    show.show_copy(dataset, manifest, found)
    if not found.complete:
        raise typer.Exit(2)


@app.command()
def embed(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="Folder of images, or CSV file with a column path.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the embeddings.", show_default=False)
    ],
    dataset: DatasetName = None,
    option: DatasetOption = None,
    backbone: BackboneName = None,
    device: DeviceName = "auto",
    precision: PrecisionName = Precision.auto,
    workers: Workers = None,
    batch_size: BatchSize = None,
    on_error: OnErrorOption = OnError.skip,
    engine: EngineName = Engine.local,
    address: Address = None,
) -> None:
    """Encode images once. Resumable: run the same command again to continue.

    Example: [bold]choqolate embed PHOTOS/ -o embeddings/[/]
    """
    check_engine(engine, address)
    from choqolate.cli.terminal import note, note_existing, show_next, show_start

    show_start("looking for images in", source)
    from choqolate.cli.show_data import show_embeddings, show_notes
    from choqolate.concepts.backbones import DEFAULT_BACKBONE, load_backbone
    from choqolate.concepts.embedding import embed as embed_images
    from choqolate.concepts.embedding_folder import EmbeddingFolder
    from choqolate.datasets import read_dataset, read_source

    options = _options(option, dataset)
    rows = read_source(source) if dataset is None else read_dataset(dataset, source, **options)
    show_notes(rows)
    encoder = load_backbone(backbone or DEFAULT_BACKBONE, device=device, precision=precision.value)
    if EmbeddingFolder.is_one(output):
        EmbeddingFolder.open(output).check(encoder)
        note_existing(output, continued=True)
    with _resumable():
        encoded = embed_images(
            rows,
            encoder,
            output,
            workers=workers,
            batch_size=batch_size,
            on_error=on_error.value,
            quarantine=_quarantine(output),
            engine=engine.value,
            address=address,
            tell=note,
            verbose=True,
        )
    show_embeddings(encoded, _quarantine(output))
    words = [] if dataset else ["--concepts", "words.txt"]
    show_next("The embeddings are", output, ["score", str(output), *words, "-o", "scores.parquet"])


@app.command()
def score(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE", help="Folder of images, CSV file with a column path, or folder of embeddings."
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="Table of scores, .parquet or .csv.", show_default=False),
    ],
    concepts: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help='Text file with one concept per line; "sea | ocean" gives a synonym.'),
    ] = None,
    spurious: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Concepts known to be spurious, in the same form.")
    ] = None,
    template: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help='Prompt such as "a photo of {}"; several are averaged. By default "{}".'),
    ] = None,
    dataset: DatasetName = None,
    option: DatasetOption = None,
    manifest: ManifestFile = None,
    embeddings: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where embeddings are kept; by default in the user's cache."),
    ] = None,
    heatmap: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the correlation of the concepts, .png, .svg or .pdf.")
    ] = None,
    backbone: BackboneName = None,
    device: DeviceName = "auto",
    precision: PrecisionName = Precision.auto,
    workers: Workers = None,
    batch_size: BatchSize = None,
    on_error: OnErrorOption = OnError.skip,
    engine: EngineName = Engine.local,
    address: Address = None,
) -> None:
    """Score images for concepts: the whole way from a folder to a table, or new words on old embeddings.

    Example: [bold]choqolate score PHOTOS/ --concepts words.txt -o scores.parquet[/]
    """
    check_engine(engine, address)
    from choqolate.cli.terminal import note, note_existing, show_start

    show_start("reading", source)
    from choqolate.cli import show_data as show
    from choqolate.concepts.embedding import Embeddings
    from choqolate.concepts.score_images import score_images_to_file
    from choqolate.concepts.score_notes import notes_on_scores
    from choqolate.data.splits import TEST_SHARE
    from choqolate.datasets import find_dataset
    from choqolate.explain.redundancy import check_redundancy

    if dataset is not None:
        find_dataset(dataset)
    encoded = Embeddings.load(source) if Embeddings.are_in(source) else None
    given: dict[str, Any] = {"--option": option, "--embeddings": embeddings, "--workers": workers}
    given |= {"--batch-size": batch_size, "--engine": None if engine is Engine.local else engine}
    needless = [name for name, value in given.items() if value is not None]
    if encoded is not None and needless:
        raise ChoqolateError(f"{', '.join(needless)}: for images, {source} holds embeddings: leave it out")
    words = _vocabulary(concepts, spurious, template, dataset or (encoded.manifest.source if encoded else None))
    _check_outputs(output, heatmap, inputs=[source, concepts, spurious, manifest])
    seen: list[Embeddings] = []

    def on_embedded(images: Embeddings) -> None:
        seen.append(images)
        if encoded is None:
            show.show_embeddings(images, _quarantine(output))
        note_existing(output, heatmap)

    with _resumable():
        table = score_images_to_file(
            output,
            encoded or source,
            words,
            dataset=dataset,
            options=_options(option, dataset),
            manifest=manifest,
            backbone=backbone,
            device=device,
            precision=precision.value,
            embeddings=embeddings,
            workers=workers,
            batch_size=batch_size,
            on_error=on_error.value,
            quarantine=_quarantine(output),
            engine=engine.value,
            address=address,
            tell=note,
            on_read=show.show_notes,
            on_embedded=on_embedded,
            verbose=True,
        )
    rows = seen[0].manifest.rows.with_split()
    if seen[0].manifest.split is None and rows.split is not None:
        note(f"no split was given: {TEST_SHARE:.0%} of each class, always the same, are for testing")
    for text in notes_on_scores(rows, words.concepts, seen[0]):
        note(text)
    if words.spurious and output.suffix.lower() == ".csv":
        note("CSV does not keep which concepts are spurious, nor where the scores come from: .parquet does")
    redundancy = check_redundancy(table.sample()) if len(table) > 1 else None
    show.show_scores(rows, len(words), redundancy)
    if heatmap is not None and redundancy is not None:
        _draw_heatmap(redundancy, heatmap)
    show.show_next_to_scores(rows, output)


def _draw_heatmap(redundancy: Redundancy, path: Path) -> None:
    import matplotlib

    from choqolate.cli.terminal import say
    from choqolate.plots.heatmaps import save_heatmap

    matplotlib.use("Agg")  # no screen is needed to write a file
    save_heatmap(redundancy, path)
    say(f"The heat map is in {path}.")


def _options(pairs: list[str] | None, dataset: str | None) -> dict[str, Any]:
    """Options for the reader of a data set."""
    if pairs and dataset is None:
        raise ChoqolateError("expected --dataset NAME with --option, got none")
    options: dict[str, Any] = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not (equals and key and value):
            raise ChoqolateError(f"expected --option KEY=VALUE such as n_classes=50, got {pair!r}")
        options[key] = int(value) if value.isdecimal() else value
    return options


def _vocabulary(
    concepts: Path | None, spurious: Path | None, template: list[str] | None, dataset: str | None
) -> Vocabulary:
    """The words of the user, or those of the paper for a data set."""
    from choqolate.concepts.score_images import dataset_vocabulary
    from choqolate.concepts.vocabulary import TEMPLATES, Vocabulary

    if concepts is None and spurious is not None:
        raise ChoqolateError("expected --concepts with --spurious: the other words to score for")
    if concepts is None and dataset is None:
        raise ChoqolateError("expected the words to score for: give --concepts words.txt, one word per line")
    templates = tuple(template or TEMPLATES)
    return (
        dataset_vocabulary(dataset, templates) if concepts is None else Vocabulary.read(concepts, spurious, templates)
    )


def _check_outputs(output: Path, heatmap: Path | None, inputs: list[Path | None]) -> None:
    """Before the work: nothing of the user's is overwritten, and the image has a format that can be drawn."""
    from choqolate._util.files import check_figure, same_file

    for file in inputs:
        for target in (output, heatmap):
            if file is not None and target is not None and same_file(target, file):
                raise ChoqolateError(f"expected another name for the output, {target} is an input: choose another one")
    if heatmap is not None:
        check_figure(heatmap)


def _quarantine(output: Path) -> Path:
    """Where unreadable images are listed: beside the output."""
    output = Path(os.path.abspath(output))
    if not output.name:
        raise ChoqolateError(f"Expected a new folder or file for the output, but got {output}. Choose another one.")
    ending = output.suffix.lower() in (".parquet", ".csv")
    beside = output.with_name(f"{output.stem if ending else output.name}.quarantine.csv")
    return beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside


@contextmanager
def _resumable() -> Iterator[None]:
    """Say that nothing is lost when embedding is stopped."""
    from choqolate.cli.terminal import note

    try:
        yield
    except KeyboardInterrupt:
        note("what is encoded so far is kept: run the same command again to continue")
        raise
