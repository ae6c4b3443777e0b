"""The command that trains a model: fit."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from choqolate.cli.application import app
from choqolate.cli.arguments import Columns, ScoresFile, Stream, as_options, names_columns
from choqolate.cli.engine_options import Address, Engine, EngineName, check_engine
from choqolate.errors import ChoqolateError

if TYPE_CHECKING:
    from choqolate.data.score_file import ScoreFile
    from choqolate.data.scores import ConceptScores
    from choqolate.estimators.classifier import ChoqolateClassifier


class Interactions(StrEnum):
    """How concepts interact."""

    auto = "auto"
    pairwise = "pairwise"
    factored = "factored"
    none = "none"


class ClassInteractions(StrEnum):
    """How nodes interact."""

    pairwise = "pairwise"
    none = "none"


class Start(StrEnum):
    """How nodes start."""

    random = "random"
    clusters = "clusters"


class Schedule(StrEnum):
    """How the learning rate moves."""

    constant = "constant"
    cosine = "cosine"


class ClassWeight(StrEnum):
    """How classes are weighted."""

    balanced = "balanced"


@app.command()
@names_columns
def fit(
    scores: ScoresFile,
    columns: Columns,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the model.", show_default=False)
    ],
    paper: Annotated[
        bool,
        typer.Option(
            "--paper",
            help="Use the paper's settings (8 nodes, all pairs, temperature 0.005, random start, constant learning "
            "rate) for everything that is not given, instead of a search.",
        ),
    ] = False,
    sparsity: Annotated[
        float | None,
        typer.Option(
            metavar="GINI",
            min=0.0,
            max=1.0,
            help="Choose the most accurate setting with at least this Attribution Gini, such as 0.9.",
            show_default=False,
        ),
    ] = None,
    trade_off: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw accuracy against sparsity for all settings of the search, with l1 logistic regression beside "
            "them: .png, .svg or .pdf.",
            show_default=False,
        ),
    ] = None,
    nodes: Annotated[
        str | None,
        typer.Option(
            metavar="N", help="Number of nodes, or auto; 0 connects concepts to classes directly. Searched by default."
        ),
    ] = None,
    temperature: Annotated[
        str | None,
        typer.Option(
            metavar="T",
            help="Softmax temperature, or auto. Lower values favor accuracy, higher values favor sparsity. Searched by "
            "default.",
        ),
    ] = None,
    interactions: Annotated[
        Interactions | None,
        typer.Option(
            metavar="KIND",
            help="Interactions of concepts: pairwise (all pairs), factored (linear in the concepts), none (weighted "
            "means) or auto. Searched by default.",
            show_default=False,
        ),
    ] = None,
    class_interactions: Annotated[
        ClassInteractions | None,
        typer.Option(
            metavar="KIND",
            help="Interactions of nodes in the second layer: pairwise or none. By default none if --interactions is "
            "none, else pairwise.",
            show_default=False,
        ),
    ] = None,
    bipolar: Annotated[
        bool, typer.Option("--bipolar", help="Let the absence of a concept count as well. Searched by default.")
    ] = False,
    no_bipolar: Annotated[
        bool, typer.Option("--no-bipolar", help="Do not use the absence of concepts as inputs.")
    ] = False,
    init: Annotated[
        Start | None,
        typer.Option(
            metavar="KIND",
            help="Start of the nodes: random, or clusters (each node starts on one cluster of correlated concepts). "
            "By default clusters with a search, else random.",
            show_default=False,
        ),
    ] = None,
    schedule: Annotated[
        Schedule | None,
        typer.Option(
            metavar="KIND",
            help="Learning rate: constant, or cosine (it falls to zero). By default cosine with a search, else "
            "constant.",
            show_default=False,
        ),
    ] = None,
    rank: Annotated[
        str, typer.Option(metavar="N", help="Number of products, for factored interactions, or auto to search it.")
    ] = "4",
    l1: Annotated[float, typer.Option("--l1", metavar="X", help="Strength of the penalty on interactions.")] = 0.01,
    epochs: Annotated[int, typer.Option(metavar="N", help="Passes over the training rows.")] = 100,
    batch_size: Annotated[int, typer.Option(metavar="N", help="Rows per step.")] = 512,
    learning_rate: Annotated[float, typer.Option(metavar="X", help="Step size of Adam.")] = 0.1,
    class_weight: Annotated[
        ClassWeight | None,
        typer.Option(metavar="KIND", help="balanced gives every class the same weight.", show_default=False),
    ] = None,
    runs: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="Train this many seeds and mark how often each node of the model recurs; 1 skips this.",
        ),
    ] = 3,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the initial parameters.")] = 0,
    device: Annotated[str, typer.Option(metavar="NAME", help="Where to train: auto, cpu, cuda, ...")] = "auto",
    leave_out: Annotated[
        list[str] | None,
        typer.Option(metavar="CONCEPT", help="Train without this concept; can be repeated.", show_default=False),
    ] = None,
    stream: Stream = False,
    workers: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, help="Processes that train together, each on its part of the rows; implies --stream."
        ),
    ] = 1,
    engine: EngineName = Engine.local,
    address: Address = None,
) -> None:
    """Train a model on a table of concept scores.

    Settings that are not given (nodes, temperature, interactions, bipolar) are chosen by a search on the training rows.

    The rule: among the settings about as sparse as the paper's, the fewest concepts per class near the best accuracy.

    The rows with split "train" are for training; a table with no split is split, 70 to 30, always in the same way.

    Example: [bold]choqolate fit scores.parquet -o model[/]
    """
    from choqolate.cli.terminal import note, note_existing, open_console, open_table, show_next, show_start

    show_start("reading", scores)
    from choqolate._util.files import check_figure
    from choqolate.analysis.evaluation import evaluate_parts, note_numbers, spurious_concepts
    from choqolate.cli import show_model as show
    from choqolate.cli.show_formulas import show_formulas
    from choqolate.data.score_file import ScoreFile
    from choqolate.estimators.model_folder import check_model_folder
    from choqolate.estimators.table_training import check_training, fit_scores, training_sizes

    check_engine(engine, address)
    if bipolar and no_bipolar:
        raise ChoqolateError("Expected --bipolar or --no-bipolar, but got both. Leave one out.")
    parameters = _settings(
        paper,
        n_nodes=_whole("--nodes", nodes),
        temperature=_number("--temperature", temperature),
        interactions=interactions and interactions.value,
    )
    check_model_folder(output)
    if trade_off is not None:
        check_figure(trade_off)
    console = open_console()
    asking = {"--stream": stream, "--workers": workers > 1, "--engine ray": engine is Engine.ray}
    table = open_table(scores, [option for option, is_asking in asking.items() if is_asking], columns)
    parameters |= dict(
        class_interactions=class_interactions and class_interactions.value,
        bipolar=True if bipolar else False if no_bipolar or paper else None,
        init=init.value if init else "random" if paper else None,
        schedule=schedule.value if schedule else "constant" if paper else None,
        sparsity=sparsity,
        rank=_whole("--rank", rank),
        l1=l1,
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        class_weight=class_weight and class_weight.value,
        random_state=seed,
        device=device,
    )
    check_training(table, leave_out=leave_out or (), advice="--interactions factored", **parameters)
    if isinstance(table, ScoreFile):
        show.show_sample(console, *training_sizes(table, leave_out=leave_out or ()))
    show.show_plan(console, parameters)
    note_existing(output, trade_off)
    model = fit_scores(
        table,
        leave_out=leave_out or (),
        n_runs=runs,
        workers=workers,
        engine=engine.value,
        address=address,
        tell=note,
        verbose=True,
        **parameters,
    )
    model.set_params(verbose=False).save(output)
    results = evaluate_parts(model, table, verbose=True)
    model = note_numbers(model, results)
    model.save(output)
    show.show_headline(console, scores, model)
    show.show_search(console, model)
    show.show_summary(console, results)
    show.show_nodes(console, model)
    show_formulas(console, model, output)
    if trade_off is not None:
        _draw_trade_off(table, model, leave_out or [], trade_off)
    wanted = "--spurious" if spurious_concepts(model, table) else "CONCEPT"
    given = as_options(columns)
    removal: list[str | Path] = ["remove", output, wanted, "-o", f"{output}-edited", "--scores", scores, *given]
    page: list[str | Path] = ["explain", output, "--scores", scores, "-o", f"{output}.html", *given]
    show_next("The model is", output, ["eval", output, scores, *given], page, removal)


def _settings(paper: bool, **given: Any) -> dict[str, Any]:
    """What was given; the rest is the paper's, the default of a training, or left to a search. 0 nodes are none."""
    chosen = {name: value for name, value in given.items() if value is not None}
    if not paper:
        chosen = dict.fromkeys(given, "auto") | chosen
    return chosen | ({"n_nodes": chosen["n_nodes"] or None} if "n_nodes" in chosen else {})


