"""Commands that compare: all methods, all ways to mitigate a bias, and every table and figure of the paper."""

from __future__ import annotations

import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from choqolate.cli.application import app
from choqolate.cli.engine_options import Address, Engine, EngineName, check_engine
from choqolate.errors import ChoqolateError

if TYPE_CHECKING:
    from choqolate.experiments import Experiment, Options
    from choqolate.experiments.engine.sources import Source


class BundledData(StrEnum):
    """Data that come with the package."""

    birds = "birds"


class Rule(StrEnum):
    """How hyperparameters are chosen."""

    accuracy = "accuracy"
    sparsest = "sparsest"


OwnScores = Annotated[
    Path | None,
    typer.Argument(
        metavar="SCORES",
        help="Table of concept scores, .parquet or .csv; without it, drawn birds.",
        show_default=False,
    ),
]
DataName = Annotated[
    BundledData | None,
    typer.Option("--data", metavar="NAME", help="birds, which are drawn; the default without SCORES or --root."),
]
Seeds = Annotated[
    int | None,
    typer.Option(
        "--seeds",
        metavar="N",
        min=1,
        help="Runs of each; by default as many as in the paper: 20, in sweeps 5.",
        show_default=False,
    ),
]
Quick = Annotated[bool, typer.Option("--quick", help="A first impression: three runs, short sweeps, fewer birds.")]
Nodes = Annotated[int, typer.Option("--nodes", metavar="N", min=1, help="Nodes, of every method.")]
Epochs = Annotated[
    int | None,
    typer.Option(
        "--epochs", metavar="N", min=1, help="Passes over the training rows, of every method.", show_default="100"
    ),
]
RuleName = Annotated[
    Rule,
    typer.Option(
        "--rule",
        metavar="RULE",
        help="How learning rate and penalty are chosen on validation rows: accuracy (the best), or sparsest (the "
        "largest Gini within a point of the best; then CHOQOLATE's temperature is chosen as well).",
    ),
]
Processes = Annotated[
    int | None,
    typer.Option("--processes", metavar="N", min=1, help="How many train at a time.", show_default="one per core"),
]


@app.command()
def compare(
    scores: OwnScores = None,
    data: DataName = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for results, tables and figures.")
    ] = Path("choqolate-compare"),
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Only these: choqolate, pcbm, pscbm, sparse-autoencoder, slr-avd, or an estimator of your own as "
            "module:Class; can be repeated. The first is held against the others.",
            show_default=False,
        ),
    ] = None,
    also: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE:CLASS",
            help="An estimator of your own beside all others; can be repeated.",
            show_default=False,
        ),
    ] = None,
    seeds: Seeds = None,
    quick: Quick = False,
    rule: RuleName = Rule.accuracy,
    nodes: Nodes = 8,
    epochs: Epochs = None,
    processes: Processes = None,
    engine: EngineName = Engine.local,
    address: Address = None,
) -> None:
    """Compare CHOQOLATE with the baselines on your own scores: accuracy, Gini, coherence, a figure, a test.

    Your own takes part if it is a BaseEstimator with fit, predict, transform and, after fit, node_attributions_.

    Resumable: run the same command again to continue. A method that fails is named, the others are compared.

    Example: [bold]choqolate compare scores.parquet -o comparison --seeds 20[/]
    """
    _check_given(scores, data)
    check_engine(engine, address)
    from choqolate.experiments import COMPARISON, Options
    from choqolate.experiments.engine.methods import METHODS, find_method

    chosen = tuple(dict.fromkeys([*(method or METHODS), *(also or [])]))
    for name in chosen:
        find_method(name)
    options = Options(chosen, rule.value, _parameters(nodes, epochs), quick)
    source = _source(scores, data, output, quick)
    _run([COMPARISON], {source.name: source}, output, seeds, options, processes, (engine, address))


@app.command()
def debias(
    scores: OwnScores = None,
    data: DataName = None,
    spurious: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Text file with one spurious concept per line; by default those that SCORES marks."
        ),
    ] = None,
    embeddings: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Vectors of the images, for Ortho-Proj and Ortho-Cali.", show_default=False
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for results and tables.")
    ] = Path("choqolate-debias"),
    seeds: Seeds = None,
    quick: Quick = False,
    temperature: Annotated[
        float,
        typer.Option(
            metavar="T", help="Softmax temperature. Lower values favor accuracy, higher values favor sparsity."
        ),
    ] = 0.005,
    nodes: Nodes = 8,
    epochs: Epochs = None,
    processes: Processes = None,
    engine: EngineName = Engine.local,
    address: Address = None,
) -> None:
    """Compare all ways to mitigate a bias: removal in every mode, Group-DRO, DFR, projections, retraining.

    SCORES needs a column "group" (such as bird and background) to tell the worst group.

    Example: [bold]choqolate debias scores.parquet --spurious words.txt -o debiasing[/]
    """
    _check_given(scores, data)
    check_engine(engine, address)
    from choqolate.concepts.vocabulary import Vocabulary
    from choqolate.experiments import Options, find_experiment

    mitigation = find_experiment("mitigation")
    words = Vocabulary.read(spurious).concepts if spurious is not None else ()
    source = _source(scores, data, output, quick, spurious=words, embeddings=embeddings)
    misfit = mitigation.misfit(source)
    if misfit is not None:
        raise ChoqolateError(misfit)
    options = Options(parameters=_parameters(nodes, epochs) | {"temperature": temperature}, quick=quick)
    _run([mitigation], {source.name: source}, output, seeds, options, processes, (engine, address))


