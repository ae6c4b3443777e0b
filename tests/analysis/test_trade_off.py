"""Accuracy against sparsity: the rival is solved to its optimum, and all are measured on the same rows."""

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import choqolate as cq
from choqolate import metrics
from choqolate.analysis import trade_off as trade_off_module
from choqolate.analysis.trade_off import CEILING, CEILING_L2, L1, OURS, PAPER, REFITTED, RivalPoint, TradeOff
from choqolate.baselines.softmax_regression import SoftmaxRegression
from choqolate.estimators.search_record import Search, Trial
from choqolate.estimators.table_training import prepare_scores
from choqolate.estimators.validation import hold_out
from tests.elastic_net import ELASTIC_NET


def small_problem(n_rows=150, n_concepts=6, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    targets = rng.integers(0, n_classes, n_rows)
    Z = rng.random((n_rows, n_concepts))
    Z[:, :n_classes] += 0.5 * np.eye(n_classes)[targets]
    return Z / Z.max(axis=0), targets


def make_table(groups=False):
    Z, targets = small_problem(240, 5)
    some = np.random.default_rng(1).choice(["day", "night"], len(Z), p=[0.7, 0.3]) if groups else None
    labels = np.array(["gull", "wren", "owl"])[targets]
    return cq.ConceptScores(Z, ["sea", "reed", "barn", "tail", "bill"], labels=labels, groups=some)


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "groups"])
def measured(request):
    table = make_table(request.param)
    with pytest.warns(cq.ChoqolateWarning, match="doubtful"):
        result = cq.trade_off(table, interactions="none", epochs=10)
    return table, result


def saga(Z, targets, penalty):
    options = {"C": 1 / (len(Z) * penalty), "solver": "saga", "tol": 1e-9, "max_iter": 50_000, **ELASTIC_NET}
    return LogisticRegression(l1_ratio=1, **options).fit(Z, targets)


@pytest.mark.parametrize("penalty", [0.05, 0.01, 0.002])
def test_the_path_reaches_the_optimum_of_saga(penalty):
    Z, targets = small_problem()
    *_, fitted = SoftmaxRegression(Z, targets, 3).l1_path([0.1, penalty], tolerance=1e-5)
    expected = saga(Z, targets, penalty)
    np.testing.assert_allclose(fitted.W, expected.coef_, atol=2e-4)
    np.testing.assert_array_equal(fitted.W == 0, np.abs(expected.coef_) < 1e-7)
    np.testing.assert_array_equal(fitted.predict(Z), expected.predict(Z))
    assert penalty < 0.01 or (fitted.W == 0).any()


def test_the_usual_tolerance_is_enough_to_tell_zeros():
    Z, targets = small_problem()
    rough, exact = (next(SoftmaxRegression(Z, targets, 3).l1_path([0.01], *more)) for more in ((), (1e-6,)))
    np.testing.assert_allclose(rough.W, exact.W, atol=0.05)
    np.testing.assert_array_equal(metrics.concept_count(rough.W), metrics.concept_count(exact.W))


def test_of_two_classes_the_difference_is_that_of_one_vector():
    Z, targets = small_problem(n_classes=2)
    fitted = next(SoftmaxRegression(Z, targets, 2).l1_path([0.01], tolerance=1e-5))
    np.testing.assert_allclose(fitted.W[1] - fitted.W[0], saga(Z, targets, 0.01).coef_[0], atol=2e-4)
    np.testing.assert_allclose(fitted.W[0], -fitted.W[1], atol=1e-6)


@pytest.mark.parametrize("penalty", [1e-2, 1e-4])
def test_without_selection_it_is_logistic_regression(penalty):
    Z, targets = small_problem()
    weights = np.random.default_rng(2).random(len(Z)) + 0.5
    (fitted,) = SoftmaxRegression(Z, targets, 3, weights).l2_fits([penalty], tolerance=1e-8)
    expected = LogisticRegression(C=1 / (weights.sum() * penalty), tol=1e-8, max_iter=5000).fit(Z, targets, weights)
    np.testing.assert_allclose(fitted.W, expected.coef_, atol=1e-3)
    difference = fitted.b - expected.intercept_
    np.testing.assert_allclose(difference, difference.mean(), atol=1e-3)  # a shift of all changes nothing


