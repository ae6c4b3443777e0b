"""The native kernels: finding their library, checking it, calling the kernel of pairwise integrals.

The library is compiled from the C sources beside this file when the package is installed. Without it, or with
``CHOQOLATE_NATIVE=0`` in the environment, :mod:`choqolate.integral.blocked` and
:mod:`choqolate.integral.expected_minimum` compute the same with PyTorch operations.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from choqolate.integral.tensor_cache import workspace

SWITCH = "CHOQOLATE_NATIVE"
_HERE = Path(__file__).parent
_SOURCES, _RECORD = ("kernel.c", "kernel.h", "minimum_kernel.c"), _HERE / "native_build.json"
_RECORDED = {"library", "source", "contents", "variants", "openmp", "compiler"}
_PRECISIONS = {torch.float32: "f32", torch.float64: "f64"}
_VARIANTS = {"AVX2": "avx2", "AVX512": "avx512"}  # by what PyTorch says that the processor can do

_pointer, _size, _int = ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int
_ROWS, _SHAPE, _TEAM = [_pointer, _size, _size, _size], [_size] * 4, [_pointer, _int]
_SIGNATURES = {
    "choquet_workspace": [*_SHAPE, _int, _int],
    "choquet_values": [*_ROWS, _pointer, _int, _pointer, _pointer, _pointer, *_SHAPE, *_TEAM],
    "choquet_input_gradient": [*_ROWS, _pointer, _int, _pointer, *_ROWS, _pointer, *_SHAPE, *_TEAM],
    "choquet_weight_gradient": [
        *_ROWS, _pointer, _int, _pointer, _pointer, _pointer, *_ROWS, _pointer, _pointer, *_SHAPE, *_TEAM,
    ],
    "minimum_workspace": [*[_size] * 3, _int],
    "minimum_values": [*[_pointer] * 5, *_SHAPE, *_TEAM],
    "minimum_input_gradient": [*[_pointer] * 4, _size, _pointer, *[_size] * 3, *_TEAM],
    "minimum_weight_gradient": [*[_pointer] * 5, _size, _pointer, _pointer, *[_size] * 3, *_TEAM],
}  # fmt: skip

_paused = False


@dataclass(frozen=True)
class NativeStatus:
    """Whether the native kernel is in use, and why or why not.

    Attributes:
        in_use: whether it computes integrals on the CPU.
        reason: one sentence.
        variant: the instructions it uses: ``"avx512"``, ``"avx2"`` or ``"baseline"``; empty if there is none.
        openmp: whether it can use more than one thread.
        shares_threads: whether these are PyTorch's; ``None`` if unknown.
    """

    in_use: bool
    reason: str
    variant: str = ""
    openmp: bool = False
    shares_threads: bool | None = None


class _Functions:
    """The functions of the library for one precision."""

    def __init__(self, library: ctypes.CDLL, suffix: str) -> None:
        for name, types in _SIGNATURES.items():
            function = getattr(library, f"{name}_{suffix}")
            function.argtypes, function.restype = types, _size if name.endswith("workspace") else None
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any: ...


@lru_cache(1)
def _load() -> tuple[NativeStatus, dict[torch.dtype, _Functions]]:
    if os.environ.get(SWITCH, "1") == "0":
        return NativeStatus(False, f"{SWITCH}=0 is set in the environment"), {}
    try:
        record = json.loads(_RECORD.read_text("utf-8"))
        library_path = _HERE / record.get("library", "")
    except (OSError, ValueError, AttributeError, TypeError):
        return NativeStatus(False, "it was not built when the package was installed"), {}
    if not _RECORDED <= record.keys():
        return NativeStatus(False, str(record.get("reason", "it was not built when the package was installed"))), {}
    if record["source"] != _digest(*(_HERE / name for name in _SOURCES)):
        return NativeStatus(False, "it was built from another version of its source; install the package again"), {}
    if record["contents"] != _digest(library_path):  # loading half a library would end the process
        return NativeStatus(False, "the library is missing or damaged; install the package again"), {}
    variant = _VARIANTS.get(torch.backends.cpu.get_cpu_capability(), "baseline")
    variant = variant if variant in record["variants"] else "baseline"
    try:
        library = ctypes.CDLL(str(library_path))
        functions = {dtype: _Functions(library, f"{suffix}_{variant}") for dtype, suffix in _PRECISIONS.items()}
    except (OSError, AttributeError) as error:
        return NativeStatus(False, f"the library could not be loaded ({error})"), {}
    reason = f"compiled with {record['compiler']}"
    openmp = bool(record["openmp"])
    return NativeStatus(True, reason, variant, openmp, _shares_threads(library) if openmp else None), functions


def _digest(*paths: Path) -> str:
    whole = all(path.is_file() for path in paths)
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest() if whole else ""


def _shares_threads(library: ctypes.CDLL) -> bool | None:
    """Whether the library and PyTorch came to the same copy of OpenMP: two would each have a pool of threads."""
    try:
        of_torch = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        own, its = (ctypes.cast(x.omp_get_max_threads, ctypes.c_void_p).value for x in (library, of_torch))
    except (OSError, AttributeError):
        return None
    return own == its


def native_status() -> NativeStatus:
    """Whether the native kernel is in use in this process, and why."""
    return _load()[0]


@contextmanager
def without_native() -> Iterator[None]:
    """Compute with PyTorch's operations alone inside a ``with`` block: to compare the two."""
    global _paused
    before, _paused = _paused, True
    try:
        yield
    finally:
        _paused = before