@app.command()
def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Which table or figure; by default all.", show_default=False)
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder with copies of the data sets (`choqolate datasets` lists them), or with their scores as "
            "NAME.parquet, such as cub.parquet. The places of COCO come as coco.csv (image, class).",
            show_default=False,
        ),
    ] = None,
    scores: Annotated[
        Path | None,
        typer.Option(metavar="SCORES", help="Run it on this table of scores of your own instead.", show_default=False),
    ] = None,
    data: DataName = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for results, tables and figures.")
    ] = Path("choqolate-paper"),
    backbone: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Encoder; by default openai/clip-vit-large-patch14-336, as in the paper."),
    ] = None,
    seeds: Seeds = None,
    quick: Quick = False,
    rule: RuleName = Rule.accuracy,
    epochs: Epochs = None,
    processes: Processes = None,
    engine: EngineName = Engine.local,
    address: Address = None,
    list_them: Annotated[bool, typer.Option("--list", help="List the tables and figures, and stop.")] = False,
) -> None:
    """Reproduce the paper's tables and figures, its numbers beside ours. Missing data sets are reported, the rest runs.

    Example: [bold]choqolate reproduce accuracy --root DATA -o paper[/]
    """
    _check_given(scores, data)
    check_engine(engine, address)
    if root is not None and (data is not None or scores is not None):
        raise ChoqolateError("Expected one of --root, --scores and --data, but two are given. Leave one out.")
    from choqolate.cli import show_research as show
    from choqolate.experiments import EXPERIMENTS, Options, find_experiment
    from choqolate.experiments.engine.sources import paper_sources

    if list_them:
        show.show_experiments(EXPERIMENTS.values())
        return
    chosen = list(EXPERIMENTS.values()) if name is None else [find_experiment(name)]
    options = Options(rule=rule.value, parameters=_parameters(8, epochs), quick=quick)
    if root is None:
        source = _source(scores, data, output, quick)
        _run(chosen, {source.name: source}, output, seeds, options, processes, (engine, address))
        return
    wanted = list(dict.fromkeys(source for experiment in chosen for source in experiment.data))
    sources, absent = paper_sources(wanted, root, output, backbone, tell=show.tell)
    _run(chosen, sources, output, seeds, options, processes, (engine, address), absent)


def _check_given(scores: Path | None, data: BundledData | None) -> None:
    """Mistakes that show before anything heavy is loaded."""
    if scores is not None and data is not None:
        raise ChoqolateError("Expected SCORES or --data birds, but both are given. Leave one out.")
    if scores is not None and not scores.is_file():
        came = "is a folder" if scores.is_dir() else "does not exist"
        raise ChoqolateError(f"Expected a score table, but {scores} {came}.")


def _parameters(nodes: int, epochs: int | None) -> dict[str, Any]:
    return {"n_nodes": nodes} | ({} if epochs is None else {"epochs": epochs})


def _source(
    scores: Path | None,
    data: BundledData | None,
    output: Path,
    quick: bool,
    *,
    spurious: tuple[str, ...] = (),
    embeddings: Path | None = None,
) -> Source:
    """The user's table, or birds."""
    from dataclasses import replace

    from choqolate.cli.show_research import tell
    from choqolate.datasets.birds import N_IMAGES
    from choqolate.experiments.engine.reproduction import check_folder
    from choqolate.experiments.engine.sources import QUICK_IMAGES, birds_source, table_source

    check_folder(output)
    if scores is not None:
        return table_source(scores, spurious=spurious, embeddings=embeddings)
    if embeddings is not None:
        raise ChoqolateError("Expected no --embeddings with birds, which have their own. Leave it out.")
    n_images = QUICK_IMAGES if quick else N_IMAGES
    tell(f"no scores given: on {n_images:,} drawn birds" if data is None else f"drawing {n_images:,} birds")
    return replace(birds_source(output, n_images), spurious=spurious)


def _run(
    experiments: list[Experiment],
    sources: dict[str, Source],
    output: Path,
    seeds: int | None,
    options: Options,
    processes: int | None,
    where: tuple[Engine, str | None],
    absent: dict[str, str] | None = None,
) -> None:
    from choqolate.cli import show_research as show
    from choqolate.cli.terminal import note
    from choqolate.experiments import reproduce as run

    try:
        done = run(
            experiments,
            sources,
            output,
            absent=absent,
            seeds=seeds,
            options=options,
            processes=processes,
            engine=where[0].value,
            address=where[1],
            command=shlex.join(["choqolate", *sys.argv[1:]]),
            tell=show.tell,
        )
    except KeyboardInterrupt:
        note("finished runs are kept: run the same command again to continue")
        raise
    show.show_reproductions(done, output)
    if all(one.shown is None for one in done):
        reasons = {reason for one in done for reason in one.lacking.values()}
        raise ChoqolateError(f"Nothing could be made: {reasons.pop() if len(reasons) == 1 else 'see the notes above.'}")
    failed = dict.fromkeys(sentence for one in done for sentence in one.failed)
    if failed:
        raise ChoqolateError(f"{' '.join(failed)} All other results are written.")
