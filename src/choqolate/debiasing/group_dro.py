"""Group-DRO: the last layer trained again for the group that does worst."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from choqolate._util.checks import check_number
from choqolate.data.scores import ConceptScores
from choqolate.debiasing.group_rows import GroupedRows, balanced_batches, check_bottlenecks, grouped_parts
from choqolate.errors import ChoqolateError
from choqolate.estimators.classifier import ChoqolateClassifier
from choqolate.integral import ChoquetLayer
from choqolate.metrics import worst_group_accuracy
from choqolate.network.batches import BATCH_ORDER_SEED

ETA = 0.01
LEARNING_RATES = (0.01, 0.1)
WEIGHT_DECAYS = (0.01, 0.1, 1.0)
_THETA = "classes.theta"


class Setting(NamedTuple):
    """Of AdamW."""

    learning_rate: float
    weight_decay: float


@dataclass(frozen=True)
class _Loop:
    eta: float
    adjustment: float
    steps: int
    batch_size: int


@dataclass(frozen=True)
class _NodeValues:
    """Node values of every model ``(R, n, N)``, which do not change, with the classes and groups of the rows."""

    values: Tensor
    targets: Tensor
    groups: Tensor

    @classmethod
    def of(cls, models: Sequence[ChoqolateClassifier], rows: GroupedRows) -> _NodeValues:
        return cls(*map(torch.from_numpy, (rows.node_values(models), rows.targets, rows.groups)))


def group_dro(
    models: Sequence[ChoqolateClassifier],
    table: ConceptScores,
    *,
    learning_rates: Iterable[float] = LEARNING_RATES,
    weight_decays: Iterable[float] = WEIGHT_DECAYS,
    eta: float = ETA,
    adjustment: float = 0.0,
    steps: int = 300,
    batch_size: int = 512,
) -> list[ChoqolateClassifier]:
    r"""Train the last layer of trained classifiers again, with weights on the groups that move to those that do badly.

    The method of Sagawa et al. (2019), here for the Choquet integrals from nodes to classes alone: the nodes stay as
    they are, edits included, and training starts from the trained layer. A step has a loss :math:`\ell_g` for each
    group, the mean cross-entropy of its rows in the batch, and weights q on the groups, equal at the start:

    .. math:: q_g \leftarrow \frac{q_g \exp(\eta (\ell_g + C / \sqrt{n_g}))}{\sum_h q_h \exp(\eta (\ell_h + C /
        \sqrt{n_h}))}, \qquad \ell = \sum_g q_g \ell_g

    Every batch has equally many rows of each group (:func:`~choqolate.debiasing.group_rows.balanced_batches`). The loss
    is minimised with AdamW, whose weight decay pulls the unconstrained parameters towards zero, that is, the integrals
    towards equal weights. Learning rate and weight decay of each model are those with the best worst-group accuracy on
    the validation rows; where these lack a group, on a fifth of the training rows, on all of which the layer is then
    trained again.

    Args:
        models: trained classifiers that differ in their seed; their last layers are trained side by side.
        table: the scores that they were trained on, with groups.
        learning_rates, weight_decays: to choose from.
        eta: step size of q.
        adjustment: C, which favours small groups.
        steps: number of batches; a layer this small needs no more on large data sets.
        batch_size: rows of all groups together.

    Returns:
        Fitted copies; ``provenance_.debiasing`` has the chosen values and the rows that they were chosen on.

    Raises:
        ChoqolateError: for models without nodes or not trained alike, and for a table without groups.

    >>> from choqolate.data.scores import ConceptScores
    >>> from choqolate.estimators.table_training import fit_scores
    >>> rng = np.random.default_rng(0)
    >>> y, place = rng.integers(0, 2, (2, 200))
    >>> scores = rng.random((200, 3)) + np.stack([y, 1 - y, place], 1)
    >>> table = ConceptScores(scores, ["bill", "crest", "sea"], labels=y, groups=[f"{a}{b}" for a, b in zip(y, place)])
    >>> model = fit_scores(table, n_nodes=4, epochs=5)
    >>> again, = group_dro([model], table, learning_rates=[0.01], weight_decays=[0.1], steps=2)
    >>> again.provenance_.debiasing["weight_decay"], np.array_equal(again.node_attributions_, model.node_attributions_)
    (0.1, True)
    """
    models = _check_alike(check_bottlenecks(models))
    settings = _settings(learning_rates, weight_decays)
    loop = _Loop(eta, adjustment, steps, batch_size)
    _check_loop(loop)
    train, val = grouped_parts(table, models[0].classes_)
    fitting, choosing = (train, val) if val is not None else train.hold_out()
    seen, unseen = _NodeValues.of(models, fitting), _NodeValues.of(models, choosing)
    layers = [_train(models, seen, setting, loop) for setting in settings]
    worst = np.array([_worst_groups(models, layer, unseen) for layer in layers])  # (settings, R)
    best = worst.argmax(axis=0)
    if val is None:
        every = _NodeValues.of(models, train)
        again = {k: _train(models, every, settings[k], loop) for k in set(best.tolist())}
        layers = [again.get(k, layer) for k, layer in enumerate(layers)]
    chosen_on = "val rows" if val is not None else "held-out training rows"
    common = {"method": "Group-DRO", "chosen_on": chosen_on, "rows": len(train)}
    made = []
    for run, (model, k) in enumerate(zip(models, best.tolist(), strict=True)):
        before = model.network_.parameters
        theta = layers[k].get_parameter("theta").detach()[run].to(before[_THETA])
        network = replace(model.network_, parameters={**before, _THETA: theta})
        note = common | settings[k]._asdict() | {"worst_group": float(worst[k, run])}
        made.append(model.with_network(network).with_provenance(debiasing=note))
    return made


def update_group_weights(
    q: Tensor, losses: Tensor, sizes: Tensor, *, eta: float = ETA, adjustment: float = 0.0
) -> Tensor:
    r"""The next weights of the groups, :math:`q_g \exp(\eta (\ell_g + C / \sqrt{n_g}))`, normalised.

    Args:
        q, losses: weights and losses of the groups ``(..., G)``.
        sizes: number of training rows of each group ``(G,)``.
        eta, adjustment: :math:`\eta` and C.

    >>> update_group_weights(torch.tensor([0.5, 0.5]), torch.tensor([0.0, 3.0]).log1p(), torch.ones(2), eta=1.0)
    tensor([0.2000, 0.8000])
    """
    return (q.log() + eta * (losses + adjustment / sizes.sqrt())).softmax(-1)


def _train(models: Sequence[ChoqolateClassifier], rows: _NodeValues, setting: Setting, loop: _Loop) -> ChoquetLayer:
    """The last layers of all models, trained side by side in float64."""
    layer = _trained_layer(models)
    temperature = torch.tensor([model.temperature_ for model in models], dtype=torch.float64)[:, None, None]
    sizes = rows.groups.bincount().double()
    q = sizes.new_full((len(models), len(sizes)), 1 / len(sizes))
    rate, decay = setting
    optimizer = torch.optim.AdamW(layer.parameters(), lr=rate, weight_decay=decay, fused=True)
    for batch in islice(_endless_batches(rows.groups, loop.batch_size), loop.steps):
        logits = _scores(models, layer, rows.values[:, batch.flatten()]) / temperature
        losses = _group_losses(logits, rows.targets[batch])
        q = update_group_weights(q, losses.detach(), sizes, eta=loop.eta, adjustment=loop.adjustment)
        optimizer.zero_grad()
        (q * losses).sum().backward()  # models share no parameter, so the sum leaves each its own gradient
        optimizer.step()
    if not layer.get_parameter("theta").isfinite().all():
        raise ChoqolateError("training ended with parameters that are not finite: lower learning_rates")
    return layer


def _endless_batches(groups: Tensor, batch_size: int) -> Iterator[Tensor]:
    order = torch.Generator().manual_seed(BATCH_ORDER_SEED)
    while True:
        yield from balanced_batches(groups, batch_size, order)


def _group_losses(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy of each group ``(R, G)``, from logits ``(R, G k, C)`` and targets ``(G, k)``."""
    n_models = len(logits)
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten().repeat(n_models), reduction="none")
    return losses.view(n_models, *targets.shape).mean(-1)


