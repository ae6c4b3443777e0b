"""Training on tables of concept scores: which rows are for training, and what a model remembers of them."""

from __future__ import annotations

import hashlib
import platform
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from choqolate._util.checks import check_number, find_concepts
from choqolate._util.progress import item_bar
from choqolate._util.text import counted
from choqolate.data.provenance import Provenance, TrainingRecord
from choqolate.data.score_file import ScoreFile, Table, open_scores
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError, ChoqolateWarning
from choqolate.estimators.affordable_pairs import FACTORED, affordable
from choqolate.estimators.classifier import ChoqolateClassifier
from choqolate.estimators.data_parallel import Workers
from choqolate.estimators.fit_calibration import VALIDATION, calibrate_on_second_run, validation_rows
from choqolate.estimators.seed_runs import fit_runs, fit_runs_prepared
from choqolate.estimators.side_by_side import RunSpec, Statistics, TrainingSet
from choqolate.estimators.streamed_training import fit_file
from choqolate.estimators.training_file import class_shares, measure
from choqolate.explain.model_protocols import ConceptModel
from choqolate.explain.node_stability import NodeStability, node_stability

_SAMPLE = 64  # training rows that a model recognises


def fit_scores(
    table: ConceptScores | ScoreFile | str | PathLike[str],
    *,
    leave_out: Iterable[str] = (),
    n_runs: int = 1,
    calibrate: bool = True,
    workers: int = 1,
    engine: str = "local",
    address: str | None = None,
    tell: Callable[[str], None] = lambda _: None,
    **parameters: Any,
) -> ChoqolateClassifier:
    """Train on the rows for training, calibrate, and note in ``provenance_`` where they come from.

    A table without a split is split by :meth:`ConceptScores.with_split`, always in the same way, so that
    :func:`~choqolate.evaluate` finds the rows that were not trained on.

    A :class:`~choqolate.data.score_file.ScoreFile` is trained on in place, whatever its size: memory does not grow with
    the number of rows. What needs rows in memory (the search, the start of the nodes, ``n_runs``, calibration) then
    uses a fixed sample of at most 20,000 training rows and 256 MB.

    Args:
        table: scores with labels, or the file of them. A file that would take more than a third of the available
            memory, and any file with ``workers`` or ``engine``, stays where it is.
        leave_out: concepts to train without.
        n_runs: with two or more, train this many seeds with the same settings; ``stability_`` then says how often
            each node of the model recurs in the other runs. A model of one layer has no nodes to find again.
        calibrate: fit the temperature of the probabilities on the table's rows for validation if at least 100 are
            labelled, else on training rows that a second network held out, see
            :func:`~choqolate.estimators.fit_calibration.calibrate_on_second_run`.
        workers: number of processes that train on a file together. The result does not depend on it, except for
            rounding, as long as it divides 8.
        engine: where they run: ``"local"``, or ``"ray"`` as actors of a Ray cluster that can read the file.
        address: of the cluster, ``"host:port"`` or ``"auto"``; by default Ray runs on this machine alone.
        tell: called with a sentence before something slow on a cluster.
        **parameters: of :class:`ChoqolateClassifier`. If ``interactions`` are not given and all pairs of concepts do
            not fit into memory, they are factored, and a warning says so.

    Raises:
        ChoqolateError: if there is nothing to train on, if all pairs are asked for and do not fit into memory, or if
            a worker stops before the end.

    >>> rng = np.random.default_rng(0)
    >>> labels = np.array(["cat", "dog"] * 50)
    >>> scores = rng.random((100, 3)) + (labels == "cat")[:, None] * [1, -1, 0]
    >>> table = ConceptScores(scores, ["whiskers", "collar", "grass"], labels=labels)
    >>> model = fit_scores(table, n_nodes=4, epochs=20)
    >>> model.provenance_.data.split, model.provenance_.data.rows
    ('made', 70)
    """
    crew = Workers(workers, engine, address)
    crew.check()
    check_number("n_runs", n_runs, minimum=1, whole=True)
    table = _opened(table, stream=None if crew.are_here else True)
    left_out = tuple(dict.fromkeys(leave_out))
    if isinstance(table, ScoreFile):
        in_file = _training_part(table, left_out)
        model = _classifier(in_file, parameters)
        model._check_parameters()  # before the passes over the file
        rows = in_file.sample()
        fit_file(model, in_file, rows, crew, tell)
        with item_bar(1, "fingerprint of the table", enabled=model.verbose):
            model.provenance_ = _provenance(table, in_file, left_out)
    else:
        if not crew.are_here:
            raise ChoqolateError(
                "Expected a Parquet file for several workers, but got a table in memory. Save it as .parquet and give "
                "its path."
            )
        rows = _training_part(table, left_out)
        model = _classifier(rows, parameters)
        model.fit(rows, rows.labels)
        model.provenance_ = _provenance(table, rows, left_out)
    if n_runs > 1 and not model.one_layer_:
        with _warning_instead("How often nodes recur is not known"):
            model.stability_ = _stability(model, rows, n_runs)
    if calibrate:
        with _warning_instead("The probabilities are not calibrated"):
            held_out = validation_rows(model, table)
            if held_out is None:
                return calibrate_on_second_run(model, rows)
            return model.calibrate(held_out, source=VALIDATION)
    return model


