"""All ways to mitigate a bias on real faces, over resamplings, and what the models follow.

    python benchmarks/celeba_debiasing.py celeba500_images.npz openimages500_texts.npz lvis1203_texts.npz

The tasks are those of ``celeba_scores.py``: in 95% of the training rows, the class goes with the attribute Male; test
rows are balanced. Prints Markdown: accuracy and worst group of every method with two 95% intervals over the
resamplings, the usual one and the one that respects their overlap; differences to removal, paired by resampling; what
the models follow; and which concepts training without the spurious ones picks up. Seeds are averaged within a
resampling. Ortho-Cali is left out: it needs the vectors of further texts.
"""

from __future__ import annotations

import argparse
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from celeba_scores import biased_task, unit, vocabulary
from remove_then_reweight import REWEIGHTED, SecondLayer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import choqolate as cq
from choqolate._util.progress import item_bar
from choqolate.debiasing import DEBIASING, Case, Debiasing, effective_rows, missing, orthogonal_projection, rescaled
from choqolate.debiasing.orthogonal import project
from choqolate.estimators.table_training import fit_scores_runs
from choqolate.metrics import resampled_interval

PARAMETERS = {"n_nodes": 8, "epochs": 100, "device": "cpu"}
REMOVALS = ("rescale", "rescale-recalibrated", "impute-recalibrated")
AGAINST = ("baseline", "control-recalibrated", "oracle", "cbdebug", "permutation-weights", "group-dro")
GAINS = 12  # concepts to print
PROBE = {"C": 0.1, "max_iter": 2_000}

Applied = tuple[Sequence[Any], cq.ConceptScores]
Row = tuple[str, Callable[["Task"], Applied]]
Measured = dict[str, list[dict[str, float]]]


class Task(NamedTuple):
    """One resampling: its biased table with trained models, and the same rows scored for projected concepts."""

    case: Case
    projected: cq.ConceptScores
    seed: int


