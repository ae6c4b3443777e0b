"""Which kernel is in use, and that the package says so."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import choqolate as cq
from choqolate.integral.native import native_status, serves, without_native

PACKAGE = Path(cq.__file__).parent
needs_native = pytest.mark.skipif(not native_status().in_use, reason=f"no native kernel: {native_status().reason}")


def config_of_a_process(**environment: str) -> dict[str, str]:
    """What a new process with these variables reports, after it has computed an integral."""
    code = (
        "import json, torch, choqolate as cq\n"
        "cq.ChoquetLayer(30, 2)(torch.rand(5, 30)).sum().backward()\n"
        "print(json.dumps(cq.show_config('dict')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_show_config_prints_which_kernel_is_in_use_and_why(capsys):
    cq.show_config()
    printed = capsys.readouterr().out
    assert f"PyTorch    {torch.__version__}" in printed
    assert native_status().reason in printed
    with pytest.raises(cq.ChoqolateError, match="'stdout' or 'dict', got 'json'"):
        cq.show_config("json")


@needs_native
def test_kernel_shares_the_threads_of_pytorch():
    import sklearn.linear_model  # noqa: F401  # brings a copy of OpenMP of its own

    assert native_status().openmp
    assert native_status().shares_threads
    assert cq.show_config("dict")["OpenMP"] == "shared with PyTorch"


@needs_native
def test_kernel_serves_single_and_double_precision_on_the_cpu():
    assert serves(torch.rand(2))
    assert serves(torch.rand(2, dtype=torch.float64))
    assert not serves(torch.rand(2, dtype=torch.float16))
    assert not serves(torch.rand(2, device="meta"))
    with without_native():
        assert not serves(torch.rand(2))
    assert serves(torch.rand(2))


def test_environment_turns_the_kernel_off():
    config = config_of_a_process(CHOQOLATE_NATIVE="0")
    assert config["kernel"] == (
        "PyTorch operations; the native kernel is not in use: CHOQOLATE_NATIVE=0 is set in the environment"
    )


REASONS = """
import importlib, json, sys
from pathlib import Path
from choqolate.integral import native

here = Path(native.__file__).parent
record = here / "native_build.json"
library = here / json.loads(record.read_text())["library"]

def report():
    print(importlib.reload(native).native_status().reason)

report()
contents = library.read_bytes()
library.unlink()
library.write_bytes(contents[:5000])  # as after a full disk
report()
library.unlink()
report()
library.write_bytes(contents)
with (here / "kernel.c").open("a") as source:
    source.write("/* changed */")
report()
record.write_text('{"reason": "no C compiler was found when the package was installed"}')
report()
record.write_text('["half a rec')
report()
record.unlink()
report()
"""


@needs_native
def test_a_library_that_does_not_fit_is_not_used(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "choqolate", ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-c", REASONS],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        native_status().reason,
        "the library is missing or damaged; install the package again",
        "the library is missing or damaged; install the package again",
        "it was built from another version of its source; install the package again",
        "no C compiler was found when the package was installed",
        "it was not built when the package was installed",
        "it was not built when the package was installed",
    ]


@needs_native
def test_every_instruction_set_of_this_processor_computes_the_same():
    """PyTorch's own switch for its instruction set picks the kernel's, too."""
    code = (
        "import torch, choqolate as cq; torch.manual_seed(0); layer = cq.ChoquetLayer(40, 3, dtype=torch.float64)\n"
        "print(cq.show_config('dict')['kernel'].split(')')[0], layer(torch.rand(9, 40).double()).sum().item())"
    )

    def run(capability: str) -> tuple[str, float]:
        environment = {**os.environ, "ATEN_CPU_CAPABILITY": capability}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        kernel, value = done.stdout.rsplit(maxsplit=1)
        return kernel, float(value)

    kernel, value = run("default")
    assert kernel == "native (baseline"
    assert value == pytest.approx(run("")[1], rel=1e-12)
