"""The search behind "auto": what is tried, how it is measured, and the rule that picks a setting."""

from __future__ import annotations

import json
import math
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine

import choqolate as cq
from choqolate.errors import DoubtfulChoiceWarning
from choqolate.estimators.search import search
from choqolate.estimators.search_record import Search
from choqolate.estimators.validation import hold_out
from tests.sealing import write_json
from tests.small_tables import CONCEPTS, bird_scores

AUTO = dict.fromkeys(("n_nodes", "temperature", "interactions"), "auto")


def many_classes(n_classes=20, n_rows=600, n_concepts=12, seed=0):
    """Scores of classes that differ in their mean."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % n_classes
    return rng.normal(size=(n_classes, n_concepts))[y] + 0.7 * rng.normal(size=(n_rows, n_concepts)), y


def quiet(classifier, *rows, **more):
    """Fit without the doubts that small tables raise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtfulChoiceWarning)
        return classifier.fit(*rows, **more)


@pytest.fixture(scope="module")
def birds():
    X, y, _ = bird_scores(600)
    return quiet(cq.ChoqolateClassifier(**AUTO, epochs=20), X, y)


@pytest.fixture(scope="module")
def classes():
    return quiet(cq.ChoqolateClassifier(**AUTO, epochs=20), *many_classes())


def taken_by_the_rule(found):
    """The rule, written down once more: an index of a trial."""
    trials = found.frame
    sparse = trials[trials.gini >= found.paper.gini - 0.02]
    tolerance = min(max(found.standard_error, 0.005), 0.01)
    close = sparse[sparse.accuracy >= sparse.accuracy.max() - tolerance]
    fewest = close[close.concepts_per_class.round() == close.concepts_per_class.round().min()]
    return int(fewest.n_parameters.idxmin())


@pytest.mark.parametrize("model", ["birds", "classes"])
def test_the_choice_follows_the_rule(model, request):
    found = request.getfixturevalue(model).search_
    assert found.chosen == taken_by_the_rule(found)
    assert "within one standard error (at least 0.5 and at most 1 point)" in found.rule


def test_pairs_are_tried_where_classes_are_few_and_many_nodes_where_they_are_many(birds, classes):
    few, many = ({(one.n_nodes, one.interactions) for one in model.search_.trials} for model in (birds, classes))
    assert few == {(None, "none"), (8, "none"), (16, "none"), (8, "pairwise"), (16, "pairwise")}
    assert many == {(None, "none"), (16, "none"), (32, "none")}
    for model in (birds, classes):
        assert {one.bipolar for one in model.search_.trials} == {False, True}
        assert len({one.temperature for one in model.search_.trials}) == 4


def test_the_model_is_trained_on_all_rows_with_the_chosen_settings(birds):
    X, y, _ = bird_scores(600)
    settings = birds.trained_settings
    assert [birds.get_params()[name] for name in AUTO] == ["auto"] * 3  # parameters stay as they were given
    assert (settings["init"], settings["schedule"]) == ("clusters", "cosine")
    alone = cq.ChoqolateClassifier(**settings).fit(X, y)
    assert alone.search_ is None
    assert (alone.class_scores(X) == birds.class_scores(X)).all()
    assert (alone.predict_proba(X) == birds.predict_proba(X)).all()
    assert birds.temperature_ == birds.search_.choice.temperature
    assert birds.n_parameters_ == birds.search_.choice.n_parameters


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"n_nodes": 5}, lambda trial: trial.n_nodes == 5),
        ({"n_nodes": None}, lambda trial: trial.n_nodes is None),
        ({"temperature": 0.03}, lambda trial: trial.temperature == 0.03),
        ({"interactions": "factored", "rank": 2}, lambda trial: trial.interactions == "factored"),
        ({"bipolar": False}, lambda trial: not trial.bipolar),
        ({"bipolar": True}, lambda trial: trial.bipolar),
        ({"class_interactions": "none"}, lambda trial: trial.class_interactions == ("none" if trial.n_nodes else None)),
    ],
)
def test_what_is_given_is_kept(given, expected):
    X, y, _ = bird_scores(150)
    model = quiet(cq.ChoqolateClassifier(**AUTO | {"epochs": 2} | given), X, y)
    assert all(map(expected, model.search_.trials))
    built = model.network_.architecture
    for name, value in given.items():
        assert (model.temperature_ if name == "temperature" else getattr(built, name)) == value
    settings = [tuple(trial.settings.values()) for trial in model.search_.trials]
    assert len(set(settings)) == len(settings)  # nothing is tried twice


