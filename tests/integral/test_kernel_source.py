"""The native kernels under the sanitizers of the compiler, and their way from source to wheel."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from importlib import util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "src" / "choqolate" / "integral"
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")
# names: what is compiled; the widest vectors are tried on every processor, as several registers
BUILDS = {
    "float32, as wide as this processor": ["-march=native"],
    "float64, baseline": ["-DDOUBLE"],
    "float32, 64 bytes": ["-DVECTOR_BYTES=64"],
}


def run(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)


@needs_compiler
@pytest.mark.parametrize("program", ["fuzz_kernel.c", "fuzz_minimum_kernel.c"])
@pytest.mark.parametrize("build", BUILDS)
def test_survives_random_shapes_and_strides_under_sanitizers(build, program, tmp_path):
    sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    probe = tmp_path / "probe.c"
    probe.write_text("int main(void) { return 0; }")
    if run(COMPILER, *sanitizers, probe, "-o", tmp_path / "probe").returncode:
        pytest.skip("the compiler has no sanitizers")
    # many threads, groups and sums also for small work
    limits = ["-DPARALLEL_FROM=0", "-DGROUP=3000", "-DSUM_ROWS=5", "-DSUFFIX=fuzz"]
    openmp = ["-fopenmp"] if not run(COMPILER, "-fopenmp", probe, "-o", tmp_path / "probe").returncode else []
    options = ["-O1", "-std=gnu11", "-Wno-psabi", *sanitizers, *limits, *openmp, *BUILDS[build]]
    source, fuzz = ROOT / "tests" / "integral" / program, tmp_path / "fuzz"
    compiled = run(COMPILER, *options, "-I", FOLDER, source, "-o", fuzz, "-lm")
    assert not compiled.returncode, compiled.stderr
    fuzzed = run(fuzz, 30, 11, env={**os.environ, "OMP_NUM_THREADS": "2"})
    assert (fuzzed.returncode, fuzzed.stdout, fuzzed.stderr) == (0, "30 trials\n", "")


@pytest.fixture
def hook():
    pytest.importorskip("hatchling")
    spec = util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_hook_says_why_it_builds_nothing(hook, tmp_path, monkeypatch):
    def reason():
        return hook.build(FOLDER, tmp_path)["reason"]

    monkeypatch.setenv("CHOQOLATE_NATIVE", "0")
    assert reason() == "CHOQOLATE_NATIVE=0 was set when the package was installed"
    monkeypatch.delenv("CHOQOLATE_NATIVE")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert reason() == "no C compiler was found when the package was installed"
    monkeypatch.setenv("CC", "my-cc -v")
    assert reason() == "my-cc -v was not found when the package was installed"
    broken = tmp_path / "broken-cc"
    broken.write_text("#!/bin/sh\necho sorry, not today >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CC", f"{broken} -v")
    assert reason() == f"{broken} -v failed when the package was installed (sorry, not today)"
    assert [path.name for path in tmp_path.iterdir()] == ["broken-cc"]


@needs_compiler
def test_wheel_holds_the_library_and_is_tagged_for_its_platform(hook, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, project)
    shutil.copytree(ROOT / "src", project / "src", ignore=shutil.ignore_patterns("native_*.so", "native_build.json"))
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "dist"]
    for folder in (project / "src" / "choqolate" / "integral", project):
        folder.chmod(0o555)  # a build leaves the source alone
    built = run(*command, cwd=project)
    for folder in (project, project / "src" / "choqolate" / "integral"):
        folder.chmod(0o755)
    assert not built.returncode, built.stderr
    (wheel,) = (tmp_path / "dist").iterdir()
    assert "-py3-none-" in wheel.name
    assert platform.machine() in wheel.name
    assert not [*project.rglob(hook.LIBRARY), *project.rglob(hook.RECORD)]
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "unpacked")
    installed = tmp_path / "unpacked" / "choqolate" / "integral"
    record = hook.json.loads((installed / "native_build.json").read_text())
    assert record["source"] == hook.digest(*(FOLDER / name for name in hook.SOURCES))
    library = ctypes.CDLL(str(installed / record["library"]))
    assert library.choquet_workspace_f64_baseline(1, 1, 1, 1, 1, 1) > 0
    assert all(hasattr(library, f"choquet_values_f32_{variant}") for variant in record["variants"])
    source, unpacked = (place / "choqolate" / "studio" / "page" for place in (ROOT / "src", tmp_path / "unpacked"))
    page = {file.relative_to(source) for file in source.rglob("*") if file.is_file()}
    assert page == {file.relative_to(unpacked) for file in unpacked.rglob("*") if file.is_file()}
    (project / "src" / "choqolate" / "integral" / "kernel.c").write_text("no C at all")
    assert not run(*command, cwd=project).returncode  # a failing compiler fails no installation
    (wheel,) = set((tmp_path / "dist").iterdir()) - {wheel}
    assert wheel.name.endswith("-py3-none-any.whl")
