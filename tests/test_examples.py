"""The examples that put a Choquet layer inside other models: their parts, and all of each on little data."""

from __future__ import annotations

import re

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from PIL import Image

import choqolate as cq
from tests.figures import assert_readable, texts_within
from tests.scripts import load_example

prototypes = load_example("prototype_classifier")
nodes = load_example("sparse_autoencoder_nodes")


def numbers(said, pattern):
    """All numbers that a pattern with one group finds in what was printed."""
    return [float(found) for found in re.findall(pattern, said)]


def assert_image(path, least_width=800):
    with Image.open(path) as image:
        image.load()
        assert image.format == "PNG"
        assert image.width >= least_width
        assert 0.3 < image.height / image.width < 1.2
        assert len(np.unique(np.asarray(image.convert("L")))) > 20  # something is drawn
    assert path.stat().st_size < 250_000


def all_texts(figure):
    return [*figure.texts, *(text for ax in figure.axes for text in texts_within(ax))]


def untrained(head="Choquet", seed=0):
    torch.manual_seed(seed)
    network = prototypes.PrototypeNetwork(prototypes.HEADS[head], 10)
    torch.nn.init.uniform_(network.prototypes)
    return network, torch.rand(12, 1, 8, 8)


# prototypes


def test_projection_replaces_each_prototype_by_the_nearest_training_patch():
    network, images = untrained()
    before = network.prototypes.detach().clone()
    patches = network.patches(images).flatten(0, 1).detach()
    origins = prototypes.project(network, images)
    distances = (before[:, None] - patches).square().sum(2)
    torch.testing.assert_close(network.prototypes.detach(), patches[distances.argmin(1)])
    for prototype, (image, top, left) in zip(network.prototypes, origins, strict=True):
        crop = image[None, None, top : top + prototypes.PATCH, left : left + prototypes.PATCH]
        torch.testing.assert_close(network.encoder(crop).flatten(), prototype)  # what is framed is what is compared


def test_an_image_is_similar_to_a_prototype_as_its_nearest_patch():
    network, images = untrained()
    prototypes.project(network, images[:1])
    similarities = network.similarities(images).detach()
    assert ((similarities > 0) & (similarities <= 1)).all()
    torch.testing.assert_close(similarities[0], torch.ones(prototypes.N_PROTOTYPES), atol=1e-5, rtol=0)
    assert (similarities[1:] < 1).all()


def test_strongest_pair_of_a_known_integral():
    layer = cq.ChoquetLayer(4, 2)
    torch.manual_seed(0)
    torch.nn.init.normal_(layer.theta)
    _, b, c = (weights[1].detach() for weights in layer.weights())
    pairs = torch.triu_indices(4, 4, 1).T.tolist()
    shown = {tuple(pair): float(b[place] - c[place]) for place, pair in enumerate(pairs) if 1 not in pair}
    expected = max(shown, key=lambda pair: abs(shown[pair]))
    first, second, index = prototypes.strongest_pair(layer, 1, [3, 0, 2])
    assert tuple(sorted((first, second))) == expected
    assert index == pytest.approx(shown[expected])


def test_prototype_figure_shows_the_leading_shares_of_every_class():
    network, images = untrained()
    torch.nn.init.normal_(network.head.theta, std=3)
    figure = prototypes.draw(network.head, prototypes.project(network, images))
    titles = [ax.get_title() for ax in figure.axes if ax.get_title()]
    shares = network.head.shapley().detach()
    torch.testing.assert_close(shares.sum(1), torch.ones(10))
    leading = [(own[j], j) for own in shares for j in own.argsort(descending=True)[: prototypes.SHOWN]]
    expected = [f"P{j}: {share:.0%}" for share, j in leading if share >= prototypes.LEAST]
    assert len(expected) > 20
    assert titles == expected
    assert_readable(figure, all_texts(figure))
    plt.close(figure)


def test_prototypes_end_to_end(tmp_path, capsys):
    prototypes.main(tmp_path / "prototypes.png", seeds=1, epochs=8)
    said = capsys.readouterr().out
    accuracies = numbers(said, r"test accuracy ([\d.]+)")
    assert len(accuracies) == 2
    assert accuracies[0] > 0.8  # one class in ten is the most common one
    (per_class,) = numbers(said, r"Choquet head: ([\d.]+) of 30 prototypes")
    assert 1 <= per_class < 20
    assert_image(tmp_path / "prototypes.png")


# features of a sparse autoencoder


def test_decoder_vectors_keep_length_one_and_learn_to_reconstruct():
    torch.manual_seed(1)
    x = torch.rand(300, 3).round() @ torch.eye(3, 8)  # three binary causes
    x = x - x.mean(0)
    few, many = (nodes.learn_features(x, 32, epochs).requires_grad_(False) for epochs in (1, 60))
    for model in (few, many):
        torch.testing.assert_close(model.decoder.norm(dim=1), torch.ones(32))
    errors = [(model.decode(model.encode(x)) - x).square().sum() / x.square().sum() for model in (few, many)]
    assert errors[1] < 0.5 * errors[0]
    assert (many.encode(x) == 0).float().mean() > (few.encode(x) == 0).float().mean()  # the penalty makes it sparse


def test_features_are_scaled_by_training_rows_only():
    features = torch.tensor([[0.0, 2.0, 0.0], [1.0, 4.0, 0.0], [8.0, 1.0, 3.0]])
    found = nodes.scaled(features, np.array([True, True, False]))
    np.testing.assert_allclose(found, [[0, 0.5, 0], [1, 1, 0], [1, 0.25, 1]])


def test_needed_counts_the_largest_shares():
    shares = np.array([[0.5, 0.1, 0.4], [0.01, 0.98, 0.01], [0.34, 0.33, 0.33]])
    assert nodes.needed(shares, 0.9).tolist() == [2, 1, 3]


def test_best_phrase_is_the_one_that_goes_with_the_feature():
    rng = np.random.default_rng(0)
    scores = rng.uniform(size=(50, 3))
    table = cq.ConceptScores(scores, ["sea", "forest", "webbed feet"], labels=["a", "b"] * 25)
    phrase, correlation = nodes.best_phrase(scores[:, 1] + 0.1 * rng.uniform(size=50), table)
    assert phrase == "forest"
    assert 0.95 < correlation < 1


def test_nodes_end_to_end(tmp_path, capsys, monkeypatch):
    drawn = []

    def keep(model, *others):
        figure = draw(model, *others)
        assert_readable(figure, all_texts(figure))
        drawn.append((model, [ax.get_title() for ax in figure.axes if "r = " in ax.get_title()]))
        return figure

    draw = nodes.draw
    monkeypatch.setattr(nodes, "draw", keep)
    nodes.main(tmp_path / "nodes.png", n_images=400, n_features=256, epochs=25)
    said = capsys.readouterr().out
    (accuracy,) = numbers(said, r"nodes: test accuracy ([\d.]+)")
    assert accuracy > 0.7  # both classes are equally frequent
    ((model, titles),) = drawn
    np.testing.assert_allclose(model.node_attributions_.sum(1), 1)
    in_use = int(re.search(r"nodes in use: (\d)", said)[1])
    assert len(titles) == in_use * nodes.SHOWN
    shares = [float(title.split("%")[0]) for title in titles]
    assert all(np.diff(shares[start : start + nodes.SHOWN]).max() <= 0 for start in range(0, len(shares), nodes.SHOWN))
    assert_image(tmp_path / "nodes.png")