def test_accuracy_is_that_of_rows_that_were_not_trained_on():
    """A trial, trained again fold by fold without its held-out rows, reaches the accuracy that was noted."""
    X, y = many_classes(n_classes=4, n_rows=240)
    options = dict(n_nodes=None, interactions="none", bipolar=False, dtype="float64", batch_size=1000, epochs=20)
    model = quiet(cq.ChoqolateClassifier(temperature="auto", **options), X, y)
    low, high = X.min(0), X.max(0)  # the scale is that of all rows
    Z = np.vstack([(X - low) / (high - low), np.zeros(12), np.ones(12)])  # two rows keep it
    folds = hold_out(model.prepare(X, y)[0]).folds
    assert sorted(set(folds)) == [0, 1, 2]
    for trial in model.search_.trials:
        correct = 0
        for fold in range(3):
            held = folds == fold
            weights = np.r_[np.where(held, 0.0, 1.0), 1e-12, 1e-12]
            again = cq.ChoqolateClassifier(
                **options | {"epochs": 8, "learning_rate": 0.2, "schedule": "cosine"}, temperature=trial.temperature
            )
            again.fit(Z, np.r_[y, 0, 1], sample_weight=weights)
            correct += (again.predict(Z[:-2][held]) == y[held]).sum()
        assert trial.accuracy == pytest.approx(correct / 240, abs=1.5 / 240)


def test_sparsity_and_counts_are_per_concept(birds):
    """Of an untrained bipolar network half of the weight is on absences, and all concepts count alike."""
    X, y, _ = bird_scores(150)
    model = quiet(cq.ChoqolateClassifier(**AUTO, bipolar=True, epochs=1, learning_rate=1e-9), X, y)
    one_layer = next(trial for trial in model.search_.trials if trial.n_nodes is None)
    assert one_layer.gini < 0.1
    assert one_layer.concepts_per_class == len(CONCEPTS)


def test_groups_count_equally():
    X, y, groups = bird_scores(600)
    table = cq.ConceptScores(X.to_numpy(), CONCEPTS, labels=y, groups=groups)
    with pytest.warns(DoubtfulChoiceWarning, match="has only [0-9]+ validation rows, and all groups count equally"):
        grouped = cq.ChoqolateClassifier(**AUTO, epochs=5).fit(table, y).search_
    plain = quiet(cq.ChoqolateClassifier(**AUTO, epochs=5), X, y).search_
    assert (grouped.by_group, plain.by_group) == (True, False)
    assert grouped.best.accuracy < plain.best.accuracy - 0.05  # two of four groups are rare and hard
    assert grouped.standard_error > plain.standard_error
    given = quiet(cq.ChoqolateClassifier(**AUTO, epochs=5), X, y, groups=groups).search_
    assert given.trials == grouped.trials


def test_validation_rows_hold_each_class_and_group_alike():
    X, y, groups = bird_scores(300)
    data, _ = cq.ChoqolateClassifier().prepare(X, y, groups=groups)
    folds = hold_out(data).folds
    for label in set(y):
        for group in set(groups):
            counts = np.bincount(folds[(y == label) & (groups == group)], minlength=3)
            assert counts.max() - counts.min() <= 1


def test_sparsity_takes_the_most_accurate_setting_at_that_gini():
    X, y, _ = bird_scores(300)
    model = quiet(cq.ChoqolateClassifier(**AUTO, epochs=20, sparsity=0.6), X, y)
    frame = model.search_.frame
    assert model.search_.choice.accuracy == frame[frame.gini >= 0.6].accuracy.max()
    with pytest.warns(DoubtfulChoiceWarning, match=r"No setting reaches a Gini of 0\.99; the sparsest has"):
        model = cq.ChoqolateClassifier(**AUTO, epochs=20, sparsity=0.99).fit(X, y)
    assert model.search_.choice.gini == model.search_.frame.gini.max()


