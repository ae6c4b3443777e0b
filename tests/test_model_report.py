"""The report of a model: everything in it, nothing injected, whatever the data lack. tests/test_pages.py opens it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

import choqolate as cq
from choqolate.concepts.scores import ConceptScores
from choqolate.errors import ChoqolateError
from choqolate.evaluation import evaluate, fit_scores
from choqolate.report.examples import choose, steps
from choqolate.report.model import write_report
from tests.reports import NASTY, bird_table, nasty_table, small_model


class Page(HTMLParser):
    """Text of a page, its tags, ids and word clouds; every tag has to be closed in order."""

    VOID = frozenset({"br", "img", "link", "meta"})

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags, self.ids, self.texts, self.images, self.open = [], set(), [], [], []
        self.words: list[list[tuple[str, float]]] = []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.tags.append(tag)
        self.ids.add(found.get("id"))
        if tag == "img":
            self.images.append(found["src"])
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
    return bird_table(tmp_path_factory.mktemp("pictures"))


@pytest.fixture(scope="module")
def model(table):
    return small_model(table)


def test_the_page_holds_every_section(model, table, tmp_path):
    page = page_of(tmp_path, model, table)
    wanted = {"metrics", "nodes", "flows", "pictures", "groups", "suspects", "redundancy", "provenance"}
    assert wanted <= page.ids
    result = evaluate(model, table)
    assert f"{100 * result.accuracy:.1f}\N{NO-BREAK SPACE}%".replace("\N{NO-BREAK SPACE}", " ") in page.text
    assert result.worst_group[0] in page.text
    for name in (*table.concepts, *model.classes_):
        assert name in page.text
    assert not {"script", "iframe", "object", "form"} & set(page.tags)


def test_the_page_is_self_contained_and_small(model, table, tmp_path):
    html = write_report(model, table, tmp_path / "report.html").read_text()
    assert len(html.encode()) < 5_000_000
    assert not re.findall(r"""(?:src|href)=["'](?!data:|#)""", html)
    assert "url(" not in html


def test_words_of_a_cloud_are_the_leading_concepts_by_size(model, table, tmp_path):
    page = page_of(tmp_path, model, table)
    assert len(page.words) == len(model.node_attributions_)
    for words, values in zip(page.words, model.node_attributions_, strict=True):
        order = np.argsort(-values, kind="stable")
        assert [name for name, _ in words] == [model.concepts_[j] for j in order][: len(words)]
        sizes = [size for _, size in words]
        assert sizes == sorted(sizes, reverse=True)


def test_pictures_are_the_best_and_the_worst_of_the_held_out_ones(model, table, tmp_path):
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


def test_pictures_that_have_moved_are_found_or_said_to_be_missing(model, table, tmp_path):
    moved = tmp_path / "elsewhere"
    root = table.provenance["root"]
    lost = ConceptScores(**{**vars_of(table), "provenance": {"root": str(moved)}})
    page = page_of(tmp_path, model, lost)
    assert not any(source.startswith("data:image/jpeg") for source in page.images)
    assert "--images FOLDER" in page.text
    page = page_of(tmp_path, model, lost, root=root)
    assert any(source.startswith("data:image/jpeg") for source in page.images)
    with pytest.raises(ChoqolateError, match="found none"):
        write_report(model, lost, tmp_path / "report.html", root=moved)


def test_what_needs_labels_is_left_out_without_them(model, table, tmp_path):
    bare = ConceptScores(**{**vars_of(table), "labels": None, "groups": None, "classes": ()})
    page = page_of(tmp_path, model, bare)
    assert {"nodes", "flows", "pictures", "redundancy"} <= page.ids
    assert not {"metrics", "groups", "suspects"} & page.ids
    assert "no labels" in page.text


def test_a_model_alone_is_explained_without_scores(model, tmp_path):
    page = page_of(tmp_path, model, None)
    assert {"nodes", "flows", "provenance"} <= page.ids
    assert not {"metrics", "pictures", "groups", "suspects", "redundancy"} & page.ids


