from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from choqolate.baselines import SparseAutoencoder
from choqolate.baselines.sparse_autoencoder import Autoencoder, geometric_median
from choqolate.estimators.descent import ProximalAdam
from tests.baselines.methods import noisy_labels, runs_on, scale


@pytest.fixture(scope="module")
def data():
    return noisy_labels()


@pytest.fixture(scope="module")
def model(data):
    return SparseAutoencoder(n_nodes=4, penalty=1e-3, epochs=150, learning_rate=0.02).fit(*data)


# ---------------------------------------------------------------- geometric median


def sum_of_distances(points, middle):
    return np.linalg.norm(points - middle, axis=1).sum()


@settings(max_examples=30, deadline=None)
@given(points=arrays(np.float64, st.tuples(st.integers(1, 12), st.integers(1, 4)), elements=st.floats(0, 1, width=16)))
def test_no_point_has_a_smaller_sum_of_distances(points):
    ours = sum_of_distances(points, geometric_median(points))
    found = minimize(lambda at: sum_of_distances(points, at), points.mean(0), method="Nelder-Mead").fun
    best_row = min(sum_of_distances(points, row) for row in points)
    assert ours <= min(found, best_row) + 1e-4


def test_the_median_of_a_cloud_against_scipy():
    points = np.random.default_rng(0).gamma(1.0, size=(200, 3))
    found = minimize(lambda at: sum_of_distances(points, at), points.mean(0), tol=1e-10).x
    np.testing.assert_allclose(geometric_median(points), found, atol=1e-5)
    assert np.abs(found - points.mean(0)).max() > 0.1  # no mean


def test_a_majority_of_equal_rows_is_the_median():
    points = np.array([[0.2, 0.4]] * 5 + [[9.0, 9.0], [8.0, 0.0], [0.0, 7.0]])
    np.testing.assert_allclose(geometric_median(points), [0.2, 0.4], atol=1e-8)


# ---------------------------------------------------------------- first stage


def test_the_loss_by_hand():
    autoencoder = Autoencoder(runs_on([[0.2, 0.4], [0.6, 0.8]], penalty=0.5), 2)
    W, b = torch.tensor([[[1.0, 0.0], [0.0, -1.0]]]), torch.tensor([[0.0, 0.1]])
    autoencoder.W, autoencoder.b = W.double(), b.double()
    autoencoder.decoder = torch.tensor([[[1.0, 0.6], [0.0, 0.8]]]).double()
    autoencoder.center = torch.tensor([[0.1, 0.2]]).double()
    units = np.array([[0.1, 0.0], [0.5, 0.0]])  # the second unit: 0.1 - 0.2 and 0.1 - 0.6 are below zero
    rebuilt = np.array([[0.2, 0.2], [0.6, 0.2]])
    errors = ((rebuilt - [[0.2, 0.4], [0.6, 0.8]]) ** 2).mean(1)  # the mean over two concepts
    expected = np.mean(errors + 0.5 * units.sum(1))
    losses, hits = autoencoder.measure(torch.tensor([0, 1]))
    np.testing.assert_allclose(autoencoder.encode_rows(torch.tensor([0, 1]))[0], units, atol=1e-7)
    assert losses.tolist() == pytest.approx([expected], abs=1e-7)
    assert hits is None


def test_squared_errors_are_those_of_the_rebuilt_scores(data):
    z = torch.from_numpy(data[0])
    autoencoder = Autoencoder(runs_on(z, n_runs=3), 5)
    units = autoencoder.encode(z)
    for run in range(3):
        rebuilt = units[run] @ autoencoder.decoder[run].T + autoencoder.center[run]
        expected = (rebuilt - z).square().sum(1)
        np.testing.assert_allclose(autoencoder.squared_errors(z, units)[run], expected, atol=1e-12)


def test_it_starts_at_the_geometric_median_with_decoder_columns_of_length_one(data):
    z = scale(data[0], data[0])
    autoencoder = Autoencoder(runs_on(z, n_runs=2), 5)
    np.testing.assert_allclose(autoencoder.center, np.stack([geometric_median(z)] * 2))
    np.testing.assert_allclose(autoencoder.decoder.norm(dim=1), 1.0)
    assert not torch.equal(autoencoder.decoder[0], autoencoder.decoder[1])
    assert not autoencoder.b.any()


def test_the_gradient_loses_its_part_along_each_column(data):
    autoencoder = Autoencoder(runs_on(data[0], n_runs=2), 5)
    for theta in autoencoder.parameters:
        theta.requires_grad_()
    losses, _ = autoencoder.measure(torch.arange(50))
    losses.sum().backward()
    full = autoencoder.decoder.grad.clone()
    autoencoder.before_step()
    D, g = autoencoder.decoder.detach(), autoencoder.decoder.grad
    assert (D * full).sum(1).abs().max() > 1e-4
    np.testing.assert_allclose((D * g).sum(1), 0.0, atol=1e-14)
    along = full - g
    np.testing.assert_allclose(along, D * (D * along).sum(1, keepdim=True), atol=1e-14)  # and nothing else


def test_decoder_columns_have_length_one_after_training(model):
    np.testing.assert_allclose(np.linalg.norm(model.decoder_, axis=0), 1.0, atol=1e-12)
    assert model.decoder_.shape == (8, 4)
    assert model.history_["reconstruction"].shape == (150,)
    assert model.history_["reconstruction"][-1] < 0.7 * model.history_["reconstruction"][0]


