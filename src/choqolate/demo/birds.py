"""The whole job on bird scenes: draw, encode, score, train, read, correct, and compare with what else one could do."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from choqolate._util.checks import check_number
from choqolate._util.files import write_bytes
from choqolate._util.processes import one_thread
from choqolate.analysis.evaluation import evaluate
from choqolate.baselines import LinearBottleneck, fit_linear_runs
from choqolate.concepts.score_images import dataset_vocabulary, score_images
from choqolate.data.manifest import Manifest
from choqolate.data.scores import ConceptScores
from choqolate.datasets.birds import BIRDS, N_IMAGES, render_birds
from choqolate.datasets.birds.dataset import check_target
from choqolate.demo import MARK, claim, claim_folder
from choqolate.demo.outcome import Outcome
from choqolate.errors import DoubtfulChoiceWarning, SmallRemainderWarning
from choqolate.estimators.classifier import ChoqolateClassifier
from choqolate.estimators.search_record import Search
from choqolate.estimators.table_training import fit_scores_runs
from choqolate.experiments.engine.methods import RATES
from choqolate.experiments.engine.tuning import mean_accuracy
from choqolate.explain.model_protocols import ConceptModel
from choqolate.explain.node_stability import node_stability
from choqolate.explain.redundancy import Redundancy, check_redundancy
from choqolate.network.removal import MODES

N_RUNS = 5
TRAINED = "as trained"
FEW = 1_000  # images; with fewer, accuracies in groups are mostly chance
LEAST_SHARE = 0.05  # of a node that a leading word has


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
        rows: the images.
        table: their scores.
        redundancy: how much the concepts say the same.
        search: the settings of CHOQOLATE that were tried, and the one that was chosen, without a look at the groups.
        rate: the learning rate that was chosen for the linear bottleneck.
        ours, linear: both as trained.
        removals: CHOQOLATE without the spurious concepts: by mode, and recalibrated.
        placebo: CHOQOLATE without as many others.
        alternatives, linear_alternatives: what else one could do, with either model.
        models: CHOQOLATE as trained, run by run.
        edited: the first without the spurious concepts (``"rescale"``).
        unmixed: of how many nodes of all runs the leading words are all of the bird or all of the background; and of
            how many nodes in all.
        seconds: that each step took.
    """

    folder: Path
    rows: Manifest
    table: ConceptScores
    redundancy: Redundancy
    search: Search
    rate: Choice
    ours: Outcome
    linear: Outcome
    removals: tuple[Outcome, ...]
    placebo: Outcome
    alternatives: tuple[Outcome, ...]
    linear_alternatives: tuple[Outcome, ...]
    models: tuple[ChoqolateClassifier, ...]
    edited: ChoqolateClassifier
    unmixed: tuple[int, int]
    seconds: dict[str, float]

    @property
    def model(self) -> ChoqolateClassifier:
        """The first run."""
        return self.models[0]

    def as_dict(self) -> dict[str, Any]:
        """The numbers as JSON can hold them: every outcome, run by run."""
        models = {
            "CHOQOLATE": (self.ours, *self.removals, self.placebo, *self.alternatives),
            "linear bottleneck": (self.linear, *self.linear_alternatives),
        }
        return claim() | {
            "images": len(self.rows),
            "search": self.search.as_dict(),
            "learning_rate": self.rate.value,
            "unmixed_nodes": list(self.unmixed),
            "seconds": self.seconds,
            "outcomes": {
                model: {outcome.name: [run.as_dict() for run in outcome.runs] for outcome in outcomes}
                for model, outcomes in models.items()
            },
        }


@dataclass
class _Clock:
    tell: Callable[[str], None]
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str, what: str) -> Iterator[None]:
        self.tell(what)
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start


def run_birds(
    output: Path,
    n_images: int = N_IMAGES,
    *,
    n_runs: int = N_RUNS,
    verbose: bool = True,
    tell: Callable[[str], None] = lambda _: None,
) -> BirdsDemo:
    """Do the whole job and leave all that it makes in a folder.

    Args:
        output: new, empty, or of an earlier demo.
        n_images: how many images to draw, beside those for the unbiased model.
        n_runs: how many seeds to train.
        verbose: show progress on stderr.
        tell: called with a sentence when a step begins.
    """
    check_number("n_runs", n_runs, minimum=1, whole=True)
    images, unbiased = output / "images", output / "unbiased" / "images"
    for folder in (images, unbiased):
        check_target(folder)  # before the work, not after
    claim_folder(output)
    clock = _Clock(tell)
    with clock.step("draw", f"drawing {n_images:,} birds, and those for training once more before unbiased places"):
        rows = render_birds(images, n_images, verbose=verbose)
        fair_rows = render_birds(unbiased, n_images, agreement=0.5, parts=("train",), verbose=verbose)
    # the encoder is so small that the process that decodes the images needs the other core more
    with clock.step("encode and score", "encoding and scoring them with the backbone mini"), one_thread():
        fair, table = (_score(source, output / "embeddings", verbose) for source in (fair_rows, rows))
        table.save(output / "scores.parquet")
    tried = f"CHOQOLATE after a search for its settings, the linear bottleneck at {len(RATES)} learning rates"
    with clock.step("train", f"training {tried}, and what else one could do"):
        seeds = range(n_runs)
        search, ours = _search_ours(table, seeds, verbose)
        rate, linear = _tune_linear(table, seeds)
        core = table.select([name for name in table.concepts if name not in table.spurious])
        again = [_fit_ours(rows, seeds, verbose, **search.settings) for rows in (core, fair)]
        linear_again = [_fit_linear(rows, seeds, learning_rate=rate.value) for rows in (core, fair)]
    with clock.step("remove and measure", "removing the background concepts"), warnings.catch_warnings():
        # that some nodes read hardly anything else than the background is no news here
        warnings.simplefilter("ignore", SmallRemainderWarning)
        removals, placebo = _removals(ours, table), _placebo(ours, table)
        edited = ours[0].remove_concepts(table.spurious)
    ours[0].save(output / "model")
    edited.save(output / "model-edited")
    demo = BirdsDemo(
        folder=output,
        rows=rows,
        table=table,
        redundancy=check_redundancy(table),
        search=search,
        rate=rate,
        ours=_measured(TRAINED, ours, table),
        linear=_measured(TRAINED, linear, table),
        removals=removals,
        placebo=placebo,
        alternatives=_trained_again(again, core, table),
        linear_alternatives=(
            _measured("frozen at their mean", [run.remove_concepts(table.spurious) for run in linear], table),
            *_trained_again(linear_again, core, table),
        ),
        models=tuple(ours),
        edited=edited,
        unmixed=_unmixed(ours, table),
        seconds=clock.seconds,
    )
    write_bytes(output / MARK, json.dumps(demo.as_dict(), indent=2).encode() + b"\n")
    return demo


