"""The published recipes of the compared methods, stated again as plainly as possible, for ``peers.py``.

Written from the papers and from reading the authors' code; nothing is shared with the package but the initial draws of
the autoencoder. Loops instead of batched products, automatic differentiation instead of gradients by hand, dense kernel
matrices instead of blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.multiclass import OneVsRestClassifier

Layers = list[torch.Tensor]


# ---------------------------------------------------------------------- sparse linear classifiers


def one_vs_rest_sgd(penalty: float) -> SGDClassifier:
    """PCBM's training core: one logistic regression per class by stochastic gradients, under an elastic net."""
    options = {"loss": "log_loss", "penalty": "elasticnet", "l1_ratio": 0.99, "max_iter": 10_000, "random_state": 42}
    return SGDClassifier(alpha=penalty, **options)


def multinomial(n_rows: int, penalty: float, l1_ratio: float) -> LogisticRegression:
    """The optimum of the cross-entropy under an elastic net, whose strength is that of the mean over the rows."""
    options = {"solver": "saga", "tol": 1e-4, "max_iter": 1_000, "random_state": 0}
    return LogisticRegression(C=1 / (n_rows * penalty), l1_ratio=l1_ratio, **options)


def one_vs_rest_l1(n_rows: int, penalty: float) -> OneVsRestClassifier:
    """One l1 logistic regression per class by coordinate descent (liblinear, which penalizes intercepts as well)."""
    return OneVsRestClassifier(
        LogisticRegression(C=1 / (n_rows * penalty), l1_ratio=1.0, solver="liblinear", random_state=0)
    )


# ---------------------------------------------------------------------- PS-CBM


def partially_shared(
    X: np.ndarray, y: np.ndarray, owners: Sequence[Sequence[int]], min_score: float, merge: float, per_class: int
) -> dict[int, set[int]]:
    """Which concepts are kept, each with its classes.

    The authors' concepts have one class each. A concept with several owners enters once per owner, as if it had been
    generated for each of them.
    """
    entries = [(j, r) for j, classes in enumerate(owners) for r in classes]
    entries = [(j, r) for j, r in entries if np.sort(X[y == r, j])[-4:].mean() >= min_score]
    vectors = np.array([X[:, j] / np.linalg.norm(X[:, j]) for j, _ in entries])
    close = vectors @ vectors.T >= merge
    left, classes = set(range(len(entries))), {}
    while left:
        first = max(sorted(left), key=lambda e: len(left & set(np.flatnonzero(close[e]).tolist()) | {e}))
        group = left & set(np.flatnonzero(close[first]).tolist()) | {first}
        classes[entries[first][0]] = {entries[e][1] for e in group}
        left -= group
    kept = {j for j, own in classes.items() if len(own) > 1}
    for r in set(y.tolist()):
        unique = [j for j, own in classes.items() if own == {r}]
        kept |= set(sorted(unique, key=lambda j: -X[y == r, j].mean())[:per_class])
    return {j: classes[j] for j in sorted(kept)}


def concept_layer(
    features: np.ndarray, labels: np.ndarray, *, n_layers: int, rate: float, steps: int, batch: int = 32, seed: int = 42
) -> torch.nn.Module:
    """Linear layers with biases and a ReLU between them, trained by binary cross-entropy on random batches."""
    torch.manual_seed(seed)
    x, target = torch.from_numpy(features).float(), torch.from_numpy(labels).float()
    layers: list[torch.nn.Module] = [torch.nn.Linear(x.shape[1], target.shape[1])]
    for _ in range(n_layers - 1):
        layers += [torch.nn.ReLU(), torch.nn.Linear(target.shape[1], target.shape[1])]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for _ in range(steps):
        rows = torch.randperm(len(x))[:batch]
        optimizer.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(model(x[rows]), target[rows]).backward()
        optimizer.step()
    return model


