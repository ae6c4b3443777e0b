from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.metrics import confusion_matrix, recall_score

import choqolate as cq
from choqolate import metrics
from choqolate.analysis.evaluation import evaluate, has_held_out, held_out, spurious_concepts
from choqolate.baselines import LinearBottleneck
from choqolate.data.scores import ConceptScores
from choqolate.data.splits import stratified_split
from choqolate.estimators.table_inputs import inputs
from choqolate.estimators.table_training import fit_scores, training_rows
from tests.small_tables import CONCEPTS, bird_scores

FAST = dict(n_nodes=3, epochs=5)
SOURCE = {
    "backbone": {"name": "ViT-B/32", "identity": "abc"},
    "vocabulary": {"concepts": CONCEPTS, "synonyms": {"sea": ["ocean"]}, "spurious": ["sea"], "templates": ["{}"]},
    "source": "waterbirds",
}


def bird_table(n_rows=200, seed=0, **changes):
    X, y, groups = bird_scores(n_rows, seed=seed)
    split = np.array(["train", "train", "test"])[np.arange(n_rows) % 3]
    fields = dict(scores=X.to_numpy(), concepts=CONCEPTS, labels=y, groups=groups, split=split, provenance=SOURCE)
    return ConceptScores(**fields | changes)


@pytest.fixture(scope="module")
def table():
    return bird_table()


@pytest.fixture(scope="module")
def model(table):
    return fit_scores(table, **FAST)


@pytest.fixture(scope="module")
def whole():
    return bird_table(split=None)


@pytest.fixture(scope="module")
def model_of_whole(whole):
    return fit_scores(whole, **FAST)


def test_fit_scores_trains_on_the_training_rows_and_says_so(table, model):
    part = table.part("train")
    same = cq.ChoqolateClassifier(**FAST).fit(part.frame, part.labels)
    np.testing.assert_array_equal(model.class_scores(table.frame), same.class_scores(table.frame))
    known = model.provenance_.as_dict()
    assert len(set(known["data"].pop("sample"))) == 64
    assert known.pop("versions")["choqolate"] == cq.__version__
    assert known == SOURCE | {
        "data": {"fingerprint": table.fingerprint, "split": "given", "rows": len(part)},
        "vocabulary": SOURCE["vocabulary"],
    }
    assert "data" not in table.provenance.as_dict()


def test_a_table_without_a_split_is_split_in_the_same_way_again(tmp_path, whole, model_of_whole):
    data = model_of_whole.provenance_.data.as_dict()
    assert len(data.pop("sample")) == 64
    assert data == {"fingerprint": whole.fingerprint, "split": "made", "rows": 140}
    whole.save(tmp_path / "scores.csv")
    model_of_whole.save(tmp_path / "model")
    rows, chosen = held_out(cq.load(tmp_path / "model"), ConceptScores.load(tmp_path / "scores.csv"))
    assert chosen == "test rows of the split that was made for training"
    made = np.array(stratified_split([f"{i} {label}" for i, label in enumerate(whole.labels)], whole.labels.tolist()))
    np.testing.assert_array_equal(rows.scores, whole.scores[made == "test"])
    assert len(training_rows(model_of_whole, whole)) == data["rows"]
    assert evaluate(model_of_whole, whole, "train").rows == data["rows"]


def test_concepts_can_be_left_out_without_losing_the_held_out_rows(whole):
    model = fit_scores(whole, leave_out=["sea", "crest", "sea"], **FAST)
    assert model.concepts_ == ["webbed feet", "long bill", "hooked bill", "forest"]
    assert model.provenance_.data.left_out == ("sea", "crest")
    assert evaluate(model, whole).rows == 60
    with pytest.raises(cq.ChoqolateError, match="did you mean 'sea'"):
        fit_scores(whole, leave_out=["see"], **FAST)
    with pytest.raises(cq.ChoqolateError, match="all of them are left out"):
        fit_scores(whole, leave_out=CONCEPTS, **FAST)


def test_rows_without_a_label_are_neither_trained_on_nor_evaluated():
    labels = bird_table().labels.astype(object)
    labels[:20] = None
    partly = bird_table(labels=labels)
    with pytest.warns(cq.ChoqolateWarning, match="20 of 200 rows have no label: left out"):
        model = fit_scores(partly, **FAST)
    n_train = int((partly.split[20:] == "train").sum())
    assert model.provenance_.data.rows == n_train
    assert evaluate(model, partly).rows == 180 - n_train
    unsplit = bird_table(labels=labels, split=None)
    with pytest.warns(cq.ChoqolateWarning, match="have no label"):
        model = fit_scores(unsplit, **FAST)
    assert model.provenance_.data.rows + evaluate(model, unsplit).rows == 180
    assert evaluate(model, unsplit, "all").rows == 180
    with pytest.raises(cq.ChoqolateError, match="expected labels, this table has none"):
        fit_scores(bird_table(labels=None))
    with pytest.raises(cq.ChoqolateError, match="expected labels, this table has none"):
        evaluate(model, bird_table(labels=None))


