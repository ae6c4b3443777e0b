from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import choqolate as cq
from choqolate.debiasing import group_dro
from choqolate.debiasing.group_dro import update_group_weights
from choqolate.debiasing.group_rows import GroupedRows, balanced_batches
from choqolate.estimators.table_inputs import inputs
from tests.debiasing.tables import PARAMETERS, biased_table, trained

ONE = dict(learning_rates=[0.05], weight_decays=[0.3])


@pytest.fixture(scope="module")
def table():
    return biased_table()


@pytest.fixture(scope="module")
def models(table):
    return trained(table)


def integrals(theta, h):
    """Choquet integrals (n, C), pair by pair: the diagonal is a, above it min, below it max."""
    n_nodes = h.shape[1]
    w = theta.flatten(1).softmax(1).view_as(theta)
    scores = sum(w[:, j, j] * h[:, j : j + 1] for j in range(n_nodes))
    for j in range(n_nodes):
        for l in range(j + 1, n_nodes):
            low, high = torch.minimum(h[:, j], h[:, l]), torch.maximum(h[:, j], h[:, l])
            scores = scores + w[:, j, l] * low[:, None] + w[:, l, j] * high[:, None]
    return scores


def by_hand(model, table, *, steps, rate, decay, eta, adjustment):
    """The same with all rows in every step, and AdamW written out."""
    rows = table.part("train")
    h = torch.from_numpy(model.transform(inputs(model, rows)))
    y = torch.tensor([model.classes_.tolist().index(label) for label in rows.labels])
    members = [torch.from_numpy(rows.groups == name) for name in sorted(set(rows.groups))]
    theta = model.parameters_["classes.theta"].clone().requires_grad_()
    q = np.full(len(members), 1 / len(members))
    first, second = torch.zeros_like(theta), torch.zeros_like(theta)
    for step in range(1, steps + 1):
        scores = integrals(theta, h) + torch.from_numpy(model.class_shift_)
        chances = (scores / model.temperature).log_softmax(1)[torch.arange(len(y)), y]
        losses = [-chances[member].mean() for member in members]
        q = np.array(
            [
                q_g * np.exp(eta * (float(loss.detach()) + adjustment / np.sqrt(int(member.sum()))))
                for q_g, loss, member in zip(q, losses, members, strict=True)
            ]
        )
        q /= q.sum()
        (gradient,) = torch.autograd.grad(sum(q_g * loss for q_g, loss in zip(q, losses, strict=True)), theta)
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        ratio = (first / (1 - 0.9**step)) / ((second / (1 - 0.999**step)).sqrt() + 1e-8)
        theta = (theta * (1 - rate * decay) - rate * ratio).detach().requires_grad_()
    return theta.detach()


def sized(table, sizes):
    """Training rows of the two classes as two groups of the given sizes; everything else as it was."""
    rows = [np.flatnonzero((table.split == "train") & (table.labels == name))[:n] for name, n in sizes.items()]
    kept = np.concatenate([*rows, np.flatnonzero(table.split != "train")])
    return replace(table.take(kept), groups=table.labels[kept])


@pytest.mark.parametrize("adjustment", [0.0, 2.0])
def test_several_steps_are_those_computed_by_hand(table, models, adjustment):
    table = sized(table, {"landbird": 40, "waterbird": 20})  # the smaller group is passed twice a step
    options = dict(eta=0.5, adjustment=adjustment)
    again = group_dro(models, table, **ONE, **options, steps=6, batch_size=1000)
    for model, other in zip(models, again, strict=True):
        expected = by_hand(model, table, steps=6, rate=0.05, decay=0.3, **options)
        assert (expected - model.parameters_["classes.theta"]).abs().max() > 0.1
        torch.testing.assert_close(other.parameters_["classes.theta"], expected, rtol=0, atol=1e-7)


def test_edits_and_the_shift_of_a_recalibration_are_trained_with(table, models):
    model = models[0].remove_concepts("sea", recalibrate=table.part("train").frame)
    assert model.class_shift_.any()
    table = sized(table, {"landbird": 30, "waterbird": 30})
    (other,) = group_dro([model], table, **ONE, steps=3, batch_size=1000)
    expected = by_hand(model, table, steps=3, rate=0.05, decay=0.3, eta=0.01, adjustment=0.0)
    torch.testing.assert_close(other.parameters_["classes.theta"], expected, rtol=0, atol=1e-7)


