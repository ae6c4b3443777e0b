from __future__ import annotations

import pytest

from choqolate.integral.native import native_status, without_native


@pytest.fixture(scope="module", params=["native", "PyTorch"])
def kernel(request):
    """Both ways of computing an integral."""
    if request.param == "native":
        if not native_status().in_use:
            pytest.skip(f"no native kernel: {native_status().reason}")
        yield "native"
    else:
        with without_native():
            yield "PyTorch"