@pytest.mark.parametrize(
    ("splits", "chosen", "n_rows"),
    [
        (["train", "val", "test"], "test rows of the table", 66),
        (["train", "val", "val"], "val rows of the table", 133),
        (["train", "train", None], "all labelled rows, as the table has none for test or val", 200),
        (None, "all labelled rows, as the table has no split", 200),
    ],
)
def test_held_out_rows_are_test_then_val_then_all(model, splits, chosen, n_rows):
    split = None if splits is None else np.array(splits, dtype=object)[np.arange(200) % 3]
    other = bird_table(seed=1, split=split)
    rows, how = held_out(model, other)
    assert (how, len(rows)) == (chosen, n_rows)
    assert has_held_out(other) == (splits is None or splits[2] is not None)


def test_test_rows_without_labels_give_way_to_val_rows(model):
    table = bird_table(split=np.array(["train", "val", "test"])[np.arange(200) % 3])
    hidden = bird_table(split=table.split, labels=np.where(table.split == "test", None, table.labels.astype(object)))
    assert held_out(model, hidden)[1] == "val rows of the table"


def test_the_numbers_are_those_of_the_definitions(table, model):
    part, result = table.part("test"), evaluate(model, table)
    predicted = model.predict(part.frame)
    classes = ["landbird", "waterbird"]
    assert result.rows == len(part) == sum(result.class_rows.values()) == sum(result.group_rows.values())
    assert result.accuracy == np.mean(predicted == part.labels)
    recall = recall_score(part.labels, predicted, labels=classes, average=None)
    np.testing.assert_allclose([result.class_accuracy[name] for name in classes], recall)
    dense = [[result.confusion[name].get(other, 0) for other in classes] for name in classes]
    np.testing.assert_array_equal(dense, confusion_matrix(part.labels, predicted, labels=classes))
    assert result.group_accuracy == metrics.group_accuracies(part.labels, predicted, part.groups)
    assert result.worst_group[1] == metrics.worst_group_accuracy(part.labels, predicted, part.groups)
    assert result.group_accuracy[result.worst_group[0]] == result.worst_group[1]
    assert result.attribution_gini == pytest.approx(metrics.attribution_gini(model.node_attributions_).mean())
    coherence = metrics.node_coherence(model.node_attributions_, np.corrcoef(part.scores.T))
    assert result.node_coherence == pytest.approx(coherence.mean())


def test_columns_are_found_by_name_and_a_missing_one_is_named(table, model):
    shuffled = table.select(CONCEPTS[::-1])
    assert evaluate(model, shuffled) == evaluate(model, table)
    more = ConceptScores(
        np.hstack([np.ones((200, 1)), table.scores]),
        ["moon", *CONCEPTS],
        labels=table.labels,
        split=table.split,
        groups=table.groups,
    )
    assert evaluate(model, more) == evaluate(model, table)
    with pytest.raises(cq.ChoqolateError, match="all 6 concepts of the model, the table has no 'crest', 'sea'"):
        evaluate(model, table.select(["forest", "webbed feet", "long bill", "hooked bill"]))


def test_labels_that_the_model_does_not_know_are_named(table, model):
    labels = np.where(np.arange(200) == 2, "penguin", table.labels)
    with pytest.raises(cq.ChoqolateError, match="'landbird', 'waterbird', the table has 'penguin'"):
        evaluate(model, bird_table(labels=labels))


def test_models_with_number_classes_and_nameless_concepts_are_evaluated_too(table):
    numbers = (table.labels == "waterbird").astype(int)
    model = cq.ChoqolateClassifier(**FAST).fit(table.scores, numbers)
    renamed = ConceptScores(table.scores, model.concepts_, labels=numbers)
    result = evaluate(model, renamed)
    assert result.accuracy == model.score(table.scores, numbers)
    assert list(result.class_rows) == ["0", "1"]
    assert result.worst_group is None
    assert result.group_accuracy == {}
    assert isinstance(inputs(model, renamed), np.ndarray)


def test_rows_without_a_group_do_not_count_for_groups(table, model):
    groups = table.groups.astype(object)
    groups[:100] = None
    result = evaluate(model, bird_table(groups=groups), "all")
    assert result.rows == 200
    assert sum(result.group_rows.values()) == 100


