"""Proposition 1 and Corollary 1 of the paper, checked and illustrated.

    python examples/gradient_analysis.py OUTPUT_FOLDER

Cells begin with `# %%`; each says what it does and what to look for, and `main` at the end goes through all of them.
"""

# %% [markdown]
# # The gradient of one Choquet layer
#
# A one-layer Choquet classifier scores class r by C_r(u) = <w_r, phi(u)>: phi(u) are the p concepts, the minima of
# their pairs and the maxima, p² features in all, and w_r = softmax(theta_r). The paper finds that the gradient of the
# cross-entropy is a product of three factors,
#
#     dLoss / dtheta_ri = 1/T (yhat_r - y_r) · w_ri · (phi_i(u) - C_r(u)),
#
# the error, the weight and the deviation (Proposition 1; with a temperature T, Corollary 1). First we check the formula
# in float64, then we watch the factors while a model learns to tell drawn waterbirds from landbirds by 48 concepts.

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.nn.functional as F
from scipy.stats import spearmanr
from sklearn.preprocessing import minmax_scale
from torch import Tensor

import choqolate as cq
from choqolate.datasets.birds import BIRDS, render_birds
from choqolate.integral import PairwiseCapacity
from choqolate.integral.capacity import pair_indices
from choqolate.integral.operators import integrate_pairs
from choqolate.metrics import attribution_gini, concept_correlation
from choqolate.network.architecture import Architecture
from choqolate.network.batches import RowsInMemory
from choqolate.network.module import ChoqolateNetwork
from choqolate.network.training import Objective, train
from choqolate.plots import style

N_IMAGES = 1_500  # of which 60 % are for training, and only these are drawn
TEMPERATURES = (0.001, 0.005, 0.05, 1.0)  # the second is the paper's
PAPER, PLAIN = 1, 3  # places of the paper's temperature and of the untempered softmax
CHECKED = (1.0, 0.1, 0.005)
EPOCHS, BATCH_SIZE, LEARNING_RATE, L1 = 100, 512, 0.1, 0.01
STEP = 2e-4  # of finite differences
SMALL = 0.01  # of its mean at the start: a weight or a gradient that has all but gone
FEW = 256  # rows, enough for the mean of what is large
AXES, LETTERS = 3.1, 9  # inches, points


# %% [markdown]
# ## Data
# The birds are drawn into a temporary folder and scored by the small encoder that comes with the package; the scores
# are scaled to [0, 1] concept by concept. A table that `choqolate demo` left behind does as well.


def draw_birds() -> cq.ConceptScores:
    """Scores of a few drawn birds for 48 concepts."""
    with TemporaryDirectory() as folder:
        rows = render_birds(Path(folder) / "images", N_IMAGES, parts=("train",))
        backbone = cq.load_backbone("mini", device="cpu")
        vectors = cq.embed(rows, backbone, Path(folder) / "embeddings", verbose=False)
        return cq.score(vectors, cq.Vocabulary.parse(BIRDS.core, BIRDS.spurious), backbone)


def inputs_and_targets(table: cq.ConceptScores) -> tuple[Tensor, Tensor]:
    """Scaled scores ``(n, p)`` in float64 and class indices ``(n,)``."""
    u = torch.from_numpy(minmax_scale(table.scores.astype(np.float64)))
    return u, torch.tensor([table.classes.index(label) for label in table.labels])


# %% [markdown]
# ## The three factors
# Below, theta and w are `(C, p²)` in the paper's order: singles, minima, maxima. The mean gradient over a batch never
# needs the deviations of all rows at once: mean_n e_n (phi_ni - C_n) is a matrix product. Without the weight we call it
# the *pull* on a feature, with the sign turned: theta_i goes up where the pull is positive.
#
# One thing is lost if the factors are read one by one: over a batch the pull is the mean of a *product*. What moves
# a feature is not how far it is from the integral, but whether it is far where the error is.