def _trained_layer(models: Sequence[ChoqolateClassifier]) -> ChoquetLayer:
    """The last layers as they were trained, as a stack."""
    first, theta = models[0], torch.stack([model.network_.parameters[_THETA] for model in models]).double()
    n_classes, n_nodes = theta.shape[1:3]
    architecture = first.network_.architecture
    kind, free = architecture.class_kind, architecture.free_weights
    layer = ChoquetLayer(n_nodes, n_classes, kind, free_weights=free, stack=len(models), dtype=torch.float64)
    layer.load_state_dict({"theta": theta})
    return layer


def _scores(models: Sequence[ChoqolateClassifier], layer: ChoquetLayer, values: Tensor) -> Tensor:
    """Class scores ``(R, n, C)``, with the shift of a recalibration, which stays."""
    scores: Tensor = layer(values)
    return scores + torch.from_numpy(np.stack([model.class_shift_ for model in models]))[:, None]


def _worst_groups(models: Sequence[ChoqolateClassifier], layer: ChoquetLayer, rows: _NodeValues) -> list[float]:
    """Worst-group accuracy of each model."""
    with torch.no_grad():
        predicted = _scores(models, layer, rows.values).argmax(-1)
    return [worst_group_accuracy(rows.targets, labels, rows.groups) for labels in predicted.tolist()]


def _check_alike(models: list[ChoqolateClassifier]) -> list[ChoqolateClassifier]:
    built = [model.network_.architecture for model in models]
    kinds = {(own.n_nodes, own.class_kind, own.free_weights) for own in built}
    if len(kinds) > 1:
        raise ChoqolateError(
            "expected models with last layers of one shape, got others: call group_dro once for each kind of model"
        )
    return models


def _settings(learning_rates: Iterable[float], weight_decays: Iterable[float]) -> list[Setting]:
    settings = [Setting(*values) for values in product(learning_rates, weight_decays)]
    if not settings:
        raise ChoqolateError("expected learning rates and weight decays to choose from, got none: give one of each")
    for setting in settings:
        check_number("learning_rates", setting.learning_rate, minimum=0, strict=True)
        check_number("weight_decays", setting.weight_decay, minimum=0)
    return settings


def _check_loop(loop: _Loop) -> None:
    for name in ("eta", "adjustment"):
        check_number(name, getattr(loop, name), minimum=0)
    for name in ("steps", "batch_size"):
        check_number(name, getattr(loop, name), minimum=1, whole=True)
