from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import choqolate as cq
from tests.small_tables import CONCEPTS, bird_scores

EVERY_FORM = [
    {"interactions": "pairwise"},
    {"interactions": "factored", "rank": 2},
    {"interactions": "none"},
    {"n_nodes": None},
    {"bipolar": True},
]


def expected_failures(estimator):
    if estimator.dtype == "float64":
        return {}
    rounding = "equal to 1e-7 only in float64: a temperature of 0.005 amplifies rounding 200 times, and Adam further"
    return {"check_sample_weight_equivalence_on_dense_data": rounding}


@parametrize_with_checks(
    [
        cq.ChoqolateClassifier(),
        cq.ChoqolateClassifier(dtype="float64", epochs=30),
        cq.ChoqolateClassifier(n_nodes=None, dtype="float64", epochs=30),
        cq.ChoqolateClassifier(interactions="factored", rank=2, dtype="float64", epochs=10),
        cq.ChoqolateClassifier(interactions="none", bipolar=True, dtype="float64", epochs=10),
    ],
    expected_failed_checks=expected_failures,
)
@pytest.mark.filterwarnings("ignore::choqolate.ChoqolateWarning")  # two features, constant features: on purpose
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def birds():
    return bird_scores()


@pytest.mark.parametrize("options", EVERY_FORM)
def test_fits_predicts_and_explains_in_every_form(options, birds):
    X, y, _ = birds
    clf = cq.ChoqolateClassifier(**{"n_nodes": 4, "epochs": 60} | options).fit(X, y)
    assert clf.score(X, y) > 0.9
    width = 2 if clf.n_nodes is None else 4
    n_inputs = 12 if clf.bipolar else 6
    assert clf.node_attributions_.shape == (width, n_inputs)
    assert clf.class_attributions_.shape == (2, width)
    for attributions in (clf.node_attributions_, clf.class_attributions_):
        assert (attributions >= 0).all()
        np.testing.assert_allclose(attributions.sum(1), 1)
    values = clf.transform(X)
    assert values.shape == (400, width)
    assert values.min() >= 0
    assert values.max() <= 1
    probabilities = clf.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    assert (clf.classes_[probabilities.argmax(1)] == clf.predict(X)).all()


@pytest.mark.parametrize("options", [*EVERY_FORM, {"interactions": "none", "free_weights": True}])
@pytest.mark.parametrize("baseline", ["zero", "mean"])
def test_local_explanations_add_up(options, baseline, birds):
    X, y, _ = birds
    clf = cq.ChoqolateClassifier(**{"n_nodes": 3, "epochs": 5} | options).fit(X, y)
    why = clf.explain(X[:20], baseline=baseline)
    np.testing.assert_allclose(why.concept_to_node.sum(2), why.node_values - why.node_baseline, atol=1e-12)
    np.testing.assert_allclose(why.node_to_class.sum(2), why.class_scores - why.class_baseline, atol=1e-12)
    np.testing.assert_allclose(why.node_values, clf.transform(X[:20]))
    np.testing.assert_allclose(why.class_scores, clf.class_scores(X[:20]))
    assert why.concepts == tuple(clf.input_names_)
    assert why.classes == ("landbird", "waterbird")


def test_predictions_are_the_two_integrals_of_the_scaled_scores(birds):
    X, y, _ = birds
    clf = cq.ChoqolateClassifier(n_nodes=4, epochs=10).fit(X[:300], y[:300])
    low, high = X[:300].min().to_numpy(), X[:300].max().to_numpy()
    z = torch.from_numpy(np.clip((X.to_numpy() - low) / (high - low), 0, 1))  # new scores beyond the range are clipped
    layers = []
    for name in ("nodes", "classes"):
        theta = clf.parameters_[f"{name}.theta"].double()
        layer = cq.ChoquetLayer(theta.shape[1], theta.shape[0], dtype=torch.float64)
        layer.load_state_dict({"theta": theta})
        layers.append(layer)
    nodes = cq.choquet(z, *layers[0].weights())
    scores = cq.choquet(nodes, *layers[1].weights()).detach()
    np.testing.assert_allclose(clf.transform(X), nodes.detach(), atol=1e-12)
    np.testing.assert_allclose(clf.class_scores(X), scores, atol=1e-12)
    np.testing.assert_allclose(clf.predict_proba(X), (scores / 0.005).softmax(1), atol=1e-9)
    np.testing.assert_allclose(clf.node_attributions_, layers[0].shapley().detach())


