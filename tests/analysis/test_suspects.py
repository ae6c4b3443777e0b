"""Suspects are what removal says they are, found where there is enough to tell."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import binomtest

from choqolate.analysis.suspects import COSTS, HELPFUL, IDLE, RELIES, find_suspects
from choqolate.baselines import PCBM
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError
from choqolate.estimators.table_inputs import inputs
from choqolate.explain.redundancy import EXACT_UP_TO
from choqolate.metrics import group_accuracies, worst_group_accuracy
from tests.networks import set_parameters
from tests.reports import bird_table, small_model


@pytest.fixture(scope="module")
def table():
    return bird_table(None, n_rows=6000, agreement=0.85)


@pytest.fixture(scope="module")
def model(table):
    return small_model(table)


def measured(model, rows):
    """Accuracy and worst group."""
    predicted = model.predict(inputs(model, rows))
    return (predicted == rows.labels).mean(), worst_group_accuracy(rows.labels, predicted, rows.groups)


@pytest.mark.filterwarnings("ignore::choqolate.errors.SmallRemainderWarning")
def test_reasons_hold_for_every_concept(model, table):
    found = find_suspects(model, table)
    alone = {one.concepts[0]: one for one in found.found if len(one.concepts) == 1}
    rows = table.part("val")
    before = measured(model, rows)
    accuracies = group_accuracies(rows.labels, model.predict(rows.frame), rows.groups)
    worst_size = (rows.groups == min(accuracies, key=accuracies.get)).sum()
    assert found.needed == pytest.approx(max(0.01, 3 / worst_size))
    shares = model.class_attributions_.mean(0) @ model.node_attributions_
    assert shares.sum() == pytest.approx(1)
    for share, concept in zip(shares, table.concepts, strict=True):
        accuracy, worst = measured(model.remove_concepts(concept), rows)
        helps = worst - before[1] >= found.needed - 1e-9
        idle = not helps and share >= RELIES / len(shares) and accuracy - before[0] > -COSTS
        assert (concept in alone) == bool(helps or idle)
        if concept in alone:
            one = alone[concept]
            assert one.accuracy_change == pytest.approx(accuracy - before[0])
            assert one.worst_group_change == pytest.approx(worst - before[1])
            assert one.share == pytest.approx(share)
            assert one.reason == (HELPFUL if helps else IDLE)
            assert one.spurious == (concept in table.spurious)


def test_the_background_that_misleads_is_the_first_suspect(model, table):
    found = find_suspects(model, table)
    assert set(found.found[0].concepts) <= {"sea", "forest"}
    assert set(found.to_remove) & {"sea", "forest"}
    gains = [one.worst_group_change for one in found.helpful]
    assert gains == sorted(gains, reverse=True)
    assert found.found == (*found.helpful, *found.idle)


@pytest.mark.filterwarnings("ignore::choqolate.errors.SmallRemainderWarning")
def test_concepts_that_hide_each_other_are_removed_together(table):
    """Three copies of the background with a little noise: without one of them the others do its work."""
    rng = np.random.default_rng(0)
    sea = table.scores[:, [4]]
    copies = sea + rng.normal(0, 0.004, (len(table), 3))
    concepts = ("webbed feet", "long bill", "sea", "ocean", "waves")
    hidden = ConceptScores(
        np.hstack([table.scores[:, :2], copies]),
        concepts,
        labels=table.labels,
        split=table.split,
        groups=table.groups,
    )
    model = small_model(hidden)
    found = find_suspects(model, hidden)
    together = [one for one in found.helpful if len(one.concepts) > 1]
    assert [set(one.concepts) for one in together] == [{"sea", "ocean", "waves"}]
    before, after = (measured(one, hidden.part("val")) for one in (model, model.remove_concepts(together[0].concepts)))
    assert together[0].worst_group_change == pytest.approx(after[1] - before[1])
    assert together[0].accuracy_change == pytest.approx(after[0] - before[0])
    assert together[0].share == pytest.approx(sum((model.class_attributions_.mean(0) @ model.node_attributions_)[2:]))
    alone = [
        one.worst_group_change for one in found.found if len(one.concepts) == 1 and one.concepts[0] in concepts[2:]
    ]
    assert together[0].worst_group_change > max(alone, default=0)


def test_groups_are_found_around_the_leading_concepts_of_a_large_vocabulary():
    rng = np.random.default_rng(0)
    bird, place = rng.integers(0, 2, (2, 260))
    seen = np.stack([bird, 1 - bird, place, place, place], axis=1) + rng.normal(0, [0.6, 0.6, 0.1, 0.1, 0.1], (260, 5))
    seen[:, 2:] += rng.normal(0, 0.3, (260, 1))
    concepts = ("webbed feet", "hooked bill", "sea", "ocean", "waves", *(f"other {j}" for j in range(EXACT_UP_TO)))
    table = ConceptScores(
        np.hstack([seen, rng.normal(size=(260, EXACT_UP_TO))]).astype(np.float32),
        concepts,
        labels=np.array(["landbird", "waterbird"])[bird],
        split=np.repeat(["train", "val"], [20, 240]),
        groups=[f"{one} {other}" for one, other in zip(bird, place, strict=True)],
    )
    model = small_model(table, n_nodes=None, epochs=1, interactions="factored", rank=1)
    linear = torch.zeros(2, len(concepts))
    linear[0, 1], linear[1, 0], linear[1, 2:5] = 12.0, 12.0, 11.0
    mixture = torch.tensor([[6.0, 0.0, 0.0]]).repeat(2, 1)
    set_parameters(model, {**model.parameters_, "nodes.theta_a": linear, "nodes.theta_m": mixture})
    found = find_suspects(model, table)
    assert set(found.helpful[0].concepts) == {"sea", "ocean", "waves"}
    rows = table.part("val")
    before, after = (measured(one, rows) for one in (model, model.remove_concepts(["sea", "ocean", "waves"])))
    assert found.helpful[0].worst_group_change == pytest.approx(after[1] - before[1])
    assert found.helpful[0].paired is not None


def test_small_groups_of_validation_rows_are_not_trusted(model, table):
    found = find_suspects(model, table)
    assert (found.chosen, found.too_few) == ("val rows of the table", None)
    few = table.take(np.flatnonzero((table.split != "val") | (np.arange(len(table)) % 20 == 2)))
    found = find_suspects(model, few)
    assert found.chosen == "test rows of the table"
    assert found.rows == (few.split == "test").sum()
    assert found.too_few == min(np.unique(few.part("val").groups, return_counts=True)[1])


def test_helpful_removals_have_a_paired_test_of_the_worst_group(model, table):
    found = find_suspects(model, table)
    rows = table.part("val")
    before = model.predict(rows.frame) == rows.labels
    shares = {group: before[rows.groups == group].mean() for group in np.unique(rows.groups)}
    worst = min(shares, key=shares.get)
    assert found.worst_group == (worst, (rows.groups == worst).sum())
    assert found.helpful
    for one in found.helpful:
        after = model.remove_concepts(one.concepts).predict(rows.frame) == rows.labels
        members = rows.groups == worst
        gained, lost = (after & ~before & members).sum(), (before & ~after & members).sum()
        assert one.paired == (gained, lost, members.sum())
        assert one.paired.p_value == pytest.approx(binomtest(gained, gained + lost).pvalue)
    assert all(one.paired is None for one in found.idle)
    assert found.tried >= len(table.concepts)


@pytest.mark.parametrize(("kept", "unclear"), [(4, True), (29, True), (30, False)])
def test_of_a_worst_group_with_a_few_images_nothing_is_claimed(model, table, kept, unclear):
    test = table.part("test")
    right = model.predict(test.frame) == test.labels
    wrong = np.flatnonzero((test.groups == "landbird on water") & ~right)[:kept]
    small = test.take(np.concatenate([np.flatnonzero(test.groups != "landbird on water"), wrong]))
    found = find_suspects(model, small)
    assert found.worst_group == ("landbird on water", kept)
    assert found.unclear == unclear
    assert (found.needed is None) == unclear
    if unclear:
        assert found.helpful == ()
        assert found.to_remove == ()


def test_without_groups_it_is_about_accuracy_alone(model, table):
    found = find_suspects(model, replace(table, groups=None))
    assert found.needed is None
    assert found.worst_group is None
    assert not found.unclear
    assert found.helpful == ()
    assert found.to_remove == ()
    assert all(math.isnan(one.worst_group_change) and one.reason == IDLE for one in found.found)


def test_a_bipolar_model_counts_presence_and_absence_together(table):
    model = small_model(table, bipolar=True)
    both = model.class_attributions_.mean(0) @ model.node_attributions_
    n = len(table.concepts)
    found = find_suspects(model, table).found
    assert found
    for one in found:
        indices = [table.concepts.index(name) for name in one.concepts]
        assert one.share == pytest.approx(sum(both[j] + both[n + j] for j in indices))


def test_of_a_table_without_a_split_only_held_out_rows_are_tried(table):
    whole = replace(table, split=None)
    model = small_model(whole)
    groups = table.groups.astype(object)
    groups[::50] = None
    for rows in (whole, replace(whole, groups=groups)):
        found = find_suspects(small_model(rows), rows)
        assert found.chosen == "test rows of the split that was made for training"
        assert 0 < found.rows <= 0.3 * len(table) + 1
    assert model.provenance_.data.split == "made"


def test_rows_without_a_group_are_left_out(model, table):
    groups = table.groups.astype(object)
    groups[2::5][:7] = None  # some validation rows
    whole, some = find_suspects(model, table), find_suspects(model, replace(table, groups=groups))
    assert some.rows == whole.rows - 7
    assert set(some.to_remove) & {"sea", "forest"}


def test_its_repr_is_short(model, table):
    found = find_suspects(model, table)
    said = f"{len(found.helpful)} that help the worst group, {len(found.idle)} hardly needed; {found.rows:,} rows"
    assert repr(found) == f"Suspects({said})"


def test_other_models_are_named(table):
    baseline = PCBM(n_nodes=2, epochs=2).fit(table.frame, table.labels)
    with pytest.raises(ChoqolateError, match=r"^Expected a ChoqolateClassifier to find suspects, but got a PCBM\.$"):
        find_suspects(baseline, table)
