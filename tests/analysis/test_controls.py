"""A model beside meaningless concepts and a ceiling, and what the numbers are said to mean."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import MinMaxScaler

import choqolate as cq
from choqolate.analysis.control_text import accuracy_gap, accuracy_text
from choqolate.analysis.controls import Control, Controls, fit_ceiling
from choqolate.analysis.evaluation import evaluate
from choqolate.analysis.evaluation_record import Evaluation
from choqolate.metrics import PairedChange, Proportion
from tests.debiasing.tables import PARAMETERS, SPURIOUS, biased_table


@pytest.fixture(scope="module")
def table():
    return biased_table()


@pytest.fixture(scope="module")
def others(table):
    """Scores of names that know as much as the concepts do: mixtures of them."""
    rng = np.random.default_rng(0)
    mixed = table.scores @ rng.normal(size=(6, 12))
    return cq.ConceptScores(mixed, [f"thing {chr(97 + j)}" for j in range(12)], rows=table.rows)


@pytest.fixture(scope="module")
def model(table):
    return cq.fit_scores(table, **PARAMETERS)


@pytest.fixture(scope="module")
def controls(model, table, others):
    return cq.run_controls(model.remove_concepts(SPURIOUS), table, others=others, seeds=[3, 5])


# ---------------------------------------------------------------- what is measured


def test_rows_without_labels_are_neither_for_training_nor_held_out(model, table):
    for parts in (["train"], ["test", "val"]):
        labels = [None if part in parts else label for part, label in zip(table.split, table.labels, strict=True)]
        with pytest.raises(cq.ChoqolateError, match="lacks one of the two"):
            cq.run_controls(model, table.with_columns(labels=labels), seeds=[0])


def test_rows_that_the_model_was_trained_on_are_named(model, table):
    exchanged = table.with_columns(split=np.where(table.split == "train", "test", "train"))
    with pytest.warns(cq.ChoqolateWarning, match="used for training"):
        cq.run_controls(model, exchanged, seeds=[0])


def test_the_rows_are_the_model_its_settings_again_random_concepts_and_a_ceiling(controls):
    assert {row.name: len(row.evaluations) for row in controls.rows} == {
        "this model": 1,
        "its concepts, trained again": 2,
        "random names": 2,
        "random directions": 2,
        "logistic regression": 1,
    }
    assert all(one.rows == 400 for row in controls.rows for one in row.evaluations)
    assert controls.n_concepts == 6
    assert controls.missing is None


def test_each_row_is_what_training_and_measuring_by_hand_gives(controls, model, table, others):
    settings = {k: v for k, v in model.trained_settings.items() if k != "random_state"}

    def by_hand(made, seed):
        return evaluate(cq.fit_scores(made, random_state=seed, calibrate=False, **settings), made).accuracy

    names = [cq.control_table(table, "names", seed=seed, others=others) for seed in (3, 5)]
    directions = [cq.control_table(table, "directions", seed=seed) for seed in (3, 5)]
    expected = {
        "its concepts, trained again": [by_hand(table, 3), by_hand(table, 5)],
        "random names": [by_hand(names[0], 3), by_hand(names[1], 5)],
        "random directions": [by_hand(directions[0], 3), by_hand(directions[1], 5)],
    }
    for name, accuracies in expected.items():
        assert [one.accuracy for one in controls[name].evaluations] == pytest.approx(accuracies)
    edited = model.remove_concepts(SPURIOUS)
    assert controls["this model"].evaluations[0].accuracy == evaluate(edited, table).accuracy


def test_removed_concepts_bring_leakage_and_others_none(controls, model, table):
    assert controls.leakage.concepts == SPURIOUS
    assert cq.run_controls(model, table, seeds=[0]).leakage is None


def test_a_few_images_are_enough_to_run(model, table):
    few = table.take(np.flatnonzero((table.split == "train") | (np.arange(len(table)) >= len(table) - 8)))

    found = cq.run_controls(model.remove_concepts(SPURIOUS), few, seeds=[0])

    assert found.n_images == 8
    assert found.leakage.lines()[-1].startswith("There are too few images to tell")


def test_random_names_need_other_scores_or_embeddings(model, table, others):
    alone = cq.run_controls(model, table, seeds=[0])

    assert alone.find("random names") is None
    assert any(line.startswith("Random names were left out. They need") for line in alone.lines())
    with pytest.raises(cq.ChoqolateError, match="at least 6 random names"):
        cq.run_controls(model, table, others=others.select(others.concepts[:4]), seeds=[0])


def test_concepts_that_were_left_out_of_training_are_not_counted(table):
    model = cq.fit_scores(table, leave_out=SPURIOUS, **PARAMETERS)

    assert cq.run_controls(model, table, seeds=[0]).n_concepts == 4


def test_a_split_that_was_made_for_training_is_found_again(table):
    bare = table.with_columns(split=None)
    model = cq.fit_scores(bare, **PARAMETERS)

    found = cq.run_controls(model, bare, seeds=[0])

    assert found.n_images == len(bare.with_split().part("test"))
    with pytest.raises(cq.ChoqolateError, match="training rows and labeled held-out rows"):
        cq.run_controls(model, bare.take(slice(0, 400)), seeds=[0])
    with pytest.raises(cq.ChoqolateError, match="training rows and labeled held-out rows"):
        cq.run_controls(model, table.part("test"), seeds=[0])


def test_the_ceiling_is_logistic_regression_with_a_cross_validated_penalty(table):
    rows = table.part("train")
    ceiling = fit_ceiling(rows)
    Z = MinMaxScaler().fit_transform(rows.scores)
    fold = np.random.default_rng(0).permutation(len(rows)) % 3

    def hits(penalty):  # with two classes, scikit-learn has one vector of weights for both, of twice the size
        found = 0
        for held_out in range(3):
            train = fold != held_out
            fitted = LogisticRegression(C=2 / (penalty * train.sum()), max_iter=5_000, tol=1e-8)
            fitted.fit(Z[train], rows.labels[train].astype(str))
            found += (fitted.predict(Z[~train]) == rows.labels[~train]).sum()
        return found

    best = max(hits(penalty) for penalty in (1e-2, 1e-3, 1e-4, 1e-5))
    assert hits(ceiling.penalty) >= best - 1


def test_the_numbers_are_json(controls):
    numbers = json.loads(json.dumps(controls.as_dict(), allow_nan=False))

    assert [row["name"] for row in numbers["rows"]] == [row.name for row in controls.rows]
    assert numbers["rows"][2]["gap"]["value"] == pytest.approx(
        controls["its concepts, trained again"].accuracy.mean - controls["random names"].accuracy.mean
    )
    assert numbers["rows"][0]["gap"] is None
    assert numbers["majority"]["accuracy"] == controls.majority[1].value
    assert numbers["leakage"]["concepts"] == list(SPURIOUS)


def test_a_row_is_found_by_its_name(controls):
    with pytest.raises(cq.ChoqolateError, match="Expected a control among this model, "):
        controls["random name"]


def test_a_baseline_has_no_controls(table):
    rows = table.part("train")
    with pytest.raises(cq.ChoqolateError, match="Expected a ChoqolateClassifier to run controls"):
        cq.run_controls(cq.baselines.LinearBottleneck(epochs=1).fit(rows.frame, rows.labels), table)


# ---------------------------------------------------------------- gaps


def _run(hits, coherence=0.5):
    hits = np.asarray(hits, dtype=bool)
    empty = dict(class_accuracy={}, class_rows={"gull": len(hits)}, group_accuracy={}, group_rows={}, confusion={})
    return Evaluation(
        rows=len(hits),
        chosen="test rows",
        accuracy=float(hits.mean()),
        worst_group=None,
        attribution_gini=0.8,
        node_coherence=coherence,
        hits=hits,
        **empty,
    )


def test_the_gap_of_two_runs_has_the_interval_of_a_paired_change():
    first, second = np.arange(100) < 80, (np.arange(100) >= 10) & (np.arange(100) < 85)
    change = PairedChange(gained=10, lost=5, rows=100)

    gap = accuracy_gap([_run(first)], [_run(second)])

    assert gap.value == pytest.approx(change.value)
    assert gap.interval == pytest.approx(change.interval)


def test_the_spread_of_draws_widens_the_gap():
    rows = np.arange(1000)
    first = [_run(rows < 800)] * 3
    second = [_run(rows < most) for most in (700, 750, 800)]

    gap = accuracy_gap(first, second)

    alone = accuracy_gap(first, [_run(rows < 750)] * 3).interval
    spread = student.ppf(0.975, 2) * 0.05 / math.sqrt(3)
    assert gap.value == pytest.approx(0.05)
    assert (gap.interval[1] - gap.interval[0]) / 2 == pytest.approx(
        math.hypot((alone[1] - alone[0]) / 2, spread), rel=0.05
    )


# ---------------------------------------------------------------- words


def _controls(
    real=0.8, names=0.8, n=2000, ceiling=0.85, coherence=(0.5, 0.5), most_frequent=0.2, directions=0.7, draws=3
):
    """Controls whose runs are right on that share of the images, nearly the same ones."""

    def row(name, share, runs=1, own=0.5):
        at = np.arange(n)
        return Control(name, tuple(_run(np.roll(at < round(share * n), run), own + run / 1000) for run in range(runs)))

    rows = (
        row("this model", real),
        row("its concepts, trained again", real, draws, coherence[0]),
        row("random names", names, draws, coherence[1]),
        row("random directions", directions, draws, 0.1),
        row("logistic regression", ceiling),
    )
    majority = ("gull", Proportion(round(most_frequent * n), n))
    return Controls(rows, majority, 40, "test rows", 1e-4, None, None)


def test_names_that_reach_the_same_show_that_accuracy_says_little():
    meaning = _controls(n=20_000).lines()[0]

    assert "The gap is 0.0 points" in meaning
    assert "no difference that matters" in meaning
    assert "does not show that the concepts mean what their names say" in meaning


def test_a_gap_that_may_be_chance_is_not_claimed():
    meaning = _controls(real=0.82, names=0.81, n=200).lines()[0]

    assert "cannot be distinguished from zero" in meaning
    assert "Random names reach 98% of the gain over always predicting the most frequent class" in meaning
    assert "do better on these concepts" not in meaning


def test_better_real_names_are_said_to_be_better_and_by_how_much_of_the_gain():
    meaning = _controls(real=0.8, names=0.7, n=20_000).lines()[0]
    assert "The gap is +10.0 points" in meaning
    assert "models do better on these concepts. But random names reach 83% of the gain" in meaning

    far = _controls(real=0.8, names=0.3, n=20_000).lines()[0]
    assert "do better on these concepts." in far
    assert "But" not in far


@pytest.mark.parametrize("names", [0.7, 0.8, 0.9])
def test_one_draw_is_too_few_for_a_claim(names):
    meaning = _controls(names=names, n=20_000, draws=1).lines()[0]
    assert "The gap is" in meaning
    assert "one draw is too few" in meaning
    assert "do better" not in meaning


def test_better_random_names_are_said_to_be_better():
    assert "random names do better" in _controls(real=0.7, names=0.8, n=20_000).lines()[0]


def test_coherence_is_claimed_beyond_the_spread_of_the_draws():
    assert (
        "with these concepts than with random names and random directions" in _controls(coherence=(0.6, 0.5)).lines()[1]
    )
    reach = student.ppf(0.975, 2) * 0.001 * math.sqrt(2 / 3)  # three runs and three draws, 0.001 apart
    for gap, claimed in ((1.05 * reach, True), (0.95 * reach, False)):
        line = _controls(coherence=(0.5 + gap, 0.5)).lines()[1]
        assert ("than with random names and random directions." in line) == claimed
        assert ("than with random directions. Compared with random names, the draws do not show" in line) != claimed
    assert "do not show that nodes are more coherent" in _controls(coherence=(0.05, 0.5)).lines()[1]
    several = _controls(coherence=(0.6, 0.5))
    single = [Control(row.name, row.evaluations[:1]) for row in several.rows]
    assert "One run of each is too few to compare them" in replace(several, rows=tuple(single)).lines()[1]


def test_the_ceiling_is_above_beside_or_below():
    assert "This ceiling is 5.0 points (" in _controls().lines()[2]
    assert "On these images, the model cannot be distinguished from it" in _controls(ceiling=0.8).lines()[2]
    assert "The model is 10.0 points (" in _controls(ceiling=0.7).lines()[2]


def test_one_run_has_an_interval_and_several_a_spread():
    found = _controls()

    assert accuracy_text(found["this model"]) == "80.0% (78.2 to 81.7)"
    assert accuracy_text(found["random names"]) == "80.0 ± 0.0%"
