"""The whole job on bird scenes: draw, encode, score, train, read, correct, and compare with what else one could do."""

from __future__ import annotations

import shutil
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from choqolate.baselines import LinearBottleneck, fit_linear_runs
from choqolate.classifier import ChoqolateClassifier
from choqolate.concepts.backbones import load_backbone
from choqolate.concepts.embedding import embed
from choqolate.concepts.folder import EmbeddingFolder
from choqolate.concepts.scores import ConceptScores
from choqolate.concepts.scoring import score
from choqolate.concepts.vocabulary import Vocabulary
from choqolate.datasets.birds import BIRDS, N_PICTURES, render_birds
from choqolate.errors import ChoqolateWarning
from choqolate.evaluation import ConceptModel, Evaluation, evaluate, fit_scores_runs
from choqolate.manifest import Manifest
from choqolate.persistence import check_target
from choqolate.redundancy import Redundancy, check_redundancy
from choqolate.removal import MODES

N_RUNS = 5
TEMPERATURES = (0.005, 0.02, 0.05, 0.1)  # the first is the paper's
RATES = (0.001, 0.01, 0.1)  # learning rates of the linear bottleneck
TOLERANCE = 0.01  # of validation accuracy that readable nodes may cost


class Spread(NamedTuple):
    """Mean and standard deviation over runs."""

    mean: float
    std: float


@dataclass(frozen=True)
class Outcome:
    """What the runs of one model do on the test rows.

    Attributes:
        name: of the model, or of what was done to it.
        runs: one evaluation for each seed.
    """

    name: str
    runs: tuple[Evaluation, ...]

    @property
    def accuracy(self) -> Spread:
        return _spread([run.accuracy for run in self.runs])

    @property
    def worst_group(self) -> Spread:
        """Of each run's own worst group."""
        return _spread(self.worst_groups)

    @property
    def worst_groups(self) -> list[float]:
        """Accuracy in the worst group, run by run."""
        return [min(run.group_accuracy.values()) for run in self.runs]

    @property
    def gini(self) -> Spread:
        return _spread([run.attribution_gini for run in self.runs])

    @property
    def coherence(self) -> Spread:
        return _spread([run.node_coherence for run in self.runs])

    def group(self, name: str) -> Spread:
        """Accuracy in one group."""
        return _spread([run.group_accuracy[name] for run in self.runs])


@dataclass(frozen=True)
class Choice:
    """A hyperparameter, chosen on the validation rows.

    Attributes:
        name: of the hyperparameter.
        accuracy: mean validation accuracy of each value that was tried.
        value: the one that was taken.
        rule: why, in words.
    """

    name: str
    accuracy: dict[float, float]
    value: float
    rule: str


@dataclass(frozen=True)
class BirdsDemo:
    """All that the demo did and measured. Outcomes are on the test rows, over the same seeds.

    Attributes:
        folder: where everything is.
        rows: the pictures.
        table: their scores.
        redundancy: how much the concepts say the same.
        temperature, rate: what was chosen for CHOQOLATE and for the linear bottleneck.
        ours, linear: both as trained.
        removals: CHOQOLATE without the spurious concepts: by mode, recalibrated, and a placebo.
        alternatives: what else one could do about them.
        model, edited: the first run, and the same without the spurious concepts (``"rescale"``).
        seconds: that each step took.
    """

    folder: Path
    rows: Manifest
    table: ConceptScores
    redundancy: Redundancy
    temperature: Choice
    rate: Choice
    ours: Outcome
    linear: Outcome
    removals: tuple[Outcome, ...]
    alternatives: tuple[Outcome, ...]
    model: ChoqolateClassifier
    edited: ChoqolateClassifier
    seconds: dict[str, float]


@dataclass
class _Clock:
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start


def run_birds(output: Path, n_pictures: int = N_PICTURES, *, n_runs: int = N_RUNS, verbose: bool = True) -> BirdsDemo:
    """Do the whole job and leave pictures, embeddings, scores, the model and the edited model in a folder."""
    for name in ("model", "model-edited"):
        check_target(output / name)  # before the work, not after
    clock = _Clock()
    with clock.step("draw"):
        rows = render_birds(output / "images", n_pictures, verbose=verbose)
        fair_rows = render_birds(output / "unbiased", n_pictures, agreement=0.5, parts=("train",), verbose=verbose)
    with clock.step("encode and score"), _one_thread():
        _clear(output / "embeddings")
        fair, table = (_score(source, output / "embeddings", verbose) for source in (fair_rows, rows))
        table.save(output / "scores.parquet")
    with clock.step("train"):
        seeds = range(n_runs)
        temperature, ours = _tune_ours(table, seeds, verbose)
        rate, linear = _tune_linear(table, seeds)
        alternatives = _alternatives(table, fair, linear, seeds, temperature.value, rate.value, verbose)
    with clock.step("remove and measure"), warnings.catch_warnings():
        # that some nodes read hardly anything else than the background is no news here
        warnings.filterwarnings("ignore", "little is left of some nodes", ChoqolateWarning)
        removals = _removals(ours, table)
        edited = ours[0].remove_concepts(table.spurious)
    ours[0].save(output / "model")
    edited.save(output / "model-edited")
    return BirdsDemo(
        folder=output,
        rows=rows,
        table=table,
        redundancy=check_redundancy(table),
        temperature=temperature,
        rate=rate,
        ours=_measured("CHOQOLATE", ours, table),
        linear=_measured("linear bottleneck", linear, table),
        removals=removals,
        alternatives=alternatives,
        model=ours[0],
        edited=edited,
        seconds=clock.seconds,
    )