def standardized_units(model: torch.nn.Module, train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Outputs of a concept layer, standardized by the training rows with n - 1 in the denominator."""
    with torch.no_grad():
        first, second = (model(torch.from_numpy(x).float()).numpy().astype(np.float64) for x in (train, test))
    return (first - first.mean(0)) / first.std(0, ddof=1), (second - first.mean(0)) / first.std(0, ddof=1)


# ---------------------------------------------------------------------- sparse autoencoder


def geometric_median(points: np.ndarray, iterations: int = 2_000) -> np.ndarray:
    """Weiszfeld's iteration without care for a median that is one of the points."""
    middle = points.mean(axis=0)
    for _ in range(iterations):
        weights = 1 / np.maximum(np.linalg.norm(points - middle, axis=1), 1e-12)
        middle = (weights[:, None] * points).sum(0) / weights.sum()
    return middle


def autoencoder(
    z: np.ndarray,
    start: Layers,
    generator: torch.Generator,
    *,
    penalty: float,
    rate: float,
    epochs: int,
    batch: int = 512,
) -> tuple[Layers, list[float], int]:
    """Train W, b, D, c on rows z; return them, the loss of each epoch, and how many dead units were resampled.

    Args:
        z: scaled scores.
        start: encoder weights and decoder as they were drawn.
        generator: source of the resampled rows.
        penalty, rate, epochs, batch: of the training.
    """
    x = torch.from_numpy(z)
    W, D = start[0].clone(), start[1] / start[1].norm(dim=0)
    b, c = torch.zeros(len(W), dtype=x.dtype), torch.from_numpy(geometric_median(z))
    theta = [W.requires_grad_(), b.requires_grad_(), D.requires_grad_(), c.requires_grad_()]
    optimizer, order = torch.optim.Adam(theta, lr=rate), torch.Generator().manual_seed(0)
    curve, resampled, checks = [], 0, [0.25, 0.5, 0.75]
    for epoch in range(1, epochs + 1):
        total = 0.0
        for rows in torch.randperm(len(x), generator=order).split(batch):
            units = torch.relu((x[rows] - c) @ W.T + b)
            rebuilt = units @ D.T + c
            loss = (rebuilt - x[rows]).square().mean() + penalty * units.sum(1).mean()
            optimizer.zero_grad()
            loss.backward()
            assert D.grad is not None
            for n in range(len(W)):  # no gradient along a column, which keeps its length
                D.grad[:, n] -= (D.grad[:, n] @ D.detach()[:, n]) * D.detach()[:, n]
            optimizer.step()
            with torch.no_grad():
                D /= D.norm(dim=0)
            total += float(loss.detach()) * len(rows)
        curve.append(total / len(x))
        if checks and checks[0] <= epoch / epochs < 1:
            checks = [check for check in checks if check > epoch / epochs]
            resampled += _resample(x, theta, optimizer, generator)
    return [parameter.detach() for parameter in theta], curve, resampled


@torch.no_grad()
def _resample(x: torch.Tensor, theta: Layers, optimizer: torch.optim.Adam, generator: torch.Generator) -> int:
    """Start units that never fire again from badly rebuilt rows, and forget their moments."""
    W, b, D, c = theta
    units = torch.relu((x - c) @ W.T + b)
    dead = [n for n in range(len(W)) if not units[:, n].any()]
    if not dead:
        return 0
    errors = (units @ D.T + c - x).square().sum(1)
    rows = torch.multinomial(errors.square(), len(dead), generator=generator)
    alive = [n for n in range(len(W)) if n not in dead]
    length = W[alive].norm(dim=1).mean() if alive else 1.0
    for n, row in zip(dead, rows.tolist(), strict=True):
        direction = (x[row] - c) / (x[row] - c).norm()
        W[n], b[n], D[:, n] = 0.2 * length * direction, 0.0, direction
        for moment in ("exp_avg", "exp_avg_sq"):
            optimizer.state[W][moment][n] = 0
            optimizer.state[b][moment][n] = 0
            optimizer.state[D][moment][:, n] = 0
    return len(dead)


# ---------------------------------------------------------------------- debiasing


def dfr_strength(x: np.ndarray, y: np.ndarray, groups: np.ndarray, strengths: Sequence[float], seed: int) -> float:
    """C by the worst group of one random half, after a fit on a group-balanced draw of the other half."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(x))
    held, fitted = rows[: len(x) // 2], rows[len(x) // 2 :]
    fitted = balanced(fitted, groups, rng)
    centre, spread = x[fitted].mean(0), x[fitted].std(0)
    worst = []
    for C in strengths:
        model = _l1(C).fit((x[fitted] - centre) / spread, y[fitted])
        right = model.predict((x[held] - centre) / spread) == y[held]
        worst.append(min(right[groups[held] == g].mean() for g in set(groups[held].tolist())))
    return float(strengths[int(np.argmax(worst))])


def dfr_head(
    x: np.ndarray, y: np.ndarray, groups: np.ndarray, C: float, n_draws: int, seed: int
) -> tuple[np.ndarray, float]:
    """Weights and intercept of two classes, averaged over fits on group-balanced draws."""
    rng = np.random.default_rng(seed)
    draws = [balanced(np.arange(len(x)), groups, rng) for _ in range(n_draws)]
    fits = [_l1(C).fit(x[rows], y[rows]) for rows in draws]
    return np.mean([fit.coef_[0] for fit in fits], axis=0), float(np.mean([fit.intercept_[0] for fit in fits]))


def balanced(rows: np.ndarray, groups: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """As many rows of each group as the smallest has."""
    members = [rows[groups[rows] == g] for g in sorted(set(groups[rows].tolist()))]
    fewest = min(map(len, members))
    return np.concatenate([rng.permutation(own)[:fewest] for own in members])


def _l1(C: float) -> LogisticRegression:
    return LogisticRegression(C=C, l1_ratio=1.0, solver="liblinear", max_iter=1_000, random_state=0)


def group_weights(losses: np.ndarray, sizes: np.ndarray, eta: float, adjustment: float) -> np.ndarray:
    """Weights of the groups after each step ``(steps, G)``, from the losses of the groups in each ``(steps, G)``."""
    q = [1 / len(sizes)] * len(sizes)
    history = []
    for of_step in losses.tolist():
        raised = [q[g] * np.exp(eta * (loss + adjustment / sizes[g] ** 0.5)) for g, loss in enumerate(of_step)]
        q = [value / sum(raised) for value in raised]
        history.append(q)
    return np.array(history)


# ---------------------------------------------------------------------- representations


def cka(A: np.ndarray, B: np.ndarray) -> float:
    """Normalized HSIC with linear kernels, from dense centered kernel matrices."""
    H = np.eye(len(A)) - 1 / len(A)
    K, L = A @ A.T, B @ B.T
    products = [np.trace(P @ H @ Q @ H) for P, Q in ((K, L), (K, K), (L, L))]
    return float(products[0] / np.sqrt(products[1] * products[2]))


def cknna(A: np.ndarray, B: np.ndarray, k: int = 10, floor: float = 0.0) -> float:
    """CKNNA from dense kernel matrices; the authors add a floor of 1e-6 to the denominator."""
    A, B = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (A, B))
    K, L = A @ A.T, B @ B.T
    kl, kk, ll = _masked(K, L, k), _masked(K, K, k), _masked(L, L, k)
    return float(kl / (np.sqrt(kk * ll) + floor))


def _masked(K: np.ndarray, L: np.ndarray, k: int) -> float:
    """Unbiased HSIC of two kernels on the neighbors that they have in common."""
    n = len(K)
    both = _neighbors(K, k) & _neighbors(L, k)
    K, L = np.where(both, K, 0.0), np.where(both, L, 0.0)
    pairs = (K * L.T).sum() + K.sum() * L.sum() / ((n - 1) * (n - 2)) - 2 * (K @ L).sum() / (n - 2)
    return float(pairs / (n * (n - 3)))


def _neighbors(K: np.ndarray, k: int) -> np.ndarray:
    similar = K.copy()
    np.fill_diagonal(similar, -np.inf)
    mask: Any = np.zeros(K.shape, dtype=bool)
    np.put_along_axis(mask, np.argsort(-similar, axis=1, kind="stable")[:, :k], True, axis=1)
    return mask