@contextmanager
def _warning_instead(missing: str) -> Iterator[None]:
    """Warn where an error would lose the model that is trained by now."""
    try:
        yield
    except ChoqolateError as error:
        warnings.warn(f"{missing}. {error}", ChoqolateWarning, stacklevel=4)


def _stability(model: ChoqolateClassifier, rows: ConceptScores, n_runs: int) -> NodeStability:
    """How often the nodes of a model recur in runs that differ in their seed only."""
    settings = model.trained_settings
    first = settings["random_state"] if isinstance(settings["random_state"], int | np.integer) else 0
    again = ChoqolateClassifier(**settings | {"track": False, "random_state": first})
    seeds = [(int(first) + offset) % 2**32 for offset in range(1, n_runs)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChoqolateWarning)  # the model's own training has said it
        data, _ = again.prepare(rows, rows.labels, known=Statistics.of(model.network_))
        others = fit_runs_prepared(again, data, [RunSpec(seed, again.temperature_) for seed in seeds])
    return node_stability([model, *others]).of_run(0)


def fit_scores_runs(
    table: ConceptScores | str | PathLike[str],
    seeds: Iterable[int],
    *,
    leave_out: Iterable[str] = (),
    **parameters: Any,
) -> list[ChoqolateClassifier]:
    """What :func:`fit_scores` does, once for each seed, side by side; parameters are those of :func:`fit_runs`.

    Runs are calibrated where the table has rows for validation: that takes no second training.
    """
    table, left_out = _loaded(table), tuple(dict.fromkeys(leave_out))
    rows = _training_part(table, left_out)
    provenance = _provenance(table, rows, left_out)
    runs = fit_runs(rows, rows.labels, seeds, **_affordable(rows, parameters))
    for run in runs:
        run.provenance_ = provenance
    held_out = validation_rows(runs[0], table)
    return runs if held_out is None else [run.calibrate(held_out, source=VALIDATION) for run in runs]


class PreparedTraining(NamedTuple):
    """What :func:`fit_scores` would train: the classifier, not fitted yet, its rows and its seed."""

    classifier: ChoqolateClassifier
    data: TrainingSet
    seed: int


def prepare_scores(
    table: ConceptScores | ScoreFile | str | PathLike[str], *, leave_out: Iterable[str] = (), **parameters: Any
) -> PreparedTraining:
    """What :func:`fit_scores` does before it trains, with the same arguments; of a file, the rows are its sample."""
    table = _opened(table)
    if isinstance(table, ScoreFile):
        in_file = _training_part(table, leave_out, stacklevel=4)
        classifier, rows = _classifier(in_file, parameters, stacklevel=5), in_file.sample()
        known = measure(in_file, verbose=classifier.verbose)
        return PreparedTraining(classifier, *classifier.prepare(rows, rows.labels, known=known))
    rows = _training_part(table, leave_out, stacklevel=4)
    classifier = _classifier(rows, parameters, stacklevel=5)
    return PreparedTraining(classifier, *classifier.prepare(rows, rows.labels))


def check_training(
    table: ConceptScores | ScoreFile, *, leave_out: Iterable[str] = (), advice: str = FACTORED, **parameters: Any
) -> None:
    """Find out before the work, not after it, that :func:`fit_scores` cannot train with these arguments.

    Of a file, the scores are not read. ``advice`` is how the caller asks for factored interactions.

    Raises:
        ChoqolateError: what it would raise.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChoqolateWarning)  # they come again with the training
        if isinstance(table, ScoreFile):
            in_file = _training_part(table, leave_out)
            _classifier(in_file, parameters, advice=advice)._check_parameters()
            class_shares(in_file)
        else:
            rows = _training_part(table, leave_out)
            _classifier(rows, parameters, advice=advice).prepare(rows, rows.labels)


def training_sizes(table: ScoreFile, *, leave_out: Iterable[str] = ()) -> tuple[int, int]:
    """How many training rows of a file :func:`fit_scores` needs in memory, and how many there are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChoqolateWarning)  # they come again with the training
        rows = _training_part(table, leave_out)
    return rows.sample_size(), len(rows)


