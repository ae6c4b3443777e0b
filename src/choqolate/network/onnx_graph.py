"""A fitted network as an ONNX graph, written operator by operator.

The graph computes what :class:`~choqolate.network.fitted.FittedNetwork` computes, after all edits and in double
precision like it: the softmax divides by a temperature such as 0.005, which amplifies rounding 200 times. Inputs and
outputs are in single precision.

This module needs the package ``onnx``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from torch import Tensor

from choqolate.errors import ChoqolateError
from choqolate.integral import AdditiveCapacity, Capacity, FactoredCapacity, PairwiseCapacity, SparseCapacity
from choqolate.network.fitted import FittedNetwork
from choqolate.network.removal import Nodes

OPSET, IR_VERSION = 17, 8  # of ONNX 1.12, June 2022
INPUT = "scores"
_DESCRIPTIONS = {
    INPUT: "Raw concept scores, one column per concept. They are scaled inside.",
    "node_values": "Node values; of a model without nodes, the class scores before the shift of a recalibration.",
    "class_scores": "Class scores, with the shift of a recalibration if there was one.",
    "probabilities": "Class probabilities: softmax of the class scores over the temperature.",
}
_FEATURES = 1 << 12  # numbers per row of the batch that are held at a time
_LARGEST = 2**31 - 1  # bytes of a file: a limit of the format


def columns(network: FittedNetwork) -> dict[str, int]:
    """The input of the graph and its outputs, by name, each with its number of columns."""
    n_classes = len(network.classes)
    return dict(zip(_DESCRIPTIONS, (len(network.concepts), network.n_nodes, n_classes, n_classes), strict=True))


def build_model(network: FittedNetwork, temperature: float) -> onnx.ModelProto:
    """Build the ONNX model of a network, for any number of rows; names of concepts and classes are not in it.

    A row with NaN or infinity gives NaN in all outputs: a graph cannot refuse its input as the classifier does.

    Args:
        network: with its edits.
        temperature: T of the class softmax.

    Returns:
        A model whose input and outputs are those of :func:`columns`, float32, checked by ``onnx.checker``.

    Raises:
        ChoqolateError: if the weights take more than the 2 GiB that an ONNX file can hold.
    """
    graph = _Graph()
    finite, flaw = _checked_scores(graph)
    inputs = _scaled_inputs(graph, network, finite)
    graph.part = "nodes"
    values = _node_values(graph, network.nodes, inputs)
    graph.part = "classes"
    scores = values if network.class_layer is None else _integral(graph, network.class_layer, values)
    if network.class_shift.any():
        scores = graph.add("Add", scores, graph.constant("shift", network.class_shift))
    logits = graph.add("Div", scores, graph.constant("temperature", np.float64(temperature)))
    probabilities = graph.add("Softmax", logits, axis=1)
    graph.part = "outputs"
    # sums of weights may round to above one
    shown = values if network.architecture.free_weights else graph.clip(values)
    sizes = columns(network)
    for name, result in zip(list(sizes)[1:], (shown, scores, probabilities), strict=True):
        graph.add("Cast", graph.add("Add", result, flaw), output=name, to=onnx.TensorProto.FLOAT)
    described = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", size], _DESCRIPTIONS[name])
        for name, size in sizes.items()
    ]
    whole = helper.make_graph(graph.nodes, "choqolate", described[:1], described[1:], graph.constants)
    model = helper.make_model(whole, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    onnx.checker.check_model(model, full_check=True)
    return model


class _Graph:
    """Operators and constants so far. ``part`` begins the names of those that follow."""

    def __init__(self) -> None:
        self.part = "inputs"
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._size = 0

    def add(self, kind: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Append an operator and return the name of its result."""
        name = f"{self.part}/{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [output or name], name=name, **attributes))
        return output or name

    def add_two(self, kind: str, *inputs: str, **attributes: Any) -> tuple[str, str]:
        """Append an operator and return the names of its two results."""
        name = f"{self.part}/{kind}_{len(self.nodes)}"
        first, second = f"{name}_0", f"{name}_1"
        self.nodes.append(helper.make_node(kind, inputs, [first, second], name=name, **attributes))
        return first, second

    def constant(self, name: str, values: Any) -> str:
        """Append an array, or a list of whole numbers, and return its name."""
        array = np.asarray(values, dtype=np.int64 if isinstance(values, list) else None)
        self._size += array.nbytes
        if self._size > _LARGEST:
            raise ChoqolateError(
                "The weights of this model take more than 2 GiB, which an ONNX file cannot hold. Train with fewer "
                "concepts, or with interactions='factored'."
            )
        whole_name = f"{self.part}/{name}_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, whole_name))
        return whole_name

    def cut(self, values: str, start: int, end: int, *, axis: int) -> str:
        """Take what lies from start to end along an axis."""
        places = {"start": start, "end": end, "axis": axis}
        return self.add("Slice", values, *(self.constant(name, [place]) for name, place in places.items()))

    def clip(self, values: str) -> str:
        """Clip to [0, 1]."""
        return self.add("Clip", values, self.constant("zero", np.float64(0)), self.constant("one", np.float64(1)))


