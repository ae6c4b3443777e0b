"""Proposition 1 and Corollary 1 of the paper, checked and illustrated.

    python examples/gradient_analysis.py OUTPUT_FOLDER

Cells begin with `# %%`; each says what it does and what to look for, and `main` at the end goes through all of them.
The mathematics is `choqolate.analysis.gradient_factors`, the training `choqolate.analysis.gradient_course`; the same on
scores of your own is `choqolate reproduce gradient --scores scores.parquet`.
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
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt

import choqolate as cq
from choqolate.analysis.gradient_course import EPOCHS, GradientRows, follow_training
from choqolate.datasets.birds import BIRDS, render_birds
from choqolate.experiments.engine.gradient_study import FIGURES, anchors_table, checks_table, factors_table, sizes

N_IMAGES = 1_500  # of which 60% are for training, and only these are drawn


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


# %% [markdown]
# ## The three factors
# The mean gradient over a batch never needs the deviations of all rows at once: mean_n e_n (phi_ni - C_n) is a matrix
# product. Without the weight we call it the *pull* on a feature, with the sign turned: theta_i goes up where the pull
# is positive.
#
# One thing is lost if the factors are read one by one: over a batch the pull is the mean of a *product*. What moves
# a feature is not how far it is from the integral, but whether it is far where the error is.
#
# ## Checks
# Three other ways to the same gradient. *Autograd* differentiates softmax, inner product and cross-entropy as plain
# PyTorch. The *layer* is the library's own; its backward pass was written with Proposition 1 in mind and so proves
# nothing about it, but it must agree. *Finite differences* of the layer's loss know no calculus; they are taken for a
# random choice of parameters.
#
# The l1 penalty of Eq. (4), which the paper leaves out of the proof, has a gradient of the same form: the indicator of
# an interaction takes the place of phi, the interaction mass that of the integral. It pushes all interactions down and
# all single concepts up, in proportion to their weights, and has no factor 1/T.
#
# ## Training
# One run for each temperature, side by side, from the same parameters and with the same batches, by Adam as everywhere.
# There is no penalty, as in the paper's sweep over temperatures: what becomes sparse does so by the gradient alone. We
# keep theta at the start and after every epoch, and work out the factors on all rows.
#
# ## (a) The factors over the epochs
# The paper's temperature and the untempered softmax are opposites. At T = 0.005 the error falls at once and takes the
# gradients with it, while the weights have hardly moved: what stops is the first factor, not the second. At T = 1 the
# error stays, and it is the weights that go: most fall below a hundredth of what they were, and their gradients after
# them. The deviation is the quiet factor, of one order of magnitude throughout. Where weights concentrate it grows over
# all features, and shrinks if weighted, that is for the features that the integral does read and that make it up.
#
# ## (b) Freezing
# Each point is a feature of one class at T = 1. Above, its gradient at the start of an epoch, never above the gray
# line, the weight times the largest pull. At first all weights are alike and the pull decides; at the end weights
# differ by many orders of magnitude and the gradient follows them, though less than in proportion: light features are
# those that are pulled down most. The notch is where the pull changes sign: what is heavier goes up, what is lighter
# goes down.
#
# Below, how far Adam moved theta in that epoch. Adam divides by the running size of each gradient, so a small gradient
# alone does not mean a small step: steps differ far less than gradients. They shrink all the same, because Adam's
# memory of the larger gradients before is longer than this training. And a step of theta moves a weight in proportion
# to that weight: that is the softmax, whatever the optimizer.
#
# ## (c) Temperature
# "A small T kills the error term once the model is confident": it does, within a few epochs, and with it goes all
# pressure towards sparse weights. "A large T keeps the signal alive": it does; with T = 1 scores in [0, 1] cannot make
# the softmax confident, however right the model is: the highest probability stays nearer to one half than to one. The
# Gini index of the Shapley values rises with T. The factor 1/T itself hardly counts, as Adam does not see the scale of
# a gradient. Sparsity has its price: the accuracy, on the rows trained on, is best where T is small.
#
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


# %% [markdown]
# ## All of it


def main(output: Path, table: cq.ConceptScores | None = None, epochs: int = EPOCHS) -> None:
    """Check the formulas on a table of scores, by default of drawn birds, and draw four images into a folder."""
    output.mkdir(parents=True, exist_ok=True)
    rows = GradientRows.of(draw_birds() if table is None else table)
    print(f"{sizes(rows)}\n\n{checks_table(rows).to_markdown()}")
    course = follow_training(rows, epochs)
    print(f"{factors_table(course).to_markdown()}\n{anchors_table(course).to_markdown()}")
    for name, draw in FIGURES.items():
        print(output / f"{name}.png")
        figure = draw(course)
        figure.savefig(output / f"{name}.png", dpi=150, pil_kwargs={"optimize": True})
        plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("output", type=Path, nargs="?", default=Path("gradient-analysis"), help="for the images")
    parser.add_argument("--demo", type=Path, help="folder of `choqolate demo`, whose scores for training are used")
    places = parser.parse_args()
    scores = cq.ConceptScores.load(places.demo / "scores.parquet").part("train") if places.demo else None
    main(places.output, scores)