def test_few_rows_make_a_choice_doubtful():
    X, y, _ = bird_scores(60)
    with pytest.warns(DoubtfulChoiceWarning, match=r"has a standard error of \d+\.\d points"):
        cq.ChoqolateClassifier(**AUTO, epochs=2).fit(X, y)
    X, y = many_classes(n_classes=5, n_rows=300)
    y[y == 4] = 3
    y[0] = 4
    with pytest.warns(DoubtfulChoiceWarning, match="1 of 5 classes has fewer than 3 training rows"):
        cq.ChoqolateClassifier(**AUTO, epochs=2).fit(X, y)


def test_sparsity_that_costs_much_accuracy_is_a_doubt():
    """Three concepts cannot be sparse: what is as sparse as the paper's settings is far less accurate."""
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    X = rng.random((300, 3)) + np.array([[1, 0, 0], [0, 1, 0], [0, 0, 0]])[y]
    with pytest.warns(
        DoubtfulChoiceWarning, match=r"less sparse gains \d+\.\d points; sparsity=0 takes the most accurate"
    ):
        found = cq.ChoqolateClassifier(**AUTO).fit(X, y).search_
    assert found.best.accuracy > found.choice.accuracy + 0.05
    dense = quiet(cq.ChoqolateClassifier(**AUTO, sparsity=0), X, y).search_
    assert dense.choice.accuracy == dense.best.accuracy


def test_many_classes_on_few_nodes_are_a_warning():
    X, y = many_classes()
    with pytest.warns(cq.ChoqolateWarning, match="20 classes share 4 nodes, which costs accuracy"):
        cq.ChoqolateClassifier(n_nodes=4, epochs=1).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cq.ChoqolateClassifier(n_nodes=5, epochs=1).fit(X, y)


def test_a_search_is_saved_with_the_model(birds, tmp_path):
    birds.save(tmp_path / "model")
    again = cq.load(tmp_path / "model")
    assert again.search_ == birds.search_
    assert again.get_params() == birds.get_params()
    X, _, _ = bird_scores(600)
    assert (again.predict_proba(X) == birds.predict_proba(X)).all()
    assert Search.from_dict(json.loads(json.dumps(birds.search_.as_dict()))) == birds.search_
    assert "Search(15 settings; chosen: " in repr(again.search_)


def test_runs_share_one_search():
    X, y, _ = bird_scores(200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtfulChoiceWarning)
        runs = cq.fit_runs(X, y, seeds=[3, 4], epochs=3, **AUTO)
    assert runs[0].search_ is runs[1].search_
    assert [run.random_state for run in runs] == [3, 4]
    for run in runs:
        assert run.network_.architecture.n_nodes == runs[0].search_.choice.n_nodes
        assert not run.is_searching


def test_the_estimator_can_be_cloned_and_searched(birds):
    copy = clone(birds)
    assert copy.get_params() == birds.get_params()
    assert not hasattr(copy, "network_")
    X, y, _ = bird_scores(600)
    repeated = quiet(copy, X, y)
    assert repeated.search_.trials == birds.search_.trials  # the same rows, the same choice
    assert (repeated.class_scores(X) == birds.class_scores(X)).all()


def test_the_paper_is_measured_beside_the_trials(birds):
    paper = birds.search_.paper
    assert paper.settings == {
        "n_nodes": 8,
        "interactions": "pairwise",
        "class_interactions": None,
        "bipolar": False,
        "temperature": 0.005,
    }
    assert 0.5 < paper.accuracy <= 1
    lines = birds.search_.lines()
    assert lines[0].startswith(f"chosen: {birds.search_.choice} (validation accuracy")
    assert any(line.startswith("the paper's settings: ") for line in lines)


