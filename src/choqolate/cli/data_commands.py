"""Commands on the way from images to concept scores: datasets, embed, score."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from choqolate.cli.application import app
from choqolate.errors import ChoqolateError

if TYPE_CHECKING:
    from choqolate.concepts.backbones import Backbone
    from choqolate.concepts.embedding import Embeddings
    from choqolate.concepts.vocabulary import Vocabulary
    from choqolate.data.manifest import Manifest


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
        help="For the data set's reader, such as n_classes=50 (cub) or labels=places.csv (coco); can be repeated.",
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
    typer.Option("--workers", metavar="N", help="Processes that decode; 0 for none.", show_default=False),
]
BatchSize = Annotated[
    int | None,
    typer.Option("--batch-size", metavar="N", help="Images encoded at a time.", show_default=False),
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
    manifest = dataset.read(folder, **_options(option))
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
) -> None:
    """Encode images once. Stopped at any moment, the same command goes on where it was.

    Example: [bold]choqolate embed PHOTOS/ -o embeddings/[/]
    """
    from choqolate.cli.terminal import show_next
    from choqolate.concepts.backbones import DEFAULT_BACKBONE, load_backbone

    rows = _read(source, dataset, option)
    encoder = load_backbone(backbone or DEFAULT_BACKBONE, device=device, precision=precision.value)
    _embed(rows, encoder, output, output, workers, batch_size, on_error)
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
        typer.Option(metavar="FILE", help='Text file with a concept a line; "sea | ocean" gives a synonym.'),
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
) -> None:
    """Score images for concepts: the whole way from a folder to a table, or new words on old embeddings.

    Example: [bold]choqolate score PHOTOS/ --concepts words.txt -o scores.parquet[/]
    """
    from choqolate.cli import show_data as show
    from choqolate.concepts import scoring
    from choqolate.concepts.backbones import DEFAULT_BACKBONE, load_backbone
    from choqolate.concepts.embedding import Embeddings, write_quarantine
    from choqolate.concepts.embedding_folder import EmbeddingFolder, cache_folder
    from choqolate.data import score_files as tables
    from choqolate.datasets import find_dataset

    if dataset is not None:
        find_dataset(dataset)
    encoded = Embeddings.load(source) if EmbeddingFolder.is_one(source) else None
    given = {"--option": option, "--embeddings": embeddings, "--workers": workers, "--batch-size": batch_size}
    needless = [name for name, value in given.items() if value is not None]
    if encoded is not None and needless:
        raise ChoqolateError(f"{', '.join(needless)}: for images, {source} holds embeddings: leave it out")
    words = _vocabulary(concepts, spurious, template, dataset or (encoded.manifest.source if encoded else None))
    _check_outputs(output, heatmap, inputs=[source, concepts, spurious, manifest])
    tables.check_target(output, words.concepts)
    encoder = load_backbone(backbone, device=device, precision=precision.value) if backbone else None
    rows = _read(source, dataset, option) if encoded is None else encoded.manifest
    rows = rows if manifest is None else _join(rows, manifest)
    if encoded is None:
        encoder = encoder or load_backbone(DEFAULT_BACKBONE, device=device, precision=precision.value)
        folder = EmbeddingFolder.create(embeddings or cache_folder(encoder), encoder)
        scoring.encode_prompts(folder, words.prompts(), encoder)  # mistakes in words show before the images' turn
        encoded = _embed(rows, encoder, embeddings, output, workers, batch_size, on_error)
    else:
        encoded = replace(encoded, manifest=rows)
        write_quarantine(_quarantine(output), ())
    table = scoring.score(encoded, words, encoder)
    split = table.with_split()
    split.save(output)
    show.show_scores(split, encoded.digests, output, heatmap, made_split=table.split is None)


def _read(source: Path, dataset: str | None, option: list[str] | None) -> Manifest:
    """The rows of a source; prints what its reader has to say of them."""
    from choqolate.cli.terminal import note
    from choqolate.datasets import read_dataset, read_source

    if option and dataset is None:
        raise ChoqolateError("expected --dataset NAME with --option, got none")
    rows = read_source(source) if dataset is None else read_dataset(dataset, source, **_options(option))
    for text in rows.notes:
        note(text)
    return rows


def _join(rows: Manifest, table: Path) -> Manifest:
    from choqolate.cli.terminal import note
    from choqolate.datasets import read_csv

    joined = rows.join(read_csv(table))
    for text in joined.notes[len(rows.notes) :]:
        note(text)
    return joined


def _options(pairs: list[str] | None) -> dict[str, Any]:
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
    from choqolate.concepts.vocabulary import TEMPLATES, Vocabulary
    from choqolate.datasets import DATASETS

    templates = tuple(template or TEMPLATES)
    if concepts is not None:
        return Vocabulary.read(concepts, spurious, templates)
    if spurious is not None:
        raise ChoqolateError("expected --concepts with --spurious: the other words to score for")
    if dataset not in DATASETS:
        raise ChoqolateError("expected the words to score for: give --concepts words.txt, a text file with one a line")
    known = DATASETS[dataset]
    return Vocabulary.parse(known.core, known.spurious, templates)


def _check_outputs(output: Path, heatmap: Path | None, inputs: list[Path | None]) -> None:
    """Before the work: nothing of the user's is overwritten, and the image has a format that can be drawn."""
    from choqolate._util.files import check_output

    for file in inputs:
        for target in (output, heatmap):
            if file is not None and target is not None and target.absolute() == file.absolute():
                raise ChoqolateError(f"expected another name for the output, {target} is an input: choose another one")
    if heatmap is not None:
        if heatmap.suffix.lower() not in (".png", ".svg", ".pdf"):
            raise ChoqolateError(f"expected a heat map that ends in .png, .svg or .pdf, got {heatmap}")
        check_output(heatmap)


def _quarantine(output: Path) -> Path:
    """Where unreadable images are listed: beside the output."""
    output = output.absolute()
    ending = output.suffix.lower() in (".parquet", ".csv")
    beside = output.with_name(f"{output.stem if ending else output.name}.quarantine.csv")
    return beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside


def _embed(
    rows: Manifest,
    encoder: Backbone,
    folder: Path | None,
    output: Path,
    workers: int | None,
    batch_size: int | None,
    on_error: OnError,
) -> Embeddings:
    from choqolate.cli.show_data import show_embeddings
    from choqolate.cli.terminal import note
    from choqolate.concepts.embedding import NothingReadable, embed, write_quarantine

    try:
        encoded = embed(
            rows, encoder, folder, workers=workers, batch_size=batch_size, on_error=on_error.value, verbose=True
        )
    except NothingReadable as error:
        write_quarantine(_quarantine(output), error.failures)
        raise ChoqolateError(f"{error}; all are listed in {_quarantine(output)}") from error
    except KeyboardInterrupt:
        note("what is encoded so far is kept, the same command goes on from there")
        raise
    write_quarantine(_quarantine(output), encoded.failures)
    show_embeddings(encoded, _quarantine(output))
    return encoded