def serves(u: Tensor) -> bool:
    """Whether the native kernel computes integrals of such inputs."""
    return not _paused and u.dtype in _PRECISIONS and u.device.type == "cpu" and _load()[0].in_use


def functions_for(dtype: torch.dtype) -> _Functions:
    """The functions of the library for a precision, by their names in C."""
    return _load()[1][dtype]


def integrate(u: Tensor, weights: Tensor, softmax: bool, values: Tensor, mass: Tensor, scale: Tensor) -> None:
    """Fill the values ``(B, N)``; of a softmax also the mass of the pairs ``(N,)`` and its scale ``(N, 2)``."""
    weights = weights.contiguous()
    functions, shape, space, threads = _prepare(u, weights, softmax)
    functions.choquet_values(
        *_rows(u), weights.data_ptr(), softmax, values.data_ptr(), mass.data_ptr(), scale.data_ptr(), *shape,
        space.data_ptr(), threads,
    )  # fmt: skip


def input_gradient(u: Tensor, weights: Tensor, softmax: bool, scale: Tensor, g: Tensor) -> Tensor:
    """Gradient ``(B, M)`` of the inputs, from that of the values ``g (B, N)``."""
    grad = torch.empty(u.shape, dtype=u.dtype, device=u.device)
    weights, scale = weights.contiguous(), scale.contiguous()
    functions, shape, space, threads = _prepare(u, weights, softmax)
    functions.choquet_input_gradient(
        *_rows(u), weights.data_ptr(), softmax, scale.data_ptr(), *_rows(g), grad.data_ptr(), *shape,
        space.data_ptr(), threads,
    )  # fmt: skip
    return grad


def weight_gradient(
    u: Tensor,
    weights: Tensor,
    softmax: bool,
    scale: Tensor,
    values: Tensor,
    mass: Tensor,
    g: Tensor,
    g_mass: Tensor | None,
) -> Tensor:
    """Gradient ``(N, M, M)`` of the weights, or of the parameters whose softmax they are."""
    grad = torch.empty(weights.shape, dtype=u.dtype, device=u.device)
    weights, scale, values, mass = (x.contiguous() for x in (weights, scale, values, mass))
    g_mass = None if g_mass is None else g_mass.contiguous()
    functions, shape, space, threads = _prepare(u, weights, softmax)
    functions.choquet_weight_gradient(
        *_rows(u), weights.data_ptr(), softmax, scale.data_ptr(), values.data_ptr(), mass.data_ptr(), *_rows(g),
        None if g_mass is None else g_mass.data_ptr(), grad.data_ptr(), *shape, space.data_ptr(), threads,
    )  # fmt: skip
    return grad


def _rows(x: Tensor) -> tuple[int, ...]:
    """Where rows begin, and the steps of their three axes."""
    steps = x.stride()
    return (x.data_ptr(), *steps) if len(steps) == 3 else (x.data_ptr(), 0, *steps)


def _prepare(u: Tensor, weights: Tensor, softmax: bool) -> tuple[_Functions, tuple[int, ...], Tensor, int]:
    """The functions for this precision, sizes, workspace (hold it until the call is over) and threads."""
    functions, threads = functions_for(u.dtype), torch.get_num_threads()
    shape = (*u.shape, weights.shape[-3]) if u.ndim == 3 else (1, *u.shape, weights.shape[-3])
    return functions, shape, workspace(functions.choquet_workspace(*shape, softmax, threads), u), threads