class Factors(NamedTuple):
    """What a gradient is made of: ``error (n, C)``, ``weights (C, p²)``, ``values (n, C)`` of the integrals, T."""

    error: Tensor
    weights: Tensor
    values: Tensor
    temperature: float


def features(u: Tensor) -> Tensor:
    """phi(u) ``(n, p²)``: the inputs ``(n, p)``, the minima of all pairs, the maxima of all pairs."""
    j, l = pair_indices(u.shape[1])
    return torch.cat([u, torch.minimum(u[:, j], u[:, l]), torch.maximum(u[:, j], u[:, l])], dim=1)


def in_paper_order(matrices: Tensor) -> Tensor:
    """Parameters ``(..., C, p, p)`` as a layer holds them, as ``(..., C, p²)``."""
    return torch.cat(PairwiseCapacity(matrices, free=True).weights(), dim=-1)


def factors(theta: Tensor, phi: Tensor, targets: Tensor, temperature: float = 1.0) -> Factors:
    """Error, weights and the integrals' values; the deviations are ``phi - values[:, r]``."""
    weights = theta.softmax(-1)
    values = phi @ weights.T
    predicted = (values / temperature).softmax(-1)
    return Factors(predicted - F.one_hot(targets, len(theta)), weights, values, temperature)


def sample_gradients(parts: Factors, phi: Tensor) -> Tensor:
    """The gradient of each sample's loss ``(n, C, p²)``: the three factors, multiplied."""
    deviation = phi[:, None, :] - parts.values[:, :, None]
    return parts.error[:, :, None] * parts.weights * deviation / parts.temperature


def pull(parts: Factors, phi: Tensor) -> Tensor:
    """Minus the mean of error times deviation over T ``(C, p²)``: where each feature is drawn, whatever its weight."""
    total = parts.error.T @ phi - (parts.error * parts.values).sum(0)[:, None]
    return -total / (len(phi) * parts.temperature)


def mean_gradient(parts: Factors, phi: Tensor) -> Tensor:
    """The gradient of the mean loss ``(C, p²)``."""
    return -parts.weights * pull(parts, phi)


def penalty_gradient(weights: Tensor, n_inputs: int, l1: float) -> Tensor:
    """The gradient of ``l1`` times the sum of all b and c: l1 · w_i · (1[i is an interaction] - mass of its class)."""
    interaction = (torch.arange(weights.shape[1]) >= n_inputs).to(weights)
    mass = weights @ interaction
    return l1 * weights * (interaction - mass[:, None])


# %% [markdown]
# ## Checks
# Three other ways to the same gradient. *Autograd* differentiates softmax, inner product and cross-entropy as plain
# PyTorch. The *layer* is the library's own; its backward pass was written with Proposition 1 in mind and so proves
# nothing about it, but it must agree. *Finite differences* of the layer's loss know no calculus; they are taken for a
# random choice of parameters, and their own error is about STEP² and rounding.
#
# The l1 penalty of Eq. (4), which the paper leaves out of the proof, has a gradient of the same form: the indicator of
# an interaction takes the place of phi, the interaction mass that of the integral. It pushes all interactions down and
# all single concepts up, in proportion to their weights, and has no factor 1/T.


def difference(ours: Tensor, other: Tensor) -> tuple[float, float]:
    """The largest difference, and the same over the largest of the other's values."""
    largest = float((ours - other).abs().max())
    return largest, largest / max(float(other.abs().max()), torch.finfo(other.dtype).tiny)


def autograd(loss: Callable[[Tensor], Tensor], theta: Tensor) -> Tensor:
    """The gradient of a loss as PyTorch finds it."""
    theta = theta.detach().requires_grad_()
    return torch.autograd.grad(loss(theta), theta)[0]


