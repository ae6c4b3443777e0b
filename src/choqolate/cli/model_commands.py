"""Commands around a model: demo, fit, eval, remove, apply, export."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from choqolate.cli.application import app
from choqolate.errors import ChoqolateError

if TYPE_CHECKING:
    from choqolate.data.scores import ConceptScores
    from choqolate.estimators.classifier import ChoqolateClassifier
    from choqolate.network.edits import Note


class Data(StrEnum):
    """What the demo runs on."""

    birds = "birds"
    breast_cancer = "breast-cancer"


class Interactions(StrEnum):
    """How concepts interact."""

    pairwise = "pairwise"
    factored = "factored"
    none = "none"


class ClassWeight(StrEnum):
    """How classes are weighted."""

    balanced = "balanced"


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


ScoresFile = Annotated[
    Path, typer.Argument(metavar="SCORES", help="Table of concept scores, .parquet or .csv.", show_default=False)
]
ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of the model.", show_default=False)]
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
) -> None:
    """Do the whole job on what comes with the package: from drawn images to a corrected model, without a network.

    Example: [bold]choqolate demo -o choqolate-demo[/]
    """
    from choqolate.cli import show_demo as show
    from choqolate.cli.terminal import open_console
    from choqolate.demo.birds import run_birds
    from choqolate.demo.birds_page import write_demo_page
    from choqolate.demo.breast_cancer import run_breast_cancer

    if data is Data.breast_cancer:
        show.show_breast_cancer(open_console(), run_breast_cancer(output, n_runs=seeds))
        return
    console = open_console()
    result = run_birds(output, images, n_runs=seeds, tell=lambda step: console.print(step, style="dim", markup=False))
    write_demo_page(result)
    show.show_birds(console, result)


@app.command()
def fit(
    scores: ScoresFile,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the model.", show_default=False)
    ],
    nodes: Annotated[int, typer.Option(metavar="N", help="Nodes; 0 connects concepts to classes directly.")] = 8,
    temperature: Annotated[
        float, typer.Option(metavar="T", help="Of the softmax: small is accurate, large is sparse.")
    ] = 0.005,
    l1: Annotated[float, typer.Option("--l1", metavar="X", help="Strength of the penalty on interactions.")] = 0.01,
    epochs: Annotated[int, typer.Option(metavar="N", help="Passes over the training rows.")] = 100,
    batch_size: Annotated[int, typer.Option(metavar="N", help="Rows a step.")] = 512,
    learning_rate: Annotated[float, typer.Option(metavar="X", help="Step size of Adam.")] = 0.1,
    interactions: Annotated[
        Interactions,
        typer.Option(metavar="KIND", help="pairwise (all pairs), factored (linear in the concepts) or none."),
    ] = Interactions.pairwise,
    rank: Annotated[int, typer.Option(metavar="N", help="Number of products, for factored interactions.")] = 4,
    bipolar: Annotated[bool, typer.Option("--bipolar", help="Let the absence of a concept count as well.")] = False,
    class_weight: Annotated[
        ClassWeight | None,
        typer.Option(metavar="KIND", help="balanced gives every class the same weight.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the initial parameters.")] = 0,
    device: Annotated[str, typer.Option(metavar="NAME", help="Where to train: auto, cpu, cuda, ...")] = "auto",
    leave_out: Annotated[
        list[str] | None,
        typer.Option(metavar="CONCEPT", help="Train without this concept; can be repeated.", show_default=False),
    ] = None,
) -> None:
    """Train a model on a table of concept scores.

    The rows with split "train" are for training; a table with no split is split, 70 to 30, always in the same way.

    Example: [bold]choqolate fit scores.parquet -o model --nodes 8[/]
    """
    from choqolate.analysis.evaluation import evaluate_parts, spurious_concepts
    from choqolate.cli import show_model as show
    from choqolate.cli.terminal import open_console, show_next
    from choqolate.data.scores import ConceptScores
    from choqolate.estimators.model_folder import check_model_folder
    from choqolate.estimators.table_training import fit_scores

    check_model_folder(output)
    table = ConceptScores.load(scores)
    model = fit_scores(
        table,
        leave_out=leave_out or (),
        n_nodes=nodes or None,
        temperature=temperature,
        l1=l1,
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        interactions=interactions.value,
        rank=rank,
        bipolar=bipolar,
        class_weight=class_weight and class_weight.value,
        random_state=seed,
        device=device,
        verbose=True,
    )
    model.set_params(verbose=False).save(output)
    results = evaluate_parts(model, table)
    console = open_console()
    show.show_headline(console, scores, model)
    show.show_summary(console, results)
    show.show_nodes(console, model)
    wanted = "--spurious" if spurious_concepts(model, table) else "CONCEPT"
    removal: list[str | Path] = ["remove", output, wanted, "-o", f"{output}-edited", "--scores", scores]
    page: list[str | Path] = ["explain", output, "--scores", scores, "-o", f"{output}.html"]
    show_next("The model is", output, ["eval", output, scores], page, removal)


@app.command("eval")
def evaluate_model(
    model: ModelFolder,
    scores: ScoresFile,
    split: Annotated[
        Split | None, typer.Option(help="Which rows; by default those held out.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Measure a model on a table of concept scores: accuracy, classes, groups, Gini, coherence.

    Example: [bold]choqolate eval model scores.parquet --split test[/]
    """
    from choqolate.analysis.evaluation import evaluate
    from choqolate.data.scores import ConceptScores
    from choqolate.estimators.model_folder import load

    classifier = load(model)
    result = evaluate(classifier, ConceptScores.load(scores), split and split.value)
    if as_json:
        import json

        typer.echo(json.dumps(result.as_dict(), indent=2, ensure_ascii=False, allow_nan=False))
        return
    from choqolate.cli import show_model as show
    from choqolate.cli.terminal import open_console

    show.show_evaluation(open_console(), f"{model} on {scores}", result, classifier)


