"""Compile the native kernels of the Choquet integral, if there is a C compiler.

Hatch runs this when the package is built or installed. Each kernel is compiled once per precision and instruction set,
and everything is linked into one library beside the sources. ``native_build.json`` records what was built, or why
nothing was; ``choqolate.show_config()`` shows it. A missing or failing compiler is not an error: the package works
without.

The library does not depend on the version of Python, so a wheel that holds it is tagged ``py3-none-<platform>``.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path("src/choqolate/integral")
KERNELS, SOURCES = ("kernel.c", "minimum_kernel.c"), ("kernel.c", "kernel.h", "minimum_kernel.c")
LIBRARY, RECORD = "native_kernel.so", "native_build.json"
FLAGS = ["-O3", "-std=gnu11", "-fPIC", "-fno-math-errno", "-Wno-psabi"]
PRECISIONS = {"f32": [], "f64": ["-DDOUBLE"]}
VARIANTS = {"baseline": []}
if platform.machine().lower() in ("x86_64", "amd64"):
    VARIANTS |= {
        "avx2": ["-mavx2", "-mfma"],
        "avx512": ["-mavx512f", "-mavx512vl", "-mavx512bw", "-mavx512dq", "-mfma"],
    }


class CustomBuildHook(BuildHookInterface):
    """Build the library before the files of the package are collected."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        folder = Path(self.root) / FOLDER
        self.scratch = tempfile.TemporaryDirectory()
        built = Path(self.scratch.name)
        record = build(folder, built)
        (built / RECORD).write_text(json.dumps(record, indent=2) + "\n", "utf-8")
        if version == "editable":  # the package is used where it stands
            for file in (built / LIBRARY, built / RECORD):
                if file.exists():
                    replace(file, folder / file.name)
        else:
            inside = {str(built / RECORD): f"choqolate/integral/{RECORD}"}
            if "library" in record:
                inside[str(built / LIBRARY)] = f"choqolate/integral/{LIBRARY}"
            build_data["force_include"].update(inside)
        if "library" in record:
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform_tag()}"
            self.app.display_info(f"native kernel: compiled with {record['compiler']}")
        else:
            self.app.display_warning(
                f"native kernel: not built, {record['reason']}; PyTorch operations are used instead"
            )

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self.target_name == "wheel":
            self.scratch.cleanup()


def build(sources: Path, folder: Path) -> dict[str, Any]:
    """Compile the kernels of one folder into a library in another; return the build record."""
    if os.environ.get("CHOQOLATE_NATIVE", "1") == "0":
        return {"reason": "CHOQOLATE_NATIVE=0 was set when the package was installed"}
    if sys.platform not in ("linux", "darwin"):
        return {"reason": f"it is not available for {sys.platform}"}
    compiler = find_compiler()
    if compiler is None:
        wanted = os.environ.get("CC") or "no C compiler"
        return {"reason": f"{wanted} was {'not ' if os.environ.get('CC') else ''}found when the package was installed"}
    failure = ""
    for openmp in (["-fopenmp"], []):  # some compilers come without it
        try:
            library = link(compiler, compile_all(compiler, sources, folder, openmp), folder, openmp)
            return {
                "library": LIBRARY,
                "compiler": version_of(compiler),
                "openmp": bool(openmp),
                "variants": list(VARIANTS),
                "source": digest(*(sources / name for name in SOURCES)),
                "contents": digest(library),
            }
        except subprocess.CalledProcessError as error:
            failure = failure or (error.stderr.strip().splitlines() or ["no message"])[0]
        except (OSError, ValueError) as error:
            failure = failure or str(error)
    return {"reason": f"{shlex.join(compiler)} failed when the package was installed ({failure})"}


def replace(file: Path, target: Path) -> None:
    """Copy a file beside its target, then rename: whoever loads the target meanwhile has the old one or the new one."""
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.copy(file, beside)
    beside.replace(target)


def platform_tag() -> str:
    """The platform that a wheel with the library is for."""
    tag = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return tag.replace("universal2", platform.machine())  # the library holds one architecture


def digest(*paths: Path) -> str:
    """SHA-256 of files: the library is used only with the sources that it was built from, and only if it is whole."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def find_compiler() -> list[str] | None:
    """The command of the C compiler: ``CC`` if set, else the first that is there."""
    wanted = shlex.split(os.environ.get("CC", ""))
    for command in [wanted] if wanted else [["cc"], ["gcc"], ["clang"]]:
        if shutil.which(command[0]):
            return command
    return None


def compile_all(compiler: list[str], sources: Path, scratch: Path, openmp: list[str]) -> list[Path]:
    """Object files of all kernels, precisions and instruction sets."""

    def compile_one(kernel: str, precision: str, variant: str) -> Path:
        out = scratch / f"{Path(kernel).stem}_{precision}_{variant}.o"
        options = [*FLAGS, *openmp, *PRECISIONS[precision], *VARIANTS[variant], f"-DSUFFIX={precision}_{variant}"]
        run([*compiler, *options, "-c", str(sources / kernel), "-o", str(out)])
        return out

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(compile_one, *zip(*product(KERNELS, PRECISIONS, VARIANTS), strict=True)))


def link(compiler: list[str], objects: list[Path], scratch: Path, openmp: list[str]) -> Path:
    """One library of all object files."""
    out = scratch / LIBRARY
    run([*compiler, "-shared", *openmp, *map(str, objects), "-o", str(out)])
    return out


def version_of(compiler: list[str]) -> str:
    """First line of the compiler's ``--version``, or its command."""
    try:
        return run([*compiler, "--version"]).stdout.splitlines()[0]
    except (OSError, IndexError, ValueError, subprocess.CalledProcessError):
        return shlex.join(compiler)


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command and capture its output."""
    return subprocess.run(command, capture_output=True, text=True, check=True)
