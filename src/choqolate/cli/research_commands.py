"""Commands that compare: all methods, all ways to mitigate a bias, and every table and figure of the paper."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from choqolate.cli.application import app
from choqolate.cli.arguments import Columns, as_options, names_columns
from choqolate.cli.control_options import check_control_options
from choqolate.cli.engine_options import Address, Engine, EngineName, check_engine
from choqolate.cli.research_options import (
    Also,
    BundledData,
    ControlEmbeddings,
    DataName,
    Embeddings,
    Epochs,
    FewNodes,
    Images,
    Methods,
    Nodes,
    Others,
    OwnScores,
    OwnSteps,
    Processes,
    Quick,
    Rule,
    RuleName,
    Seeds,
    Spurious,
    Steps,
)
from choqolate.errors import ChoqolateError

if TYPE_CHECKING:
    from choqolate.experiments import Experiment, Options
    from choqolate.experiments.engine.sources import Source


@app.command()
@names_columns
def compare(
    columns: Columns,
    scores: OwnScores = None,
    data: DataName = None,
    spurious: Spurious = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for results, tables and figures.")
    ] = Path("choqolate-compare"),
    method: Methods = None,
    also: Also = None,
    others: Others = None,
    embeddings: ControlEmbeddings = None,
    seeds: Seeds = None,
    quick: Quick = False,
    rule: RuleName = Rule.accuracy,
    nodes: Nodes = 8,
    epochs: Epochs = None,
    steps: Steps = None,
    processes: Processes = None,
    engine: EngineName = Engine.local,
    address: Address = None,
) -> None:
    """Compare CHOQOLATE with the baselines on your own scores: accuracy, sparsity and coherence, with controls.

    Add your own estimator with --also: a scikit-learn BaseEstimator with fit, predict, transform and, after fit,
    node_attributions_.

    As controls, the same models are trained on random names and random directions. Logistic regression on all scores is
    the ceiling.

    Spurious concepts are removed from every trained model, to show whether the model still follows the bias.

    Resumable: run the same command again to continue. A method that fails is reported by name, and the others are
    still compared.

    Example: [bold]choqolate compare scores.parquet -o comparison --seeds 20[/]
    """
    _check_given(scores, data)
    if method and (others is not None or embeddings is not None):
        given = "--embeddings" if others is None else "--others"
        raise ChoqolateError(
            f"Expected {given} without --method, because --method leaves the controls out. Leave out one of the two."
        )
    check_control_options(True, others, embeddings)
    check_engine(engine, address)
    _show_start(scores, output)
    from choqolate.analysis.control_tables import NAMES
    from choqolate.experiments import COMPARISON, Options
    from choqolate.experiments.engine.methods import METHODS, check_methods
    from choqolate.experiments.engine.sources import control_problem

    chosen = tuple(dict.fromkeys([*(method or METHODS), *(also or [])]))
    check_methods(chosen)
    options = Options(chosen, rule.value, _parameters(nodes, epochs, steps), quick, controls=method is None)
    words = _words(spurious)
    source = _source(scores, columns, data, output, quick, spurious=words, embeddings=embeddings, others=others)
    problem = None if others is None else control_problem(source, NAMES)
    if problem is not None:
        raise ChoqolateError(problem)
    _run([COMPARISON], {source.name: source}, output, seeds, options, processes, (engine, address))


@app.command()
@names_columns
def debias(
    columns: Columns,
    scores: OwnScores = None,
    data: DataName = None,
    spurious: Spurious = None,
    embeddings: Embeddings = None,
    images: Images = None,
    also: Also = None,
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
    nodes: FewNodes = 8,
    epochs: Epochs = None,
    steps: OwnSteps = None,
    processes: Processes = None,
    engine: EngineName = Engine.local,
    address: Address = None,
) -> None:
    """Compare all ways to mitigate a bias: removal in every mode, Group-DRO, DFR, projections, CBDebug, retraining.

    SCORES needs a column "group", with values such as "landbird on water", to find the worst group. Add your own
    estimator with --also: it is evaluated as trained, and retrained without the spurious concepts.

    Example: [bold]choqolate debias scores.parquet --spurious words.txt -o debiasing[/]
    """
    _check_given(scores, data)
    if steps is not None and not also:
        raise ChoqolateError("--steps has no effect without --also. Add --also.")
    check_engine(engine, address)
    _show_start(scores, output)
    from choqolate.experiments import Options, find_experiment
    from choqolate.experiments.engine.methods import METHODS, check_methods

    methods = tuple(dict.fromkeys([*METHODS, *(also or [])]))
    check_methods(methods)
    mitigation = find_experiment("mitigation")
    source = _source(
        scores, columns, data, output, quick, spurious=_words(spurious), embeddings=embeddings, images=images
    )
    misfit = mitigation.misfit(source)
    if misfit is not None:
        raise ChoqolateError(misfit)
    parameters = _parameters(nodes, epochs, steps) | {"temperature": temperature}
    options = Options(methods, parameters=parameters, quick=quick)
    _run([mitigation], {source.name: source}, output, seeds, options, processes, (engine, address))


@app.command()
@names_columns
def reproduce(
    columns: Columns,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Table or figure; see --list. All by default.", show_default=False),
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder with copies of the data sets (`choqolate datasets` lists them), or with their scores as "
            "NAME.parquet, such as cub.parquet. COCO also needs a file with location classes: coco.csv (columns image, "
            "class) or coco.places.csv (columns image, place); see `choqolate places`.",
            show_default=False,
        ),
    ] = None,
    scores: Annotated[
        Path | None,
        typer.Option(
            metavar="SCORES",
            help="Run on your own table of scores instead of the paper's data sets.",
            show_default=False,
        ),
    ] = None,
    spurious: Spurious = None,
    embeddings: Embeddings = None,
    images: Images = None,
    data: DataName = None,
    also: Also = None,
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
    steps: Steps = None,
    processes: Processes = None,
    engine: EngineName = Engine.local,
    address: Address = None,
    list_them: Annotated[bool, typer.Option("--list", help="List the tables and figures, and exit.")] = False,
) -> None:
    """Reproduce the paper's tables and figures, with its numbers next to ours.

    Missing data sets are reported; everything else runs. To run on your own score table only, use --scores. To include
    it next to the paper's data sets, put it into the --root folder as a .parquet file. To include your own method, use
    --also.

    Example: [bold]choqolate reproduce accuracy --root DATA -o paper[/]
    """
    _check_given(scores, data)
    check_engine(engine, address)
    if root is not None and columns:
        option, *_ = as_options(columns)
        raise ChoqolateError(f"Expected {option} with --scores, but it is given with --root. Leave it out.")
    if root is not None and (data is not None or scores is not None):
        raise ChoqolateError("Expected one of --root, --scores and --data, but two are given. Leave one out.")
    for option, value in {"--spurious": spurious, "--embeddings": embeddings, "--images": images}.items():
        if root is not None and value is not None:
            raise ChoqolateError(f"Expected {option} with --scores, but it is given with --root. Leave it out.")
    if not list_them:
        _show_start(scores or root, output)
    from choqolate.cli import show_research as show
    from choqolate.cli.terminal import note_existing
    from choqolate.experiments import EXPERIMENTS, Options, find_experiment
    from choqolate.experiments.engine.methods import METHODS, check_methods
    from choqolate.experiments.engine.reproduction import check_folder
    from choqolate.experiments.engine.sources import paper_sources

    if list_them:
        show.show_experiments(EXPERIMENTS.values())
        return
    chosen = list(EXPERIMENTS.values()) if name is None else [find_experiment(name)]
    methods = tuple(dict.fromkeys([*METHODS, *(also or [])]))
    check_methods(methods)
    options = Options(methods, rule.value, _parameters(8, epochs, steps), quick)
    if root is None:
        words = _words(spurious)
        source = _source(scores, columns, data, output, quick, spurious=words, embeddings=embeddings, images=images)
        _run(chosen, {source.name: source}, output, seeds, options, processes, (engine, address))
        return
    check_folder(output)
    note_existing(output, continued=True)
    wanted = list(dict.fromkeys(source for experiment in chosen for source in experiment.data))
    sources, absent = paper_sources(wanted, root, output, backbone, tell=show.tell)
    _run(chosen, sources, output, seeds, options, processes, (engine, address), absent)


def _show_start(source: Path | None, output: Path) -> None:
    from choqolate.cli.terminal import show_start

    if source is None:
        show_start("starting in", output)
    else:
        show_start("reading", source)


def _check_given(scores: Path | None, data: BundledData | None) -> None:
    """Mistakes that show before anything heavy is loaded."""
    if scores is not None and data is not None:
        raise ChoqolateError("Expected SCORES or --data birds, but both are given. Leave one out.")
    if scores is not None and not scores.is_file():
        came = "is a folder" if scores.is_dir() else "does not exist"
        raise ChoqolateError(f"Expected a score table, but {scores} {came}.")


def _parameters(nodes: int, epochs: int | None, steps: int | None = None) -> dict[str, Any]:
    if epochs is not None and steps is not None:
        raise ChoqolateError("Expected --epochs or --steps, but both are given. Leave one out.")
    given = {"n_nodes": nodes or None, "epochs": epochs, "steps": steps}
    return {name: value for name, value in given.items() if name == "n_nodes" or value is not None}


def _words(file: Path | None) -> tuple[str, ...]:
    from choqolate.concepts.vocabulary import Vocabulary

    return () if file is None else Vocabulary.read(file).concepts


def _source(
    scores: Path | None,
    columns: Columns,
    data: BundledData | None,
    output: Path,
    quick: bool,
    *,
    spurious: tuple[str, ...] = (),
    embeddings: Path | None = None,
    others: Path | None = None,
    images: Path | None = None,
) -> Source:
    """The user's table, or birds."""
    from dataclasses import replace

    from choqolate.cli.show_research import tell
    from choqolate.cli.terminal import note_columns, note_existing
    from choqolate.datasets.birds import N_IMAGES
    from choqolate.experiments.engine.reproduction import check_folder
    from choqolate.experiments.engine.sources import QUICK_IMAGES, birds_source, table_source

    check_folder(output)
    note_existing(output, continued=True)
    if scores is not None:
        source = table_source(scores, spurious=spurious, embeddings=embeddings, others=others, images=images, **columns)
        note_columns(scores, columns)
        return source
    if columns:
        raise ChoqolateError(f"Expected SCORES with {as_options(columns)[0]}, but none are given. Name the table.")
    if embeddings is not None:
        raise ChoqolateError("Expected no --embeddings with birds, which have their own. Leave it out.")
    if images is not None:
        raise ChoqolateError("Expected no --images with birds, which have their own. Leave it out.")
    if others is not None:
        raise ChoqolateError("Expected SCORES with --others, but none are given. Give a table of the same images.")
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