def test_as_wide_as_the_rank_of_the_scores_it_rebuilds_them():
    rng = np.random.default_rng(0)
    X, y = rng.random((200, 2)) @ rng.random((2, 6)), rng.integers(0, 2, 200)
    model = SparseAutoencoder(n_nodes=4, penalty=0.0, epochs=300, learning_rate=0.05).fit(X, y)
    rebuilt = model.transform(X) @ model.decoder_.T + model.center_
    z = scale(X, X)
    assert ((rebuilt - z) ** 2).mean() < 0.02 * z.var(axis=0).mean()


def test_a_stronger_penalty_leaves_smaller_units(data):
    sums = [
        SparseAutoencoder(n_nodes=4, penalty=penalty, epochs=60).fit(*data).transform(data[0]).sum()
        for penalty in (0.0, 0.003, 0.03)
    ]
    assert sums[0] > sums[1] > sums[2]


# ---------------------------------------------------------------- dead units


def test_a_dead_unit_comes_back_at_a_row_that_is_badly_rebuilt():
    z = np.full((40, 3), 0.5) + np.random.default_rng(0).normal(0, 1e-3, (40, 3))
    z[7] = [1.0, 0.5, 0.5]  # nearly all of the error
    autoencoder = Autoencoder(runs_on(z, n_runs=2), 3)
    autoencoder.b[0, 1] = -100.0  # of the first run
    optimizer = ProximalAdam(autoencoder.parameters, torch.tensor([0.1, 0.1]))
    for moments in optimizer.moments:
        for moment in moments:
            moment += 1.0
    before = [theta.clone() for theta in autoencoder.parameters]
    autoencoder.revive(optimizer)
    direction = z[7] - autoencoder.center[0].numpy()
    direction /= np.linalg.norm(direction)
    np.testing.assert_allclose(autoencoder.decoder[0, :, 1], direction, atol=1e-12)
    alive = float(before[0][0, [0, 2]].norm(dim=1).mean())
    np.testing.assert_allclose(autoencoder.W[0, 1], 0.2 * alive * direction, atol=1e-12)
    assert autoencoder.b[0, 1] == 0
    assert autoencoder.encode_rows(torch.arange(40))[0, 7, 1] > 0
    fresh = torch.zeros(2, 3, dtype=torch.bool)
    fresh[0, 1] = True
    for theta, old in zip(autoencoder.parameters[:2], before, strict=False):
        torch.testing.assert_close(theta[~fresh], old[~fresh], rtol=0, atol=0)  # the others are as they were
    for moment in (*optimizer.moments[0], *optimizer.moments[1]):
        assert not moment[fresh].any()
        assert (moment[~fresh] == 1).all()
    for moment in optimizer.moments[2]:
        assert not moment[0, :, 1].any()
        assert (moment[0, :, [0, 2]] == 1).all()


def test_units_that_die_in_training_are_resampled_three_times(data):
    training = runs_on(scale(data[0], data[0]), epochs=20)
    revivals = []

    class Counted(Autoencoder):
        @torch.no_grad()
        def revive(self, optimizer):
            revivals.append(int((~self.encode_rows(torch.arange(300))[0].any(0)).sum()))
            super().revive(optimizer)
            assert self.encode_rows(torch.arange(300))[0].any(0).all()
            self.b[0] = -100.0  # dead again

    counted = Counted(training, 4)
    counted.b[0] = -100.0
    training.minimise(counted, "encoding")
    assert revivals == [4, 4, 4]


def test_perfectly_rebuilt_scores_leave_nothing_to_resample():
    autoencoder = Autoencoder(runs_on(np.full((5, 2), 0.3)), 2)
    autoencoder.b[:] = -1.0
    autoencoder.revive(ProximalAdam(autoencoder.parameters, torch.tensor([0.1])))
    assert (autoencoder.b == -1).all()


# ---------------------------------------------------------------- the estimator


def test_units_are_the_encoder_of_scaled_scores(data, model):
    z = scale(data[0], data[0])
    sums = z @ model.node_attributions_.T + model.node_intercepts_
    np.testing.assert_allclose(model.transform(data[0]), np.maximum(sums, 0), atol=1e-12)
    assert (sums < 0).any()


def test_the_head_is_a_logistic_regression_on_the_units(data):
    X, y = data
    model = SparseAutoencoder(n_nodes=4, penalty=1e-4, epochs=400, learning_rate=0.1).fit(X, y)
    f = model.transform(X)
    oracle = LogisticRegression(C=np.inf, tol=1e-10, max_iter=5000).fit(f, y)
    np.testing.assert_allclose(model.predict_proba(X), oracle.predict_proba(f), atol=2e-3)


def test_attributions_are_integrated_gradients(data, model):
    X, _ = data
    z = scale(X, X)[:25]
    explanation = model.explain(X[:25], baseline="mean")
    start, W = model.concept_means_, model.node_attributions_
    steps = (np.arange(20_000) + 0.5) / 20_000
    for row in (0, 7, 24):
        path = start + steps[:, None] * (z[row] - start)
        active = (path @ W.T + model.node_intercepts_ > 0).mean(0)  # share of the way on which a unit has a slope
        np.testing.assert_allclose(explanation.concept_to_node[row], active[:, None] * W * (z[row] - start), atol=2e-4)
    crossing = (explanation.node_values > 0) != (explanation.node_baseline > 0)
    assert crossing.any()
    assert not crossing.all()


def test_a_row_at_the_baseline_has_no_attributions(data, model):
    X, _ = data
    explanation = model.explain(X.min(0, keepdims=True))
    assert not explanation.concept_to_node.any()
    assert not explanation.node_to_class.any()