def test_same_seed_same_weights_bit_for_bit():
    X, y = load_digits(return_X_y=True)
    X = X[:, X.std(0) > 1]
    first, again, other = (
        cq.ChoqolateClassifier(epochs=3, random_state=seed).fit(X, y).parameters_ for seed in (5, 5, 6)
    )
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["nodes.theta"], other["nodes.theta"])


def test_random_state_may_be_a_generator_or_none(birds):
    X, y, _ = birds
    drawn = [cq.ChoqolateClassifier(epochs=1, random_state=np.random.RandomState(3)).fit(X, y) for _ in range(2)]
    np.testing.assert_array_equal(drawn[0].node_attributions_, drawn[1].node_attributions_)
    fresh = [cq.ChoqolateClassifier(epochs=1, random_state=None).fit(X, y).node_attributions_ for _ in range(2)]
    assert not np.array_equal(*fresh)


def test_history_and_tracked_attributions(birds):
    X, y, _ = birds
    clf = cq.ChoqolateClassifier(n_nodes=4, epochs=40, track=True).fit(X, y)
    assert clf.history_["loss"].shape == clf.history_["accuracy"].shape == (40,)
    assert clf.history_["loss"][-1] < clf.history_["loss"][0]
    assert clf.history_["accuracy"][-1] == pytest.approx(clf.score(X, y), abs=0.02)
    tracked = clf.history_["node_attributions"]
    assert tracked.shape == (40, 4, 6)
    np.testing.assert_allclose(tracked.sum(2), 1, atol=1e-5)
    np.testing.assert_allclose(tracked[-1], clf.node_attributions_, atol=1e-5)
    assert "node_attributions" not in cq.ChoqolateClassifier(epochs=1).fit(X, y).history_


@pytest.mark.parametrize("options", [{"interactions": "none"}, {"interactions": "pairwise"}, {"n_nodes": None}])
@pytest.mark.parametrize("free_weights", [False, True])
def test_tracked_attributions_are_the_attributions(birds, options, free_weights):
    X, y, _ = birds
    clf = cq.ChoqolateClassifier(epochs=3, track=True, free_weights=free_weights, **options).fit(X, y)
    tracked = clf.history_["node_attributions"]
    np.testing.assert_allclose(tracked[-1], clf.node_attributions_, atol=1e-5)
    assert not np.allclose(tracked[0], tracked[-1], atol=1e-4)


def test_works_on_real_tables_as_well_as_it_should():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
    clf = cq.ChoqolateClassifier().fit(X_train, y_train)
    assert clf.score(X_test, y_test) > 0.92
    assert clf.concepts_ == list(X.columns)
    assert np.mean(cq.metrics.attribution_gini(clf.node_attributions_)) > 0.6


def test_sparsity_rises_with_the_temperature(birds):
    X, y, _ = birds
    ginis = [
        np.mean(cq.metrics.attribution_gini(cq.ChoqolateClassifier(temperature=t, l1=0).fit(X, y).node_attributions_))
        for t in (0.001, 0.05)
    ]
    assert ginis[1] > ginis[0]


def test_penalty_takes_weight_from_interactions(birds):
    X, y, _ = birds

    def interaction_mass(**options):
        clf = cq.ChoqolateClassifier(n_nodes=4, **options).fit(X, y)
        layers = clf.parameters_["nodes.theta"], clf.parameters_["classes.theta"]
        return [float(1 - t.flatten(1).softmax(1).view_as(t).diagonal(dim1=1, dim2=2).sum(1).mean()) for t in layers]

    nowhere, first, everywhere = (
        interaction_mass(l1=0),
        interaction_mass(l1=0.1),
        interaction_mass(l1=0.1, l1_on="all"),
    )
    assert first[0] < nowhere[0]
    assert everywhere[1] < first[1]


def test_a_penalty_on_parameters_makes_all_weights_alike(birds):
    X, y, _ = birds
    clf = cq.ChoqolateClassifier(n_nodes=4, l1=0.2, l1_on="parameters").fit(X, y)
    np.testing.assert_allclose(clf.node_attributions_, 1 / X.shape[1], atol=0.01)  # Gini 0, as in row 7 of the paper
    usual = cq.ChoqolateClassifier(n_nodes=4, l1=0.2, l1_on="first").fit(X, y)
    assert cq.metrics.attribution_gini(clf.node_attributions_).max() < 0.02
    assert cq.metrics.attribution_gini(usual.node_attributions_).min() > 0.2