def training_rows(model: ConceptModel, table: ConceptScores) -> ConceptScores:
    """The rows of a table for training if it has some, else all. Labels are not needed."""
    if table.split is None and was_split_for(model, table):
        table = table.with_split()
    return table.part("train") if table.rows.has_part("train") else table


def was_split_for(model: ConceptModel, table: ConceptScores | ScoreFile) -> bool:
    """Whether the model was trained on this table, with a split made for it."""
    data = model.provenance_.data
    return data.split == "made" and data.fingerprint == table.fingerprint


def n_sampled_rows(model: ConceptModel, rows: ConceptScores | ScoreFile) -> int:
    """How many of the training rows that the model remembers are among the rows of a table."""
    sample = set(model.provenance_.data.sample or ())
    if not sample:
        return 0
    found = (sample.intersection(_row_keys(block, model.concepts_)) for block in rows.blocks())
    return len(set().union(*found))


def package_versions() -> dict[str, str]:
    """Versions of what a model is trained with."""
    from choqolate import __version__

    packages = {"choqolate": __version__, "torch": str(torch.__version__), "numpy": np.__version__}
    return packages | {"Python": platform.python_version()}


def _loaded(table: ConceptScores | str | PathLike[str]) -> ConceptScores:
    return ConceptScores.load(Path(table)) if isinstance(table, str | PathLike) else table


def _opened(
    table: ConceptScores | ScoreFile | str | PathLike[str], stream: bool | None = None
) -> ConceptScores | ScoreFile:
    return open_scores(Path(table), stream=stream) if isinstance(table, str | PathLike) else table


def _training_part(table: Table, leave_out: Iterable[str], stacklevel: int = 3) -> Table:
    """The rows and concepts to train on."""
    if not len(table):
        raise ChoqolateError("expected rows to train on, the table is empty")
    left_out = dict.fromkeys(leave_out)
    unlabelled = len(table) - _n_labelled(table)
    if unlabelled:
        message = (
            f"{unlabelled:,} of {counted(len(table), 'row')} {'has' if unlabelled == 1 else 'have'} no label: left out"
        )
        warnings.warn(message, ChoqolateWarning, stacklevel=stacklevel)
    rows = table.with_split().part("train").labelled()
    if left_out:
        find_concepts(left_out, table.concepts, known="this table has")
        gone = set(left_out)
        kept = [name for name in table.concepts if name not in gone]
        if not kept:
            raise ChoqolateError("expected concepts to train on, all of them are left out")
        rows = rows.select(kept)
    return rows


def _classifier(rows: ConceptScores | ScoreFile, parameters: dict[str, Any], **how: Any) -> ChoqolateClassifier:
    """A classifier that fits into memory, not trained yet."""
    return ChoqolateClassifier(**_affordable(rows, parameters, **how))


def _affordable(
    rows: ConceptScores | ScoreFile, parameters: dict[str, Any], *, stacklevel: int = 4, **how: Any
) -> dict[str, Any]:
    n_classes = len(rows.classes) if isinstance(rows, ScoreFile) else len(set(rows.labels.tolist()))
    return affordable(parameters, len(rows.concepts), n_classes, stacklevel=stacklevel, **how)


def _n_labelled(table: ConceptScores | ScoreFile) -> int:
    return len(table.labelled()) if isinstance(table, ScoreFile) else int(table.rows.labelled().sum())


def _provenance(
    table: ConceptScores | ScoreFile, rows: ConceptScores | ScoreFile, left_out: tuple[str, ...]
) -> Provenance:
    known = table.provenance
    data = TrainingRecord(
        fingerprint=table.fingerprint,
        split="given" if table.has_split else "made",
        rows=len(rows),
        sample=tuple(_row_keys(_spread(rows, _SAMPLE), rows.concepts)),
        left_out=left_out or None,
        other=known.data.other,
    )
    vocabulary = replace(known.vocabulary, spurious=rows.spurious) if rows.spurious else known.vocabulary
    # where the images were is of the table, and nobody else's business
    return replace(known, root=None, versions=package_versions(), data=data, vocabulary=vocabulary)


def _row_keys(rows: ConceptScores, concepts: Iterable[str]) -> list[str]:
    """A short hash of each row's scores of some concepts, whatever their order and the precision of the file."""
    order = find_concepts(sorted(concepts), rows.concepts, known="this table has")
    return [hashlib.sha256(row[order].astype(np.float32)).hexdigest()[:12] for row in rows.scores]


def _spread(rows: ConceptScores | ScoreFile, most: int) -> ConceptScores:
    """At most so many rows, evenly spread, in memory."""
    chosen = np.zeros(len(rows), dtype=bool)
    chosen[np.linspace(0, len(rows) - 1, min(most, len(rows))).astype(int)] = True
    taken = rows.take(chosen)
    return taken.load() if isinstance(taken, ScoreFile) else taken
