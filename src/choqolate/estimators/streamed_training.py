"""Training on rows that stay in their file, by one process or by several that share the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from choqolate._util.device import pick_device
from choqolate._util.progress import epoch_bar
from choqolate.data.score_file import ScoreFile
from choqolate.data.scores import ConceptScores
from choqolate.estimators.data_parallel import Workers, train_together
from choqolate.estimators.side_by_side import (
    DTYPES,
    RunSpec,
    Trained,
    TrainingSet,
    batch_order,
    check_architecture,
    class_weights,
    cluster_start,
    train_on,
)
from choqolate.estimators.training_file import FileRows, measure, warn_sorted
from choqolate.network.cluster_start import ClusterStart
from choqolate.network.lanes import LaneBatches

if TYPE_CHECKING:
    from choqolate.estimators.classifier import ChoqolateClassifier


class TrainedRuns(NamedTuple):
    """The parameters of each run, and its history."""

    parameters: list[dict[str, Tensor]]
    histories: list[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class TrainingJob:
    """All that a process needs to take part in a training, here or on another machine.

    Attributes:
        classifier: its parameters are used, except for its temperature and its seed.
        rows: the training rows.
        wanted: the runs.
        start: where nodes start; ``None`` for a random start.
    """

    classifier: ChoqolateClassifier
    rows: FileRows
    wanted: Sequence[RunSpec]
    start: ClusterStart | None

    def run(self, device: torch.device, *, lanes: range | None = None, n_lanes: int, **options: Any) -> TrainedRuns:
        """Train on the rows of some lanes; options are those of :func:`~choqolate.network.training.train`."""
        source = self.rows.to(device)
        seed = batch_order(self.classifier, self.wanted)
        batches = LaneBatches(source, self.classifier.batch_size, lanes, n_lanes, seed)
        sizes = len(source.untrained.concepts), len(source.untrained.classes)
        network, histories = train_on(
            batches, self.classifier, *sizes, self.wanted, self.start, device=device, **options
        )
        parameters = [network.parameters_of(run) for run in range(len(self.wanted))]
        return TrainedRuns(parameters, [history.as_arrays() for history in histories])


def fit_file(
    classifier: ChoqolateClassifier,
    rows: ScoreFile,
    sample: ConceptScores,
    workers: Workers,
    tell: Callable[[str], None] = lambda _: None,
) -> ChoqolateClassifier:
    """Fit a classifier on rows that stay in their file.

    The final training sees all rows. What needs rows in memory is done on the sample: the search for settings, the
    clusters that nodes start on, and the reference of what training rows look like.

    Args:
        classifier: it is fitted in place and returned.
        rows: the rows for training, all with a label.
        sample: some of these.
        workers: the processes that train.
        tell: called with a sentence before something slow.
    """
    warn_sorted(rows, workers.n_lanes)
    data, seed = classifier.prepare(sample, sample.labels, known=measure(rows, verbose=classifier.verbose))

    def train(settings: ChoqolateClassifier, data: TrainingSet, wanted: Sequence[RunSpec]) -> list[Trained]:
        return _train_streamed(settings, data, wanted, rows, workers, tell)

    return classifier.fit_prepared(data, seed, train)


def _train_streamed(
    classifier: ChoqolateClassifier,
    data: TrainingSet,
    wanted: Sequence[RunSpec],
    rows: ScoreFile,
    workers: Workers,
    tell: Callable[[str], None],
) -> list[Trained]:
    """What :func:`~choqolate.estimators.side_by_side.train_side_by_side` does, on all rows of a file."""
    architecture = classifier.architecture
    check_architecture(architecture, data)
    untrained = data.fitted(architecture)
    weights = class_weights(classifier.class_weight, data.classes, data.label_shares)
    device = pick_device(classifier.device)
    source = FileRows(rows, untrained, weights / (weights @ data.label_shares), device, DTYPES[classifier.dtype])
    start = cluster_start(classifier, data)
    job = TrainingJob(classifier, source, wanted, start)
    with epoch_bar(classifier.epochs, "training", enabled=classifier.verbose) as report:
        parameters, histories = train_together(job, workers, device, report, tell)
    return [
        Trained(data.fitted(architecture, own), history, data.reference)
        for own, history in zip(parameters, histories, strict=True)
    ]