def _score(rows: Manifest, folder: Path, verbose: bool) -> ConceptScores:
    words = dataset_vocabulary(BIRDS.name)
    return score_images(rows, words, backbone="mini", device="cpu", embeddings=folder, verbose=verbose)


def _search_ours(table: ConceptScores, seeds: Sequence[int], verbose: bool) -> tuple[Search, list[ChoqolateClassifier]]:
    """Settings chosen without a look at the groups, and all runs trained with them."""
    blind = replace(table, rows=table.rows.changed(groups=None))
    searched = dict.fromkeys(("n_nodes", "temperature", "interactions"), "auto")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtfulChoiceWarning)  # the page says it
        runs = _fit_ours(blind, seeds, verbose, **searched)
    assert runs[0].search_ is not None
    if len(runs) > 1 and not runs[0].one_layer_:
        runs[0].stability_ = node_stability(runs).of_run(0)
    return runs[0].search_, runs


def _tune_linear(table: ConceptScores, seeds: Sequence[int]) -> tuple[Choice, list[LinearBottleneck]]:
    """The learning rate with the best accuracy."""
    by_value = {value: _fit_linear(table, seeds, learning_rate=value) for value in RATES}
    accuracy = _validation_accuracy(by_value, table)
    best = max(accuracy, key=lambda value: accuracy[value])
    return Choice("learning rate", accuracy, best, "the best"), by_value[best]


def _validation_accuracy(by_value: Mapping[float, Sequence[ConceptModel]], table: ConceptScores) -> dict[float, float]:
    rows = table.part("val")
    return {value: mean_accuracy(runs, rows) for value, runs in by_value.items()}


def _fit_ours(
    table: ConceptScores, seeds: Sequence[int], verbose: bool, **parameters: Any
) -> list[ChoqolateClassifier]:
    runs = fit_scores_runs(table, seeds, device="cpu", verbose=verbose, **parameters)
    return [run.set_params(verbose=False) for run in runs]


def _fit_linear(table: ConceptScores, seeds: Sequence[int], **parameters: Any) -> list[LinearBottleneck]:
    rows = table.part("train")
    return fit_linear_runs(rows.frame, rows.labels, seeds, device="cpu", **parameters)


def _removals(runs: Sequence[ChoqolateClassifier], table: ConceptScores) -> tuple[Outcome, ...]:
    """All ways of removing the spurious concepts."""
    spurious, train = table.spurious, table.part("train").frame
    outcomes = [_measured(mode, [run.remove_concepts(spurious, mode=mode) for run in runs], table) for mode in MODES]
    recalibrated = [run.remove_concepts(spurious, recalibrate=train) for run in runs]
    return outcomes[0], _measured("rescale, recalibrated", recalibrated, table), *outcomes[1:]


def _placebo(runs: Sequence[ChoqolateClassifier], table: ConceptScores) -> Outcome:
    """As many other concepts removed as there are spurious ones, drawn again for each run."""
    core = [name for name in table.concepts if name not in table.spurious]
    draws = [np.random.default_rng(row).choice(core, len(table.spurious), replace=False) for row in range(len(runs))]
    edited = [run.remove_concepts(names.tolist()) for run, names in zip(runs, draws, strict=True)]
    return _measured("placebo", edited, table)


def _trained_again(
    runs: Sequence[Sequence[ConceptModel]], core: ConceptScores, table: ConceptScores
) -> tuple[Outcome, ...]:
    """Models that were trained without the spurious concepts, and on unbiased images."""
    without, fair = runs
    return _measured("retrained without them", without, core), _measured("trained on unbiased images", fair, table)


def _unmixed(runs: Sequence[ChoqolateClassifier], table: ConceptScores) -> tuple[int, int]:
    """Nodes whose leading words, up to three with at least 5% of the node, are all spurious or all not."""
    spurious = np.isin(table.concepts, table.spurious)
    nodes = np.concatenate([run.concept_attributions_ for run in runs])
    leading = [[j for j in np.argsort(-node)[:3] if node[j] >= LEAST_SHARE] for node in nodes]
    return sum(len(set(spurious[words])) == 1 for words in leading), len(nodes)


def _measured(name: str, runs: Sequence[ConceptModel], table: ConceptScores) -> Outcome:
    return Outcome(name, tuple(evaluate(run, table, "test") for run in runs))