def finite_differences(loss: Callable[[Tensor], Tensor], theta: Tensor, places: Sequence[int]) -> Tensor:
    """Central differences of a loss in some of the parameters, counted through the flattened theta."""
    found = []
    for place in places:
        move = torch.zeros_like(theta).view(-1)
        move[place] = STEP
        found.append((loss(theta + move.view_as(theta)) - loss(theta - move.view_as(theta))) / (2 * STEP))
    return torch.stack(found)


def check_gradients(u: Tensor, targets: Tensor, temperature: float, l1: float = 0.0) -> dict[str, tuple[float, float]]:
    """Largest differences of our formula to other ways, for parameters at random."""
    n_inputs, n_classes = u.shape[1], int(targets.max()) + 1
    generator = torch.Generator().manual_seed(0)
    matrices = torch.randn(n_classes, n_inputs, n_inputs, dtype=u.dtype, generator=generator)
    theta, phi, objective = in_paper_order(matrices), features(u), Objective(temperature, l1)

    def plain_loss(theta: Tensor, rows: slice = slice(None)) -> Tensor:
        weights = theta.softmax(-1)
        return F.cross_entropy(phi[rows] @ weights.T / temperature, targets[rows]) + l1 * weights[:, n_inputs:].sum()

    def layer_loss(matrices: Tensor) -> Tensor:
        values, mass = integrate_pairs(u, matrices, softmax=True)
        return objective.fit_term(values[None], targets, torch.ones_like(u[:, 0])).sum() + l1 * mass.sum()

    parts = factors(theta, phi, targets, temperature)
    penalty = penalty_gradient(parts.weights, n_inputs, l1)
    ours, few = mean_gradient(parts, phi) + penalty, slice(8)
    singly = sample_gradients(factors(theta, phi[few], targets[few], temperature), phi[few]) + penalty
    each = torch.stack([autograd(lambda t, n=n: plain_loss(t, slice(n, n + 1)), theta) for n in range(len(singly))])
    places = torch.randperm(theta.numel(), generator=generator)[:200].tolist()
    matrix_of_places = in_paper_order(torch.arange(matrices.numel()).view_as(matrices)).view(-1)[places].tolist()
    return {
        "autograd, single samples": difference(singly, each),
        "autograd, mean of the batch": difference(ours, autograd(plain_loss, theta)),
        "the layer": difference(ours, in_paper_order(autograd(layer_loss, matrices))),
        "finite differences": difference(
            ours.view(-1)[places], finite_differences(layer_loss, matrices, matrix_of_places)
        ),
    }


def print_checks(u: Tensor, targets: Tensor) -> None:
    """Proposition 1 (T = 1), Corollary 1, and both with the penalty."""
    print("largest difference from the formula, absolute and relative to the largest gradient")
    for l1 in (0.0, L1):
        for temperature in CHECKED:
            print(f"  T = {temperature:g}, l1 = {l1:g}")
            for way, (absolute, relative) in check_gradients(u, targets, temperature, l1).items():
                print(f"    {way:<28}{absolute:9.1e}{relative:9.1e}")


# %% [markdown]
# ## Training
# One run for each temperature, side by side, from the same parameters and with the same batches, by Adam as everywhere.
# There is no penalty, as in the paper's sweep over temperatures: what becomes sparse does so by the gradient alone. We
# keep theta at the start and after every epoch, and work out the factors on all rows.


class Course(NamedTuple):
    """A training as it went: ``theta (epochs + 1, runs, C, p²)``, ``parts[run][epoch]``, and the features."""

    theta: Tensor
    parts: list[list[Factors]]
    phi: Tensor

    def shapley(self, run: int) -> np.ndarray:
        """Shapley values ``(epochs + 1, C, p)`` of the concepts in each class."""
        n_inputs = math.isqrt(self.phi.shape[1])
        n_pairs = n_inputs * (n_inputs - 1) // 2
        sizes = [n_inputs, n_pairs, n_pairs]
        return np.stack([cq.shapley_values(*now.weights.split(sizes, dim=-1)).numpy() for now in self.parts[run]])


