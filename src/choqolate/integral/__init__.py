"""The 2-additive Choquet integral: pure functions, the blocked kernel, the layer."""

from choqolate.integral.additive import AdditiveCapacity
from choqolate.integral.capacity import Capacity
from choqolate.integral.factored import FactoredCapacity
from choqolate.integral.functional import (
    Moebius,
    canonical_form,
    capacity_table,
    choquet,
    interaction_indices,
    local_shapley_values,
    moebius_transform,
    shapley_values,
)
from choqolate.integral.layer import ChoquetLayer
from choqolate.integral.pairwise import PairwiseCapacity
from choqolate.integral.sparse import SparseCapacity
from choqolate.integral.terms import Terms

__all__ = [
    "AdditiveCapacity",
    "Capacity",
    "ChoquetLayer",
    "FactoredCapacity",
    "Moebius",
    "PairwiseCapacity",
    "SparseCapacity",
    "Terms",
    "canonical_form",
    "capacity_table",
    "choquet",
    "interaction_indices",
    "local_shapley_values",
    "moebius_transform",
    "shapley_values",
]