@contextmanager
def _one_thread() -> Iterator[None]:
    """The encoder is so small that the process that decodes the pictures needs the other core more."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _clear(folder: Path) -> None:
    """Vectors of an earlier demo, perhaps by an earlier encoder, are of no use."""
    if EmbeddingFolder.is_one(folder):
        shutil.rmtree(folder)


def _score(rows: Manifest, folder: Path, verbose: bool) -> ConceptScores:
    backbone = load_backbone("mini", device="cpu")
    return score(embed(rows, backbone, folder, verbose=verbose), Vocabulary.parse(BIRDS.core, BIRDS.spurious), backbone)


def _tune_ours(table: ConceptScores, seeds: Sequence[int], verbose: bool) -> tuple[Choice, list[ChoqolateClassifier]]:
    """The largest temperature within the tolerance of the best, all of them trained side by side."""
    runs = _fit_ours(table, seeds, verbose, temperatures=TEMPERATURES)
    by_value = {value: [run for run in runs if run.temperature == value] for value in TEMPERATURES}
    accuracy = {value: _validation_accuracy(of_value, table) for value, of_value in by_value.items()}
    largest = max(value for value in TEMPERATURES if accuracy[value] >= max(accuracy.values()) - TOLERANCE)
    return Choice("temperature", accuracy, largest, "the largest within a point of the best"), by_value[largest]


def _tune_linear(table: ConceptScores, seeds: Sequence[int]) -> tuple[Choice, list[LinearBottleneck]]:
    """The learning rate with the best accuracy."""
    by_value = {value: _fit_linear(table, seeds, learning_rate=value) for value in RATES}
    accuracy = {value: _validation_accuracy(of_value, table) for value, of_value in by_value.items()}
    best = max(accuracy, key=lambda value: accuracy[value])
    return Choice("learning rate", accuracy, best, "the best"), by_value[best]


def _validation_accuracy(runs: Sequence[ConceptModel], table: ConceptScores) -> float:
    return float(np.mean([evaluate(run, table, "val").accuracy for run in runs]))


def _fit_ours(
    table: ConceptScores, seeds: Sequence[int], verbose: bool, **parameters: Any
) -> list[ChoqolateClassifier]:
    runs = fit_scores_runs(table, seeds, device="cpu", verbose=verbose, **parameters)
    return [run.set_params(verbose=False) for run in runs]


def _fit_linear(table: ConceptScores, seeds: Sequence[int], **parameters: Any) -> list[LinearBottleneck]:
    rows = table.part("train")
    return fit_linear_runs(rows.frame, rows.labels, seeds, device="cpu", **parameters)


def _removals(runs: Sequence[ChoqolateClassifier], table: ConceptScores) -> tuple[Outcome, ...]:
    """All ways of removing the spurious concepts, and a placebo."""
    spurious = table.spurious
    train = table.part("train").frame
    core = [name for name in table.concepts if name not in spurious]
    outcomes = [_measured(mode, [run.remove_concepts(spurious, mode=mode) for run in runs], table) for mode in MODES]
    recalibrated = [run.remove_concepts(spurious, recalibrate=train) for run in runs]
    outcomes.insert(1, _measured("rescale, recalibrated", recalibrated, table))
    n_placebo = min(len(spurious), len(core))
    drawn = [np.random.default_rng(row).choice(core, n_placebo, replace=False) for row in range(len(runs))]
    placebo = [run.remove_concepts(names.tolist()) for run, names in zip(runs, drawn, strict=True)]
    return *outcomes, _measured("placebo", placebo, table)


def _alternatives(
    table: ConceptScores,
    fair: ConceptScores,
    linear: Sequence[LinearBottleneck],
    seeds: Sequence[int],
    temperature: float,
    rate: float,
    verbose: bool,
) -> tuple[Outcome, ...]:
    core = table.select([name for name in table.concepts if name not in table.spurious])
    ours = {"temperature": temperature}
    return (
        _measured("CHOQOLATE, retrained without them", _fit_ours(core, seeds, verbose, **ours), core),
        _measured("CHOQOLATE, trained on unbiased pictures", _fit_ours(fair, seeds, verbose, **ours), table),
        _measured("linear, frozen at their mean", [run.remove_concepts(table.spurious) for run in linear], table),
        _measured("linear, retrained without them", _fit_linear(core, seeds, learning_rate=rate), core),
        _measured("linear, trained on unbiased pictures", _fit_linear(fair, seeds, learning_rate=rate), table),
    )


def _measured(name: str, runs: Sequence[ConceptModel], table: ConceptScores) -> Outcome:
    return Outcome(name, tuple(evaluate(run, table, "test") for run in runs))


def _spread(values: Sequence[float]) -> Spread:
    return Spread(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0)