def follow_training(u: Tensor, targets: Tensor, epochs: int) -> Course:
    """Train a run for each temperature and keep the parameters of every epoch."""
    n_runs, n_classes = len(TEMPERATURES), int(targets.max()) + 1
    network = ChoqolateNetwork(Architecture(None), u.shape[1], n_classes, seeds=[0] * n_runs, dtype=u.dtype)
    kept: list[Tensor] = []

    def keep(_epochs_done: float, loss: float | None) -> None:
        if loss is not None:  # an epoch has ended
            kept.append(current())

    def current() -> Tensor:
        return in_paper_order(network.nodes.theta.detach().unflatten(0, (n_runs, n_classes)))

    kept.append(current())
    objective = Objective(torch.tensor(TEMPERATURES, dtype=u.dtype)[:, None, None], l1=0.0)
    batches = RowsInMemory(u, targets, torch.ones_like(u[:, 0]), BATCH_SIZE)
    train(network, batches, objective, epochs=epochs, learning_rate=LEARNING_RATE, report=keep)
    theta, phi = torch.stack(kept), features(u)
    parts = [
        [factors(now, phi, targets, temperature) for now in theta[:, run]]
        for run, temperature in enumerate(TEMPERATURES)
    ]
    return Course(theta, parts, phi)


# %% [markdown]
# ## (a) The factors over the epochs
# The paper's temperature and the untempered softmax are opposites. At T = 0.005 the error falls at once and takes the
# gradients with it, while the weights have hardly moved: what stops is the first factor, not the second. At T = 1 the
# error stays, and it is the weights that go: most fall below a hundredth of what they were, and their gradients after
# them. The deviation is the quiet factor, of one order of magnitude throughout. Where weights concentrate it grows over
# all features, and shrinks if weighted, that is for the features that the integral does read and that make it up.


def factor_sizes(course: Course, run: int) -> dict[str, np.ndarray]:
    """Sizes of the factors at the start and after each epoch, over rows, features and classes."""
    parts, phi = course.parts[run], course.phi
    gradients = torch.stack([mean_gradient(now, phi).abs() for now in parts])
    weights = torch.stack([now.weights for now in parts])
    deviations = torch.stack([(phi[:FEW, None] - now.values[:FEW, :, None]).abs().mean(0) for now in parts])
    sizes = {
        "error": torch.stack([now.error.abs().mean() for now in parts]),
        "small weights": (weights < SMALL * weights[0].mean()).double().mean((1, 2)),
        "small gradients": (gradients < SMALL * gradients[0].mean()).double().mean((1, 2)),
        "deviation": deviations.mean((1, 2)),
        "deviation by weight": (deviations * weights).sum(2).mean(1),
    }
    return {name: size.numpy() for name, size in sizes.items()}


def draw_factors(course: Course) -> plt.Figure:
    """The three factors over the epochs, at the paper's temperature and without any."""
    figure, axes = plt.subplots(1, 3, figsize=(3.4 * AXES, AXES), layout="constrained")
    panels: list[tuple[str, dict[str, tuple[str, str]], str]] = [
        ("mean |error|", {"error": ("-", "")}, ""),
        (
            "share below 1 % of the mean at the start",
            {"small weights": ("-", "weights"), "small gradients": ("--", "|gradients|")},
            "center right",
        ),
        (
            "mean |deviation|",
            {"deviation": ("-", "all features"), "deviation by weight": ("--", "weighted by w")},
            "lower left",
        ),
    ]
    for run in (PAPER, PLAIN):
        sizes = factor_sizes(course, run)
        print(
            f"  T = {TEMPERATURES[run]:g}: "
            + ", ".join(f"{name} {v[0]:.3f} -> {v[-1]:.3f}" for name, v in sizes.items())
        )
        for ax, (_, lines, _) in zip(axes, panels, strict=True):
            for name, (dash, _) in lines.items():
                ax.plot(sizes[name], dash, color=style.colour_of(run), linewidth=1.6)
    for ax, (title, lines, place) in zip(axes, panels, strict=True):
        dress(ax, "epoch", "", title)
        ax.set_ylim(bottom=-0.02 * ax.get_ylim()[1])
        if place:
            legend(ax, {name: dict(color=style.SOFT, linestyle=dash) for dash, name in lines.values()}, loc=place)
    legend(axes[0], {f"T = {TEMPERATURES[run]:g}": dict(color=style.colour_of(run)) for run in (PAPER, PLAIN)})
    return figure


