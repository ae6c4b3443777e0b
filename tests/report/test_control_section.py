"""The controls of a model in its report."""

from __future__ import annotations

import pytest

import choqolate as cq
from choqolate.report.model_page import write_report
from tests.report.test_model_page import Page
from tests.reports import bird_table, nasty_table, small_model


@pytest.fixture(scope="module")
def table():
    return bird_table(None)


@pytest.fixture(scope="module")
def edited(table):
    return small_model(table, epochs=5).remove_concepts(table.spurious)


@pytest.fixture(scope="module")
def controls(edited, table):
    return cq.run_controls(edited, table, seeds=range(2))


def page_of(tmp_path, model, table, **options):
    with pytest.warns(cq.ChoqolateWarning):  # images that are not there
        html = write_report(model, table, tmp_path / "page.html", **options).read_text(encoding="utf-8")
    assert "<script" not in html
    return Page(html)


def test_the_section_has_the_table_the_sentences_and_what_is_left(edited, table, controls, tmp_path):
    page = page_of(tmp_path, edited, table, controls=controls)

    assert "controls" in page.ids
    rows = page.tables["Controls"][1:]
    assert [row[0] for row in rows[:-1]] == [row.name for row in controls.rows]
    assert [row[-1].replace("\xa0", " ") for row in rows[:-1]] == [
        row.concepts_per_class.text(1) for row in controls.rows
    ]
    assert rows[-1][0].startswith("always")
    for line in controls.lines():
        assert line in page.text
    left = page.tables["What is left of the removed concepts"][1:]
    assert {row[0] for row in left} == set(table.spurious)
    assert {row[0]: row[1] for row in left} == {name: f"{r2:.2f}" for name, r2 in controls.leakage.probe.items()}


def test_there_is_no_section_without_controls_and_no_leakage_without_removal(edited, table, tmp_path):
    assert "controls" not in page_of(tmp_path, edited, table).ids

    trained = edited.restore()
    page = page_of(tmp_path, trained, table, controls=cq.run_controls(trained, table, seeds=[0]))
    assert "controls" in page.ids
    assert "What is left of the removed concepts" not in page.tables


def test_odd_names_are_text(tmp_path):
    table = nasty_table()
    model = small_model(table, epochs=3).remove_concepts(table.spurious)

    page = page_of(tmp_path, model, table, controls=cq.run_controls(model, table, seeds=[0]))

    assert {row[0] for row in page.tables["What is left of the removed concepts"][1:]} == set(table.spurious)
