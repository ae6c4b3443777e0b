from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest

mpl.use("agg")

import matplotlib.pyplot as plt

import choqolate as cq
from tests.concepts.image_files import write_album
from tests.reports import bird_table
from tests.tiny import write_clip

README = Path(__file__).parents[1] / "README.md"


@pytest.fixture
def newcomer(tmp_path, monkeypatch):
    """A folder as the README takes for granted: images, words, and a small model in place of the large one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CHOQOLATE_CACHE", str(tmp_path / "cache"))
    for index, label in enumerate(("cat", "dog")):
        write_album(tmp_path / "photos" / label, 12, first=12 * index)
    (tmp_path / "words.txt").write_text("sea | ocean\nriver\nforest\nwebbed feet\n")
    repository = tmp_path / "hub" / "models--openai--clip-vit-large-patch14-336"
    write_clip(repository / "snapshots" / ("0" * 40))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path


@pytest.mark.filterwarnings("ignore::choqolate.errors.DoubtfulChoiceWarning")  # of 24 images
def test_the_python_code_of_the_readme_runs(newcomer, capsys):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) >= 5
    exec(compile("\n".join(blocks), README.name, "exec"), {})
    assert "correlation of 4 concepts over 24 rows" in capsys.readouterr().out
    assert len(cq.ConceptScores.load(newcomer / "scores.parquet")) == 24
    assert (newcomer / "model" / "config.json").exists()
    assert (newcomer / "report.html").exists()
    plt.close("all")


def test_the_python_code_of_the_guide_runs(newcomer):
    blocks = re.findall(r"```python\n(.*?)```", (README.parent / "docs" / "images.md").read_text(), re.DOTALL)
    assert len(blocks) == 3
    space: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "images.md", "exec"), space)
        assert space["table"].concepts == ("red", "green", "sky")
        assert space["table"].scores.shape == (24, 3)


@pytest.mark.filterwarnings("ignore::choqolate.errors.DoubtfulChoiceWarning")
def test_the_python_code_of_the_page_on_settings_runs(newcomer, capsys):
    table = bird_table(None, n_rows=300)
    table.save("scores.parquet")
    blocks = re.findall(r"```python\n(.*?)```", (README.parent / "docs" / "settings.md").read_text(), re.DOTALL)
    assert len(blocks) == 3
    exec(compile("\n".join(blocks), "settings.md", "exec"), {"X": table.frame, "y": table.labels})
    assert "NodeStability(5 runs, 8 nodes; match" in capsys.readouterr().out
    assert (newcomer / "curve.png").exists()
    plt.close("all")


def test_the_python_code_of_the_page_on_explanations_runs(newcomer):
    bird_table(None, n_rows=600).save("scores.parquet")
    blocks = re.findall(r"```python\n(.*?)```", (README.parent / "docs" / "explanations.md").read_text(), re.DOTALL)
    assert len(blocks) == 9
    space: dict[str, object] = {}
    exec(compile("\n".join(blocks), "explanations.md", "exec"), space)
    assert len(space["whole"].nodes) == 8
    plt.close("all")


def test_the_python_code_of_the_page_on_predictions_runs(newcomer, capsys):
    bird_table(None, n_rows=600).save("scores.parquet")
    blocks = re.findall(r"```python\n(.*?)```", (README.parent / "docs" / "predictions.md").read_text(), re.DOTALL)
    assert len(blocks) == 1
    space: dict[str, object] = {}
    exec(compile(blocks[0], "predictions.md", "exec"), space)
    assert len(space["frame"]) == len(space["found"]) == 600
    assert "waterbird" in capsys.readouterr().out


def test_the_python_code_of_the_page_on_vocabularies_runs(newcomer, capsys):
    bird_table(None, n_rows=300).save("scores.parquet")
    (block,) = re.findall(r"```python\n(.*?)```", (README.parent / "docs" / "vocabulary.md").read_text(), re.DOTALL)
    space: dict[str, Any] = {}
    exec(compile(block, "vocabulary.md", "exec"), space)
    assert "kept 4 of 6 words" in capsys.readouterr().out
    assert space["smaller"].concepts == cq.Vocabulary.read(newcomer / "concepts.txt").concepts


@pytest.fixture
def one_core():
    """Work is done in this process instead of one per core: starting those takes longer than the work."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    yield
    os.sched_setaffinity(0, cores)


@pytest.mark.usefixtures("one_core")
def test_the_python_code_of_the_page_on_research_runs(newcomer, capsys):
    bird_table(None, n_rows=600).save("scores.parquet")
    blocks = re.findall(r"```python\n(.*?)```", (README.parent / "docs" / "research.md").read_text(), re.DOTALL)
    assert len(blocks) == 5
    exec(compile("\n".join(blocks), "research.md", "exec"), {})
    out = capsys.readouterr().out
    assert "SLR-AVD" in out
    assert "Group-DRO" in out
    assert (newcomer / "comparison" / "summary.md").exists()
    plt.close("all")