# %% [markdown]
# ## (b) Freezing
# Each point is a feature of one class at T = 1. Above, its gradient at the start of an epoch, never above the grey
# line, the weight times the largest pull. At first all weights are alike and the pull decides; at the end weights
# differ by many orders of magnitude and the gradient follows them, though less than in proportion: light features are
# those that are pulled down most. The notch is where the pull changes sign: what is heavier goes up, what is lighter
# goes down.
#
# Below, how far Adam moved theta in that epoch. Adam divides by the running size of each gradient, so a small gradient
# alone does not mean a small step: steps differ far less than gradients. They shrink all the same, because Adam's
# memory of the larger gradients before is longer than this training. And a step of theta moves a weight in proportion
# to that weight: that is the softmax, whatever the optimiser.


def draw_freezing(course: Course) -> plt.Figure:
    """Gradients and Adam's steps against weights, in four epochs without temperature."""
    epochs = np.unique(np.geomspace(1, len(course.theta) - 1, 4).round().astype(int))
    look = dict(figsize=(0.9 * AXES * len(epochs), 1.9 * AXES), layout="constrained", sharex=True, sharey="row")
    figure, axes = plt.subplots(2, len(epochs), squeeze=False, **look)
    for column, epoch in zip(axes.T, epochs, strict=True):
        parts = course.parts[PLAIN][epoch - 1]
        weights, pulls = parts.weights[-1], pull(parts, course.phi)[-1]
        steps = (course.theta[epoch, PLAIN] - course.theta[epoch - 1, PLAIN])[-1].abs()
        light, heavy = weights <= weights.quantile(0.1), weights >= weights.quantile(0.9)
        found = []
        for ax, heights in zip(column, ((weights * pulls).abs(), steps), strict=True):
            colours = np.where(pulls > 0, style.MAIN, style.OTHER)
            ax.scatter(weights, heights, s=4, color=colours, alpha=0.4, linewidths=0)
            ax.set(xscale="log", yscale="log")
            ax.minorticks_off()
            rank, ratio = spearmanr(weights, heights).statistic, heights[light].median() / heights[heavy].median()
            found.append(f"{rank:.2f}, {ratio:.1e}")
        ends = torch.stack([weights.min(), weights.max()])
        column[0].plot(ends, ends * pulls.abs().max(), color=style.SOFT, linewidth=1)
        first = epoch == epochs[0]
        dress(column[0], "", "|gradient|" if first else "", f"epoch {epoch}")
        dress(column[1], "weight", "|Adam's step|" if first else "", "")
        print(
            f"  epoch {epoch}, rank correlation with the weight, median of the lightest tenth over the heaviest: "
            f"gradient {found[0]}; step {found[1]}"
        )
    dot = dict(marker="o", linestyle="none", markersize=4)
    signs = {"pulled up": dot | {"color": style.MAIN}, "pulled down": dot | {"color": style.OTHER}}
    legend(figure, signs, loc="outside upper right", ncols=2)
    return figure


# %% [markdown]
# ## (c) Temperature
# "A small T kills the error term once the model is confident": it does, within a few epochs, and with it goes all
# pressure towards sparse weights. "A large T keeps the signal alive": it does; with T = 1 scores in [0, 1] cannot make
# the softmax confident, however right the model is: the highest probability stays nearer to one half than to one. The
# Gini index of the Shapley values rises with T. The factor 1/T itself hardly counts, as Adam does not see the scale of
# a gradient. Sparsity has its price: the accuracy, on the rows trained on, is best where T is small.


