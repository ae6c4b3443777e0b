"""Choquet nodes over 4,096 features of a sparse autoencoder, with factored interactions.

    python examples/sparse_autoencoder_nodes.py nodes.png

Bird scenes are drawn and encoded by the small encoder that comes with the package. A sparse autoencoder (Bricken et al.
2023) learns 4,096 features of these activations without labels: ReLU units, an l1 penalty, decoder vectors of length
one. Its features are scaled to [0, 1], and a few Choquet nodes tell land birds from water birds by them. All pairs of
features would be 17 million weights per node; with ``interactions="factored"`` there are 12 thousand.

The figure shows, for each node in use, its leading features by exact Shapley values. What a feature stands for is seen
by the test images that activate it most, and by the phrase whose scores correlate with it most.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

import choqolate as cq
from choqolate.datasets.birds import render_birds
from choqolate.plots import style

N_IMAGES, N_FEATURES, N_NODES = 3_000, 4_096, 2
# the other numbers were tried out by hand on images of another seed
EPOCHS, BATCH_SIZE, PENALTY, LEARNING_RATE = 40, 128, 0.2, 2e-3  # of the autoencoder
IN_USE = 0.05  # least share of a node in a class
SHOWN, EXAMPLES, PIXELS = 5, 4, 72  # features per node, images per feature, and their size in the figure


def encode_birds(folder: Path, n_images: int) -> tuple[Tensor, cq.ConceptScores]:
    """Draw birds whose background is independent of their class; return activations, and scores for known phrases."""
    backbone = cq.load_backbone("mini", device="cpu")
    rows = render_birds(folder / "images", n_images, agreement=0.5, seed=1)
    embeddings = cq.embed(rows, backbone, folder / "vectors")
    table = cq.score(embeddings, cq.Vocabulary.parse(backbone.known), backbone)
    vectors, train = torch.from_numpy(embeddings.vectors()), table.split == "train"
    centered = vectors - vectors[train].mean(0)
    return centered / centered[train].norm(dim=1).mean(), table


class SparseAutoencoder(nn.Module):
    """Activations ``(n, d)`` to features ``(n, n_features)`` and back.

    ``cq.baselines.SparseAutoencoder`` minimizes the same loss, but in a way that suits a few units only.
    """

    def __init__(self, center: Tensor, n_features: int) -> None:
        super().__init__()
        self.center = nn.Parameter(center.clone())
        self.decoder = nn.Parameter(F.normalize(torch.randn(n_features, len(center)), dim=1))
        self.encoder = nn.Parameter(self.decoder.detach().clone())
        self.bias = nn.Parameter(torch.zeros(n_features))

    def encode(self, x: Tensor) -> Tensor:
        return F.linear(x - self.center, self.encoder, self.bias).relu()

    def decode(self, features: Tensor) -> Tensor:
        return features @ self.decoder + self.center


def learn_features(x: Tensor, n_features: int, epochs: int) -> SparseAutoencoder:
    """Minimize squared error plus l1 penalty; decoder vectors are brought back to length one after each step."""
    torch.manual_seed(0)
    model = SparseAutoencoder(x.mean(0), n_features)
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE)
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(BATCH_SIZE):
            features = model.encode(x[rows])
            errors = (model.decode(features) - x[rows]).square().sum(1)
            optimizer.zero_grad()
            (errors + PENALTY * features.sum(1)).mean().backward()
            optimizer.step()
            with torch.no_grad():
                model.decoder.copy_(F.normalize(model.decoder, dim=1))
    return model


def scaled(features: Tensor, train: np.ndarray) -> np.ndarray:
    """Features in [0, 1]: divided by their largest value among the training rows, and clipped."""
    largest = features[train].amax(0)
    return (features / largest.where(largest > 0, 1)).clamp(max=1).numpy()


def fit_nodes(u: np.ndarray, labels: np.ndarray, epochs: int) -> cq.ChoqolateClassifier:
    """A classifier with a few nodes over very many features."""
    options = dict(interactions="factored", rank=1, temperature=0.03, epochs=epochs, device="cpu")
    with warnings.catch_warnings():  # features that are never active
        warnings.filterwarnings("ignore", "constant on the training scores", cq.ChoqolateWarning)
        return cq.ChoqolateClassifier(N_NODES, **options).fit(u, labels)


def needed(shares: np.ndarray, mass: float = 0.95) -> np.ndarray:
    """How many inputs it takes, the largest first, for so much of each row ``(n, M)`` of shares."""
    return (np.sort(shares)[:, ::-1].cumsum(1) < mass).sum(1) + 1


def best_phrase(feature: np.ndarray, table: cq.ConceptScores) -> tuple[str, float]:
    """The phrase whose scores correlate most with a feature, and the correlation."""
    correlations = np.corrcoef(feature, table.scores, rowvar=False)[0, 1:]
    best = int(correlations.argmax())
    return table.concepts[best], float(correlations[best])


def mosaic(files: list[Path]) -> np.ndarray:
    """Up to four images in a square."""
    canvas = Image.new("RGB", (2 * PIXELS, 2 * PIXELS), "white")
    for place, file in enumerate(files):
        with Image.open(file) as image:
            canvas.paste(image.resize((PIXELS, PIXELS)), (place % 2 * PIXELS, place // 2 * PIXELS))
    return np.asarray(canvas)


def draw(model: cq.ChoqolateClassifier, features: np.ndarray, table: cq.ConceptScores, folder: Path) -> plt.Figure:
    """The leading features of each node in use, by the images and the phrase that go with them."""
    in_use, test = np.flatnonzero(model.class_attributions_.max(0) >= IN_USE), np.flatnonzero(table.split == "test")
    size = (1.75 * (SHOWN + 1), 2.15 * len(in_use) + 0.4)
    figure, axes = plt.subplots(len(in_use), SHOWN + 1, figsize=size, layout="constrained", squeeze=False)
    figure.get_layout_engine().set(h_pad=0.08)
    figure.suptitle("Nodes by their leading features: the test images and the phrase that go with each", fontsize=12)
    for line, node in zip(axes, in_use, strict=True):
        shares = model.node_attributions_[node]
        classes = zip(model.classes_, model.class_attributions_[:, node], strict=True)
        said = [f"{share:.0%} of {name}" for name, share in classes if share >= IN_USE]
        said += ["", "95% of the node:", f"{needed(shares[None])[0]} of {len(shares):,} features"]
        line[0].set_title(f"Node {node}", fontsize=12, weight="bold", loc="left", pad=3)
        line[0].text(0, 0.97, "\n".join(said), fontsize=8, color=style.SOFT, va="top", transform=line[0].transAxes)
        for ax, feature in zip(line[1:], shares.argsort()[::-1], strict=False):
            column = features[:, feature]
            rows = [row for row in test[column[test].argsort()[::-1]][:EXAMPLES] if column[row] > 0]
            phrase, correlation = best_phrase(column, table)
            ax.imshow(mosaic([folder / "images" / table.paths[row] for row in rows]))
            ax.set_title(f"{shares[feature]:.0%}: {phrase}\n(r = {correlation:.2f})", fontsize=9, pad=3)
        for ax in line:
            ax.axis("off")
    return figure


def main(output: Path, n_images: int = N_IMAGES, n_features: int = N_FEATURES, epochs: int = EPOCHS) -> None:
    """Learn features of drawn birds, fit nodes over them, print how both do, and draw the nodes."""
    with TemporaryDirectory() as name:
        x, table = encode_birds(Path(name), n_images)
        train, test = table.split == "train", table.split == "test"
        autoencoder = learn_features(x[train], n_features, epochs)
        with torch.no_grad():
            features = autoencoder.encode(x)
            error = (autoencoder.decode(features) - x)[test].square().sum() / x[test].square().sum()
        active, living = (features[test] > 0).sum(1).float().mean(), features[train].any(0).sum()
        print(
            f"autoencoder: {living:,} of {n_features:,} features are ever active, {active:.0f} of them per test image"
        )
        print(f"autoencoder: explains {1 - error:.0%} of the variance of the test images")
        u = scaled(features, train)
        model = fit_nodes(u[train], table.labels[train], epochs)
        linear = LogisticRegression(max_iter=1_000).fit(u[train], table.labels[train])
        print(f"nodes: test accuracy {model.score(u[test], table.labels[test]):.3f}")
        print(f"logistic regression on the same features: {linear.score(u[test], table.labels[test]):.3f}")
        in_use = np.flatnonzero(model.class_attributions_.max(0) >= IN_USE)
        counts = ", ".join(map(str, needed(model.node_attributions_[in_use])))
        print(f"nodes in use: {len(in_use)} of {N_NODES}; features for 95 % of the Shapley value of each: {counts}")
        figure = draw(model, u, table, Path(name))
    figure.canvas.draw()
    image = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())).convert("RGB")
    few_colors = image.quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=3, dither=Image.Dither.NONE)
    few_colors.save(output, optimize=True)
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("output", type=Path, help="the figure, a PNG file")
    main(parser.parse_args().output)