@pytest.mark.filterwarnings("ignore")  # of PyTorch's compiler
def test_the_python_code_of_the_page_on_the_layer_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", (README.parent / "docs" / "layer.md").read_text(), re.DOTALL)
    assert len(blocks) == 3
    space: dict[str, Any] = {}
    exec(compile("\n".join(blocks), "layer.md", "exec"), space)
    assert space["per_row"].shape == (8, 5, 60)
    assert space["compiled"](space["torch"].rand(3, 20)).shape == (3, 5)
    assert "kernel" in capsys.readouterr().out


def test_the_python_code_of_the_page_on_deployment_runs(newcomer):
    bird_table(None, n_rows=150).save("scores.parquet")
    blocks = re.findall(r"```python\n(.*?)```", (README.parent / "docs" / "deployment.md").read_text(), re.DOTALL)
    assert len(blocks) == 2
    space: dict[str, object] = {}
    exec(compile("\n".join(blocks), "deployment.md", "exec"), space)
    assert (space["predicted"] == space["model"].predict(space["table"])).all()


def test_the_code_and_the_commands_of_the_birds_page_run(newcomer, monkeypatch, capsys):
    from choqolate.cli import main
    from choqolate.datasets.birds import render_birds

    page = (README.parent / "docs" / "birds.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(block, "birds.md", "exec"), {})
    assert "landbird" in capsys.readouterr().out
    render_birds("choqolate-demo/images", 200)
    commands = re.findall(r"^    choqolate ((?:score|fit|remove) .*)$", page, re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        monkeypatch.setattr("sys.argv", ["choqolate", *command.split()])
        main()
    assert cq.load(newcomer / "birds-edited").removal_.concepts == cq.datasets.find_dataset("birds").spurious


def test_the_birds_page_lists_what_the_encoder_knows():
    page = (README.parent / "docs" / "birds.md").read_text()
    listed = re.findall(r"[\w ]+", page.split("It\nknows\n")[1].split("\n\n## ")[0])
    assert set(cq.load_backbone("mini").known) <= {words.strip() for words in listed}


def test_the_commands_of_the_readme_run(newcomer, monkeypatch, capsys):
    from choqolate.cli import main

    shutil.rmtree(newcomer / "cache", ignore_errors=True)
    shutil.copy(next((newcomer / "photos" / "cat").iterdir()), newcomer / "photo.jpg")
    commands = re.findall(r"^    choqolate (.*?)(?:  +#.*)?$", README.read_text(), re.MULTILINE)
    assert [command.split()[0] for command in commands] == [
        "demo",
        "score",
        "fit",
        "explain",
        "studio",
        "explain",
        "eval",
        "remove",
        "explain",
        "predict",
        "card",
    ]
    shutil.copytree(newcomer / "photos", newcomer / "new-images")
    for command in commands[1:]:  # the demo has tests of its own
        monkeypatch.setattr("sys.argv", ["choqolate", *command.split()])
        main()
    assert "removed: sea, river" in capsys.readouterr().out
    assert cq.load(newcomer / "edited").removal_.concepts == ("sea", "river")
    assert (newcomer / "audit.html").exists()
    assert (newcomer / "difference.html").exists()
    assert len((newcomer / "predictions.csv").read_text().splitlines()) == 1 + 24
    assert (newcomer / "card.md").read_text(encoding="utf-8").startswith("# Model card: edited\n")


def test_the_python_code_of_the_page_on_the_studio_s_server_runs(newcomer):
    bird_table(None, n_rows=300).with_columns(paths=None).save("scores.parquet")
    (block,) = re.findall(r"```python\n(.*?)```", (README.parent / "docs" / "studio-server.md").read_text(), re.DOTALL)
    space: dict[str, Any] = {}
    exec(compile(block, "studio-server.md", "exec"), space)
    assert repr(space["frame"]) == "Studio (closed)"


def test_the_python_code_of_the_page_on_scale_runs(newcomer, capsys):
    bird_table(None, n_rows=600).save("scores.parquet")
    (block,) = re.findall(r"```python\n(.*?)```", (README.parent / "docs" / "scale.md").read_text(), re.DOTALL)
    space: dict[str, Any] = {}
    exec(compile(block, "scale.md", "exec"), space)
    assert repr(space["file"]) in capsys.readouterr().out
    assert space["model"].provenance_.data.fingerprint == cq.ConceptScores.load("scores.parquet").fingerprint


def test_the_python_code_of_the_page_on_controls_runs(newcomer, capsys):
    bird_table(None, n_rows=600).save("scores.parquet")
    (block,) = re.findall(r"```python\n(.*?)```", (README.parent / "docs" / "controls.md").read_text(), re.DOTALL)
    space: dict[str, Any] = {}
    exec(compile(block, "controls.md", "exec"), space)
    assert len(space["controls"].rows) == 4
    out = capsys.readouterr().out
    assert "A linear probe computes the 2 removed concepts" in out
    assert "'kind': 'directions'" in out
