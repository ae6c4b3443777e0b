"""What all forms of capacities offer: the weights of some pairs, and what canonical removals give back."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from choqolate.integral import AdditiveCapacity, PairwiseCapacity, capacity
from tests.integral.test_factored import make
from tests.integral.test_sparse import sparse_of

FACTORED = make(3, 2, 7)
PAIRWISE = PairwiseCapacity.from_weights(*FACTORED.weights())
FORMS = {
    "additive": AdditiveCapacity(FACTORED.a),
    "pairwise": PAIRWISE,
    "factored": FACTORED,
    "sparse": sparse_of(PAIRWISE),
}


@pytest.mark.parametrize("form", FORMS)
def test_weights_of_some_pairs_are_those_of_all_pairs(form):
    first, second = torch.tensor([0, 6, 2, 2, 0]), torch.tensor([3, 1, 5, 5, 3])
    b, c = FORMS[form].pairs(slice(None))
    expected = b[:, first, second], c[:, first, second]
    assert_close(FORMS[form].pairs_between(first, second), expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("at_a_time", [2 * 3 * 7, 1], ids=["some inputs at a time", "not even one fits"])
@pytest.mark.parametrize("form", FORMS)
def test_what_pairs_give_back_is_summed_over_the_smaller_weights(form, at_a_time, monkeypatch):
    monkeypatch.setattr(capacity, "_COMMON_VALUES", at_a_time)
    u = torch.rand(4, 7, dtype=torch.float64)
    b, c = FORMS[form].pairs(slice(None))
    expected = torch.einsum("njl,bl->bnj", torch.minimum(b, c), u)
    assert_close(FORMS[form].integrate_common(u), expected, rtol=0, atol=1e-15)