def test_the_defaults_are_the_papers():
    X, y = load_wine(return_X_y=True)
    usual = cq.ChoqolateClassifier(epochs=3).fit(X, y)
    said = dict(n_nodes=8, temperature=0.005, interactions="pairwise", class_interactions="pairwise", bipolar=False)
    spelled = cq.ChoqolateClassifier(epochs=3, init="random", schedule="constant", **said).fit(X, y)
    assert (usual.class_scores(X) == spelled.class_scores(X)).all()
    assert usual.search_ is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_nodes": "many"}, "expected n_nodes to be a whole number"),
        ({"temperature": "hot"}, "expected temperature to be a number above 0"),
        ({"interactions": "odd"}, "interactions"),
        ({"class_interactions": "factored"}, "class_interactions"),
        ({"init": "cluster"}, "init"),
        ({"schedule": "linear"}, "schedule"),
        ({"bipolar": "auto"}, "Expected bipolar to be True, False or None"),
        ({"sparsity": 0.9}, "sparsity needs a search"),
        ({**AUTO, "sparsity": -1}, "expected sparsity to be a number of at least 0"),
        ({**AUTO, "sparsity": 5}, "Expected sparsity to be a Gini of at most 1, got 5"),
        ({**AUTO, "free_weights": True}, "free_weights drops the softmax"),
    ],
)
def test_wrong_parameters_are_named(options, message):
    X, y, _ = bird_scores(50)
    with pytest.raises(cq.ChoqolateError, match=message):
        cq.ChoqolateClassifier(**options).fit(X, y)


def test_vocabularies_too_large_for_pairs_are_tried_with_factored_ones(monkeypatch):
    monkeypatch.setattr("choqolate.estimators.search._PAIRS_BYTES", 1_000)
    X, y, _ = bird_scores(100)
    classifier = cq.ChoqolateClassifier(**AUTO, epochs=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtfulChoiceWarning)
        found = search(classifier, *classifier.prepare(X, y))
    assert {trial.interactions for trial in found.trials} == {"none", "factored"}
    assert found.paper is None
    assert [sentence.split(", so ")[1] for sentence in found.untried] == [
        "factored interactions were tried instead.",
        "the paper's settings were not measured.",
    ]
    assert not any(math.isnan(trial.accuracy) for trial in found.trials)


def test_a_table_in_which_some_rows_have_no_group_is_searched_without_groups():
    X, y, groups = bird_scores(150)
    table = cq.ConceptScores(X.to_numpy(), CONCEPTS, labels=y, groups=[None, *groups[1:]])
    with pytest.warns(DoubtfulChoiceWarning) as said:
        model = cq.ChoqolateClassifier(**AUTO, epochs=2).fit(table, y)
    assert str(said[0].message) == "1 of 150 rows has no group, so the search takes no account of groups."
    assert not model.search_.by_group


def test_groups_may_be_pairs():
    X, y, groups = bird_scores(150)
    pairs = [tuple(group.split(" on ")) for group in groups]
    named, paired = (quiet(cq.ChoqolateClassifier(**AUTO, epochs=2), X, y, groups=own) for own in (groups, pairs))
    assert named.search_.trials == paired.search_.trials


def test_two_rows_are_enough_to_train():
    model = quiet(cq.ChoqolateClassifier(**AUTO, epochs=2), [[0.0, 1.0, 0.3], [1.0, 0.0, 0.5]], [0, 1])
    assert model.search_.rows == 2


def test_runs_are_split_where_they_do_not_fit_side_by_side(monkeypatch):
    X, y, _ = bird_scores(150)
    whole = quiet(cq.ChoqolateClassifier(**AUTO, epochs=3, dtype="float64"), X, y).search_
    monkeypatch.setattr("choqolate.estimators.side_by_side._SIDE_BY_SIDE_BYTES", 50_000)
    parts = quiet(cq.ChoqolateClassifier(**AUTO, epochs=3, dtype="float64"), X, y).search_
    for one, other in zip(whole.trials, parts.trials, strict=True):
        assert one.settings == other.settings
        assert one.accuracy == other.accuracy
        assert one.gini == pytest.approx(other.gini, abs=1e-9)