def draw_temperatures(course: Course, targets: Tensor) -> plt.Figure:
    """The error term over the epochs for every temperature, and the Gini index at the end."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(2.6 * AXES, AXES), layout="constrained", width_ratios=(2, 1))
    colours, ginis = [style.colour_of(run) for run in range(len(TEMPERATURES))], []
    names = [f"T = {temperature:g}" for temperature in TEMPERATURES]
    for run, (name, parts) in enumerate(zip(names, course.parts, strict=True)):
        errors = [float(now.error.abs().mean()) for now in parts]
        left.plot(errors, color=colours[run], linewidth=1.6)
        ginis.append(float(attribution_gini(course.shapley(run)[-1]).mean()))
        values = parts[-1].values
        highest = (values / TEMPERATURES[run]).softmax(-1).amax(-1).mean()
        accuracy = (values.argmax(-1) == targets).double().mean()
        print(
            f"  {name}: |error| {errors[0]:.3f} -> {errors[-1]:.3f}, below 0.1 for {np.mean(np.less(errors, 0.1)):.0%} "
            f"of the time; mean highest probability {highest:.3f}, accuracy {accuracy:.3f}, Gini {ginis[-1]:.3f}"
        )
    left.set_yscale("log")
    dress(left, "epoch", "mean |error|", "")
    legend(left, {name: dict(color=colour) for name, colour in zip(names, colours, strict=True)}, loc="lower left")
    bars = right.barh(names, ginis, color=colours, height=0.6)
    right.bar_label(bars, [f"{gini:.2f}" for gini in ginis], padding=3, fontsize=LETTERS - 1)
    right.set(xlim=(0, 1.15), xticks=(0, 0.5, 1))
    right.invert_yaxis()
    dress(right, "Gini index at the end", "", "")
    return figure


# %% [markdown]
# ## (d) Anchors
# The paper sees one concept spike, then its relatives gain and the unrelated vanish. Above are Shapley values in one
# class: of the anchor (the leader at the end), its two nearest relatives by correlation r, the least related concept
# and the most opposed one. Below is the pull on the same concepts as single features: minus the sign of the gradient.
#
# What shows where T is large: the pull goes with the relation to the leader, and the unrelated and the opposed are
# driven out first. What does not show: relatives do not gain after the anchor. They rise along with it, then their pull
# changes sign and they lose as well, only more slowly, and at T = 1 the anchor ends alone. At T = 0.05 even the
# anchor's own pull is soon spent while its Shapley value goes on growing: pairs carry it. At the paper's T = 0.005 one
# layer has no anchor: the error dies before one is chosen, and relatives of the leader are not those that are pulled
# up. The paper's anchors are those of nodes in two layers, about which one layer may say little.


def relations(correlation: np.ndarray, anchor: int) -> list[int]:
    """The anchor, its two nearest relatives, the least related concept and the most opposed one."""
    others = [j for j in np.argsort(-correlation[anchor]).tolist() if j != anchor]
    least = min(others, key=lambda j: abs(correlation[anchor, j]))
    return list(dict.fromkeys([anchor, *others[:2], least, others[-1]]))


def draw_anchors(course: Course, u: Tensor, table: cq.ConceptScores) -> plt.Figure:
    """Shapley values of an anchor and others in the last class over the epochs, and the pull on them."""
    correlation, n_concepts = concept_correlation(u.numpy()), u.shape[1]
    shown = (PLAIN - 1, PLAIN)
    figure, axes = plt.subplots(2, len(shown), figsize=(2.8 * AXES, 2 * AXES), layout="constrained", sharex="col")
    for run, temperature in enumerate(TEMPERATURES):
        shares = course.shapley(run)[:, -1]
        pulls = np.stack([pull(now, course.phi)[-1, :n_concepts].numpy() for now in course.parts[run]])
        anchor, on_pairs = int(shares[-1].argmax()), float(course.parts[run][-1].weights[-1, n_concepts:].sum())
        ranks = [spearmanr(correlation[anchor], pulls[epoch]).statistic for epoch in (0, -1)]
        print(
            f"  T = {temperature:g}: {table.concepts[anchor]} leads {table.classes[-1]} with {shares[-1, anchor]:.2f}; "
            f"rank correlation of pull and r {ranks[0]:.2f} -> {ranks[1]:.2f}; pulled up {(pulls[0] > 0).sum()} -> "
            f"{(pulls[-1] > 0).sum()} of {n_concepts} concepts; weight on pairs {on_pairs:.2f}"
        )
        if run not in shown:
            continue
        (top, bottom), names = axes[:, shown.index(run)], {}
        for place, j in enumerate(relations(correlation, anchor)):
            look = dict(color=style.colour_of(place), linewidth=1.6)
            top.plot(shares[:, j], **look)
            bottom.plot(pulls[:, j], **look)
            relation = "anchor" if j == anchor else f"r = {correlation[anchor, j]:z.2f}".replace("-", "−")
            names[f"{style.label(table.concepts[j], 20)}, {relation}"] = look
        bottom.set_yscale("symlog", linthresh=0.1)
        bottom.yaxis.set_major_formatter("{x:g}")
        bottom.axhline(0, color=style.SOFT, linewidth=0.8, zorder=0)
        legend(top, names, loc="center right")
        dress(top, "", "Shapley value" if run == shown[0] else "", f"{table.classes[-1]}, T = {temperature:g}")
        dress(bottom, "epoch", "pull" if run == shown[0] else "", "")
    return figure


# %% [markdown]
# ## All of it


def dress(ax: plt.Axes, x: str, y: str, title: str) -> None:
    """Names, letters and frame of some axes."""
    ax.set_xlabel(x, fontsize=LETTERS)
    ax.set_ylabel(y, fontsize=LETTERS)
    ax.set_title(title, loc="left", fontsize=LETTERS + 1, parse_math=False)
    ax.tick_params(labelsize=LETTERS - 1)
    style.plain_frame(ax)


def legend(place: plt.Axes | plt.Figure, looks: dict[str, dict[str, Any]], **options: Any) -> None:
    """A legend of lines or dots that look so."""
    handles = [plt.Line2D([], [], label=name, **look) for name, look in looks.items()]
    place.legend(handles=handles, fontsize=LETTERS - 1, frameon=False, **options)


def main(output: Path, table: cq.ConceptScores | None = None, epochs: int = EPOCHS) -> None:
    """Check the formulas on a table of scores, by default of drawn birds, and draw four images into a folder."""
    output.mkdir(parents=True, exist_ok=True)
    table = draw_birds() if table is None else table
    u, targets = inputs_and_targets(table)
    print(f"{len(u)} rows, {u.shape[1]} concepts, {u.shape[1] ** 2} features for each of {len(table.classes)} classes")
    print_checks(u, targets)
    course = follow_training(u, targets, epochs)
    images: dict[str, Callable[[], plt.Figure]] = {
        "factors": lambda: draw_factors(course),
        "freezing": lambda: draw_freezing(course),
        "temperature": lambda: draw_temperatures(course, targets),
        "anchors": lambda: draw_anchors(course, u, table),
    }
    for name, draw in images.items():
        print(output / f"{name}.png")
        figure = draw()
        figure.savefig(output / f"{name}.png", dpi=150, pil_kwargs={"optimize": True})
        plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("output", type=Path, nargs="?", default=Path("gradient-analysis"), help="for the images")
    parser.add_argument("--demo", type=Path, help="folder of `choqolate demo`, whose scores for training are used")
    places = parser.parse_args()
    scores = cq.ConceptScores.load(places.demo / "scores.parquet").part("train") if places.demo else None
    main(places.output, scores)