def _whole(option: str, text: str | None) -> int | str | None:
    if text is None or text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise ChoqolateError(f"Expected {option} to be a whole number, or auto, but got {text!r}.") from None


def _number(option: str, text: str | None) -> float | str | None:
    if text is None or text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise ChoqolateError(f"Expected {option} to be a number above 0, or auto, but got {text!r}.") from None


def _draw_trade_off(
    table: ConceptScores | ScoreFile, model: ChoqolateClassifier, leave_out: list[str], path: Path
) -> None:
    import matplotlib

    from choqolate.analysis.trade_off import trade_off
    from choqolate.cli.terminal import say
    from choqolate.estimators.search_record import AUTO, SEARCHED
    from choqolate.plots.style import save_figure

    matplotlib.use("Agg")  # no screen is needed to write a file
    parameters = model.get_params() | {"verbose": True}
    said = [""]
    if model.search_ is None:
        parameters |= dict.fromkeys(SEARCHED, AUTO) | {"init": None, "schedule": None, "bipolar": None}
        said = ["", "What a search on the same rows finds:"]
    result = trade_off(table, leave_out=leave_out, search=model.search_, **parameters)
    save_figure(result.plot()[0], path)
    say("\n".join([*said, *result.lines(), f"The trade-off is drawn in {path}."]))