def test_temperatures_and_a_search_do_not_go_together():
    X, y, _ = bird_scores(50)
    with pytest.raises(cq.ChoqolateError, match=r"Expected temperatures=\.\.\. or a search, but got both"):
        cq.fit_runs(X, y, seeds=[0], n_nodes="auto", temperatures=[0.02, 0.1])


def test_parameters_set_to_auto_after_fitting_ask_for_a_fit():
    X, y, _ = bird_scores(50)
    model = cq.ChoqolateClassifier(n_nodes=3, epochs=1).fit(X, y).set_params(temperature="auto")
    with pytest.raises(cq.ChoqolateError, match="Fit the classifier again"):
        model.predict_proba(X)


def test_the_paper_being_better_is_a_doubt():
    """Means of one layer see little of a parity; pairs of concepts see it well."""
    rng = np.random.default_rng(0)
    X = rng.random((600, 4))
    y = ((X[:, 0] > 0.5) ^ (X[:, 1] > 0.5)).astype(int)
    given = dict(n_nodes=None, interactions="none", temperature="auto", bipolar=False)
    with pytest.warns(DoubtfulChoiceWarning, match=r"The paper's settings reach 0\.\d+ where this one reaches 0\.\d+"):
        model = cq.ChoqolateClassifier(**given).fit(X, y)
    assert model.search_.paper.accuracy > model.search_.choice.accuracy + 0.05


DAMAGE = {
    "an index of no trial": lambda found, _: found.update(chosen=99),
    "a negative index": lambda found, _: found.update(chosen=-1),
    "no trials": lambda found, _: found.update(trials=[]),
    "no rule": lambda found, _: found.pop("rule"),
    "an accuracy that is none": lambda found, _: found["trials"][0].update(accuracy=None),
    "an accuracy that is text": lambda found, _: found["trials"][0].update(accuracy="high"),
    "an unknown kind": lambda found, _: found["trials"][0].update(interactions="bogus"),
    "a temperature to be searched": lambda found, _: found["trials"][found["chosen"]].update(temperature="auto"),
    "more runs than there are numbers": lambda _, stability: stability.update(n_runs=1e300),
    "shares above one": lambda _, stability: stability.update(recurrence=[[2.0] * 8]),
    "a number for an array": lambda _, stability: stability.update(recurrence=1.0),
    "other nodes": lambda _, stability: stability.update(recurrence=[[1.0]], similarity=[[1.0]]),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_record_is_one_error(damage, tmp_path):
    X, y, _ = bird_scores(150)
    table = cq.ConceptScores(X.to_numpy(), CONCEPTS, labels=y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cq.ChoqolateWarning)
        model = cq.fit_scores(table, n_runs=2, **AUTO | {"n_nodes": 8, "interactions": "none"}, epochs=1)
    model.save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    DAMAGE[damage](config["search"], config["stability"])
    write_json(tmp_path / "config.json", config)
    with pytest.raises(cq.ChoqolateError, match="is not a model that can be loaded"):
        cq.load(tmp_path)


def test_a_model_that_lost_its_search_is_not_loaded(birds, tmp_path):
    birds.save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    write_json(tmp_path / "config.json", config | {"search": None})
    with pytest.raises(cq.ChoqolateError, match="leaves settings to a search, but has no record of one"):
        cq.load(tmp_path)


def test_the_rank_is_searched_on_request(tmp_path):
    X, y, _ = bird_scores(150)
    options = dict(n_nodes=4, interactions="factored", temperature=0.02, rank="auto", bipolar=False, epochs=3)
    model = quiet(cq.ChoqolateClassifier(**options), X, y)
    assert [trial.rank for trial in model.search_.trials] == [1, 2, 4, 8]
    assert model.search_.chosen == taken_by_the_rule(model.search_)
    assert model.network_.architecture.rank == model.search_.choice.rank == model.trained_settings["rank"]
    model.save(tmp_path / "model")
    again = cq.load(tmp_path / "model")
    assert (again.search_, again.rank) == (model.search_, "auto")
    assert (again.class_scores(X) == model.class_scores(X)).all()
    with pytest.raises(cq.ChoqolateError, match="rank='auto' needs factored interactions"):
        cq.ChoqolateClassifier(rank="auto").fit(X, y)