def test_one_group_is_plain_training(table, models):
    alone = replace(table, groups=["all"] * len(table))
    again = group_dro(models, alone, **ONE, steps=5, batch_size=10_000)
    for model, other in zip(models, again, strict=True):
        plain = by_hand(model, alone, steps=5, rate=0.05, decay=0.3, eta=0.0, adjustment=0.0)
        torch.testing.assert_close(other.parameters_["classes.theta"], plain, rtol=0, atol=1e-7)


def test_weights_of_groups_over_several_steps():
    losses, sizes = [[0.2, 1.0, 3.0], [2.0, 0.1, 0.3]], [100, 25, 4]
    q, expected = torch.full((3,), 1 / 3, dtype=torch.float64), np.full(3, 1 / 3)
    for step in losses:
        q = update_group_weights(q, torch.tensor(step).double(), torch.tensor(sizes), eta=0.1, adjustment=2.0)
        raw = [w * np.exp(0.1 * (loss + 2.0 / np.sqrt(n))) for w, loss, n in zip(expected, step, sizes, strict=True)]
        expected = np.array(raw) / sum(raw)
    np.testing.assert_allclose(q, expected, atol=1e-7)
    assert q.argmax() == 2  # whose loss was largest, and which is smallest


def test_weights_of_groups_stay_numbers_whatever_the_losses():
    q = torch.full((2,), 0.5)
    for _ in range(50):
        q = update_group_weights(q, torch.tensor([1e4, 0.0]), torch.ones(2))
    assert q.tolist() == [1.0, 0.0]


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4), batch_size=st.integers(1, 20), seed=st.integers(0, 99)
)
def test_batches_have_equally_many_rows_of_each_group_and_pass_all_rows(sizes, batch_size, seed):
    groups = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    groups = groups[torch.randperm(len(groups), generator=torch.Generator().manual_seed(seed))]
    batches = list(balanced_batches(groups, batch_size, torch.Generator().manual_seed(seed)))
    for batch in batches:
        assert (groups[batch] == torch.arange(len(sizes))[:, None]).all()
        assert batch.numel() <= max(batch_size, len(sizes))
    times = torch.cat([batch.flatten() for batch in batches]).bincount(minlength=len(groups))
    for group, size in enumerate(sizes):
        of_group = times[groups == group]
        assert of_group.sum() == max(sizes)
        assert of_group.min() == max(sizes) // size
        assert of_group.max() == -(-max(sizes) // size)


def test_the_worst_group_improves():
    table = biased_table(1000, 400)
    models = trained(table)
    for model, other in zip(models, group_dro(models, table, weight_decays=[0.1]), strict=True):
        before, after = (cq.evaluate(m, table, "test").worst_group[1] for m in (model, other))
        assert after > before + 0.1


def test_only_the_last_layer_changes_and_the_models_are_untouched(table, models):
    before = [{name: theta.clone() for name, theta in model.parameters_.items()} for model in models]
    again = group_dro(models, table, **ONE, steps=2)
    for model, other, parameters in zip(models, again, before, strict=True):
        for name, theta in parameters.items():
            assert torch.equal(model.parameters_[name], theta)
            assert torch.equal(other.parameters_[name], theta) == (name != "classes.theta")
        assert model.provenance_.debiasing is None
        assert other.provenance_.data == model.provenance_.data
        assert np.array_equal(other.node_attributions_, model.node_attributions_)
        assert not np.array_equal(other.class_attributions_, model.class_attributions_)


@pytest.mark.parametrize("change", [{}, {"interactions": "none"}, {"interactions": "factored"}, {"bipolar": True}])
def test_the_result_is_a_classifier_like_any_other(table, change, tmp_path):
    model = trained(table, 1, epochs=5, **change)[0].remove_concepts("sea", recalibrate=table.part("train").frame)
    (other,) = group_dro([model], table, **ONE, steps=2)
    other.save(tmp_path / "model")
    loaded, X = cq.load(tmp_path / "model"), table.part("test").frame
    assert np.array_equal(loaded.class_scores(X), other.class_scores(X))
    assert loaded.provenance_.debiasing == other.provenance_.debiasing
    assert loaded.removal_.concepts == ("sea",)
    assert np.array_equal(other.class_shift_, model.class_shift_)
    assert np.array_equal(other.transform(X), model.transform(X))
    local = other.explain(X.iloc[:3])
    np.testing.assert_allclose(
        local.class_scores, other.class_scores(X.iloc[:3]) - other.class_shift_, rtol=0, atol=1e-12
    )


def test_models_side_by_side_are_as_each_alone(table, models):
    together = group_dro(models, table, **ONE, steps=3)
    for model, other in zip(models, together, strict=True):
        (alone,) = group_dro([model], table, **ONE, steps=3)
        torch.testing.assert_close(
            alone.parameters_["classes.theta"], other.parameters_["classes.theta"], rtol=0, atol=1e-9
        )


def test_the_setting_of_each_model_is_its_best_on_the_validation_rows(table, models):
    rates, decays = [0.001, 0.1], [0.01, 3.0]
    worst = {}
    for rate in rates:
        for decay in decays:
            runs = group_dro(models, table, learning_rates=[rate], weight_decays=[decay], steps=3)
            worst[rate, decay] = [cq.evaluate(run, table, "val").worst_group[1] for run in runs]
    several = group_dro(models, table, learning_rates=rates, weight_decays=decays, steps=3)
    for run, model in enumerate(several):
        best = max(worst, key=lambda setting: worst[setting][run])
        note = model.provenance_.debiasing
        assert (note["learning_rate"], note["weight_decay"]) == best
        assert note["worst_group"] == pytest.approx(worst[best][run])
        assert note["chosen_on"] == "val rows"
        assert cq.evaluate(model, table, "val").worst_group[1] == pytest.approx(worst[best][run])
    assert len({value for values in worst.values() for value in values}) > 1


def test_without_validation_rows_it_chooses_on_some_training_rows_and_trains_on_all(table, models):
    train_only = table.take(table.split != "val")
    (again, _) = group_dro(models, train_only, **ONE, steps=2)
    assert again.provenance_.debiasing["chosen_on"] == "held-out training rows"
    (chosen_on_val, _) = group_dro(models, table, **ONE, steps=2)
    assert torch.equal(again.parameters_["classes.theta"], chosen_on_val.parameters_["classes.theta"])


def test_a_group_that_validation_lacks_sends_the_choice_to_training_rows(table, models):
    lacking = table.take((table.split != "val") | (table.groups != "landbird on water"))
    (again, _) = group_dro(models, lacking, **ONE, steps=1)
    assert again.provenance_.debiasing["chosen_on"] == "held-out training rows"


def test_held_out_rows_are_a_share_of_every_group(table):
    rows = GroupedRows.of(table.part("train"), np.array(["landbird", "waterbird"]))
    fitting, choosing = rows.hold_out(0.2)
    assert len(fitting) + len(choosing) == len(rows)
    np.testing.assert_allclose(choosing.sizes, 0.2 * rows.sizes, atol=0.5)


def test_rows_without_a_group_do_not_count(table, models):
    groups = table.groups.astype(object)
    groups[: len(groups) // 4] = None
    known = table.take([group is not None for group in groups])
    (some, _), (all_known, _) = (
        group_dro(models, rows, **ONE, steps=2) for rows in (replace(table, groups=groups), known)
    )
    assert torch.equal(some.parameters_["classes.theta"], all_known.parameters_["classes.theta"])


def test_wrong_input_is_explained(table, models):
    with pytest.raises(cq.ChoqolateError, match="n_nodes=None"):
        group_dro(trained(table, 1, n_nodes=None, epochs=1), table)
    with pytest.raises(cq.ChoqolateError, match='add a column "group"'):
        group_dro(models, replace(table, groups=None))
    with pytest.raises(cq.ChoqolateError, match="last layers of one shape"):
        group_dro([models[0], *trained(table, 1, n_nodes=4, epochs=1)], table)
    with pytest.raises(cq.ChoqolateError, match="trained classifiers in a list"):
        group_dro([], table)
    with pytest.raises(cq.ChoqolateError, match="to choose from, got none"):
        group_dro(models, table, weight_decays=[])
    with pytest.raises(cq.ChoqolateError, match=r"learning_rates to be a number above 0"):
        group_dro(models, table, learning_rates=[0.0])
    with pytest.raises(cq.ChoqolateError, match="among the model's classes"):
        group_dro(models, replace(table, labels=["gull"] * len(table), classes=()))
    rare = replace(table, groups=np.where(np.arange(len(table)) == 0, "rare", table.groups.astype(str)))
    with pytest.raises(cq.ChoqolateError, match="at least 2 training rows of every group, got fewer of 'rare'"):
        group_dro(models, rare)


def test_a_table_without_a_split_gets_that_of_training():
    table = replace(biased_table(300, 0, 0), split=None)
    models = cq.fit_scores(table, **PARAMETERS | {"epochs": 2})
    (again,) = group_dro([models], table, **ONE, steps=1)
    assert again.provenance_.debiasing["rows"] == models.provenance_.data.rows
