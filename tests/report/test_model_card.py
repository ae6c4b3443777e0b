"""The model card: every number in it is one that the library gives, and names break no Markdown."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

import choqolate as cq
from choqolate.analysis.comparison import compare_evaluations
from choqolate.analysis.failing_slices import find_failing_slices
from choqolate.analysis.interval_text import judged_text, share_text
from choqolate.data.provenance import BackboneRecord
from choqolate.errors import ChoqolateError, ChoqolateWarning
from choqolate.report.model_card import model_card, write_card
from tests.reports import NASTY, bird_table, nasty_table, small_model


@pytest.fixture(scope="module")
def table():
    return bird_table(None)


@pytest.fixture(scope="module")
def model(table):
    return small_model(table)


def section(card: str, title: str) -> str:
    return card.split(f"## {title}\n")[1].split("\n## ")[0]


def cells(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_numbers_have_their_intervals_and_groups(model, table):
    card, result = model_card(model, table, name="birds"), cq.evaluate(model, table)
    assert card.startswith("# Model card: birds\n")
    rows = {row[0]: row[1:] for row in cells(section(card, "Numbers"))}
    assert rows["accuracy"] == [str(result.rows), share_text(result.overall)]
    assert rows["always “waterbird”, the most frequent class"][1] == share_text(result.majority)
    for name, share in {**result.by_class, **result.by_group}.items():
        assert rows[name] == [str(share.rows), share_text(share)]
    assert f"Attribution Gini {result.attribution_gini:.3f}" in card


def test_it_says_what_the_model_was_trained_on(model, table):
    training = section(model_card(model, table), "Training")
    assert "- Training rows: 120\n" in training
    assert "- Encoder: mini\n" in training
    assert f"- Fingerprint of the scores: {table.fingerprint}\n" in training
    assert "n\\_nodes 4" in training or "n_nodes 4" in training


def test_nodes_are_formulas(model, table):
    lines = section(model_card(model), "Nodes as formulas").splitlines()
    for node, formula in enumerate(model.formulas(6)):
        line = next(line for line in lines if line.startswith(f"- node {node} = "))
        assert line.startswith(f"- {formula} → ")


def test_questions_are_those_of_the_failing_slices(model, table):
    said, found = section(model_card(model, table), "Where it fails"), find_failing_slices(model, table)
    assert found.verdict() in said
    for one in found.suspects[:5]:
        assert one.question in said


def test_edits_have_author_time_reason_and_effect(model, table):
    note = cq.Note("Ada | B", time="2025-03-01T12:00:00+00:00", reason="the sea is *background*", reviewed=True)
    once = model.remove_concepts("sea", mode="impute", note=note)
    twice = once.reweight_concepts({"crest": 0.5})
    head, _, *rows = cells(section(model_card(twice, table), "Edits"))
    assert head == ["edit", "who", "when", "why", "reviewed", "effect on accuracy"]
    states = [cq.evaluate(one, table) for one in (model, once, twice)]
    effects = [judged_text(compare_evaluations(*pair).overall) for pair in pairwise(states)]
    why = r"the sea is \*background\*"
    assert rows[0] == ["Removed 'sea' (impute)", r"Ada \| B", "2025-03-01 12:00", why, "yes", effects[0]]
    assert rows[1] == ["Reweighted 'crest' by 0.5", "", "", "", "", effects[1]]
    unmeasured = cells(section(model_card(twice), "Edits"))[2:]
    assert [row[-1] for row in unmeasured] == ["not measured", "not measured"]


def test_a_model_as_trained_says_so(model):
    card = model_card(model)
    assert section(card, "Edits").strip() == "None. The model is as trained."
    assert "Pass scores with labels" in section(card, "Numbers")
    assert "## Where it fails" not in card


def test_scores_without_labels_are_no_numbers(model, table):
    with pytest.warns(ChoqolateWarning, match="have no labels"):
        assert model_card(model, table.with_columns(labels=None)) == model_card(model)


def test_odd_names_are_text():
    table = nasty_table()
    card = model_card(small_model(table), table, name="<script>|x")
    assert card.startswith("# Model card: \\<script>\\|x\n")
    text, code = card.split("## How to train it again")
    assert not re.search(r"(?<!\\)<(script|b|img|a|i|u)\b", text)
    assert code.count("```") == 2 * 3  # the commands, words.txt and spurious.txt
    groups = cells(section(card, "Numbers"))
    assert {len(row) for row in groups} == {3}
    assert NASTY[0].replace("<", "\\<") in card


def test_backticks_do_not_end_the_block_of_commands(table):
    card = model_card(small_model(table).with_provenance(backbone=BackboneRecord(name="my ``` encoder")))
    assert "\n````\nchoqolate score IMAGES/" in card
    assert all(f"\n{name}\n" in card.split("`words.txt`:")[1] for name in table.concepts)


def test_one_layer_and_many_classes(table):
    card = model_card(small_model(table, n_nodes=None), table)
    assert "## Classes as formulas" in card
    assert "through" not in card.split("\n")[2]


def test_a_card_is_a_markdown_file(model, table, tmp_path):
    path = write_card(model, table, tmp_path / "card.md", name="birds")
    assert path.read_text(encoding="utf-8") == model_card(model, table, name="birds")
    with pytest.raises(ChoqolateError, match=r"Expected a file that ends in \.md but got .*card\.html"):
        write_card(model, table, tmp_path / "card.html")