@pytest.mark.parametrize("options", [{"bipolar": True}, {"n_nodes": None}, {"interactions": "none"}])
def test_every_kind_of_model_can_be_evaluated(table, options):
    result = evaluate(fit_scores(table, **FAST | options), table)
    assert 0 <= result.attribution_gini < 1
    assert -1 <= result.node_coherence <= 1


def test_as_dict_is_json_and_undefined_numbers_are_null(table, model):
    one = evaluate(model, table.part("test").take([0]))
    assert math.isnan(one.node_coherence)
    numbers = json.loads(json.dumps(one.as_dict(), allow_nan=False))
    assert numbers["node_coherence"] is None
    assert numbers["rows"] == 1
    assert numbers["worst_group"].keys() == {"group", "accuracy", "rows"}
    assert numbers["worst_group"]["rows"] == 1
    assert numbers["too_few"] is True
    assert numbers["worst_measurable_group"] is None
    assert list(numbers["small_groups"].values()) == [1]
    assert numbers["small_classes"] == {one.worst_group[0].split(" on ")[0]: 1}
    assert repr(one).startswith("Evaluation(1 row, accuracy too few rows to tell (1)")
    assert not {"hits", "row_labels", "row_groups"} & numbers.keys()


def test_as_dict_has_intervals_and_the_baseline(table, model):
    result = evaluate(model, table, "all")
    numbers = json.loads(json.dumps(result.as_dict(), allow_nan=False))
    expected = binomtest(int(result.hits.sum()), 200).proportion_ci(method="wilson")
    assert numbers["accuracy_interval"] == pytest.approx([expected.low, expected.high])
    assert numbers["class_intervals"] == {name: list(share.interval) for name, share in result.by_class.items()}
    assert numbers["group_intervals"] == {name: list(share.interval) for name, share in result.by_group.items()}
    majority = result.majority
    assert numbers["majority"] == {
        "class": result.majority_class,
        "accuracy": majority.value,
        "interval": list(majority.interval),
    }
    name, worst = result.worst_measurable_group
    assert numbers["worst_measurable_group"] == {
        "group": name,
        "accuracy": worst.value,
        "interval": list(worst.interval),
    }


def test_interaction_mass_is_the_weight_on_pairs_of_the_edited_nodes(table, model):
    for one in (model, model.simplify(max_terms=4), model.remove_concepts("sea")):
        a, b, c = one.network_.nodes.capacity.weights()
        expected = ((b.sum(1) + c.sum(1)) / (a.sum(1) + b.sum(1) + c.sum(1))).mean().item()
        assert evaluate(one, table).interaction_mass == pytest.approx(expected)
    assert evaluate(fit_scores(table, interactions="none", **FAST), table).interaction_mass == 0
    free = evaluate(fit_scores(table, free_weights=True, temperature=1.0, **FAST), table)
    assert 0 < free.interaction_mass < 1
    train = table.part("train")
    linear = evaluate(cq.baselines.LinearBottleneck(epochs=2).fit(train.frame, train.labels), table)
    assert math.isnan(linear.interaction_mass)
    assert linear.as_dict()["interaction_mass"] is None


def test_a_split_is_chosen_by_name(table, model, model_of_whole, whole):
    assert evaluate(model, table, "train").chosen == "train rows of the table"
    assert evaluate(model, table, "all").rows == 200
    with pytest.raises(cq.ChoqolateError, match="one of train, val, test, all, got 'half'"):
        evaluate(model, table, "half")
    with pytest.raises(cq.ChoqolateError, match="rows for 'val', this table has rows for 'train', 'test' only"):
        evaluate(model, table, "val")
    with pytest.raises(cq.ChoqolateError, match="not the one that the model was trained on"):
        evaluate(model_of_whole, bird_table(seed=1, split=None), "test")


@pytest.mark.parametrize(
    ("part", "changes", "message"),
    [
        (
            "backbone",
            {"identity": "xyz", "name": "ViT-L/14"},
            r"a different backbone than these: ViT-B/32, not ViT-L/14",
        ),
        ("vocabulary", {"templates": ["a photo of {}."]}, r"different prompts than these: '{}', not 'a photo of {}.'"),
        ("vocabulary", {"synonyms": {}}, "different synonyms than the model was trained with: 'sea'"),
    ],
)
def test_scores_of_another_source_are_noted(model, part, changes, message):
    other = bird_table(provenance=SOURCE | {part: SOURCE[part] | changes})
    with pytest.warns(cq.ChoqolateWarning, match=message):
        evaluate(model, other)


@pytest.mark.parametrize("provenance", [{}, {"backbone": None, "vocabulary": ["sea"]}, {"backbone": {"name": "x"}}])
def test_nothing_is_noted_where_the_source_is_not_known(model, provenance):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(model, bird_table(provenance=provenance))