def test_refitting_keeps_to_the_selected_concepts():
    Z, targets = small_problem()
    selected = next(SoftmaxRegression(Z, targets, 3).l1_path([0.03])).W != 0
    assert 0 < selected.sum() < selected.size
    (fitted,) = SoftmaxRegression(Z, targets, 3).l2_fits([1e-5], selected)
    np.testing.assert_array_equal(fitted.W != 0, selected)


def test_a_class_without_rows_is_never_predicted():
    Z, targets = small_problem(n_classes=3)
    rows = targets != 1
    regression = SoftmaxRegression(Z[rows], targets[rows], 3)
    for fitted in (next(regression.l1_path([0.01])), *regression.l2_fits([1e-3])):
        assert set(fitted.predict(Z)) == {0, 2}


def test_the_path_leads_from_sparse_to_dense(measured):
    _, result = measured
    nonzeros = [point.nonzeros_per_class for point in result.rivals]
    assert nonzeros[0] < 2 < nonzeros[-1] <= 5
    penalties = [point.penalty for point in result.rivals]
    assert penalties == sorted(penalties, reverse=True)
    assert [point.nonzeros_per_class for point in result.refitted] == nonzeros
    assert all(point.concepts_per_class <= point.nonzeros_per_class for point in (*result.rivals, *result.refitted))


def test_the_ceiling_is_the_best_logistic_regression_on_the_same_folds(measured):
    table, result = measured
    _, data, _ = prepare_scores(table, interactions="none")
    validation = hold_out(data)
    assert int(validation.seen.sum()) == result.search.rows
    accuracies = []
    for penalty in CEILING_L2:
        correct = np.zeros(len(data.targets), dtype=bool)
        for train, held_out in validation.splits():
            assert not set(train) & set(held_out)
            model = LogisticRegression(C=1 / (len(train) * penalty), tol=1e-7, max_iter=5000)
            model.fit(data.scaled[train], data.targets[train], data.weights[train])
            correct[held_out] = model.predict(data.scaled[held_out]) == data.targets[held_out]
        if data.groups is None:
            accuracies.append(correct[validation.seen].mean())
        else:
            parts = [correct[validation.seen & (data.groups == name)].mean() for name in ("day", "night")]
            accuracies.append(np.mean(parts))
    assert result.ceiling == pytest.approx(max(accuracies), abs=0.011)  # a row or two on the fence


def test_every_method_sees_the_same_rows(measured, monkeypatch):
    table, result = measured
    seen = []
    monkeypatch.setattr(
        trade_off_module.Validation, "accuracy", lambda self, correct: seen.append(self.seen.copy()) or 0.5
    )
    again = cq.trade_off(table, search=result.search)
    assert len(seen) > len(again.rivals) + len(again.refitted)
    assert all((mask == seen[0]).all() for mask in seen)
    assert seen[0].sum() == result.search.rows


def test_a_finished_search_is_taken_as_it_is(measured):
    table, result = measured
    again = cq.trade_off(table, search=result.search, interactions="none", epochs=10)
    assert again == result
    with pytest.raises(cq.ChoqolateError, match="concepts of this table but got one on"):
        cq.trade_off(table.take(range(100)), search=result.search)


def test_something_must_be_left_to_search():
    with pytest.raises(cq.ChoqolateError, match="Expected settings to search"):
        cq.trade_off(make_table(), n_nodes=4, temperature=0.01, interactions="none")


def test_concepts_can_be_left_out():
    search = made_up([(0.9, 3.0)]).search
    search = replace(search, rows=int(hold_out(prepare_scores(make_table()).data).seen.sum()), n_concepts=3)
    result = cq.trade_off(make_table(), leave_out=["sea", "reed"], search=search)
    assert max(point.nonzeros_per_class for point in result.rivals) <= 3
    with pytest.raises(cq.ChoqolateError, match=r"and 5 concepts of this table but got one on .* 3 concepts"):
        cq.trade_off(make_table(), search=search)
    assert result.ceiling < cq.trade_off(make_table(), search=replace(search, n_concepts=5)).ceiling