def test_free_weights_are_not_on_the_simplex(birds):
    X, y, _ = birds
    for interactions in ("pairwise", "none"):
        for l1_on in ("first", "all"):
            free = cq.ChoqolateClassifier(interactions=interactions, free_weights=True, l1_on=l1_on, temperature=1.0)
            free.fit(X, y)
            assert free.score(X, y) > 0.9
            assert (free.parameters_["nodes.theta"] < 0).any()
            np.testing.assert_allclose(free.node_attributions_.sum(1), 1)


def test_bipolar_sees_absence_and_thresholds():
    rng = np.random.default_rng(0)
    X = rng.random((300, 2))
    y = (X.sum(1) > 1).astype(int)  # invisible to integrals of presence: a common shift of both concepts
    with pytest.warns(cq.ChoqolateWarning, match="bipolar=True"):
        blind = cq.ChoqolateClassifier().fit(X, y)
    seeing = cq.ChoqolateClassifier(bipolar=True).fit(X, y)
    assert blind.score(X, y) < 0.65
    assert seeing.score(X, y) > 0.9
    assert seeing.input_names_ == ["x0", "x1", "not x0", "not x1"]
    inputs = seeing.node_attributions_
    np.testing.assert_allclose(seeing.concept_attributions_, inputs[:, [0, 1]] + inputs[:, [2, 3]], rtol=1e-14)
    np.testing.assert_array_equal(blind.concept_attributions_, blind.node_attributions_)
    with pytest.raises(NotFittedError):
        cq.ChoqolateClassifier(bipolar=True).concept_attributions_  # noqa: B018


def test_names_come_from_the_columns_and_the_order_of_columns_is_checked(birds):
    X, y, _ = birds
    clf = cq.ChoqolateClassifier(epochs=1).fit(X, y)
    assert clf.concepts_ == CONCEPTS
    assert list(clf.feature_names_in_) == CONCEPTS
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(X[CONCEPTS[::-1]])
    assert cq.ChoqolateClassifier(epochs=1).fit(X.to_numpy(), y).concepts_ == [f"x{j}" for j in range(6)]


def test_fits_into_pipelines_searches_and_data_frames(birds):
    X, y, _ = birds
    pipeline = make_pipeline(FunctionTransformer(), cq.ChoqolateClassifier(epochs=5)).fit(X, y)
    assert pipeline.predict(X).shape == (400,)
    search = GridSearchCV(cq.ChoqolateClassifier(epochs=5), {"n_nodes": [2, 4]}, cv=2).fit(X, y)
    assert search.best_estimator_.node_attributions_.shape == (search.best_params_["n_nodes"], 6)
    assert cross_val_score(cq.ChoqolateClassifier(epochs=20), X, y, cv=2).mean() > 0.8
    frame = cq.ChoqolateClassifier(n_nodes=3, epochs=1).set_output(transform="pandas").fit(X, y).transform(X)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == ["node0", "node1", "node2"]
    one_layer = cq.ChoqolateClassifier(n_nodes=None, epochs=1).fit(X, y)
    assert list(one_layer.get_feature_names_out()) == ["landbird", "waterbird"]
    assert clone(one_layer).get_params() == one_layer.get_params()


def test_pickle_keeps_everything(birds):
    X, y, _ = birds
    clf = cq.ChoqolateClassifier(epochs=3).fit(X, y).remove_concepts("sea")
    back = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(back.predict_proba(X), clf.predict_proba(X))
    np.testing.assert_array_equal(back.restore().predict_proba(X), clf.restore().predict_proba(X))


def test_weights_count_as_repeated_rows(birds):
    X, y, _ = birds
    X, y = X[:60], y[:60]
    counts = np.random.default_rng(0).integers(0, 4, 60)
    weighted = cq.ChoqolateClassifier(dtype="float64", epochs=20).fit(X, y, sample_weight=counts)
    repeated = cq.ChoqolateClassifier(dtype="float64", epochs=20).fit(X.loc[X.index.repeat(counts)], y.repeat(counts))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-8)
    np.testing.assert_allclose(weighted.label_shares_, repeated.label_shares_)
    np.testing.assert_allclose(weighted.concept_means_, repeated.concept_means_)


def test_balanced_classes_count_weights_as_repeated_rows(birds):
    X, y, _ = birds
    X, y = X[:60], y[:60]
    counts = np.random.default_rng(1).integers(0, 4, 60)
    options = {"dtype": "float64", "epochs": 10, "class_weight": "balanced"}
    weighted = cq.ChoqolateClassifier(**options).fit(X, y, sample_weight=counts)
    repeated = cq.ChoqolateClassifier(**options).fit(X.loc[X.index.repeat(counts)], y.repeat(counts))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-8)