def test_spurious_concepts_come_from_the_model_and_from_tables(table):
    marked = bird_table(spurious=["forest", "sea"], provenance={})
    model = fit_scores(marked, leave_out=["sea"], **FAST)
    assert model.provenance_.vocabulary.as_dict() == {"spurious": ["forest"]}
    assert spurious_concepts(model) == ["forest"]
    plain = fit_scores(bird_table(provenance={}), **FAST)
    assert spurious_concepts(plain) == []
    assert spurious_concepts(plain, table, marked) == ["sea", "forest"]


def test_rows_to_recalibrate_on_need_no_labels(table, model):
    assert len(training_rows(model, bird_table(labels=None))) == len(table.part("train"))
    assert len(training_rows(model, bird_table(labels=None, split=None))) == 200
    assert len(training_rows(model, table.part("test"))) == len(table.part("test"))


def test_training_rows_among_the_rows_evaluated_are_noticed(whole, model_of_whole):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(model_of_whole, whole)  # the rows that were held out
        evaluate(model_of_whole, whole, "all")  # asked for
    order = np.random.default_rng(0).permutation(len(whole))
    split = np.where(whole.with_split().split == "train", "test", "train")
    for other in (
        whole.take(order),
        whole.select(whole.concepts[::-1]),
        replace(whole, paths=[f"elsewhere/{row}" for row in range(len(whole))]),
        replace(whole, split=split),
        replace(whole, scores=whole.scores.astype(np.float32)),
    ):
        with pytest.warns(cq.ChoqolateWarning, match="some of these rows were used for training"):
            evaluate(model_of_whole, other)


def test_a_file_of_scores_can_be_trained_on(tmp_path, whole):
    whole.save(tmp_path / "scores.parquet")
    model = fit_scores(tmp_path / "scores.parquet", **FAST)
    assert model.provenance_.data.fingerprint == whole.fingerprint
    with pytest.raises(cq.ChoqolateError, match="the table is empty"):
        fit_scores(whole.take([]))


def test_an_evaluation_is_shown_in_one_line(table, model):
    result = evaluate(model, table, "train")

    def written(share):
        low, high = share.interval
        return f"{share.value:.3f} ({low:.3f} to {high:.3f})"

    name, worst = result.worst_measurable_group
    said = f"{result.rows} rows, accuracy {written(result.overall)}, worst group {written(worst)}, {name!r}"
    assert repr(result) == f"Evaluation({said}; 2 groups too small to tell)"
    assert repr(replace(result, group_accuracy={}, group_rows={})) == f"Evaluation({said.split(', worst')[0]})"


def test_shares_are_counts_of_right_rows(table, model):
    part, result = table.part("test"), evaluate(model, table)
    right = model.predict(part.frame) == part.labels
    np.testing.assert_array_equal(result.hits, right)
    assert result.overall == (right.sum(), len(part))
    for shares, members in ((result.by_class, part.labels), (result.by_group, part.groups)):
        assert shares == {name: (right[members == name].sum(), (members == name).sum()) for name in np.unique(members)}


def test_groups_of_a_few_rows_are_not_the_worst(table, model):
    result = evaluate(model, table)
    assert result.group_rows[result.worst_group[0]] < 10
    large = {name: value for name, value in result.group_accuracy.items() if result.group_rows[name] >= 10}
    name, share = result.worst_measurable_group
    assert (name, share.value) == (min(large, key=large.get), min(large.values()))
    assert result.worst_share == share
    assert result.small_groups == {name: rows for name, rows in result.group_rows.items() if rows < 10}
    few = evaluate(model, table.part("test").take(range(8)))
    assert few.worst_measurable_group is None
    assert few.worst_share.too_few
    assert evaluate(model, replace(table, groups=None)).worst_share is None


@pytest.mark.parametrize("common", ["landbird", "waterbird"])
def test_the_majority_baseline_is_the_most_frequent_class_in_training(table, common):
    rows = np.flatnonzero((table.split == "test") | (table.labels == common) | (np.arange(200) % 4 == 0))
    uneven = table.take(rows)
    result = evaluate(fit_scores(uneven, **FAST), uneven)
    assert result.majority_class == common
    assert result.majority == ((uneven.part("test").labels == common).sum(), len(uneven.part("test")))


def test_of_a_baseline_the_most_frequent_class_of_the_rows_is_taken(table):
    part = table.part("train")
    result = evaluate(LinearBottleneck().fit(part.frame, part.labels), table)
    assert result.majority.value == max(result.class_rows.values()) / result.rows
