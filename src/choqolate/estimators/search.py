"""The search behind ``"auto"``: settings trained side by side on part of the rows, and the rule that picks one.

The rule: among the settings about as sparse as the paper's, choose the one with the fewest concepts per class whose
validation accuracy is within one standard error (at least 0.5 and at most 1 point) of the best. Ties go to the smaller
model.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from choqolate import metrics
from choqolate._util.text import counted
from choqolate.errors import DoubtfulChoiceWarning
from choqolate.estimators.search_record import AUTO, MAY_BE_AUTO, PAPER, Search, Trial
from choqolate.estimators.side_by_side import RunSpec, TrainingSet, runs_at_once, train_network
from choqolate.estimators.validation import N_FOLDS, Validation, hold_out
from choqolate.integral.layer import training_bytes
from choqolate.network.architecture import Architecture
from choqolate.network.module import ChoqolateNetwork

if TYPE_CHECKING:
    from choqolate.estimators.classifier import ChoqolateClassifier

RULE = (
    "among the settings about as sparse as the paper's, the one with the fewest concepts per class whose validation "
    "accuracy is within one standard error (at least 0.5 and at most 1 point) of the best; ties go to the smaller model"
)
SPARSITY_RULE = "the most accurate of the settings with an Attribution Gini of at least {:g}"
LEAST_TOLERANCE, MOST_TOLERANCE = 0.005, 0.01  # of accuracy
GINI_MARGIN = 0.02  # below the paper's settings that still counts as about as sparse
SHORTER, FASTER = 0.4, 2.0  # a trial takes this share of the epochs, at a higher rate: it gets about as sparse
FEW_CLASSES = 16  # up to so many, pairs of concepts are tried as well
RANKS = (1, 2, 4, 8)  # that are tried for factored interactions, if that is asked for
_FEW_ROWS = 30  # of a group, below which its accuracy is mostly chance
_DOUBTFUL_ERROR = 0.02  # standard error of the accuracy from which the choice is doubtful
_DEAR = 0.05  # accuracy given up for sparsity from which the choice is doubtful
_PAIRS_BYTES = 1 << 30  # memory of pairwise nodes in training, beyond which they are factored
_MOST_WEIGHTS = 8  # times as many as the paper's settings have, that a trial may have


def search(classifier: ChoqolateClassifier, data: TrainingSet, seed: int) -> Search:
    """Try settings on part of the rows and pick one; what the classifier gives is taken as it is.

    Args:
        classifier: with ``"auto"`` for what is searched.
        data: rows.
        seed: of the initial parameters of all trials.

    Warns:
        DoubtfulChoiceWarning: if groups are small, if there are few validation rows, or if classes have few rows.
    """
    begun = time.perf_counter()
    validation = hold_out(data)
    families = _families(classifier, len(data.concepts), len(data.classes))
    trials: list[Trial] = []
    hits: list[np.ndarray] = []
    for done, (architecture, temperatures) in enumerate(families.items()):
        trial = _as_trial(classifier, architecture)
        label = f"search {done + 1}/{len(families)}: {_kind(architecture)},"
        for measured, correct in _try(trial, data, validation, temperatures, seed, label):
            trials.append(measured)
            hits.append(correct)
    first = validation.first()
    paper = measure_paper(classifier, data, first, seed)
    errors = [validation.standard_error(correct) for correct in hits]
    chosen, error, doubts = _choose(trials, paper, errors, classifier.sparsity)
    doubts += _doubts(data, validation.seen_groups, error)
    lost = max(trial.accuracy for trial in trials) - trials[chosen].accuracy
    if lost > _DEAR:
        doubts.append(
            f"A setting that is less sparse gains {100 * lost:.1f} points; sparsity=0 takes the most accurate."
        )
    ours = first.accuracy(hits[chosen])
    if paper is not None and paper.accuracy > ours + max(MOST_TOLERANCE, first.standard_error(hits[chosen])):
        doubts.append(
            f"The paper's settings reach {paper.accuracy:.3f} where this one reaches {ours:.3f}, on the first fold."
        )
    if doubts:
        message = f"The choice of settings is doubtful: {' '.join(doubts)}"
        warnings.warn(message, DoubtfulChoiceWarning, stacklevel=3)
    return Search(
        trials=tuple(trials),
        chosen=chosen,
        paper=paper,
        init=classifier.start,
        schedule=classifier.rate_schedule,
        rule=RULE if classifier.sparsity is None else SPARSITY_RULE.format(classifier.sparsity),
        standard_error=error,
        rows=int(validation.seen.sum()),
        n_concepts=len(data.concepts),
        by_group=validation.groups is not None,
        doubts=tuple(doubts),
        seconds=time.perf_counter() - begun,
        untried=_untried(classifier, len(data.concepts), len(data.classes)),
    )


# ---------------------------------------------------------------------- what is tried


def _families(
    classifier: ChoqolateClassifier, n_concepts: int, n_classes: int
) -> dict[Architecture, tuple[float, ...]]:
    """The architectures to try, each with its temperatures; what the classifier gives takes precedence."""
    wide = min(max(2 ** math.ceil(math.log2(n_classes)), 16), 128)
    proposed: list[tuple[Architecture, tuple[float, ...]]] = [
        (Architecture(None, "none"), (0.005, 0.01, 0.02, 0.05)),
        (Architecture(None, "none", bipolar=True), (0.02, 0.05)),
        (Architecture(wide // 2, "none"), (0.01, 0.02)),
        (Architecture(wide, "none"), (0.005, 0.01, 0.02)),
    ]
    if n_classes <= FEW_CLASSES:
        pairs = "pairwise" if _fits(Architecture(16), n_concepts, n_classes) else "factored"
        proposed += [(Architecture(n_nodes, pairs), (0.005, 0.02)) for n_nodes in (8, 16)]
    layers = [name for name in MAY_BE_AUTO if name != "temperature"]
    given = {name: getattr(classifier, name) for name in layers if not _is_auto(classifier, name)}
    given |= {
        name: value for name in ("bipolar", "class_interactions") if (value := getattr(classifier, name)) is not None
    }
    families: dict[Architecture, tuple[float, ...]] = {}
    for architecture, temperatures in proposed:
        own = replace(architecture, **given)
        own = own if own.n_nodes is not None else replace(own, class_interactions=None)
        ranks = RANKS if _is_auto(classifier, "rank") and own.interactions == "factored" else (own.rank,)
        for one in (replace(own, rank=rank) for rank in ranks):
            families[one] = tuple(sorted({*families.get(one, ()), *temperatures}))
    if not _is_auto(classifier, "temperature"):
        families = dict.fromkeys(families, (float(classifier.temperature),))
    limit = _MOST_WEIGHTS * _n_weights(Architecture(8), n_concepts, n_classes)
    small = {own: values for own, values in families.items() if _n_weights(own, n_concepts, n_classes) <= limit}
    return small or {own: values for own, values in families.items() if own.bipolar == bool(classifier.bipolar)}


def _is_auto(classifier: ChoqolateClassifier, name: str) -> bool:
    value = getattr(classifier, name)
    return isinstance(value, str) and value == AUTO


def _n_weights(architecture: Architecture, n_concepts: int, n_classes: int) -> int:
    return sum(math.prod(shape) for shape in architecture.shapes(n_concepts, n_classes).values())


def _fits(architecture: Architecture, n_concepts: int, n_classes: int) -> bool:
    return training_bytes(_n_weights(architecture, n_concepts, n_classes), torch.float32) <= _PAIRS_BYTES


def _untried(classifier: ChoqolateClassifier, n_concepts: int, n_classes: int) -> tuple[str, ...]:
    """Sentences about what takes too much memory to be tried."""
    said = []
    if n_classes <= FEW_CLASSES and _is_auto(classifier, "interactions"):
        said += _too_large(Architecture(16), n_concepts, n_classes, "so factored interactions were tried instead")
    return (*said, *_too_large(Architecture(8), n_concepts, n_classes, "so the paper's settings were not measured"))


def _too_large(architecture: Architecture, n_concepts: int, n_classes: int, so: str) -> list[str]:
    if _fits(architecture, n_concepts, n_classes):
        return []
    needed = training_bytes(_n_weights(architecture, n_concepts, n_classes), torch.float32)
    pairs = f"All pairs of {n_concepts:,} concepts in {architecture.n_nodes} nodes"
    return [f"{pairs} would need {needed / 1e9:,.1f} GB in training, {so}."]


def _kind(architecture: Architecture) -> str:
    nodes = "one layer" if architecture.n_nodes is None else f"{architecture.n_nodes} nodes"
    rank = f", rank {architecture.rank}" if architecture.interactions == "factored" else ""
    return f"{nodes}{rank}{', bipolar' if architecture.bipolar else ''}"


def _as_trial(classifier: ChoqolateClassifier, architecture: Architecture) -> ChoqolateClassifier:
    """The classifier of one architecture, with a training that is shorter by as much as it is faster."""
    settings: dict[str, Any] = {name: getattr(architecture, name) for name in PAPER if name != "temperature"}
    settings["rank"] = architecture.rank
    settings |= {"init": classifier.start, "schedule": classifier.rate_schedule, "temperature": 1.0, "track": False}
    if classifier.rate_schedule == "cosine":  # a constant rate cannot be raised without harm
        settings["epochs"] = math.ceil(SHORTER * classifier.epochs)
        settings["learning_rate"] = FASTER * classifier.learning_rate
    return classifier.with_settings(settings)


# ---------------------------------------------------------------------- how it is measured


def _try(
    trial: ChoqolateClassifier,
    data: TrainingSet,
    validation: Validation,
    temperatures: Sequence[float],
    seed: int,
    label: str,
) -> list[tuple[Trial, np.ndarray]]:
    """Train one architecture at all temperatures, each once per fold; measure it, and mark the rows it has right."""
    wanted = [RunSpec(seed, temperature, fold) for temperature in temperatures for fold in validation.held_out]
    together = runs_at_once(trial, len(data.concepts), len(data.classes))
    correct_rows: list[np.ndarray] = []
    by_run: list[tuple[float, float, float]] = []
    for start in range(0, len(wanted), together):
        some = wanted[start : start + together]
        network, _ = train_network(trial, data, some, folds=validation.folds, label=label)
        correct_rows.append(_correct(trial.architecture, network, data, validation.folds, some))
        by_run += _sparsity(network, data)
    correct = np.concatenate(correct_rows)
    results = []
    for temperature in temperatures:
        runs = [index for index, run in enumerate(wanted) if run.temperature == temperature]
        hits = np.any(correct[runs], axis=0)
        gini, coherence, concepts = (_mean([by_run[index][column] for index in runs]) for column in range(3))
        low, high = validation.interval(hits)
        measured = Trial(
            **{name: getattr(trial.architecture, name) for name in PAPER if name != "temperature"},
            temperature=temperature,
            accuracy=validation.accuracy(hits),
            gini=gini,
            coherence=None if math.isnan(coherence) else coherence,
            concepts_per_class=concepts,
            n_parameters=_n_weights(trial.architecture, len(data.concepts), len(data.classes)),
            rank=trial.architecture.rank if trial.interactions == "factored" else None,
            accuracy_low=low,
            accuracy_high=high,
        )
        results.append((measured, hits))
    return results


def _mean(values: Sequence[float]) -> float:
    defined = [value for value in values if not math.isnan(value)]
    return float(np.mean(defined)) if defined else math.nan


@torch.no_grad()
def _correct(
    architecture: Architecture,
    network: ChoqolateNetwork,
    data: TrainingSet,
    folds: np.ndarray,
    wanted: Sequence[RunSpec],
) -> np.ndarray:
    """Which held-out rows each run has right ``(R, n)``."""
    correct = np.zeros((len(wanted), len(folds)), dtype=bool)
    theta = next(network.parameters())
    for fold in {run.fold for run in wanted}:
        rows = np.flatnonzero(folds == fold)
        for part in np.array_split(rows, math.ceil(len(rows) / 4_096)):
            u = data.fitted(architecture).as_inputs(data.scaled[part]).to(theta)
            predicted = network(u).argmax(-1).cpu().numpy()
            for index, run in enumerate(wanted):
                if run.fold == fold:
                    correct[index, part] = predicted[index] == data.targets[part]
    return correct


@torch.no_grad()
def _sparsity(network: ChoqolateNetwork, data: TrainingSet) -> list[tuple[float, float, float]]:
    """Gini, coherence and concepts per class of each run."""
    nodes = network.node_attributions().cpu().double().numpy()  # (R, N, M)
    found = []
    for run, attributions in enumerate(nodes):
        shares = metrics.per_concept(attributions, len(data.concepts))
        chain = shares
        if network.classes is not None:
            chain = network.classes.capacity().attributions()[run].cpu().double().numpy() @ shares
        gini = metrics.mean_over_nodes(metrics.attribution_gini(shares)).mean
        coherence = metrics.mean_over_nodes(metrics.node_coherence_on(shares, data.scaled.scores)).mean
        found.append((gini, coherence, float(metrics.concept_count(chain).mean())))
    return found


def measure_paper(
    classifier: ChoqolateClassifier, data: TrainingSet, validation: Validation, seed: int
) -> Trial | None:
    """Train the paper's settings at full length and measure them; ``None`` where they take too much memory."""
    if not _fits(Architecture(8), len(data.concepts), len(data.classes)):
        return None
    settings = classifier.with_settings(PAPER | {"init": "random", "schedule": "constant", "track": False})
    ((trial, _),) = _try(settings, data, validation, [0.005], seed, "search: the paper's settings")
    return trial


