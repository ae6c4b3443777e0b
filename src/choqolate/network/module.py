"""The network: concepts to nodes to classes, one run or many side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

from choqolate.integral import ChoquetLayer
from choqolate.integral.expected_minimum import SortedInputs
from choqolate.network.architecture import Architecture
from choqolate.network.cluster_start import ClusterStart


class ChoqolateNetwork(nn.Module):
    r"""Two Choquet layers, :math:`h_n = C^{(n)}(z)` and :math:`o_r = C_{out}^{(r)}(h)`, for R runs at once.

    The first layer's features do not depend on the run, so the nodes of all runs are one layer of ``R * n_nodes``
    integrals; the second layer is a stack of R. Runs share nothing but their inputs.

    Args:
        architecture: how both layers are built.
        n_concepts: number of concepts M.
        n_classes: number of classes C.
        seeds: one for each run; they decide its initial parameters.
        start: inputs on which nodes have a head start; random without it.
        dtype: of the parameters.

    >>> network = ChoqolateNetwork(Architecture(n_nodes=3), 5, 2, seeds=[0, 1])
    >>> network(torch.rand(10, 5)).shape
    torch.Size([2, 10, 2])
    """

    def __init__(
        self,
        architecture: Architecture,
        n_concepts: int,
        n_classes: int,
        *,
        seeds: Sequence[int],
        start: ClusterStart | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.seeds, self.width = tuple(seeds), architecture.width(n_classes)
        options: dict[str, Any] = {"rank": architecture.rank, "free_weights": architecture.free_weights, "dtype": dtype}
        options["device"] = torch.get_default_device()  # skip_init would take the CPU
        # empty, because each run draws its parameters from its own seed
        n_inputs, n_integrals = architecture.n_inputs(n_concepts), len(seeds) * self.width
        self.nodes = skip_init(ChoquetLayer, n_inputs, n_integrals, architecture.interactions, **options)
        self.classes: ChoquetLayer | None = None
        if architecture.n_nodes is not None:
            sizes = architecture.n_nodes, n_classes
            self.classes = skip_init(ChoquetLayer, *sizes, architecture.class_kind, stack=len(seeds), **options)
        for run, seed in enumerate(seeds):
            generator = torch.Generator().manual_seed(seed)
            self.nodes.reset_parameters(generator, self._nodes_of(run))
            if start is not None:
                start.apply(self.nodes, self._nodes_of(run))
            if self.classes is not None:
                self.classes.reset_parameters(generator, run)

    def _nodes_of(self, run: int) -> slice:
        return slice(run * self.width, (run + 1) * self.width)

    def scores(self, u: Tensor, presorted: SortedInputs | None = None) -> tuple[Tensor, Tensor, Tensor | None]:
        """Class scores ``(R, B, C)`` of inputs ``u (B, M)``, and the interaction mass of the nodes and the classes.

        The masses are ``(R, N)`` and ``(R, C)``; the second is ``None`` without a second layer.
        """
        values, node_mass = self.nodes.integrate_with_mass(u, presorted)
        runs = (len(self.seeds), self.width)
        values, node_mass = values.unflatten(1, runs).transpose(0, 1), node_mass.unflatten(0, runs)
        if self.classes is None:
            return values, node_mass, None
        scores, class_mass = self.classes.integrate_with_mass(values)
        return scores, node_mass, class_mass

    def forward(self, u: Tensor) -> Tensor:
        return self.scores(u)[0]

    def parameter_norm(self) -> Tensor:
        """The l1 norm ``(R,)`` of the unconstrained parameters of each run, in both layers."""
        n_runs = len(self.seeds)
        return torch.stack([theta.abs().reshape(n_runs, -1).sum(1) for theta in self.parameters()]).sum(0)

    @torch.no_grad()
    def node_attributions(self) -> Tensor:
        """Shares ``(R, N, M)`` of the inputs in the nodes of each run."""
        return self.nodes.capacity().attributions().unflatten(0, (len(self.seeds), self.width))

    def parameters_of(self, run: int) -> dict[str, Tensor]:
        """The unconstrained parameters of one run, as copies on the CPU."""
        own = {f"nodes.{name}": theta[self._nodes_of(run)] for name, theta in self.nodes.named_parameters()}
        if self.classes is not None:
            own |= {f"classes.{name}": theta[run] for name, theta in self.classes.named_parameters()}
        return {name: theta.detach().cpu().clone() for name, theta in own.items()}
