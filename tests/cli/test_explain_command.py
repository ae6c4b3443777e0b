"""The command explain: a report, an image, a look at the model."""

from __future__ import annotations

import shlex

import numpy as np
import pytest
import typer

import choqolate as cq
from choqolate.cli.application import app
from choqolate.report.model_origin import commands
from tests.cli.test_cli import choqolate
from tests.cli.test_data_commands import choqolate as run_here
from tests.cli.test_model_commands import ODD, write_table
from tests.small_tables import bird_scores


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Drawn birds with scores of the small encoder, a model trained on them, and an edited one."""
    folder = tmp_path_factory.mktemp("explain")
    rows = cq.datasets.birds.render_birds(folder / "birds", 120, seed=2, workers=1)
    (folder / "words.txt").write_text("webbed feet\nclawed feet\nlong bill\nsea\nforest\n")
    embeddings = cq.embed(rows, cq.load_backbone("mini"), folder / "embeddings", workers=0)
    cq.score(embeddings, cq.Vocabulary.read(folder / "words.txt")).save(folder / "scores.parquet")
    model = cq.fit_scores(folder / "scores.parquet", n_nodes=3, epochs=10, temperature=0.05)
    model.save(folder / "model")
    model.remove_concepts("sea", mode="impute").save(folder / "edited")
    (folder / "folder.html").mkdir()
    return folder


@pytest.fixture
def run(place, monkeypatch):
    """Run the command in this process: exit code, standard output, standard error."""
    monkeypatch.chdir(place)
    return lambda *arguments, width=100: run_here("explain", *arguments, width=width)


def image_of(place):
    return next((place / "birds" / "test").rglob("*.jpg"))


def test_a_real_process_writes_the_report_and_says_where(place):
    done = choqolate("explain", "model", "--scores", "scores.parquet", "-o", "report.html", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "The report is in report.html." in done.stdout
    assert "accuracy" in done.stdout
    assert "choqolate remove model " in done.stdout
    page = (place / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "data:image/jpeg" in page
    assert not list(place.glob(".report*"))


def test_an_image_is_explained_from_its_pixels(run, place):
    photo = image_of(place)
    code, out, err = run("model", "--image", photo)
    assert (code, err) == (0, "")
    model = cq.load(place / "model")
    rows = cq.score_for_model(model, photo)
    why = model.explain(rows.frame, baseline="mean")
    first, second = (str(why.classes[r]) for r in why.ranking[0])
    assert f"Why {first} rather than {second}" in out
    lead = why.contrast()
    for share in lead.leading(0, 5):
        assert share.name in out
        assert f"{share.value:+.4f}" in out
    assert f"{lead.end[0]:+.4f} for this one" in out
    assert f"{model.predict_proba(rows.frame).max():.1%}" in out
    assert str(cq.find_counterfactual(model, rows.frame))[1:] in out.replace("\n", " ")


def test_several_images_and_a_page_of_them(run, place):
    photos = sorted((place / "birds" / "test").rglob("*.jpg"))[:2]
    code, out, err = run("edited", "--image", photos[0], "--image", photos[1], "-o", "page.html")
    assert (code, err) == (0, "")
    assert out.count("rather than") == 2
    assert out.count("Before the edits it was taken for") == 2
    page = (place / "page.html").read_text()
    assert page.count('<article class="image">') == 2


def test_without_a_page_it_shows_the_model(run):
    code, out, err = run("model", "--scores", "scores.parquet")
    assert (code, err) == (0, "")
    assert "leading concepts" in out
    assert "choqolate explain model --scores scores.parquet -o report.html" in out
    code, out, err = run("model")
    assert (code, err) == (0, "")
    assert "choqolate explain model --scores SCORES -o report.html" in out
    assert "choqolate explain model --image PHOTO" in out


@pytest.mark.parametrize("width", [60, 100])
def test_without_groups_it_asks_where_the_model_fails(run, place, width):
    X, labels, _ = bird_scores(600, agreement=0.95)
    Y, others, _ = bird_scores(600, agreement=0.5, seed=1)
    table = cq.ConceptScores(
        np.concatenate([X, Y]), list(X), labels=[*labels, *others], split=["train"] * 600 + ["test"] * 600
    )
    table.save(place / "nobody.parquet")
    model = cq.fit_scores(table, n_nodes=4, epochs=30, temperature=0.02)
    model.save(place / "biased")
    code, out, err = run("biased", "--scores", "nobody.parquet", width=width)
    assert (code, err) == (0, "")
    found = cq.find_suspects(model, table)
    flat = " ".join(out.split())
    for place_, one in enumerate(found.failing.suspects[:5], start=1):
        assert f"{place_}. {one.question}" in flat
    assert found.failing.verdict() in flat
    assert {"sea", "forest"} <= set(found.suspected)
    assert f"choqolate remove biased -o biased-edited --scores nobody.parquet {shlex.join(found.suspected)}" in flat
    few = table.take(np.r_[:600, 600:610])
    few.save(place / "few.parquet")
    assert "Too few images: at least" in run("biased", "--scores", "few.parquet")[1]


def test_commands_of_the_page_use_options_that_there_are(place):
    lines = [shlex.split(line) for line in commands(cq.load(place / "edited"))]
    assert [line[1] for line in lines] == ["score", "fit", "remove", "explain"]
    for _, name, *parts in lines:
        known = {option for parameter in typer.main.get_command(app).commands[name].params for option in parameter.opts}
        assert {part for part in parts if part.startswith("-")} <= known, name


@pytest.mark.parametrize("width", [50, 200])
def test_lines_stay_within_the_terminal(run, place, width):
    photo = image_of(place)
    _, out, _ = run("model", "--image", photo.relative_to(place), width=width)
    tables = [line for line in out.splitlines() if "█" in line or "▒" in line]
    assert tables
    assert all(len(line) <= width for line in tables)
    assert all("…" not in line for line in tables)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere",), "expected a model folder"),
        (("model", "--image", "words.txt"), "words.txt cannot be read: not an image"),
        (("model", "--image", "nowhere.jpg"), "nowhere.jpg cannot be read: no such file"),
        (("model", "--scores", "nowhere.parquet", "-o", "x.html"), "nowhere.parquet"),
        (("model", "--images", "birds"), "expected --scores with --images"),
        (("model", "--scores", "scores.parquet", "-o", "folder.html"), "folder.html is a folder"),
        (("model", "--scores", "scores.parquet", "--images", "edited", "-o", "x.html"), "found none"),
        (("model", "--scores", "scores.parquet", "-o", "x.pdf"), "ends in .html"),
        (("model", "--backbone", "mini"), "expected --image with --backbone"),
    ],
)
def test_mistakes_end_with_one_line_and_exit_code_2(run, place, arguments, message):
    code, _, err = run(*arguments)
    assert code == 2
    assert message in err
    assert len(err.splitlines()) == 1
    assert not (place / "x.html").exists()


def test_odd_names_are_shown_as_they_are(run, place):
    write_table(place / "odd.parquet", concepts=ODD)
    table = cq.ConceptScores.load(place / "odd.parquet")
    cq.fit_scores(table, n_nodes=3, epochs=5).save(place / "odd")
    code, out, err = run("odd", "--scores", "odd.parquet", "-o", "odd.html")
    assert code == 0, err
    code, out, _ = run("odd", "--scores", "odd.parquet")
    assert code == 0
    assert "[red]web[/] :smile:" in out


def test_a_model_without_words_says_why_an_image_cannot_be_explained(run, place):
    write_table(place / "plain.parquet")
    cq.fit_scores(place / "plain.parquet", n_nodes=3, epochs=2).save(place / "plain")
    code, out, _ = run("plain")
    assert "--image" not in out
    code, _, err = run("plain", "--image", image_of(place))
    assert code == 2
    assert "says how its scores were made" in err
