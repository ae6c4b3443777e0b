"""The commands card and explain --against."""

from __future__ import annotations

import pytest

import choqolate as cq
from choqolate.analysis.evaluation import Evaluation
from choqolate.analysis.interval_text import judged_text, share_text
from choqolate.analysis.model_difference import compare_models
from choqolate.errors import ChoqolateError
from choqolate.report.model_card import model_card
from tests.cli.test_data_commands import choqolate
from tests.reports import bird_table, small_model


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A table, a model, and the same model without the background."""
    folder = tmp_path_factory.mktemp("card")
    table = bird_table(None)
    table.save(folder / "scores.parquet")
    model = small_model(table)
    model.save(folder / "model")
    model.remove_concepts(["sea", "forest"], mode="impute", note="background").save(folder / "edited")
    return folder


@pytest.fixture
def run(place, monkeypatch):
    monkeypatch.chdir(place)
    return lambda *arguments, width=80: choqolate(*arguments, width=width)


def test_the_card_is_printed_or_written(run, place):
    table, model = cq.ConceptScores.load(place / "scores.parquet"), cq.load(place / "edited")
    code, out, err = run("card", "edited", "--scores", "scores.parquet")
    assert (code, err) == (0, "")
    assert out == model_card(model, table, name="edited")
    code, out, err = run("card", "edited", "--scores", "scores.parquet", "-o", "card.md")
    assert (code, out, err) == (0, "The model card is in card.md.\n", "")
    assert (place / "card.md").read_text(encoding="utf-8") == model_card(model, table, name="edited")
    assert "Pass scores with labels" in run("card", "model")[1]


def test_a_fitted_model_carries_its_numbers(run, place):
    assert (
        run("fit", "scores.parquet", "-o", "fitted", "--paper", "--nodes", "4", "--epochs", "20", "--runs", "1")[0] == 0
    )
    model, table = cq.load(place / "fitted"), cq.ConceptScores.load(place / "scores.parquet")
    result = cq.evaluate(model, table)
    assert model.measured_ == result.as_dict()
    assert Evaluation.from_dict(model.measured_).as_dict() == result.as_dict()
    card = run("card", "fitted")[1]
    assert "Measured after training on test rows of the table." in card
    assert share_text(result.overall) in card
    model.remove_concepts("sea", mode="impute").save(place / "fitted-edited")
    assert "Measured after training, before the edits on test rows" in run("card", "fitted-edited")[1]
    with pytest.raises(ChoqolateError, match="Expected the numbers of an evaluation but they are incomplete"):
        Evaluation.from_dict({"rows": 3})


def test_two_models_are_shown_side_by_side(run, place):
    code, out, err = run("explain", "edited", "--against", "model", "--scores", "scores.parquet", "-o", "both.html")
    assert (code, err) == (0, "")
    table = cq.ConceptScores.load(place / "scores.parquet")
    rows = compare_models(cq.load(place / "model"), cq.load(place / "edited"), table).disagreements
    assert "model and edited, side by side" in out
    assert f"accuracy of model: {share_text(rows.right[0])}" in out
    assert f"from model to edited: {judged_text(rows.change)}" in " ".join(out.split())
    assert "sea -" in out
    assert "The page is in both.html." in out
    assert (place / "both.html").read_text().startswith("<!doctype html>")
    assert max(len(line) for line in out.splitlines()) <= 80
    code, out, err = run("explain", "edited", "--against", "model")
    assert (code, err) == (0, "")
    assert "accuracy" not in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("card", "model", "-o", "card.html"), "Expected a file that ends in .md but got card.html"),
        (("card", "nothing"), "found none"),
        (("explain", "edited", "--against", "nothing"), "found none"),
        (
            ("explain", "edited", "--against", "model", "--image", "x.jpg"),
            "Expected --against or --image, but got both",
        ),
        (("explain", "edited", "--against", "model", "-o", "both.pdf"), "ends in .html"),
    ],
)
def test_mistakes_end_with_one_line_and_exit_code_2(run, arguments, message):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