def main() -> None:
    """Run the study and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path)
    parser.add_argument("texts", type=Path, nargs="+")
    parser.add_argument("--target", default="Smiling")
    parser.add_argument("--agreement", type=float, default=0.95)
    parser.add_argument("--resamplings", type=int, default=15)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--temperature", type=float, default=0.02)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", cq.ChoqolateWarning)
    warnings.filterwarnings("ignore", "Mean of empty slice")
    measured: Measured = defaultdict(list)
    probed: list[dict[str, float]] = []
    shares: dict[str, list[np.ndarray]] = defaultdict(list)
    biases: list[tuple[float, float]] = []
    failed: dict[str, str] = {}
    rows = methods()
    with item_bar(asked.resamplings, "resamplings", enabled=True) as advance:
        for task in make_tasks(asked):
            for name in [name for name in rows if name not in failed]:
                try:
                    models, table = rows[name][1](task)
                except cq.ChoqolateError as error:
                    failed[name] = str(error)
                    measured.pop(name, None)  # of earlier resamplings: a mean over fewer would mislead
                    shares.pop(name, None)
                    continue
                each = [measure(model, table) for model in models]
                measured[name].append({key: float(np.nanmean([one[key] for one in each])) for key in each[0]})
                shares[name].append(mean_chain(models, table))
            probed.append(probe(task.case.table))
            biases.append(weighted_bias(task.case))
            advance(1)
    table = task.case.table
    n_train, n_test = len(table.part("train")), len(table.part("test"))
    print(f"{asked.target}, temperature {asked.temperature:g}: {table}, {len(table.spurious)} concepts spurious")
    print(f"{n_test} test rows, {n_train} training rows: {count(table.part('train').groups)}")
    print(f"{asked.resamplings} resamplings, {asked.seeds} seeds in each")
    against, effective = np.mean(biases, axis=0)
    print(
        f"permutation weights: {percent(against)}% on rows against the bias, {percent(effective)}% of rows in effect\n"
    )
    show_methods(rows, measured, n_train, n_test)
    for name, why in failed.items():
        print(f"{rows[name][0]} could not be run: {why}\n")
    show_differences(rows, measured, n_train, n_test)
    show_probes(probed)
    show_gains(table, shares)


def make_tasks(asked: argparse.Namespace) -> Iterable[Task]:
    """One task for each resampling, with trained models."""
    images, (names, vectors) = np.load(asked.images), vocabulary(asked.texts)
    attributes = dict(zip(images["attribute_names"].tolist(), images["attributes"].T, strict=True))
    target, male, vision = attributes[asked.target], attributes["Male"], unit(images["embeddings"])
    parameters = PARAMETERS | {"temperature": asked.temperature}
    for seed in range(asked.resamplings):
        table = biased_task(vision @ vectors.T, names, target, male, asked, seed)
        spurious = [names.index(name) for name in table.spurious]
        left = project(vectors, orthogonal_projection(vectors[spurious]))
        projected = biased_task(vision @ left.T, names, target, male, asked, seed)
        models = fit_scores_runs(table, range(asked.seeds), **parameters)
        yield Task(Case(models, table, table.spurious, parameters), projected, seed)


# ---------------------------------------------------------------- methods


def methods() -> dict[str, Row]:
    """Title and function of each row: those that scores and text vectors are enough for, and those of this study."""
    rows: dict[str, Row] = {}
    for name, way in DEBIASING.items():
        if not (way.needs.embeddings or way.needs.images):
            rows[name] = way.title, partial(run, way)
    rows["ortho-proj"] = DEBIASING["ortho-proj"].title, project_only
    rows["ortho-proj-retrained"] = DEBIASING["ortho-proj-retrained"].title, project_and_train
    rows["control"] = "Control: random core concepts removed", partial(control, recalibrate=False)
    rows["control-recalibrated"] = "Control, recalibrated", partial(control, recalibrate=True)
    for title, apply in REWEIGHTED.items():
        rows[title] = title, lambda task, apply=apply: apply(task.case)
    return rows


def run(way: Debiasing, task: Task) -> Applied:
    """A row of the table of `debias`."""
    lack = missing(way, task.case)
    if lack is not None:
        raise cq.ChoqolateError(lack)
    return way.apply(task.case)


def project_only(task: Task) -> Applied:
    """Ortho-Proj, from text vectors."""
    return [rescaled(model, task.projected) for model in task.case.models], task.projected


def project_and_train(task: Task) -> Applied:
    """Ortho-Proj, trained again."""
    case = task.case
    seeds = [model.random_state for model in case.models]
    return fit_scores_runs(task.projected, seeds, leave_out=case.spurious, **case.parameters), task.projected


def control(task: Task, *, recalibrate: bool) -> Applied:
    """As many random core concepts removed as there are spurious ones."""
    table, rng = task.case.table, np.random.default_rng(task.seed)
    core = [name for name in table.concepts if name not in table.spurious]
    train = table.part("train") if recalibrate else None
    chosen = [rng.choice(core, len(table.spurious), replace=False).tolist() for _ in task.case.models]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cq.errors.SmallRemainderWarning)
        pairs = zip(task.case.models, chosen, strict=True)
        return [model.remove_concepts(names, recalibrate=train) for model, names in pairs], table


# ---------------------------------------------------------------- measures


def measure(model: Any, table: cq.ConceptScores) -> dict[str, float]:
    """Accuracies, and how far the class score follows gender and the class, each where the other is constant."""
    test = table.part("test").select(model.concepts_)
    scores = np.asarray(model.class_scores(test.frame if hasattr(model, "feature_names_in_") else test.scores))
    predicted = np.asarray(model.classes_)[scores.argmax(1)]
    margin, positive, male = scores[:, 1] - scores[:, 0], test.labels == model.classes_[1], is_male(test)
    biased = male == (np.mean(agreeing(table.part("train"))) > 0.5)  # as in training
    return {
        "accuracy": cq.metrics.accuracy(test.labels, predicted),
        "worst_group": cq.metrics.worst_group_accuracy(test.labels, predicted, test.groups),
        "follows_gender": auc_within(biased, margin, positive),
        "follows_class": auc_within(positive, margin, male),
        "reads_gender": gender_in(model, table),
    }


def auc_within(wanted: np.ndarray, score: np.ndarray, strata: np.ndarray) -> float:
    """Area under the curve of a score for an attribute, the mean over the strata of another one."""
    return float(np.mean([roc_auc_score(wanted[part], score[part]) for part in (strata, ~strata)]))


def is_male(table: cq.ConceptScores) -> np.ndarray:
    """Of each row."""
    return np.array([group.endswith(", male") for group in table.groups])


def agreeing(table: cq.ConceptScores) -> np.ndarray:
    """Which rows are male and of the last class, or neither."""
    return is_male(table) == (table.labels == table.classes[1])


def weighted_bias(case: Case) -> tuple[float, float]:
    """Share of the permutation weight on rows that disagree with the bias, and the share of rows in effect."""
    agree, w = agreeing(case.table.part("train")), case.weights
    agree = agree if agree.mean() > 0.5 else ~agree
    return float(w[~agree].sum() / w.sum()), effective_rows(w) / len(w)


def gender_correlations(table: cq.ConceptScores) -> np.ndarray:
    """Of each concept with gender on the balanced test rows ``(M,)``."""
    test = table.part("test")
    moving = [np.ptp(column) > 0 for column in test.scores.T]  # of a projected spurious concept nothing is left
    pairs = zip(test.scores.T, moving, strict=True)
    return np.array([np.corrcoef(column, is_male(test))[0, 1] if moves else 0.0 for column, moves in pairs])


def chain(model: Any) -> np.ndarray:
    """Share of every concept in every class ``(C, M)``."""
    if isinstance(model, SecondLayer):
        return model.concept_to_class
    return np.abs(model.class_attributions_) @ model.concept_attributions_  # weights of a linear head have signs


def mean_chain(models: Sequence[Any], table: cq.ConceptScores) -> np.ndarray:
    """Mean share of every concept of the table over models and classes ``(M,)``."""
    shares = np.zeros(len(table.concepts))
    for model in models:
        shares[[table.concepts.index(name) for name in model.concepts_]] += chain(model).mean(0) / len(models)
    return shares


def gender_in(model: Any, table: cq.ConceptScores) -> float:
    """Mean absolute correlation with gender of the concepts of a model, weighted by their share."""
    shares = mean_chain([model], table)
    if not shares.any():  # a penalized head may use no node at all
        return float("nan")
    return float(shares @ np.abs(gender_correlations(table)) / shares.sum())


def probe(table: cq.ConceptScores) -> dict[str, float]:
    """How well linear probes read gender and the class from sets of concepts: AUC where the other one is constant.

    They are fitted on the training rows, with all four groups weighted equally, and measured on the test rows.
    """
    train, test = table.part("train"), table.part("test")
    counts = dict(zip(*np.unique(train.groups, return_counts=True), strict=True))
    weights = np.array([len(train) / counts[group] for group in train.groups])
    core = [name for name in table.concepts if name not in table.spurious]
    found = {}
    for title, names in {"all": table.concepts, "spurious": table.spurious, "core": core}.items():
        X, X_test = train.select(names).scores, test.select(names).scores
        labels = {"gender": is_male, "class": lambda part: part.labels == table.classes[0]}
        for (what, of), other in zip(labels.items(), reversed(labels.values()), strict=True):
            fitted = make_pipeline(StandardScaler(), LogisticRegression(**PROBE))
            fitted.fit(X, of(train), logisticregression__sample_weight=weights / weights.mean())
            found[f"{what} from {title} concepts"] = auc_within(of(test), fitted.decision_function(X_test), other(test))
    return found


# ---------------------------------------------------------------- tables


def show_methods(rows: dict[str, Row], measured: Measured, n_train: int, n_test: int) -> None:
    """Print one line per method: mean, usual interval and corrected interval of the worst group, and the rest."""
    heads = ["method", "worst group", "usual ±", "corrected ±", "accuracy", "usual ±", "corrected ±"]
    show_head([*heads, "follows gender", "follows class", "gender in its concepts"])
    for name, values in measured.items():
        cells = [rows[name][0]]
        for key in ("worst_group", "accuracy"):
            column = [one[key] for one in values]
            cells += [percent(np.mean(column)), *(percent(reach(column, n_train, n)) for n in (0, n_test))]
        cells += [f"{np.nanmean([one[key] for one in values]):.2f}" for key in list(values[0])[2:]]
        print("|", " | ".join(cells), "|")
    print()


def show_differences(rows: dict[str, Row], measured: Measured, n_train: int, n_test: int) -> None:
    """Print the worst group of removal minus that of others, paired by resampling."""
    show_head(["worst group of", "minus", "difference", "usual ±", "corrected ±", "resamplings in favor"])
    for ours in [name for name in REMOVALS if name in measured]:
        for other in [name for name in AGAINST if name in measured]:
            pairs = zip(measured[ours], measured[other], strict=True)
            gaps = [one["worst_group"] - two["worst_group"] for one, two in pairs]
            cells = [f"{100 * np.mean(gaps):+.1f}", *(percent(reach(gaps, n_train, n)) for n in (0, n_test))]
            favor = f"{sum(gap > 0 for gap in gaps)} of {len(gaps)}"
            print("|", " | ".join([rows[ours][0], rows[other][0], *cells, favor]), "|")
    print()


def show_probes(probed: list[dict[str, float]]) -> None:
    """Print what linear probes read, means over resamplings."""
    show_head(["linear probe", "AUC"])
    for name in probed[0]:
        print(f"| {name} | {np.mean([one[name] for one in probed]):.2f} |")
    print()


def show_gains(table: cq.ConceptScores, shares: dict[str, list[np.ndarray]]) -> None:
    """Print the concepts whose share grows most from removal to training without the spurious concepts."""
    compared = "rescale", "oracle", "baseline"
    if not all(name in shares for name in compared):
        return
    removal, again, before = (np.mean(shares[name], axis=0) for name in compared)
    correlations = gender_correlations(table)
    show_head(["concept", "as trained", "removed", "trained without", "gain", "correlation with Male"])
    for index in np.argsort(removal - again)[:GAINS]:
        values = [before[index], removal[index], again[index], again[index] - removal[index]]
        cells = [*(percent(value) for value in values), f"{correlations[index]:+.2f}"]
        print("|", " | ".join([table.concepts[index], *cells]), "|")
    core = [index for index, name in enumerate(table.concepts) if name not in table.spurious]
    gains = again[core] - removal[core]
    r = np.corrcoef(gains, np.abs(correlations[core]))[0, 1]
    print(f"\nCorrelation of gain and |correlation with Male| over {len(core)} core concepts: {r:.2f}")


def count(groups: np.ndarray) -> str:
    """Number of rows of each group."""
    names, sizes = np.unique(groups, return_counts=True)
    return "; ".join(f"{size} {name}" for name, size in zip(names.tolist(), sizes.tolist(), strict=True))


def show_head(names: Sequence[str]) -> None:
    """Print the first lines of a table."""
    print("|", " | ".join(names), "|")
    print("|---" * len(names) + "|")


def reach(values: Sequence[float], n_train: int, n_test: int) -> float:
    """Half the length of the interval of their mean."""
    low, high = resampled_interval(values, n_train, n_test)
    return (high - low) / 2


def percent(value: float) -> str:
    """As a number in percent."""
    return f"{100 * value:.1f}"


if __name__ == "__main__":
    main()