@app.command()
def remove(
    model: ModelFolder,
    output: EditedFolder,
    concepts: Annotated[
        list[str] | None, typer.Argument(metavar="CONCEPT", help="Concepts to remove.", show_default=False)
    ] = None,
    words: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Text file with a concept a line.", show_default=False),
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
    from choqolate.analysis.evaluation import marked_concepts
    from choqolate.concepts.vocabulary import Vocabulary
    from choqolate.estimators.model_folder import check_model_folder, load

    check_model_folder(output)
    chosen_nodes = None if nodes is None else _parse_nodes(nodes)
    named = [*(concepts or []), *(Vocabulary.read(words).concepts if words else ())]
    trained = load(model)
    tables = _load_tables(recalibrate, scores)
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
    _show_and_save(trained, edited, output, scores, tables)


@app.command()
def apply(
    model: ModelFolder,
    edits: Annotated[
        Path, typer.Argument(metavar="EDITS", help="File of edits, from save_edits in Python.", show_default=False)
    ],
    output: EditedFolder,
    recalibrate: RecalibrateOn = None,
    scores: MeasureOn = None,
) -> None:
    """Apply the edits of one model to another: by names of concepts, and by what nodes stand for.

    Example: [bold]choqolate apply model edits.json -o edited --scores scores.parquet[/]
    """
    from choqolate.estimators.model_folder import check_model_folder, load

    check_model_folder(output)
    trained = load(model)
    tables = _load_tables(recalibrate, scores)
    edited = trained.apply_edits(edits, recalibrate=_training_rows(trained, tables, recalibrate))
    _show_and_save(trained, edited, output, scores, tables)


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
    from choqolate.cli import show_model as show
    from choqolate.cli.terminal import open_console
    from choqolate.estimators.model_folder import load
    from choqolate.estimators.onnx_file import check_onnx_target

    check_onnx_target(output)
    classifier = load(model)
    classifier.export_onnx(output)
    show.show_export(open_console(), classifier, output)


def _load_tables(*paths: Path | None) -> dict[Path, ConceptScores]:
    """The tables of some options, each read once."""
    from choqolate.data.scores import ConceptScores

    return {path: ConceptScores.load(path) for path in dict.fromkeys(paths) if path is not None}


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
) -> None:
    """Measure an edited model beside the one before, save it, and say what was done and what to do next."""
    from choqolate.analysis.evaluation import evaluate
    from choqolate.cli import show_model as show
    from choqolate.cli.terminal import open_console, show_next

    compared = None if scores is None else (evaluate(trained, tables[scores]), evaluate(edited, tables[scores]))
    edited.save(output)
    console = open_console()
    if edited.removal_ is None:
        show.show_edits(console, edited)
    else:
        show.show_removal(console, edited, edited.removal_)
    if compared is not None:
        show.show_comparison(console, *compared)
    page: list[str | Path] = ["explain", output, "--scores", scores or "SCORES", "-o", f"{output}.html"]
    show_next("The model is", output, ["eval", output, scores or "SCORES"], page)


def _parse_nodes(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ChoqolateError(f"expected --nodes to be numbers such as 0,3, got {text!r}") from None