def test_an_edited_model_shows_before_and_after(model, table, tmp_path):
    edited = model.remove_concepts(["sea", "forest"], mode="impute")
    page = page_of(tmp_path, edited, table)
    assert "removal" in page.ids
    assert "before the removal" in page.text
    before, after = evaluate(model, table), evaluate(edited, table)
    for result in (before, after):
        assert f"{100 * result.worst_group[1]:.1f}" in page.text
    assert "choqolate remove model -o edited --mode impute sea forest" in page.text


def test_one_layer_bipolar_and_factored_models_have_a_page(table, tmp_path):
    for options in ({"n_nodes": None}, {"bipolar": True}, {"interactions": "factored"}, {"interactions": "none"}):
        trained = small_model(table, **options)
        page = page_of(tmp_path, trained, table)
        assert len(page.words) == len(trained.node_attributions_)
        assert ("flows" in page.ids) == (trained.n_nodes is not None)


def test_labels_that_are_numbers_are_matched_with_the_text_of_a_table(table, tmp_path):
    X, y = table.part("train").frame, (table.part("train").labels == "waterbird").astype(int)
    numbered = cq.ChoqolateClassifier(n_nodes=3, epochs=5).fit(X, y)
    labels = (table.labels == "waterbird").astype(int).astype(str)
    page = page_of(tmp_path, numbered, ConceptScores(**{**vars_of(table), "labels": labels, "classes": ()}))
    assert "suspects" in page.ids


def test_odd_names_are_text_and_nothing_else(tmp_path):
    table = nasty_table()
    model = small_model(table)
    html = write_report(model, table, tmp_path / "report.html", title="<script>title</script>").read_text()
    page = Page(html)
    assert "script" not in page.tags
    assert "<script>title</script>" in page.text
    for name in NASTY:
        assert " ".join(name.split()) in page.text
    assert html.count("<b>") == 0


def test_two_hundred_classes_and_226_concepts_fit_on_a_page(tmp_path):
    rng = np.random.default_rng(0)
    labels = [f"class {index % 200}" for index in range(1200)]
    centres = rng.normal(size=(200, 226))
    scores = np.array([centres[index % 200] for index in range(1200)]) + rng.normal(size=(1200, 226))
    wide = ConceptScores(scores, [f"concept number {j}" for j in range(226)], labels=labels)
    model = fit_scores(wide, n_nodes=8, epochs=3, device="cpu")
    path = write_report(model, wide, tmp_path / "report.html")
    assert path.stat().st_size < 5_000_000
    page = Page(path.read_text())
    assert len(page.words) == 8
    assert "12 of 200 classes" in page.text


def test_the_same_page_twice(model, table, tmp_path):
    first = write_report(model, table, tmp_path / "a.html").read_bytes()
    assert first == write_report(model, table, tmp_path / "b.html").read_bytes()


def test_the_best_and_worst_are_taken_from_every_class_in_turn():
    margins = np.array([0.9, 0.8, 0.7, 0.1, -0.1, -0.9, -0.8])
    labels = ["a", "a", "a", "b", "b", "a", "a"]
    assert choose(margins, labels, best=3, worst=2) == ([0, 3, 1], [5, 4])


def test_bars_of_a_waterfall_join_and_end_at_the_number(model, table):
    lead = model.explain(table.part("test").frame.iloc[:1], baseline="mean").contrast()
    drawn = steps(lead, 3)
    rows, low, high = drawn["rows"], *_range(drawn)
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


def test_an_unreadable_picture_does_not_stop_the_report(model, table, tmp_path):
    broken = tmp_path / "pictures"
    for path in table.paths:
        (broken / path).parent.mkdir(parents=True, exist_ok=True)
        (broken / path).write_bytes(b"no picture")
    page = page_of(tmp_path, model, table, root=broken)
    assert "no picture at hand" in page.text


def test_new_pictures_are_explained_from_their_pixels(tmp_path):
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
