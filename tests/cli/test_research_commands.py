"""The commands compare, debias and reproduce: mistakes that are found before the work, and the files of a folder."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from choqolate import ConceptScores, embed, load_backbone
from choqolate.datasets.birds import render_birds
from choqolate.experiments import COMPARISON, Options, reproduce
from choqolate.experiments.engine.sources import table_source
from tests.cli.test_data_commands import choqolate
from tests.experiments.test_comparison import Gridded
from tests.small_tables import bird_scores

N_IMAGES = 40


class Stepped(Gridded):
    """It takes a budget of steps, but not any."""

    title = "Stepped"
    tuning_grid = None

    def __init__(self, C=1.0, random_state=0, steps=None):
        super().__init__(C, random_state)
        self.steps = steps

    def fit(self, X, y):
        if self.steps != 7:
            raise ValueError(f"{self.steps} steps")
        return super().fit(X, y)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Scores of drawn birds for concepts that the encoder does not know, and embeddings of the images."""
    folder = tmp_path_factory.mktemp("research")
    rows = render_birds(folder / "birds", N_IMAGES, workers=1)
    embed(rows, load_backbone("mini", device="cpu"), folder / "vectors", workers=0)
    X, labels, groups = bird_scores(N_IMAGES)
    known = {"labels": labels, "groups": groups, "split": ["train", "train", "val", "test"] * (N_IMAGES // 4)}
    names = [f"thing {k}" for k in range(X.shape[1])]
    table = ConceptScores(X.to_numpy(), names, paths=rows.paths, spurious=names[-2:], **known)
    table.save(folder / "scores.parquet")
    table.with_columns(paths=[f"other/{k}.png" for k in range(N_IMAGES)]).save(folder / "others.parquet")
    lions = np.where(np.isin(table.split, ["val", "test"]) & (labels == "landbird"), "lion", labels)
    table.with_columns(labels=lions, classes=()).save(folder / "lions.parquet")
    (folder / "empty").mkdir()
    return folder


@pytest.fixture(autouse=True)
def here(place, tmp_path, monkeypatch):
    for one in place.iterdir():
        (tmp_path / one.name).symlink_to(one)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", [["compare"], ["debias"], ["reproduce", "accuracy", "--scores"]])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["scores.parquet", "--embeddings", "empty"], "expected a folder with embeddings.json at"),
        (["scores.parquet", "--embeddings", "others.parquet"], "expected a folder with embeddings.json at"),
        (["others.parquet", "--embeddings", "vectors"], f"expected embeddings of all {N_IMAGES} images of the table"),
        (["lions.parquet"], "lions.parquet has none of 'lion', only rows for validation or testing. Change the column"),
    ],
)
def test_data_that_do_not_fit_are_refused_before_the_work(here, command, arguments, message):
    done = choqolate(*command, *arguments, "-o", "out")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert message in done.err
    assert not (here / "out").exists()


@pytest.mark.parametrize("command", [["compare"], ["debias"], ["reproduce", "accuracy", "--scores"]])
def test_columns_that_are_not_there_are_refused_before_the_work(here, command):
    frame = pd.DataFrame({"kind": ["x", "y"] * 20, "sea": np.arange(40.0)})
    frame.to_csv(here / "named.csv", index=False)
    done = choqolate(*command, "named.csv", "-o", "out", "--label-column", "kid")
    assert done.code == 2
    assert "Expected the column of the label among kind, sea, got 'kid'. Did you mean 'kind'?" in done.err
    if command[0] != "reproduce":
        done = choqolate(*command, "-o", "out", "--label-column", "kind")
        assert done.code == 2
        assert "Expected SCORES with --label-column, but none are given." in done.err
    assert not (here / "out").exists()


def test_one_reason_of_several_methods_is_said_once(here):
    own = ["--also", f"{__name__}:Stepped", "--steps", 7]
    quick = ["--seeds", 1, "--nodes", 2, "--processes", 1]
    done = choqolate("debias", "scores.parquet", "--embeddings", "vectors", *own, *quick, "-o", "out")
    assert done.code == 2
    (said,) = [line for line in done.err.splitlines() if "failed" in line]
    assert said.startswith(
        "choqolate: Ortho-Proj; Ortho-Proj, retrained; Ortho-Cali; Ortho-Cali, retrained on scores failed: the "
        "backbone mini never saw "
    )
    assert said.count("never saw") == 1
    assert len(said) < 600


def test_steps_are_for_own_methods(here):
    done = choqolate("debias", "scores.parquet", "--steps", 7, "-o", "out")
    assert (done.code, "--steps has no effect without --also" in done.err) == (2, True)


def test_what_an_experiment_no_longer_makes_is_removed_and_nothing_else(here):
    source = table_source(here / "scores.parquet")

    def files(**options):
        made = Options(("choqolate",), parameters={"n_nodes": 2, "epochs": 1}, **options)
        (done,) = reproduce([COMPARISON], {"scores": source}, here / "out", seeds=1, options=made, processes=1)
        found = [path for name in ("tables", "figures") for path in (here / "out" / name).iterdir()]
        return set(done.files), set(found)

    made, found = files(controls=True)
    assert made == found
    mine = here / "out" / "tables" / "comparison-mine.md"
    mine.write_text("mine")
    fewer, found = files(controls=False)
    assert fewer < made
    assert found == fewer | {mine}
    assert files(controls=True)[1] == made | {mine}
    (here / "out" / "pages" / f"{COMPARISON.name}.json").write_text('{"files": ["tables/../../scores.parquet", 7]}')
    assert files(controls=False)[1] == made | {mine}  # nothing is known of what was made before
    assert (here / "scores.parquet").exists()