def _checked_scores(graph: _Graph) -> tuple[str, str]:
    """The scores with zeros for those that are not finite, and what to add to all results of a row.

    The latter is ``(B, 1)``: NaN where a score is not finite, else 0. It goes around the operators, because what they
    make of NaN differs, and sorting may fail.
    """
    bad = graph.add("Or", graph.add("IsNaN", INPUT), graph.add("IsInf", INPUT))
    nan, zero = graph.constant("nan", np.float64(np.nan)), graph.constant("zero", np.float64(0))
    finite = graph.add("Where", bad, zero, graph.add("Cast", INPUT, to=onnx.TensorProto.DOUBLE))
    flaws = graph.add("Where", bad, nan, zero)
    return finite, graph.add("ReduceSum", flaws, graph.constant("axis", [1]), keepdims=1)


def _scaled_inputs(graph: _Graph, network: FittedNetwork, scores: str) -> str:
    """The inputs of the first layer, as :class:`MinMax` and :meth:`FittedNetwork.as_inputs` make them."""
    low, extent = network.scaling.low, network.scaling.high - network.scaling.low
    varying = extent > 0
    z = graph.add("Sub", scores, graph.constant("low", low))
    z = graph.clip(graph.add("Div", z, graph.constant("extent", np.where(varying, extent, 1.0))))
    if not varying.all():
        z = graph.add("Where", graph.constant("varying", varying), z, graph.constant("zero", np.float64(0)))
    if not network.architecture.bipolar:
        return z
    return graph.add("Concat", z, graph.add("Sub", graph.constant("one", np.float64(1)), z), axis=1)


def _node_values(graph: _Graph, nodes: Nodes, u: str) -> str:
    """The values ``(B, N)`` of nodes, each with the inputs that it sees frozen at their means."""
    parts, members = [], []
    for indices, capacity, frozen in nodes.groups():
        seen = u
        if frozen.any():
            seen = graph.add("Where", graph.constant("frozen", frozen), graph.constant("means", nodes.means), u)
        parts.append(_integral(graph, capacity, seen))
        members += indices.tolist()
    if len(parts) == 1:
        return parts[0]
    places = np.argsort(members).tolist()
    return graph.add("Gather", graph.add("Concat", *parts, axis=1), graph.constant("places", places), axis=1)


def _integral(graph: _Graph, capacity: Capacity, u: str) -> str:
    """The integrals ``(B, N)`` of inputs ``(B, M)``."""
    if isinstance(capacity, PairwiseCapacity):
        return _pairwise_integral(graph, capacity, u)
    if isinstance(capacity, FactoredCapacity):
        return _factored_integral(graph, capacity, u)
    if isinstance(capacity, SparseCapacity):
        return _sparse_integral(graph, capacity, u)
    if isinstance(capacity, AdditiveCapacity):
        return _weighted_means(graph, capacity.a, u)
    raise TypeError(f"no graph for a {type(capacity).__name__}")


def _weighted_means(graph: _Graph, weights: Tensor, u: str) -> str:
    """The products ``(B, N)`` of inputs with weights ``(N, M)``."""
    return graph.add("MatMul", u, graph.constant("linear", weights.T))


