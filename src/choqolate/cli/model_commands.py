"""Commands around a model: demo, eval, remove, apply, export."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from choqolate.cli.application import app
from choqolate.cli.arguments import Columns, ModelFolder, ScoresFile, Stream, as_options, names_columns
from choqolate.cli.control_options import (
    Draws,
    EmbeddingsFolder,
    Others,
    WithControls,
    check_control_options,
    measure_controls,
)
from choqolate.errors import ChoqolateError

if TYPE_CHECKING:
    from choqolate.data.scores import ConceptScores
    from choqolate.estimators.classifier import ChoqolateClassifier
    from choqolate.network.edits import Note


class Data(StrEnum):
    """What the demo runs on."""

    birds = "birds"
    breast_cancer = "breast-cancer"


class Split(StrEnum):
    """Which rows to evaluate on."""

    train = "train"
    val = "val"
    test = "test"
    all = "all"


class Mode(StrEnum):
    """How concepts are removed."""

    rescale = "rescale"
    canonical = "canonical"
    impute = "impute"


EditedFolder = Annotated[
    Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the edited model.", show_default=False)
]
RecalibrateOn = Annotated[
    Path | None,
    typer.Option(
        metavar="SCORES", help="Shift the classes to their shares in training, on these scores.", show_default=False
    ),
]
MeasureOn = Annotated[
    Path | None,
    typer.Option(metavar="SCORES", help="Measure before and after on these scores.", show_default=False),
]


@app.command()
def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for all that it makes.")
    ] = Path("choqolate-demo"),
    data: Annotated[Data, typer.Option(metavar="NAME", help="birds (drawn images) or breast-cancer (a table).")] = (
        Data.birds
    ),
    images: Annotated[int, typer.Option(metavar="N", min=40, help="How many images to draw (birds).")] = 6_000,
    seeds: Annotated[int, typer.Option(metavar="N", min=1, help="How many runs to train.")] = 5,
    studio: Annotated[
        bool, typer.Option("--studio", help="Open the studio on the trained model at the end (birds).")
    ] = False,
) -> None:
    """Do the whole job on what comes with the package: from drawn images to a corrected model, without a network.

    Example: [bold]choqolate demo -o choqolate-demo[/]
    """
    from choqolate.cli.terminal import note_existing, open_console, say, show_start

    show_start("starting the demo in", output)
    from choqolate.cli import show_demo as show
    from choqolate.demo import MARK
    from choqolate.demo.birds import run_birds
    from choqolate.demo.birds_page import write_demo_page
    from choqolate.demo.breast_cancer import run_breast_cancer
    from choqolate.studio.launch import check_packages, serve_studio

    if studio:
        check_packages()
    if (output / MARK).is_file():
        note_existing(output)
    if data is Data.breast_cancer:
        if studio:
            raise ChoqolateError("Expected --studio with the birds, whose images it shows. Leave out --data.")
        show.show_breast_cancer(open_console(), run_breast_cancer(output, n_runs=seeds))
        return
    console = open_console()
    result = run_birds(output, images, n_runs=seeds, tell=lambda step: console.print(step, style="dim", markup=False))
    write_demo_page(result)
    show.show_birds(console, result)
    if studio:
        names = (str(output / "model"), str(output / "scores.parquet"))
        serve_studio(result.model, result.table, names=names, open_browser=True, tell=say)


@app.command("eval")
@names_columns
def evaluate_model(
    model: ModelFolder,
    scores: ScoresFile,
    columns: Columns,
    split: Annotated[
        Split | None, typer.Option(help="Rows to measure on. Default: the held-out rows.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    stream: Stream = False,
    controls: WithControls = False,
    others: Others = None,
    embeddings: EmbeddingsFolder = None,
    draws: Draws = None,
) -> None:
    """Measure a model on a table of concept scores: accuracy, classes, groups, Gini, coherence.

    With --controls, also measure what random names, random directions and logistic regression reach on the held-out
    rows.

    Example: [bold]choqolate eval model scores.parquet --split test[/]

    Example: [bold]choqolate eval model scores.parquet --controls --others other-names.parquet[/]
    """
    from choqolate.cli.terminal import load_table, note_labels, open_table, say_json, show_start

    check_control_options(controls, others, embeddings, draws)
    if controls and stream:
        raise ChoqolateError("Expected --controls or --stream, but got both. Controls need the table in memory.")
    if controls and split is not None:
        raise ChoqolateError(
            "Expected --controls or --split, but got both. Controls are measured on the held-out rows. Leave out one."
        )
    show_start("reading", model, scores)
    from choqolate.analysis.evaluation import evaluate
    from choqolate.data.scores import ConceptScores
    from choqolate.estimators.model_folder import load

    classifier = load(model)
    table = load_table(scores, columns) if controls else open_table(scores, ["--stream"] if stream else [], columns)
    if controls:
        note_labels(scores, table)
    result = evaluate(classifier, table, split and split.value, verbose=True)
    found = None
    if controls and isinstance(table, ConceptScores):
        found = measure_controls(classifier, table, others, embeddings, draws)
    if as_json:
        said = result.as_dict() | ({} if found is None else {"controls": found.as_dict()})
        say_json(said)
        return
    from choqolate.cli import show_model as show
    from choqolate.cli.show_controls import show_controls
    from choqolate.cli.terminal import open_console

    console = open_console()
    show.show_evaluation(console, f"{model} on {scores}", result, classifier)
    if found is not None:
        show_controls(console, found)


@app.command()
@names_columns
def remove(
    model: ModelFolder,
    output: EditedFolder,
    columns: Columns,
    concepts: Annotated[
        list[str] | None, typer.Argument(metavar="CONCEPT", help="Concepts to remove.", show_default=False)
    ] = None,
    words: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Text file with one concept per line.", show_default=False),
    ] = None,
    spurious: Annotated[
        bool, typer.Option("--spurious", help="Remove what the scores or the model mark as spurious.")
    ] = False,
    mode: Annotated[
        Mode,
        typer.Option(
            metavar="MODE",
            help="rescale (the weights that are left, as in the paper), canonical (the same, but what two concepts "
            "share goes to the one that stays) or impute (freeze at the training mean).",
        ),
    ] = Mode.rescale,
    nodes: Annotated[
        str | None,
        typer.Option(metavar="N,N", help="Only in these nodes, such as 0,3; else in all.", show_default=False),
    ] = None,
    recalibrate: RecalibrateOn = None,
    scores: MeasureOn = None,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Why; kept with the model.", show_default=False)
    ] = None,
    author: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who removes them; kept with the model.", show_default=False)
    ] = None,
) -> None:
    """Remove concepts from a trained model, without training again.

    Example: [bold]choqolate remove model sea forest -o edited --scores scores.parquet[/]
    """
    from choqolate.cli.terminal import show_start

    show_start("reading", model)
    from choqolate.analysis.evaluation import marked_concepts
    from choqolate.concepts.vocabulary import Vocabulary
    from choqolate.estimators.model_folder import check_model_folder, load

    check_model_folder(output)
    chosen_nodes = None if nodes is None else _parse_nodes(nodes)
    named = [*(concepts or []), *(Vocabulary.read(words).concepts if words else ())]
    trained = load(model)
    tables = _load_tables(columns, recalibrate, scores)
    if spurious:
        named += marked_concepts(trained, *tables.values())
    if not named:
        raise ChoqolateError("expected concepts to remove, got none: name them, or use --from or --spurious")
    edited = trained.remove_concepts(
        dict.fromkeys(named),
        nodes=chosen_nodes,
        mode=mode.value,
        recalibrate=_training_rows(trained, tables, recalibrate),
        note=_note(author, reason),
    )
    _show_and_save(trained, edited, output, scores, tables, columns)


@app.command()
@names_columns
def apply(
    model: ModelFolder,
    edits: Annotated[
        Path, typer.Argument(metavar="EDITS", help="File of edits, from save_edits in Python.", show_default=False)
    ],
    output: EditedFolder,
    columns: Columns,
    recalibrate: RecalibrateOn = None,
    scores: MeasureOn = None,
) -> None:
    """Apply the edits of one model to another: by names of concepts, and by what nodes stand for.

    Example: [bold]choqolate apply model edits.json -o edited --scores scores.parquet[/]
    """
    from choqolate.cli.terminal import show_start

    show_start("reading", model, edits)
    from choqolate.estimators.model_folder import check_model_folder, load

    check_model_folder(output)
    trained = load(model)
    tables = _load_tables(columns, recalibrate, scores)
    edited = trained.apply_edits(edits, recalibrate=_training_rows(trained, tables, recalibrate))
    _show_and_save(trained, edited, output, scores, tables, columns)


@app.command()
def export(
    model: ModelFolder,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="File to write, .onnx.", show_default=False)
    ],
) -> None:
    r"""Export a model, with its edits, to an ONNX file that runs without choqolate.

    The file takes raw concept scores; scaling is inside. This command needs pip install 'choqolate\[onnx]'.

    Example: [bold]choqolate export model -o model.onnx[/]
    """
    from choqolate.cli.terminal import note_existing, open_console, show_start

    show_start("reading", model)
    from choqolate.cli import show_model as show
    from choqolate.estimators.model_folder import load
    from choqolate.estimators.onnx_file import check_onnx_target

    check_onnx_target(output)
    classifier = load(model)
    note_existing(output)
    classifier.export_onnx(output)
    show.show_export(open_console(), classifier, output)


def _load_tables(columns: Columns, *paths: Path | None) -> dict[Path, ConceptScores]:
    """The tables of some options, each read once."""
    from choqolate.cli.terminal import load_table

    return {path: load_table(path, columns) for path in dict.fromkeys(paths) if path is not None}


def _training_rows(
    model: ChoqolateClassifier, tables: dict[Path, ConceptScores], path: Path | None
) -> ConceptScores | None:
    from choqolate.estimators.table_training import training_rows

    return None if path is None else training_rows(model, tables[path])


def _note(author: str | None, reason: str | None) -> Note | None:
    from choqolate.network.edits import Note

    return None if author is None and reason is None else Note(author, reason=reason)


def _show_and_save(
    trained: ChoqolateClassifier,
    edited: ChoqolateClassifier,
    output: Path,
    scores: Path | None,
    tables: dict[Path, ConceptScores],
    columns: Columns,
) -> None:
    """Measure an edited model beside the one before, save it, and say what was done and what to do next."""
    from choqolate.analysis.comparison import compare_evaluations
    from choqolate.analysis.evaluation import evaluate
    from choqolate.cli import show_model as show
    from choqolate.cli.terminal import note_existing, open_console, show_next

    results = (
        [] if scores is None else [evaluate(model, tables[scores], concept_counts=()) for model in (trained, edited)]
    )
    compared = compare_evaluations(*results) if results else None
    note_existing(output)
    edited.save(output)
    console = open_console()
    if edited.removal_ is None:
        show.show_edits(console, edited)
    else:
        show.show_removal(console, edited, edited.removal_)
    if compared is not None:
        show.show_comparison(console, compared)
    given = as_options(columns)
    page: list[str | Path] = ["explain", output, "--scores", scores or "SCORES", "-o", f"{output}.html", *given]
    show_next("The model is", output, ["eval", output, scores or "SCORES", *given], page)


def _parse_nodes(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ChoqolateError(f"expected --nodes to be numbers such as 0,3, got {text!r}") from None
