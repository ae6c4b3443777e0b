"""The report of a model: everything in it, nothing injected, whatever the data lack. test_pages.py opens it."""

from __future__ import annotations

import copy
import re
import shlex
import warnings
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image
from scipy.stats import binomtest

import choqolate as cq
from choqolate.analysis.comparison import compare_evaluations
from choqolate.analysis.evaluation import evaluate
from choqolate.analysis.interval_text import change_text, judged_text, percent_range, share_text
from choqolate.cli import main
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError
from choqolate.estimators.table_training import fit_scores
from choqolate.explain.node_stability import NodeStability
from choqolate.metrics import Proportion
from choqolate.report.image_cards import choose, image_card, set_scale, steps
from choqolate.report.model_origin import commands, words
from choqolate.report.model_page import write_report
from tests.datasets.layouts import touch, write
from tests.reports import NASTY, bird_table, nasty_table, small_model
from tests.small_tables import bird_scores


class Page(HTMLParser):
    """Text of a page, its tags, ids and word clouds; every tag has to be closed in order."""

    VOID = frozenset({"br", "img", "link", "meta"})

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags, self.ids, self.texts, self.images, self.open = [], set(), [], [], []
        self.words: list[list[tuple[str, float]]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.tags.append(tag)
        self.ids.add(found.get("id"))
        if tag == "img":
            self.images.append(found["src"])
        if found.get("role") == "region":
            self.table = self.tables.setdefault(found["aria-label"], [])
        if tag == "tr":
            self.table.append([])
        if tag in ("td", "th"):
            self.table[-1].append("")
        if found.get("class") == "cloud":
            self.words.append([])
        if tag == "text":
            self.words[-1].append(("", float(found["font-size"])))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.texts.append(data)
        if {"td", "th"} & set(self.open):
            self.table[-1][-1] = " ".join(f"{self.table[-1][-1]}{data}".split())
        if self.open and self.open[-1] == "text":
            self.words[-1][-1] = (data, self.words[-1][-1][1])

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def page_of(tmp_path, model, table, **options) -> Page:
    path = write_report(model, table, tmp_path / "report.html", **options)
    return Page(path.read_text())


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return bird_table(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module")
def model(table):
    return small_model(table)


def test_the_page_holds_every_section(model, table, tmp_path):
    page = page_of(tmp_path, model, table)
    wanted = {"metrics", "nodes", "flows", "images", "groups", "suspects", "redundancy", "provenance"}
    assert wanted <= page.ids
    result = evaluate(model, table)
    assert f"{100 * result.accuracy:.1f}%" in page.text
    assert result.worst_measurable_group[0] in page.text
    for name in (*table.concepts, *model.classes_):
        assert name in page.text
    assert not {"script", "iframe", "object", "form"} & set(page.tags)


def percent(value):
    return f"{100 * value:.1f}%"


def measured(share):
    """A share with its interval in a cell."""
    if share.rows < 10:
        return f"too few to tell({share.rows} images)"
    found = binomtest(share.hits, share.rows).proportion_ci(method="wilson")
    return f"{percent(share.value)}({100 * found.low:.1f} to {100 * found.high:.1f})"


def test_numbers_of_the_page_are_those_of_the_model(model, table, tmp_path):
    page = page_of(tmp_path, model, table)
    numbers = {row[0]: row[1:] for row in page.tables["Numbers"]}
    results = [evaluate(model, table, part) for part in ("test", "train")]
    assert numbers[""] == ["held out", "training"]
    assert numbers["accuracy"] == [measured(one.overall) for one in results]
    assert numbers["accuracy of the worst group"] == [measured(one.worst_measurable_group[1]) for one in results]
    first = results[0].majority_class
    assert numbers[f"always “{first}”, the most frequent class"] == [measured(one.majority) for one in results]
    means = [np.mean(list(one.class_accuracy.values())) for one in results]
    assert [cell.split("(")[0] for cell in numbers["mean accuracy of the classes"]] == [percent(mean) for mean in means]
    classes = page.tables["Accuracy of each class"][1:]
    assert classes == [[name, str(share.rows), measured(share)] for name, share in results[0].by_class.items()]
    assert numbers["Attribution Gini"] == [f"{one.attribution_gini:.3f}" for one in results]
    flows = page.tables["Share of every node in every class"]
    assert flows[0][1:] == model.classes_.tolist()
    for row, values, name in zip(flows[1:], model.class_attributions_.T, model.node_names_, strict=True):
        assert row[0].endswith(name)
        assert row[1:] == [f"{value:.3f}" for value in values]
    whole = cq.explain_model(model)
    strongest = [pair for pairs in whole.interactions for pair in pairs if pair.index >= 0.001]
    for pair in strongest[:1]:
        assert f"{pair.first} and {pair.second} +{pair.index:.3f}" in page.text
    for pair in [pair for pairs in whole.interactions for pair in pairs if pair.index <= -0.001][:1]:
        assert f"{pair.first} or {pair.second} −{-pair.index:.3f}" in page.text


def test_the_page_is_self_contained_and_small(model, table, tmp_path):
    html = write_report(model, table, tmp_path / "report.html").read_text()
    assert len(html.encode()) < 5_000_000
    assert not re.findall(r"""(?:src|href)=["'](?!data:|#)""", html)
    assert "url(" not in html


def test_words_of_a_cloud_are_the_leading_concepts_by_size(model, table, tmp_path):
    page = page_of(tmp_path, model, table)
    assert len(page.words) == len(model.node_attributions_)
    for shown, values in zip(page.words, model.node_attributions_, strict=True):
        order = np.argsort(-values, kind="stable")
        assert [name for name, _ in shown] == [model.concepts_[j] for j in order][: len(shown)]
        sizes = [size for _, size in shown]
        assert sizes == sorted(sizes, reverse=True)


def test_images_are_the_best_and_the_worst_of_the_held_out_ones(model, table, tmp_path):
    page = page_of(tmp_path, model, table)
    test = table.part("test")
    X = test.frame
    scores = model.class_scores(X)
    truth = np.array([model.classes_.tolist().index(label) for label in test.labels])
    rows = np.arange(len(test))
    margins = scores[rows, truth] - np.where(np.arange(2) == truth[:, None], -np.inf, scores).max(1)
    assert test.paths[margins.argmin()] in page.text
    assert test.paths[margins.argmax()] in page.text
    assert sum(source.startswith("data:image/jpeg") for source in page.images) == 4 + min(8, int((margins <= 0).sum()))


def test_images_that_have_moved_are_found_or_said_to_be_missing(model, table, tmp_path):
    moved = tmp_path / "elsewhere"
    root = table.provenance.root
    lost = ConceptScores(**{**vars_of(table), "provenance": {"root": str(moved)}})
    with pytest.warns(cq.ChoqolateWarning, match=r"(\d+) of \1 images to show were not found"):
        page = page_of(tmp_path, model, lost)
    assert not any(source.startswith("data:image/jpeg") for source in page.images)
    assert "image not available" in page.text
    page = page_of(tmp_path, model, lost, root=root)
    assert any(source.startswith("data:image/jpeg") for source in page.images)
    with pytest.raises(ChoqolateError, match="found none"):
        write_report(model, lost, tmp_path / "report.html", root=moved)


def test_what_needs_labels_is_left_out_without_them(model, table, tmp_path):
    bare = ConceptScores(**{**vars_of(table), "labels": None, "groups": None, "classes": ()})
    page = page_of(tmp_path, model, bare)
    assert {"nodes", "flows", "images", "redundancy"} <= page.ids
    assert not {"metrics", "groups", "suspects"} & page.ids
    assert "no labels" in page.text


def test_a_model_alone_is_explained_without_scores(model, tmp_path):
    page = page_of(tmp_path, model, None)
    assert {"nodes", "flows", "provenance"} <= page.ids
    assert not {"metrics", "images", "groups", "suspects", "redundancy"} & page.ids


def test_an_edited_model_shows_before_and_after(model, table, tmp_path):
    edited = model.remove_concepts(["sea", "forest"], mode="impute")
    page = page_of(tmp_path, edited, table)
    assert "removal" in page.ids
    assert "before the edits it was taken for" in page.text
    before, after = evaluate(model, table), evaluate(edited, table)
    for result in (before, after):
        for share in result.by_group.values():
            assert (measured(share) if share.too_few else percent(share.value)).replace("(", " (") in page.text
    for line in compare_evaluations(before, after).lines():
        assert line[1:] in page.text
    assert "choqolate remove model -o edited --mode impute sea forest" in page.text
    flipped = (model.predict(table.part("test").frame) != edited.predict(table.part("test").frame)).sum()
    assert flipped == sum(int(number) for number in re.findall(r"(\d+) went from", page.text)) > 0
    assert "Changed by the edits" in page.text
    numbers = {row[0]: row[1:] for row in page.tables["Numbers"]}
    assert numbers["accuracy"][:2] == [measured(before.overall), measured(after.overall)]
    lost = page.tables["What each node lost and reads instead"][1:]
    assert [row[1:3] for row in lost] == [
        [percent(max(gone, 0)), percent(kept)]
        for gone, kept in zip(edited.removal_.mass_lost, edited.removal_.mass_retained, strict=True)
    ]
    change = cq.explain_change(model, edited)
    for node, row in enumerate(lost):
        assert [name for name, _ in change.losses(node, 3) if name not in row[3]] == []


def test_one_layer_bipolar_and_factored_models_have_a_page(table, tmp_path):
    for options in ({"n_nodes": None}, {"bipolar": True}, {"interactions": "factored"}, {"interactions": "none"}):
        trained = small_model(table, **options)
        page = page_of(tmp_path, trained, table)
        assert len(page.words) == len(trained.node_attributions_)
        assert ("flows" in page.ids) == (trained.n_nodes is not None)


def test_a_bipolar_model_has_one_word_and_one_line_per_concept(table, tmp_path):
    trained = small_model(table, bipolar=True)
    html = write_report(trained, table, tmp_path / "report.html").read_text()
    page = Page(html)
    assert "Presence and absence of a concept are added" in page.text
    for cloud in page.words:
        assert sorted(name.removeprefix("not ") for name, _ in cloud) == sorted(table.concepts)
    assert any(name.startswith("not ") for cloud in page.words for name, _ in cloud)
    falls = [
        re.findall(r'<li><span class="who"><span class="name[^"]*">(.*?)</span>', fall)
        for fall in re.findall(r"by concepts</h4>(.*?)</ol>", html, re.DOTALL)
    ]
    assert falls
    for names in falls:
        assert len(names) == len(set(names))
        assert set(names) <= set(table.concepts)
    halves = trained.node_attributions_.reshape(4, 2, 6).sum(1)
    correlation = np.corrcoef(table.part("train").scores.T)
    for values, (gini, coherence) in zip(
        halves,
        re.findall(r"Gini <span class=\"value\">(.*?)</span>, coherence <span class=\"value\">(.*?)</span>", html),
        strict=True,
    ):
        pairs = np.outer(values, values) * ~np.eye(6, dtype=bool)
        differences = np.abs(values[:, None] - values).sum() / (2 * 6 * values.sum())
        assert float(gini) == pytest.approx(differences, abs=6e-4)
        assert float(coherence.replace("−", "-")) == pytest.approx((pairs * correlation).sum() / pairs.sum(), abs=6e-4)


def test_clouds_say_whether_their_node_recurs(table, model, tmp_path):
    assert "recurs" not in page_of(tmp_path, model, table).text
    marked = copy.copy(model)
    marked.stability_ = NodeStability(np.array([[1.0, 0.8, 0.6, 0.0]]), np.full((1, 4), 0.9), 6)
    html = write_report(marked, table, tmp_path / "report.html").read_text()
    said = [Page(one).text for one in re.findall(r'<p class="recurs.*?</p>', html)]
    assert said == [
        "●●●●● stable : recurs in 5 of 5 other runs",
        "●●●●○ stable : recurs in 4 of 5 other runs",
        "●●●○○ unstable : recurs in 3 of 5 other runs",
        "○○○○○ unstable : recurs in 0 of 5 other runs",
    ]
    assert html.count('class="recurs unstable"') == 2
    assert html.count("stable if it recurs in at least 80% of them") == 1
    assert "as trained, before the edits" not in html
    edited = page_of(tmp_path, marked.remove_concepts("sea"), table)
    assert "The marks are about the nodes as trained, before the edits." in edited.text
    assert "unstable : recurs in 3 of 5 other runs" in edited.text


def test_many_runs_are_not_counted_in_dots_and_one_layer_has_no_marks(table, tmp_path):
    marked = small_model(table, epochs=2)
    marked.stability_ = NodeStability(np.full((1, 4), 0.5), np.full((1, 4), 0.9), 21)
    page = page_of(tmp_path, marked, table)
    assert "unstable : recurs in 10 of 20 other runs" in page.text
    assert "●" not in page.text
    direct = small_model(table, epochs=2, n_nodes=None)
    direct.stability_ = NodeStability(np.ones((1, 2)), np.ones((1, 2)), 5)
    assert "recurs" not in page_of(tmp_path, direct, table).text


def test_labels_that_are_numbers_are_matched_with_the_text_of_a_table(table, tmp_path):
    X, y = table.part("train").frame, (table.part("train").labels == "waterbird").astype(int)
    numbered = cq.ChoqolateClassifier(n_nodes=3, epochs=5).fit(X, y)
    labels = (table.labels == "waterbird").astype(int).astype(str)
    page = page_of(tmp_path, numbered, ConceptScores(**{**vars_of(table), "labels": labels, "classes": ()}))
    assert "suspects" in page.ids


def test_odd_names_are_text_and_nothing_else(tmp_path):
    table = nasty_table()
    model = small_model(table)
    with pytest.warns(cq.ChoqolateWarning, match="not found"):
        html = write_report(model, table, tmp_path / "report.html", title="<script>title</script>").read_text()
    page = Page(html)
    assert "script" not in page.tags
    assert "<script>title</script>" in page.text
    for name in NASTY:
        assert " ".join(name.split()) in page.text
    assert html.count("<b>") == 0


def test_suspects_come_with_the_command_that_removes_them(model, table, tmp_path):
    unmarked = ConceptScores(**{**vars_of(bird_table(None, n_rows=1500, agreement=0.8)), "spurious": ()})
    trained = small_model(unmarked)
    with pytest.warns(cq.ChoqolateWarning, match="not found"):
        page = page_of(tmp_path, trained, unmarked, names=("my model", "my scores.csv"))
    found = cq.find_suspects(trained, unmarked)
    assert found.to_remove
    cells = next(row for row in page.tables["Suspects"] if row[0] == ", ".join(found.helpful[0].concepts))
    p_value = found.helpful[0].paired.p_value
    assert cells[-1] == ("< 0.001" if p_value < 0.001 else f"{p_value:.{3 if p_value < 0.1 else 2}f}")
    assert f"the best of {found.tried} removals are shown" in page.text
    words = [f"'{name}'" if " " in name else name for name in found.to_remove]
    command = f"choqolate remove 'my model' -o 'my model-edited' --scores 'my scores.csv' {' '.join(words)}"
    assert command in page.text
    assert "suspect" in page.text
    assert f"Without {len(found.to_remove)} suspected concept" in page.text
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cq.ChoqolateWarning)
        after = evaluate(trained.remove_concepts(found.to_remove), unmarked)
    before = evaluate(trained, unmarked)
    compared = compare_evaluations(before, after)
    assert page.tables["Several removed at once"][1][1:] == [
        str(len(found.to_remove)),
        f"{percent(before.accuracy)} → {percent(after.accuracy)}{change_text(compared.overall)}",
        f"{percent(before.worst_group[1])} → {percent(after.worst_group[1])}{change_text(compared.worst_group[1])}",
    ]
    assert f"worst group, “{compared.worst_group[0]}”: {judged_text(compared.worst_group[1])}." in page.text


def test_a_model_far_better_on_its_training_images_is_noted(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.array(["duck", "owl"])[rng.integers(0, 2, 120)]
    split = np.array(["train", "test"])[np.arange(120) % 2]
    noise = ConceptScores(rng.random((120, 60)), [f"concept {j}" for j in range(60)], labels=labels, split=split)
    page = page_of(tmp_path, small_model(noise, temperature=0.002, epochs=100), noise)
    assert "Either the model memorized its training images" in page.text


def test_a_card_shows_the_lead_before_and_after_the_removal(model, table):
    edited = model.remove_concepts("sea", mode="impute")
    X = table.part("test").frame.iloc[:1]
    change = cq.explain_local_change(X, model, edited, baseline="mean")
    card = image_card(cq.explain_image(edited, X), name="one", file=None)
    pair = [str(change.after.classes[r]) for r in change.after.ranking[0]]
    for lead, one in ((card["lead"], change.after), (card["before"]["lead"], change.before)):
        assert lead["end"] == pytest.approx(one.contrast(*pair).end[0])
        assert lead["start"] == pytest.approx(one.contrast(*pair).start[0])
    assert card["lead"]["end"] != pytest.approx(card["before"]["lead"]["end"])


def test_ties_are_right_if_the_true_class_is_predicted(table, tmp_path):
    with pytest.warns(cq.ChoqolateWarning, match="node"):
        blind = small_model(table, n_nodes=1)  # all classes tie
    bare = ConceptScores(**{**vars_of(table), "labels": None, "groups": None, "classes": ()})
    page = page_of(tmp_path, blind, bare)
    assert "Wrong by most" not in page.text


@pytest.mark.parametrize(
    "odd",
    [
        {"vocabulary": {"templates": 5, "synonyms": {"sea": None}}},
        {"vocabulary": {"templates": ["{}"], "synonyms": {"sea": 5}, "spurious": [["x"]]}},
        {"data": {"left_out": 5, "rows": "many"}, "backbone": {"name": 7}, "versions": 3, "source": ["x"]},
        {"data": [], "backbone": None, "vocabulary": "words"},
    ],
)
def test_a_provenance_that_anyone_may_have_written_breaks_nothing(model, tmp_path, odd):
    other = copy.copy(model)
    other.provenance_ = odd
    assert "provenance" in page_of(tmp_path, other, None).ids


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_nodes": None, "bipolar": True},
        {"leave_out": ["sea"], "interactions": "factored", "rank": 2},
        {"leave_out": ["sea"], "class_weight": {"landbird": 1.0, "waterbird": 2.0}},
        {"random_state": 3, "class_weight": "balanced", "free_weights": True},
    ],
)
def test_commands_make_the_same_model_again(table, tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    table.save("scores.parquet")
    trained = small_model(cq.ConceptScores.load("scores.parquet"), **options)
    edited = trained.remove_concepts(
        "crest", mode="impute", recalibrate=table.part("train").select(trained.concepts_).frame
    )
    *lines, explain = [line for line in commands(edited) if " score " not in line]
    for line in lines:
        parts = shlex.split(line)
        if parts[0] == "python":
            exec(parts[2], {})
        else:
            monkeypatch.setattr("sys.argv", parts)
            main()
    again = cq.load("edited")
    np.testing.assert_array_equal(again.node_attributions_, edited.node_attributions_)
    np.testing.assert_allclose(again.class_shift_, edited.class_shift_, atol=1e-12)
    assert explain == "choqolate explain edited --scores scores.parquet -o report.html"
    listed = {line for file in words(trained).values() for line in file}
    assert listed == set(table.concepts)


@pytest.mark.parametrize(
    ("content", "given", "option"),
    [
        ("image,place\n1.jpg,kitchen\n", "places", "places=coco.places.csv"),
        ("image,class\n1.jpg,workplace\n", "labels", "labels=coco.csv"),
    ],
)
def test_commands_name_the_labels_that_coco_lacks(table, tmp_path, content, given, option):
    root = touch(tmp_path / "coco", ["val2017/1.jpg"])
    labels_from = cq.datasets.read_dataset("coco", root, **{given: write(tmp_path / "labels.csv", content)}).labels_from
    known = {**table.provenance.as_dict(), "source": "coco", "labels_from": labels_from}
    scoring = commands(small_model(ConceptScores(**{**vars_of(table), "provenance": known})))[0]
    assert f" --dataset coco --option {option} " in scoring


def test_what_cannot_be_made_again_is_said(table):
    unseeded = small_model(table, random_state=None)
    assert any("the seed is not known" in line for line in commands(unseeded))
    plain = cq.ChoqolateClassifier(n_nodes=3, epochs=2).fit(table.frame, table.labels)
    assert "# in Python, on the X and y of the training" in commands(plain)[0]


def test_a_recalibration_stands_where_it_was_made(table):
    several = small_model(table).remove_concepts("sea", recalibrate=table.part("train").frame).remove_concepts("crest")
    assert commands(several)[-3:-1] == [
        "choqolate remove model -o edited-1 --recalibrate scores.parquet sea",
        "choqolate remove edited-1 -o edited-2 crest",
    ]


def test_commands_run_nothing_but_what_they_say(table):
    label = "$(touch pwned) `touch pwned` \" '"
    labels = np.where(table.labels == "landbird", label, table.labels)
    odd = ConceptScores(**{**vars_of(table), "labels": labels, "classes": ()})
    line = next(
        line for line in commands(small_model(odd, class_weight={label: 2.0, "waterbird": 1.0})) if "fit_scores" in line
    )
    code = shlex.split(line)
    assert code[:2] == ["python", "-c"]
    assert len(code) == 3
    assert repr(label) in code[2]


def test_no_path_of_a_machine_is_on_the_page(model, table, tmp_path):
    other = copy.copy(model)
    other.provenance_ = {
        **model.provenance_.as_dict(),
        "backbone": {"name": "/home/alice/secret/clip", "identity": "abc"},
    }
    far = ConceptScores(
        **{**vars_of(table), "paths": [f"/home/alice/{path}" for path in table.paths], "provenance": {}}
    )
    with pytest.warns(cq.ChoqolateWarning, match="not found"):
        html = write_report(other, far, tmp_path / "report.html").read_text()
    assert "alice" not in html
    assert "clip" in html


def test_rows_that_were_trained_on_are_not_called_held_out(table, tmp_path):
    train = table.part("train")
    whole = ConceptScores(**{**vars_of(train), "split": None})
    with pytest.warns(cq.ChoqolateWarning, match="some of these rows were used for training") as said:
        page = page_of(tmp_path, small_model(table).remove_concepts("crest", mode="impute"), whole)
    assert sum("used for training" in str(warning.message) for warning in said) == 1
    assert [row for row in page.tables["Numbers"] if row[0] == ""] == [["", "all rows, before", "all rows, after"]]
    assert "Some of these rows were used for training" in page.text


def without_groups(table):
    """Biased rows to train on, many others without a bias to test on, and no groups."""
    rng = np.random.default_rng(1)
    X, labels, _ = bird_scores(600, agreement=0.5, seed=3)
    train = table.take(table.split == "train")
    return ConceptScores(
        np.concatenate([train.scores, X.to_numpy()]),
        table.concepts,
        labels=[*train.labels, *(np.array(sorted(set(table.labels)))[(labels == "waterbird").astype(int)])],
        split=["train"] * len(train) + ["test"] * 600,
        paths=[*train.paths, *rng.permutation(table.paths), *table.paths],
        spurious=table.spurious,
        provenance=table.provenance,
    )


def test_without_groups_the_page_asks_questions_and_shows_the_images(table, tmp_path):
    rows = without_groups(table)
    model = small_model(rows)
    page, found = page_of(tmp_path, model, rows), cq.find_suspects(model, rows).failing
    assert "With a group column in the scores" in page.text
    assert "groups" not in page.ids
    assert {"sea", "forest"} <= set(found.concepts)
    for one in found.suspects[:8]:
        assert one.question in page.text.replace("\N{NO-BREAK SPACE}", " ")
        assert all(f" {name}" in page.text for name in one.concepts)
    assert found.suspects[0].question.split(":")[0] in page.text.split("Sections")[0]  # the summary says it too
    first = found.suspects[0].slices[0]
    listed = page.tables["Images that have, or lack, the concept"][1]
    said = [
        f"{first.label} {'with' if first.present else 'without'} {first.concept} {first.failing.rows}",
        f"{100 * first.failing.value:.1f}% ({percent_range(first.failing.interval)})",
        f"{100 * first.others.value:.1f}% ({percent_range(first.others.interval)})",
        f"{100 * first.gap:.1f} ({percent_range(first.interval)})",
    ]
    assert ["".join(cell.split()) for cell in listed[:4]] == ["".join(cell.split()) for cell in said]
    taken = [model.predict(found.rows)[row] for row in first.mistakes]
    assert f"predicted: {taken[0]}" in page.text
    n_shown = sum(min(6, len(one.slices[0].mistakes)) for one in found.suspects[:8])
    assert sum(image.startswith("data:image/jpeg") for image in page.images) >= n_shown


def test_questions_with_odd_names_break_nothing(tmp_path):
    rows = without_groups(nasty_table()).with_columns(paths=None)
    page = page_of(tmp_path, small_model(rows), rows)
    assert page.tables["Images that have, or lack, the concept"]
    assert not {"script", "b", "iframe"} & set(page.tags)


@pytest.mark.parametrize("name", ["report.pdf", "report", "report.json"])
def test_a_page_is_called_html(model, tmp_path, name):
    with pytest.raises(ChoqolateError, match=r"ends in \.html"):
        write_report(model, None, tmp_path / name)


def test_two_hundred_classes_and_226_concepts_fit_on_a_page(tmp_path, monkeypatch):
    monkeypatch.setattr("choqolate.report.page_data.MOST_SETS", 8_000)  # it is the page that is tested, not the search
    rng = np.random.default_rng(0)
    labels = [f"class {index % 200}" for index in range(1200)]
    centres = rng.normal(size=(200, 226))
    scores = np.array([centres[index % 200] for index in range(1200)]) + rng.normal(size=(1200, 226))
    wide = ConceptScores(scores, [f"concept number {j}" for j in range(226)], labels=labels)
    with pytest.warns(cq.ChoqolateWarning, match="200 classes share 8 nodes"):
        model = fit_scores(wide, n_nodes=8, epochs=3, device="cpu")
    path = write_report(model, wide, tmp_path / "report.html")
    assert path.stat().st_size < 5_000_000
    page = Page(path.read_text())
    assert len(page.words) == 8
    assert "12 of 200 classes" in page.text


def test_the_same_model_gives_the_same_page(model, table, tmp_path):
    first = write_report(model, table, tmp_path / "a.html").read_bytes()
    assert first == write_report(model, table, tmp_path / "b.html").read_bytes()


def test_the_best_and_worst_are_taken_from_every_class_in_turn():
    margins = np.array([0.9, 0.8, 0.7, 0.1, -0.1, -0.9, -0.8])
    labels = ["a", "a", "a", "b", "b", "a", "a"]
    assert choose(margins, margins > 0, labels, best=3, worst=2) == ([0, 3, 1], [5, 4])


def test_bars_of_a_waterfall_join_and_end_at_the_number(model, table):
    lead = model.explain(table.part("test").frame.iloc[:1], baseline="mean").contrast()
    drawn, other = steps(lead, 3), steps(lead, 1)
    set_scale([drawn, other])
    rows, low, high = drawn["rows"], *_range(drawn)
    assert drawn["zero"] == other["zero"]
    assert rows[-1]["name"].endswith("others")
    place = drawn["start"]
    for row in rows:
        left, right = sorted((place, place + row["value"]))
        assert row["place"] == pytest.approx(100 * (left - low) / (high - low))
        assert row["width"] == pytest.approx(100 * (right - left) / (high - low))
        place += row["value"]
    assert place == pytest.approx(drawn["end"])


def _range(drawn):
    edges = np.cumsum([drawn["start"], *(row["value"] for row in drawn["rows"])])
    return min(0, edges.min()), max(0, edges.max())


def test_an_unreadable_image_does_not_stop_the_report(model, table, tmp_path):
    broken = tmp_path / "images"
    for path in table.paths:
        (broken / path).parent.mkdir(parents=True, exist_ok=True)
        (broken / path).write_bytes(b"no image")
    page = page_of(tmp_path, model, table, root=broken)
    assert "image not available" in page.text


def test_new_images_are_explained_from_their_pixels(tmp_path):
    rows = cq.datasets.birds.render_birds(tmp_path / "birds", 60, seed=3)
    backbone = cq.load_backbone("mini")
    embeddings = cq.embed(rows, backbone, tmp_path / "embeddings", workers=0)
    words = ["webbed feet", "clawed feet", "sea", "forest", "long bill"]
    scores = cq.score(embeddings, words)
    model = fit_scores(scores, n_nodes=3, epochs=5, device="cpu")
    photo = tmp_path / "new one.png"
    Image.open(rows.files()[0]).save(photo)
    page = page_of(tmp_path, model, scores, images=[photo])
    assert "own" in page.ids
    assert "new one.png" in page.text
    assert str(tmp_path) not in page.text


def vars_of(table: ConceptScores) -> dict:
    names = ("scores", "concepts", "labels", "split", "groups", "paths", "classes", "spurious", "provenance")
    return {name: getattr(table, name) for name in names}


def test_the_history_of_edits_of_every_kind_is_on_the_page(model, table, tmp_path):
    rows = table.part("train")
    note = cq.Note("Ada <b>", reason="the sea is background")
    edited = model.reweight_concepts({"sea": 0.3, "crest": 2.0}, nodes=[0], note=note).recalibrate(rows)
    page = page_of(tmp_path, edited, table)
    assert "What was edited" in page.text
    assert "sea × 0.3" in page.text
    assert "Reweighted 'sea' by 0.3, 'crest' by 2 in node 0" in page.text
    written = edited.edits_[0].note.time[:16].replace("T", " ")
    assert f": the sea is background (Ada <b>), {written}" in page.text
    assert f"Recalibrated on {len(rows):,} rows" in page.text
    assert "Class scores were shifted" in page.text
    further = edited.remove_concepts("forest", mode="impute").restore("sea")
    page = page_of(tmp_path, further, table)
    for said in ("sea × 0.3", "What was removed"):
        assert said not in page.text
    assert "crest × 2" in page.text
    assert "forest removed" in page.text
    assert "Relative to the model as trained; mode: impute." in page.text
    assert "Removed 'forest' (impute)" in page.text
    assert "Restored 'sea'" in page.text


def test_a_model_that_was_only_recalibrated_has_a_page(model, table, tmp_path):
    page = page_of(tmp_path, model.recalibrate(table.part("train")), table)
    assert "What was edited" in page.text
    assert "Relative to the model as trained. Class scores were shifted" in page.text


def test_a_calibration_before_the_latest_edits_is_not_shown_as_current(model, table, tmp_path):
    calibrated = model.calibrate(table, source="some rows")
    said = f"calibrated on {calibrated.calibration_.rows:,} rows (some rows), gives"
    assert said in " ".join(page_of(tmp_path, calibrated, table).text.split())
    edited = " ".join(page_of(tmp_path, calibrated.remove_concepts(model.concepts_[0]), table).text.split())
    assert said not in edited
    assert "calibrated before the latest edits on" in edited


def test_a_restored_model_is_shown_as_it_was_trained(model, table, tmp_path):
    page = page_of(tmp_path, model.remove_concepts("sea").restore(), table)
    assert "held out, before" not in page.text
    assert "before the edits it was taken for" not in page.text
    assert "Removed 'sea' (rescale)" in page.text  # its history stays
    assert "Restored everything" in page.text


def test_commands_give_the_same_model_after_edits_of_every_kind(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table.save("scores.parquet")
    rows = table.part("train")
    model = small_model(table)
    edited = (
        model.reweight_concepts({"sea": 0.3}).remove_concepts(["crest", "forest"], recalibrate=rows).restore("forest")
    )
    lines = commands(edited)
    assert "choqolate apply model edits.json -o edited" in lines
    (tmp_path / "edits.json").write_text("\n".join(words(edited)["edits.json"]))
    again = model.apply_edits("edits.json")
    np.testing.assert_array_equal(again.predict_proba(table), edited.predict_proba(table))


def test_a_baseline_has_no_report(table, tmp_path):
    rows = table.part("train")
    baseline = cq.baselines.PCBM(epochs=1).fit(rows, rows.labels)
    with pytest.raises(ChoqolateError, match="Expected a ChoqolateClassifier to write a report, but got a PCBM"):
        write_report(baseline, table, tmp_path / "report.html")


def test_the_origin_of_a_model_names_its_search_start_and_schedule(table, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cq.ChoqolateWarning)  # few rows make the choice doubtful
        model = fit_scores(table, n_nodes="auto", temperature="auto", interactions="auto", epochs=5)
    text = page_of(tmp_path, model, None).text
    choice = model.search_.choice
    assert f"{len(model.search_.trials)} settings, measured on {model.search_.rows:,} validation rows" in text
    assert f"{choice} (" in text
    assert model.search_.rule in text
    assert all(doubt in text for doubt in model.search_.doubts)
    assert "falls to zero (cosine)" in text
    assert f"n_nodes {choice.n_nodes}" in text
    assert f"temperature {choice.temperature}" in text
    plain = page_of(tmp_path, fit_scores(table, n_nodes=3, epochs=2), None).text
    assert "validation rows of the training part" not in plain
    assert "learning rate" in plain


def test_cards_have_the_formulas_of_their_nodes(table, model, tmp_path):
    html = write_report(model, table, tmp_path / "report.html").read_text()
    said = [" ".join(Page(one).text.split()) for one in re.findall(r'<p class="formula">.*?</p>', html, re.DOTALL)]
    assert said == [f"= {str(formula).partition(' = ')[2]}" for formula in model.formulas(6)]
    numbers = {row[0]: row[1:] for row in Page(html).tables["Numbers"][1:]}
    assert numbers["interaction mass"][0] == f"{evaluate(model, table).interaction_mass:.3f}"


def test_a_simplified_model_shows_its_bound_and_certificate(table, model, tmp_path):
    short = model.simplify(max_terms=8)
    proof, bound = short.certify(table.part("test")), short.simplification_.bound.max()
    text = " ".join(page_of(tmp_path, short, table).text.split())
    assert "What was edited" in text
    assert f"no class score moves by more than {bound:.4f} on any image" in text
    certified = share_text(Proportion(int(proof.certified.sum()), 120))
    assert f"{certified} of 120 images (held out) provably keep their predicted class" in text
    assert "provably" not in page_of(tmp_path, short, None).text
    later = short.remove_concepts("crest")
    text = " ".join(page_of(tmp_path, later, table).text.split())
    assert f"no class score moves by more than {bound:.4f}" in text
    assert "provably" not in text
    assert commands(later)[-2] == "choqolate apply model edits.json -o edited"