def _pairwise_integral(graph: _Graph, capacity: PairwiseCapacity, u: str) -> str:
    r"""The integrals in their Möbius form, with one feature per pair of inputs, some rows of pairs at a time.

    .. math:: C(u) = \sum_j \Bigl(a_j + \sum_l c_{jl}\Bigr) u_j + \sum_{j<l} (b_{jl} - c_{jl}) \min(u_j, u_l)

    Pairs of inputs that no node has an interaction of, such as those of removed concepts, are left out.
    """
    c = capacity.w.tril(-1).mT
    total = _weighted_means(graph, capacity.singles() + c.sum(-1) + c.sum(-2), u)
    moebius = capacity.w.triu(1) - c
    found = (moebius != 0).any(0)
    inputs = torch.nonzero(found.any(0) | found.any(1))[:, 0]
    start = 0
    while start < len(inputs) - 1:
        later = inputs[start + 1 :]
        rows = inputs[start : start + max(1, _FEATURES // len(later))]
        left = graph.add("Gather", u, graph.constant("rows", rows[:, None]), axis=1)
        right = graph.add("Gather", u, graph.constant("columns", later[None, :]), axis=1)
        weights = moebius[:, rows][:, :, later].flatten(1).T
        flat = graph.constant("flat", [0, len(weights)])  # 0 keeps the number of rows
        minima = graph.add("Reshape", graph.add("Min", left, right), flat)
        total = graph.add("Add", total, graph.add("MatMul", minima, graph.constant("pairs", weights)))
        start += len(rows)
    return total


def _sparse_integral(graph: _Graph, capacity: SparseCapacity, u: str) -> str:
    """The integrals with one feature per minimum or maximum that some node has, some of them at a time."""
    total = _weighted_means(graph, capacity.singles(), u)
    is_pair = (capacity.first != capacity.second) & (capacity.weight != 0)
    for kind, chosen in (("Min", is_pair & ~capacity.is_max), ("Max", is_pair & capacity.is_max)):
        if not chosen.any():
            continue
        both = torch.stack([capacity.first[chosen], capacity.second[chosen]])
        members, which = both.unique(dim=1, return_inverse=True)
        weights = torch.zeros(members.shape[1], capacity.n_nodes, dtype=torch.float64)
        weights[which, capacity.node[chosen]] = capacity.weight[chosen]
        for part in torch.arange(len(weights)).split(_FEATURES):
            left, right = (graph.add("Gather", u, graph.constant("members", m[part]), axis=1) for m in members)
            values = graph.add("MatMul", graph.add(kind, left, right), graph.constant("pairs", weights[part]))
            total = graph.add("Add", total, values)
    return total


def _factored_integral(graph: _Graph, capacity: FactoredCapacity, u: str) -> str:
    r"""The integrals from sorted inputs, some terms at a time.

    With u in descending order, P and Q the running sums of p and q in that order, and max = sum - min,

    .. math:: E[\min(u_J, u_L)] = \sum_k P_k Q_k (u_{(k)} - u_{(k+1)}).
    """
    (n_nodes, rank, n_inputs), (p, q) = capacity.p.shape, (capacity.p.flatten(0, 1), capacity.q.flatten(0, 1))
    on_linear, on_min, on_max = capacity.m.split([1, rank, rank], dim=1)
    linear = on_linear * capacity.a + (on_max[:, :, None] * (capacity.p + capacity.q)).sum(1)
    mixture = torch.block_diag(*(on_min - on_max)).T  # (N R, N): each term belongs to one node
    # a row of zeros below the others: sorting no rows at all crashes ONNX Runtime, at least from 1.17 to 1.22
    u = graph.add("Pad", u, graph.constant("pads", [0, 0, 1, 0]))
    values, order = graph.add_two("TopK", u, graph.constant("all", [n_inputs]), axis=1)
    following = graph.add("Pad", graph.cut(values, 1, n_inputs, axis=1), graph.constant("pads", [0, 0, 0, 1]))
    gaps = graph.add("Unsqueeze", graph.add("Sub", values, following), graph.constant("axis", [1]))
    total = graph.add("Unsqueeze", _weighted_means(graph, linear, u), graph.constant("axis", [1]))
    step = max(1, _FEATURES // (2 * n_inputs))
    for start in range(0, n_nodes * rank, step):
        terms = slice(start, start + step)
        factors = graph.constant("factors", torch.cat([p[terms], q[terms]]).T)
        sums = graph.add("CumSum", graph.add("Gather", factors, order, axis=0), graph.constant("axis", np.int64(1)))
        product = graph.add("Mul", *graph.add_two("Split", sums, axis=2))
        minima = graph.add("MatMul", gaps, product)  # (B + 1, 1, terms)
        total = graph.add("Add", total, graph.add("MatMul", minima, graph.constant("mixture", mixture[terms])))
    return graph.cut(graph.add("Squeeze", total, graph.constant("axis", [1])), 0, -1, axis=0)