# ---------------------------------------------------------------------- plain data


def made_up(pairs, chosen=0, rivals=()):
    settings = dict(n_nodes=None, interactions="none", class_interactions=None, bipolar=False, temperature=0.01)
    trials = tuple(
        Trial(**settings, accuracy=a, gini=1 - x / 50, coherence=None, concepts_per_class=x, n_parameters=int(x))
        for a, x in pairs
    )
    search = Search(trials, chosen, None, "clusters", "cosine", "", 0.01, 100, 5, False, (), 1.0)
    path = tuple(RivalPoint(L1, 0.1, None, a, 0.5, x, x) for a, x in rivals)
    return TradeOff(search, path, tuple(replace(one, name=REFITTED, l2=1e-5) for one in path), 0.95)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("x", ["concepts_per_class", "gini", "n_parameters"])
def test_the_front_holds_what_nothing_beats(seed, x):
    pairs = np.random.default_rng(seed).integers(1, 8, (15, 2)) / [10.0, 1.0]
    result = made_up(pairs.tolist())
    expected = set()
    for own, (a, count) in enumerate(pairs):
        better = [
            other for other, (b, fewer) in enumerate(pairs) if (b > a and fewer <= count) or (b >= a and fewer < count)
        ]
        if not better:
            expected.add((a, count, own))
    front = result.front(x)
    assert sorted((t.accuracy, t.concepts_per_class) for t in front) == sorted((a, c) for a, c, _ in expected)
    assert [t.concepts_per_class for t in front] == sorted(t.concepts_per_class for t in front)


def test_the_front_needs_values_and_a_known_quality():
    result = made_up([(0.9, 3.0)])
    assert result.front("coherence") == ()
    with pytest.raises(cq.ChoqolateError, match="x"):
        result.front("beauty")


def test_the_rival_is_read_off_between_its_points():
    result = made_up([(0.8, 4.0)], rivals=[(0.5, 2.0), (0.7, 6.0), (0.6, 8.0), (0.9, 10.0)])
    assert result.rival_accuracy(4.0) == pytest.approx(0.6)
    assert result.rival_accuracy(8.0, refitted=True) == pytest.approx(0.7)  # what fewer concepts reach counts
    assert result.rival_accuracy(50.0) == pytest.approx(0.9)
    assert math.isnan(result.rival_accuracy(1.0))
    assert result.rival_concepts(0.6) == pytest.approx(4.0)
    assert result.rival_concepts(0.8) == pytest.approx(9.0)
    assert result.rival_concepts(0.1) == pytest.approx(2.0)
    assert math.isnan(result.rival_concepts(0.95))


def test_lines_say_who_needs_what():
    said = " ".join(made_up([(0.8, 4.0)], rivals=[(0.5, 2.0), (0.7, 6.0), (0.9, 10.0)]).lines())
    assert "reaches accuracy 0.800 (standard error 0.010, " in said
    assert "validation rows) with 4.0 concepts per class" in said
    assert "l1 logistic regression reaches 0.600" in said
    assert "needs 8.0 concepts per class" in said
    assert "reaches 0.950" in said
    assert "No penalty" in " ".join(made_up([(0.99, 4.0)], rivals=[(0.5, 2.0)]).lines())
    assert repr(made_up([(0.8, 4.0)])) == "TradeOff(1 setting, 0 penalties; chosen 0.800, ceiling 0.950)"


def test_the_frame_is_tidy(measured):
    _, result = measured
    frame = result.frame
    counts = frame["method"].value_counts()
    assert counts[OURS] == len(result.search.trials)
    assert counts[L1] == counts[REFITTED] == len(result.rivals)
    assert counts[CEILING] == counts[PAPER] == 1
    assert frame["chosen"].sum() == 1
    assert frame.loc[frame["chosen"], "accuracy"].item() == result.search.choice.accuracy
    assert frame["on_front"].sum() == len(result.front())
    assert frame["accuracy"].between(0, 1).all()