def test_class_weight_moves_the_decision():
    X, y, _ = bird_scores(agreement=0.5)
    keep = (y == "landbird") | (np.arange(400) % 8 == 0)
    X, y = X[keep], y[keep]
    recalls = [
        (
            cq.ChoqolateClassifier(epochs=40, class_weight=weight).fit(X, y).predict(X)[y == "waterbird"] == "waterbird"
        ).mean()
        for weight in ({"landbird": 1.0, "waterbird": 0.001}, {"landbird": 0.001, "waterbird": 1.0})
    ]
    assert recalls[1] > recalls[0]


def test_tables_of_scores_are_taken_with_their_columns_in_any_order(birds):
    X, y, groups = birds
    table = cq.ConceptScores(X.to_numpy(), list(X.columns), labels=y, groups=groups)
    turned = table.select(table.concepts[::-1])
    model = cq.ChoqolateClassifier(n_nodes=3, epochs=3, bipolar=True).fit(table, table.labels)
    same = cq.ChoqolateClassifier(n_nodes=3, epochs=3, bipolar=True).fit(X, y)
    np.testing.assert_array_equal(model.node_attributions_, same.node_attributions_)
    for method in ("predict", "predict_proba", "transform", "class_scores"):
        np.testing.assert_array_equal(getattr(model, method)(turned), getattr(model, method)(X))
    assert model.score(turned, y) == model.score(X, y)
    np.testing.assert_array_equal(model.explain(turned).concept_to_node, model.explain(X).concept_to_node)
    assert model.removal_impact(turned).equals(model.removal_impact(X, y, groups))
    assert model.recalibrate(turned).class_shift_.tolist() == model.recalibrate(X).class_shift_.tolist()
    with pytest.raises(cq.ChoqolateError, match="the table has no"):
        model.predict(table.select(table.concepts[:2]))


def test_the_impact_of_removals_counts_rows_whose_label_and_group_are_known(birds):
    X, y, groups = birds
    model = cq.ChoqolateClassifier(n_nodes=3, epochs=3).fit(X, y)
    rows = np.arange(len(X))
    labelled, grouped = rows % 5 != 0, rows % 3 != 0
    some_y, some_groups = np.where(labelled, y, None), np.where(grouped, groups, None)

    def impact(**columns):
        return model.removal_impact(cq.ConceptScores(X.to_numpy(), list(X.columns), **columns))

    def expected(mask, *columns):
        return model.removal_impact(X[mask], *(np.asarray(column)[mask] for column in columns))

    assert impact(labels=some_y).equals(expected(labelled, y))
    assert impact(labels=some_y, groups=some_groups).equals(expected(labelled & grouped, y, groups))
    only_elsewhere = np.where(labelled, None, groups)
    assert impact(labels=some_y, groups=only_elsewhere).equals(expected(labelled, y))
    table = cq.ConceptScores(X.to_numpy(), list(X.columns), labels=some_y, groups=some_groups)
    assert model.removal_impact(table, y).equals(expected(grouped, y, groups))
    assert model.removal_impact(table, groups=groups).equals(expected(labelled, y, groups))
    with pytest.raises(cq.ChoqolateError, match=r"^expected labels, this table has none: add a column"):
        impact(groups=groups)


def test_the_provenance_has_certain_fields(birds):
    X, y, _ = birds
    model = cq.ChoqolateClassifier(n_nodes=3, epochs=2).fit(X, y)
    assert model.with_provenance(source="csv").provenance_.source == "csv"
    with pytest.raises(
        cq.ChoqolateError, match=r"^Expected a field of the provenance among .*, got 'sources'\. Did you"
    ):
        model.with_provenance(sources="csv")


@pytest.mark.parametrize(("fitted", "later"), [(3, None), (None, 3)])
def test_names_of_nodes_are_those_of_the_fitted_network(birds, fitted, later):
    X, y, _ = birds
    model = cq.ChoqolateClassifier(n_nodes=fitted, epochs=2).fit(X, y)
    names, columns = model.node_names_, model.get_feature_names_out().tolist()
    assert columns == (["landbird", "waterbird"] if fitted is None else ["node0", "node1", "node2"])
    model.set_params(n_nodes=later)
    assert (model.node_names_, model.get_feature_names_out().tolist()) == (names, columns)
