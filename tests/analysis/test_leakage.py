"""What is left of removed concepts, in the scores and in the model."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import choqolate as cq
from choqolate.analysis.following import class_margins
from choqolate.analysis.leakage import removed_concepts
from choqolate.baselines import LinearBottleneck
from choqolate.metrics import probe_r2
from tests.debiasing.tables import PARAMETERS, SPURIOUS, biased_table, trained


@pytest.fixture(scope="module")
def table():
    return biased_table()


@pytest.fixture(scope="module")
def model(table):
    return trained(table, 1)[0]


@pytest.fixture(scope="module")
def edited(model):
    return model.remove_concepts(SPURIOUS)


def _margins(model, rows):
    scores, own = model.class_scores(rows), np.array([model.classes_.tolist().index(label) for label in rows.labels])
    return scores[np.arange(len(rows)), own] - scores[np.arange(len(rows)), 1 - own]


def test_following_of_concepts_is_the_auc_within_classes(model, table):
    rows, margins = table.part("test"), _margins(model, table.part("test"))
    expected = []
    for label, sign in (("landbird", -1), ("waterbird", 1)):  # "sea" goes with waterbirds in training
        here = rows.labels == label
        sea = rows.frame["sea"][here]
        area = roc_auc_score(sea > sea.median(), margins[here])
        expected.append(area if sign > 0 else 1 - area)

    found = cq.measure_following(model, table, ["sea"])

    assert found.by_concept.value == pytest.approx(np.mean(expected))
    assert found.rows == len(rows)
    assert found.per_concept == {"sea": found.by_concept.value}


def test_following_of_groups_is_for_the_usual_group_of_each_class(model, table):
    rows, margins = table.part("test"), _margins(model, table.part("test"))
    expected = []
    for label, usual in (("landbird", "landbird on land"), ("waterbird", "waterbird on water")):
        here = rows.labels == label
        expected.append(roc_auc_score(rows.groups[here] == usual, margins[here]))

    found = cq.measure_following(model, table, SPURIOUS)

    assert found.best is found.by_group
    assert found.by_group.value == pytest.approx(np.mean(expected))


def test_a_model_follows_what_it_was_trained_on_and_not_what_was_removed(model, edited, table):
    leakage = cq.measure_leakage(edited, table)

    assert leakage.concepts == SPURIOUS
    assert leakage.before.best.value > 0.8
    assert leakage.after.best.interval[0] < 0.5 < leakage.after.best.interval[1]
    assert leakage.n_remaining == 4
    text = " ".join(leakage.lines())
    assert "no sign that the model still follows" in text
    assert f"{leakage.before.best.value:.2f}" in text
    assert f"{leakage.after.best.value:.2f}" in text


def test_the_probe_is_fitted_on_held_out_rows(edited, table):
    leakage, rows = cq.measure_leakage(edited, table), table.part("test")
    remaining = [name for name in table.concepts if name not in SPURIOUS]

    expected = probe_r2(rows.select(remaining).scores, rows.select(SPURIOUS).scores)

    assert list(leakage.probe.values()) == pytest.approx(expected)
    assert leakage.mean_probe < 0.1
    assert "hold almost nothing" in leakage.lines()[0]


def test_a_twin_that_stays_keeps_everything(table):
    twin = cq.ConceptScores(
        np.hstack([table.scores, table.select("sea").scores + table.select("forest").scores * [[-1]]]),
        [*table.concepts, "ocean"],
        rows=table.rows,
    )
    model = trained(twin, 1)[0].remove_concepts(SPURIOUS)

    leakage = cq.measure_leakage(model, twin)

    assert leakage.after.best.interval[0] > 0.6
    assert leakage.group_probe.value > 0.95
    assert "no sign" not in leakage.lines()[-1]


def test_a_model_trained_without_the_concepts_is_measured_by_the_original_scores(table):
    core = table.select([name for name in table.concepts if name not in SPURIOUS])
    without = cq.fit_scores(core, **PARAMETERS)

    found = cq.measure_following(without, core, SPURIOUS, original=table)

    assert found.by_concept.value == pytest.approx(0.5, abs=0.1)
    assert cq.measure_following(without, table, SPURIOUS).per_concept == found.per_concept
    with pytest.raises(cq.ChoqolateError, match="expected known concepts"):
        cq.measure_following(without, core, SPURIOUS)
    with pytest.raises(cq.ChoqolateError, match=r"original scores of the 1,100 rows .* 500 rows"):
        cq.measure_following(without, core, SPURIOUS, original=table.part("train"))


def test_groups_that_the_scores_do_not_know_are_not_told_apart(table):
    """A probe whose part has more of one group predicts less of it elsewhere, if the parts do not have equal shares."""
    rng, found = np.random.default_rng(0), []
    for _ in range(12):
        noise = cq.ConceptScores(rng.random((400, 6)), table.concepts, rows=table.part("test").rows)
        both = cq.ConceptScores(
            np.concatenate([table.part("train").scores, noise.scores]),
            table.concepts,
            **{
                name: np.concatenate([getattr(table.part(part), name) for part in ("train", "test")])
                for name in ("labels", "groups", "split")
            },
        )
        model = trained(both, 1, epochs=1)[0].remove_concepts(SPURIOUS)
        found.append(cq.measure_leakage(model, both).group_probe.value)

    assert np.mean(found) == pytest.approx(0.5, abs=0.03)


def test_a_small_group_is_not_told_apart_by_the_share_that_its_fold_has():
    """The mean of the rows that a probe is fitted on must not count: it is lower where the small group is."""
    rng, found = np.random.default_rng(0), []
    y = np.repeat([0, 1], 60)
    small = np.tile(np.arange(60) < 7, 2)  # 7 rows of each class: no equal shares in five folds
    places = np.where(np.concatenate([rng.random(120) < 0.1, small]), "odd", "usual")
    labels = np.tile(y, 2)
    groups = [f"{label} {place}" for label, place in zip(labels, places, strict=True)]
    split = np.repeat(["train", "test"], 120)
    for seed in range(10):
        scores = np.random.default_rng(seed).random((240, 6))
        table = cq.ConceptScores(scores, list("abcdef"), labels=labels, groups=groups, split=split)
        model = cq.fit_scores(table, n_nodes=2, epochs=1).remove_concepts(["f"])
        found.append(cq.measure_leakage(model, table).group_probe.value)

    assert np.mean(found) == pytest.approx(0.5, abs=0.07)

    fewer = table.take(np.flatnonzero((table.split == "train") | (places == "usual") | (np.arange(240) % 60 < 3)))
    assert cq.measure_leakage(model, fewer).group_probe is None


def test_one_image_of_a_group_leaves_the_concepts_to_tell(model, table):
    usual = np.isin(table.groups, ["landbird on land", "waterbird on water"])
    one_each = [
        np.flatnonzero((table.split == "test") & (table.groups == name))[0] for name in set(table.groups[~usual])
    ]
    rows = table.take(sorted([*np.flatnonzero((table.split == "train") | usual), *one_each]))

    found = cq.measure_following(model, rows, SPURIOUS)

    assert found.by_group is None
    assert found.best.value == found.by_concept.value == found.best.value  # not NaN


def test_a_score_of_two_values_splits_a_class(model, table):
    """Also where more than half of the images have the higher one."""
    for low in (0.3, 0.7):
        cut = np.quantile(table.frame["sea"], low)
        binary = table.with_rows(
            np.where(np.arange(6) == table.concepts.index("sea"), table.scores > cut, table.scores), table.rows
        )
        rows, margins = binary.part("test"), class_margins(model, binary.part("test"))
        expected = []
        for label, sign in (("landbird", -1), ("waterbird", 1)):
            here = rows.labels == label
            expected.append(roc_auc_score(sign * rows.frame["sea"][here] > min(sign, 0), margins[here]))

        found = cq.measure_following(model, binary, ["sea"])

        assert found.by_concept.value == pytest.approx(np.mean(expected))


def test_a_few_images_give_numbers_and_no_verdict(edited, table):
    few = np.flatnonzero(table.split == "train").tolist() + np.flatnonzero(table.split == "test")[:8].tolist()

    leakage = cq.measure_leakage(edited, table.take(few))

    assert set(leakage.probe) == set(SPURIOUS)
    assert np.isnan(leakage.mean_probe)
    assert "too few images" in leakage.lines()[0]
    assert leakage.lines()[-1].startswith("There are too few images to tell")


def test_without_groups_the_concepts_alone_tell(edited, table):
    leakage = cq.measure_leakage(edited, table.with_columns(groups=None))

    assert leakage.after.by_group is None
    assert leakage.group_probe is None
    assert leakage.after.best is leakage.after.by_concept
    assert "groups" not in " ".join(leakage.lines())


def test_baselines_are_measured_as_a_pair(table):
    rows = table.part("train")
    linear = LinearBottleneck(epochs=100).fit(rows.frame, rows.labels)

    leakage = cq.measure_leakage(linear.remove_concepts(SPURIOUS), table, trained=linear)

    assert leakage.before.best.value > 0.8 > 0.6 > leakage.after.best.value
    with pytest.raises(cq.ChoqolateError, match="Give it as trained="):
        cq.measure_leakage(linear.remove_concepts(SPURIOUS), table)


def test_a_model_of_probabilities_alone_can_be_measured(model, table):
    class Other:
        concepts_, classes_, provenance_ = model.concepts_, model.classes_, model.provenance_
        feature_names_in_ = model.feature_names_in_

        def predict_proba(self, X):
            return model.predict_proba(X)

    found = cq.measure_following(Other(), table, SPURIOUS)

    assert found.by_concept.value == pytest.approx(cq.measure_following(model, table, SPURIOUS).by_concept.value)
    del Other.predict_proba
    with pytest.raises(cq.ChoqolateError, match="neither class_scores nor predict_proba"):
        class_margins(Other(), table)


def test_only_what_was_removed_everywhere_counts_as_removed(model, table):
    partly = model.remove_concepts("sea").remove_concepts("forest", nodes=0)

    assert removed_concepts(partly) == ("sea",)
    assert removed_concepts(partly.restore()) == ()
    with pytest.raises(cq.ChoqolateError, match="none was removed from all of its nodes"):
        cq.measure_leakage(model, table)


def test_the_numbers_are_json(edited, table):
    numbers = json.loads(json.dumps(cq.measure_leakage(edited, table).as_dict(), allow_nan=False))

    assert set(numbers["probe"]) == set(SPURIOUS)
    assert numbers["before"]["groups"]["auc"] > numbers["after"]["groups"]["auc"]


def test_the_verdict_follows_the_numbers(model, table):
    def verdict(after):
        return cq.measure_leakage(after, table, trained=model, concepts=SPURIOUS).lines()[-1]

    assert "do not show that it does so less than before" in verdict(model)
    assert "less than before" in verdict(model.reweight_concepts({"sea": 0.3, "forest": 0.3}))
    against = table.with_columns(labels=np.where(table.labels == "landbird", "waterbird", "landbird"))
    assert "leans the other way" in verdict(trained(against, 1)[0])
    little = model.reweight_concepts({"sea": 0.1, "forest": 0.1})
    more = cq.measure_leakage(model, table, trained=little, concepts=SPURIOUS)
    assert "more than before" in more.lines()[-1]
