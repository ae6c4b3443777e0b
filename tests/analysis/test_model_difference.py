"""Two models side by side: nodes are paired by an independent search, disagreements counted by loops."""

from itertools import permutations

import numpy as np
import pytest

import choqolate as cq
from choqolate.analysis.model_difference import compare_models
from choqolate.errors import ChoqolateError, ChoqolateWarning
from tests.small_tables import bird_scores


@pytest.fixture(scope="module")
def table():
    X, labels, groups = bird_scores(400, agreement=0.9)
    return cq.ConceptScores(X.to_numpy(), list(X.columns), labels=labels, groups=groups)


@pytest.fixture(scope="module")
def models(table):
    return [cq.fit_scores(table, n_nodes=4, epochs=20, random_state=seed) for seed in (0, 1)]


def test_nodes_are_paired_so_that_the_sum_of_cosines_is_largest(models):
    first, second = (model.concept_attributions_ for model in models)
    units = [shares / np.linalg.norm(shares, axis=1, keepdims=True) for shares in (first, second)]
    cosines = units[0] @ units[1].T
    best = max(permutations(range(4)), key=lambda order: sum(cosines[n, m] for n, m in enumerate(order)))
    found = compare_models(*models)
    assert [(match.first, match.second) for match in found.matches] == list(enumerate(best))
    for match in found.matches:
        assert match.similarity == pytest.approx(cosines[match.first, match.second])
        assert match.same == (match.similarity >= 0.8)
        for name, change in match.changes:
            j = models[0].concepts_.index(name)
            assert change == pytest.approx(second[match.second, j] - first[match.first, j])
        sizes = [abs(change) for _, change in match.changes]
        assert sizes == sorted(sizes, reverse=True)


def test_the_order_of_nodes_does_not_matter(models, table):
    """An edit that touches no weight leaves all nodes what they were."""
    same = compare_models(models[0], models[0].reweight_concepts({"sea": 1.0}), table)
    assert all(match.same and not match.changes for match in same.matches)
    assert same.disagreements.where == ()
    assert same.disagreements.change.value == 0


def test_an_edited_model_keeps_its_nodes_whatever_they_have_become(models):
    edited = models[0].remove_concepts(["webbed feet", "long bill", "sea"], nodes=[0, 2], mode="impute")
    assert [(match.first, match.second) for match in compare_models(models[0], edited).matches] == [
        (n, n) for n in range(4)
    ]


def test_disagreements_are_counted_row_by_row(models, table):
    first, second = models[0], models[0].remove_concepts(["sea", "forest"], mode="impute")
    found = compare_models(first, second, table).disagreements
    test = table.with_split().part("test")
    assert found.chosen == "test rows of the split that was made for training"
    old, new = first.predict(test), second.predict(test)
    expected = [row for row in range(len(test)) if old[row] != new[row]]
    assert sorted(found.where) == expected
    assert expected
    assert found.agreement == (len(test) - len(expected), len(test))
    assert found.right == tuple((int((side == test.labels).sum()), len(test)) for side in (old, new))
    gained = sum(new[row] == test.labels[row] for row in expected)
    assert found.change == (gained, len(expected) - gained, len(test))
    assert sum(found.transitions.values()) == len(expected)
    assert set(found.groups) == set(test.groups)
    for name, change in found.groups.items():
        own = [row for row in expected if test.groups[row] == name]
        better = sum(new[row] == test.labels[row] for row in own)
        assert change == (better, len(own) - better, int((test.groups == name).sum()))


def test_models_with_other_concepts_and_another_number_of_nodes(models, table):
    smaller = cq.fit_scores(table, n_nodes=2, epochs=20, leave_out=["sea"])
    found = compare_models(models[0], smaller, table)
    assert (found.only_first, found.only_second) == (("sea",), ())
    assert [match.second for match in found.matches].count(None) == 2
    back = compare_models(smaller, models[0], table)
    assert (back.only_first, back.only_second) == ((), ("sea",))
    assert [match.first for match in back.matches].count(None) == 2
    assert back.disagreements.where == found.disagreements.where


def test_models_of_one_layer_are_compared_class_by_class(models, table):
    one, other = (cq.fit_scores(table, n_nodes=None, epochs=epochs) for epochs in (5, 20))
    assert [(match.first, match.second) for match in compare_models(one, other).matches] == [(0, 0), (1, 1)]


def test_rows_without_labels_are_enough_for_disagreements(models, table):
    found = compare_models(*models, table.with_columns(labels=None)).disagreements
    assert (found.right, found.change, found.chosen) == (None, None, "all rows")
    assert len(found.rows) == 400


def test_doubtful_rows_and_empty_tables_are_named(models, table):
    with pytest.warns(ChoqolateWarning, match="used for training"):
        compare_models(*models, table.with_columns(split=["test"] * 400))
    with pytest.raises(ChoqolateError, match="but the table is empty"):
        compare_models(*models, table.take([]))


def test_other_classes_are_refused(models, table):
    renamed = table.with_columns(labels=np.where(table.labels == "waterbird", "gull", "landbird"), classes=[])
    other = cq.fit_scores(renamed, n_nodes=4, epochs=2)
    with pytest.raises(ChoqolateError, match="only one of them knows 'gull', 'waterbird'"):
        compare_models(models[0], other)