# ---------------------------------------------------------------------- the choice


def _choose(
    trials: Sequence[Trial], paper: Trial | None, errors: Sequence[float], sparsity: float | None
) -> tuple[int, float, list[str]]:
    """The index of the trial to take, the standard error of its best competitor, and what speaks against it."""

    def accuracy(index: int) -> float:
        return trials[index].accuracy

    def gini(index: int) -> float:
        return trials[index].gini

    if sparsity is not None:
        sparse = [index for index, trial in enumerate(trials) if trial.gini >= sparsity]
        chosen = max(sparse, key=accuracy) if sparse else max(range(len(trials)), key=gini)
        lacking = f"No setting reaches a Gini of {sparsity:g}; the sparsest has {gini(chosen):.2f}."
        return chosen, errors[chosen], [] if sparse else [lacking]
    least = -math.inf if paper is None else paper.gini - GINI_MARGIN
    sparse = [index for index, trial in enumerate(trials) if trial.gini >= least]
    doubts = []
    if not sparse:
        sparse = [max(range(len(trials)), key=gini)]
        doubts.append("No setting is as sparse as the paper's, so the sparsest was taken.")
    best = max(sparse, key=accuracy)
    enough = accuracy(best) - min(max(errors[best], LEAST_TOLERANCE), MOST_TOLERANCE)
    close = [index for index in sparse if accuracy(index) >= enough]
    chosen = min(close, key=lambda i: (round(trials[i].concepts_per_class), trials[i].n_parameters))
    return chosen, errors[best], doubts


def _doubts(data: TrainingSet, groups: np.ndarray | None, error: float) -> list[str]:
    """What the validation rows make doubtful."""
    doubts = []
    counts = np.bincount(data.targets, minlength=len(data.classes))
    few = int((counts < N_FOLDS).sum())
    if few:
        verb = "has" if few == 1 else "have"
        doubts.append(f"{few} of {len(counts)} classes {verb} fewer than {N_FOLDS} training rows.")
    if groups is not None:
        sizes = {group: int((groups == group).sum()) for group in sorted(set(groups), key=str)}
        smallest = min(sizes, key=lambda group: sizes[group])
        if sizes[smallest] < _FEW_ROWS:
            rows = counted(sizes[smallest], "validation row")
            doubts.append(f"Group {smallest!r} has only {rows}, and all groups count equally.")
    if error > _DOUBTFUL_ERROR:
        doubts.append(f"The validation accuracy has a standard error of {100 * error:.1f} points.")
    return doubts
