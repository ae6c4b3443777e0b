from __future__ import annotations

import re
import warnings
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import jinja2
import numpy as np
import pytest

import choqolate as cq
from choqolate.analysis.evaluation import evaluate
from choqolate.baselines import fit_linear_runs
from choqolate.data.manifest import Manifest
from choqolate.data.scores import ConceptScores
from choqolate.datasets.birds import GROUPS
from choqolate.demo.birds import BirdsDemo, Choice, Outcome
from choqolate.demo.birds_page import demo_page
from choqolate.errors import ChoqolateWarning
from choqolate.estimators.search_record import Search, Trial
from choqolate.estimators.table_training import fit_scores_runs
from choqolate.explain.redundancy import check_redundancy
from choqolate.report import render
from tests.small_tables import CONCEPTS, bird_scores

VOID = {"br", "img", "link", "meta"}
SHEET = b"\xff\xd8\xff an image"
NASTY = ["<script>alert(1)</script>", "\"quoted\" 'feet'", "R&D &amp; </style>", "🐦 {{ 7 * 7 }}", "sea", "forest"]


def small_demo(n_runs=2, concepts=CONCEPTS, classes=("landbird", "waterbird"), groups=GROUPS, n_rows=300):
    """The demo without images: scores from a formula, and a few epochs of training."""
    X, y, sides = bird_scores(n_rows)
    split = np.array(["train", "train", "val", "test", "test"])[np.arange(n_rows) % 5]
    table = ConceptScores(
        X.to_numpy(),
        concepts,
        labels=[classes[int(label == "waterbird")] for label in y],
        split=split,
        groups=[dict(zip(GROUPS, groups, strict=True))[side] for side in sides],
        paths=[f"{row}.jpg" for row in range(n_rows)],
        spurious=concepts[4:],
        provenance={"backbone": {"name": "mini <1>", "identity": "abc123"}},
    )
    rows = Manifest(Path("images"), table.paths, table.labels, table.split, table.groups)
    train, seeds = table.part("train"), range(n_runs)
    ours = fit_scores_runs(table, seeds, n_nodes=3, epochs=3, device="cpu")
    linear = fit_linear_runs(train.frame, train.labels, seeds, n_nodes=3, epochs=3, device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChoqolateWarning)  # a node may lose nearly all after so little training
        edited = [run.remove_concepts(table.spurious) for run in ours]
        imputed = [run.remove_concepts(table.spurious, mode="impute") for run in ours]
        placebo = [run.remove_concepts(concepts[:2]) for run in ours]

    trials = tuple(
        Trial(3, "pairwise", None, False, temperature, accuracy, gini, 0.5, concepts, 123)
        for temperature, accuracy, gini, concepts in ((0.005, 0.912, 0.7, 5.5), (0.02, 0.905, 0.8, 4.25))
    )
    search = Search(trials, 1, trials[0], "clusters", "cosine", "the <rule>", 0.01, 80, 6, False, ("few rows.",), 1.5)

    def measured(name, models):
        return Outcome(name, tuple(evaluate(model, table, "test") for model in models))

    return BirdsDemo(
        folder=Path("choqolate-demo"),
        rows=rows,
        table=table,
        redundancy=check_redundancy(table),
        search=search,
        rate=Choice("learning rate", {0.001: 0.7, 0.01: 0.934}, 0.01, "the best"),
        ours=measured("as trained", ours),
        linear=measured("as trained", linear),
        removals=(measured("rescale", edited), measured("impute", imputed)),
        placebo=measured("placebo", placebo),
        alternatives=(measured("trained on unbiased images", ours[::-1]),),
        linear_alternatives=(
            measured("frozen at their mean", [run.remove_concepts(table.spurious) for run in linear]),
        ),
        models=tuple(ours),
        edited=edited[0],
        unmixed=(5, 6),
        seconds={"draw": 1.25, "train": 61.0},
    )


def with_worst_groups(outcome, *accuracies):
    """The same, but for the accuracy in the groups."""
    runs = zip(outcome.runs, accuracies, strict=True)
    return replace(outcome, runs=tuple(replace(run, group_accuracy=dict.fromkeys(GROUPS, low)) for run, low in runs))


class Page(HTMLParser):
    """A page, read strictly: every element is closed where it should be."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.cells, self.texts = [], [], [], {}, []
        self.table = None
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag == "table":
            self.table = self.cells.setdefault(dict(attrs)["id"], [])
        elif tag == "tr":
            self.table.append([])
        elif tag in ("td", "th"):
            self.table[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pytest.fail(f"<{tag}/>")

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" in self.open:
            return
        self.texts.append(data)
        if self.open and {"td", "th"} & set(self.open):
            self.table[-1][-1] += data

    @property
    def text(self):
        return " ".join("".join(self.texts).split())

    def row(self, table, name):
        (found,) = [cells[1:] for cells in self.cells[table] if cells[0] == name]
        return found


def cell(values, scale=100.0, digits=1, signed=False):
    """Mean and standard deviation as the page should write them."""
    mean, std = np.mean(values) * scale, np.std(values, ddof=1) * scale
    text = f"{mean:{'+' if signed else ''}.{digits}f}\xa0±\xa0{std:.{digits}f}"
    return re.sub(r"^[+-](0\.0+)\b", r"\1", text).replace("-", "−")


@pytest.fixture(scope="module")
def demo():
    return small_demo()


@pytest.fixture(scope="module")
def html(demo):
    return demo_page(demo, SHEET)


@pytest.fixture(scope="module")
def page(html):
    return Page(html)


def test_page_is_well_formed_and_in_order(page):
    assert page.tags.count("h1") == page.tags.count("main") == page.tags.count("footer") == 1
    assert ("html", "lang", "en") in page.attributes
    assert ("meta", "name", "viewport") in page.attributes
    titles = [
        "CHOQOLATE on bird scenes",
        "The images",
        "As trained",
        "What the nodes read",
        "Removing the background words",
        "Redundancy",
        "Where things are",
        "Next, with your own images",
        "How this came about",
    ]
    places = [page.texts.index(title) for title in titles]
    assert places == sorted(places)
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_page_needs_nothing_else(html, page):
    addresses = [value for _, name, value in page.attributes if name in ("src", "href", "srcset", "action", "data")]
    assert addresses
    assert all(value.startswith("data:") for value in addresses)
    assert not {"script", "iframe", "object", "embed", "form"} & set(page.tags)
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert "url(" not in html
    assert "@import" not in html
    assert "://" not in html


def test_sheet_is_inside_and_described(page):
    (source,) = [value for tag, name, value in page.attributes if (tag, name) == ("img", "src")]
    assert source == "data:image/jpeg;base64,/9j/IGFuIGltYWdl"
    (description,) = [value for tag, name, value in page.attributes if (tag, name) == ("img", "alt")]
    assert ", ".join(GROUPS) in description


def test_sizes_of_the_groups(page, demo):
    for name in GROUPS:
        here = demo.table.groups == name
        expected = [str((here & (demo.table.split == part)).sum()) for part in ("train", "val", "test")]
        assert page.row("sizes", name) == expected


@pytest.mark.parametrize("kind", ["ours", "linear"])
def test_numbers_as_trained(page, demo, kind):
    outcome = getattr(demo, kind)
    assert page.row("trained", {"ours": "CHOQOLATE", "linear": "linear bottleneck"}[kind]) == [
        cell([run.accuracy for run in outcome.runs]),
        cell([min(run.group_accuracy.values()) for run in outcome.runs]),
        cell([run.attribution_gini for run in outcome.runs], 1, 2),
        cell([run.node_coherence for run in outcome.runs], 1, 2),
    ]
    assert "mean ± standard deviation over 2 runs" in page.text


def test_numbers_of_removals_and_alternatives(page, demo):
    head, *body = page.cells["removal"]
    assert head[4:] == list(GROUPS)
    assert body == [
        ["CHOQOLATE"],
        removal_row(demo.ours, None),
        ["Concepts removed, nothing trained again"],
        *(removal_row(outcome, demo.ours) for outcome in (*demo.removals, demo.placebo)),
        ["What else one could do about these words"],
        *(removal_row(outcome, demo.ours) for outcome in demo.alternatives),
        ["The linear bottleneck"],
        removal_row(demo.linear, None),
        *(removal_row(outcome, demo.linear) for outcome in demo.linear_alternatives),
    ]


def removal_row(outcome, before):
    """A row of the table as it should be; its change is against the same model as trained."""
    worst = [run.worst_group[1] for run in outcome.runs]
    start = before and [run.worst_group[1] for run in before.runs]
    return [
        outcome.name,
        cell([run.accuracy for run in outcome.runs]),
        cell(worst),
        "–" if before is None else cell(np.subtract(worst, start), signed=True),
        *(cell([run.group_accuracy[group] for run in outcome.runs]) for group in GROUPS),
    ]


def test_chart_has_both_numbers_of_each_group(page, demo):
    start = page.texts.index("Accuracy by group, before and after")
    chart = [text for text in page.texts[start + 1 :] if text.strip()][: 5 * len(GROUPS)]
    for row, group in enumerate(GROUPS):
        before, after = (cell([run.group_accuracy[group] for run in one.runs]) for one in (demo.ours, demo.removals[0]))
        assert chart[5 * row : 5 * row + 5] == [group, "as trained", before, "removed", after]


def test_choices_list_what_was_tried(page):
    assert page.cells["search"][1:] == [
        ["3 nodes, all pairs, temperature 0.02 (chosen)", "90.5", "0.800", "4.2"],
        ["3 nodes, all pairs, temperature 0.005", "91.2", "0.700", "5.5"],
        ["3 nodes, all pairs, temperature 0.005 (the paper's settings)", "91.2", "0.700", "5.5"],
    ]
    assert "on 80 validation rows of the training part, without a look at the groups" in page.text
    assert "The rule: the <rule>. Doubtful: few rows." in page.text
    assert "a learning rate of 0.01 was taken" in page.text
    assert "Tried: 0.001 (70.0%), 0.01 (93.4%)." in page.text


def test_nodes_show_leading_concepts_and_mark_the_spurious(demo, html):
    cards = re.findall(r"<article.*?</article>", html, re.DOTALL)
    assert len(cards) == len(demo.model.node_attributions_)
    for values, counts, card in zip(
        demo.model.node_attributions_, demo.model.class_attributions_.T, cards, strict=True
    ):
        order = np.argsort(-values)
        items = re.findall(r"<li.*?</li>", card, re.DOTALL)
        assert len(items) == 6
        for j, item in zip(order, items, strict=True):
            spurious = CONCEPTS[j] in demo.table.spurious
            assert f'<span class="name">{CONCEPTS[j]}</span>' in item
            assert f"{values[j]:.3f}" in item
            assert ('<span class="mark">spurious</span>' in item) == ("bar marked" in item) == spurious
        said = Page(card).text
        assert f"Spurious in all: {values[4:].sum():.3f}" in said
        assert f"Counts for: landbird {counts[0]:.3f}, waterbird {counts[1]:.3f}" in said


def test_rest_of_the_page(page, demo, html):
    for line in demo.redundancy.lines():
        assert line in "".join(page.texts)
    for name in ("report.html", "scores.parquet", "model/", "model-edited/", "images/", "unbiased/", "embeddings/"):
        assert f"<code>{name}</code>" in html
    assert re.findall(r'<li class="name">(.*?)</li>', html) == ["sea", "forest"]
    assert "choqolate fit scores.parquet -o model" in page.text
    for name, value in {"choqolate": cq.__version__, "encoder": "mini &lt;1&gt;", "its identity": "abc123"}.items():
        assert f'<dt>{name}</dt><dd class="name">{value}</dd>' in html
    assert "n_nodes 3, temperature 0.005, l1 0.01, epochs 3" in page.text
    assert "draw 1.2 s, train 61.0 s" in page.text
    assert "choqolate demo --images 300 --seeds 2" in page.text


def test_names_are_text_and_inject_nothing(page):
    classes, groups = ("<b>land", "water'\" onload=x"), [f"{name} <i>&" for name in GROUPS]
    demo = small_demo(concepts=NASTY, classes=classes, groups=groups)
    removals = (replace(demo.removals[0], name="<u>rescale"), *demo.removals[1:])
    html = demo_page(replace(demo, removals=removals), SHEET)
    nasty = Page(html)
    assert sorted(nasty.tags) == sorted(page.tags)
    assert {(tag, name) for tag, name, _ in nasty.attributes} == {(tag, name) for tag, name, _ in page.attributes}
    assert "<script>" not in html
    for name in (*NASTY, *classes, *groups):
        assert name in nasty.text
    assert nasty.row("removal", "<u>rescale")
    html.encode()


def test_half_a_surrogate_can_be_written(demo):
    odd = replace(demo, alternatives=(replace(demo.alternatives[0], name="caf\udce9"),))
    assert r"caf\xe9" in demo_page(odd, SHEET).encode().decode()


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ((0.4, 0.5), (0.7, 0.81), "the worst group rises from 45.0% to 75.5% (+30.5 ± 0.7 points, in each of the 2"),
        ((0.7, 0.8), (0.4, 0.49), "the worst group falls from 75.0% to 44.5% (−30.5 ± 0.7 points, in each of the 2"),
        ((0.4, 0.5), (0.6, 0.45), "does not clearly change: 45.0% before, 52.5% after, +7.5 ± 17.7 points run by"),
        ((0.6, 0.5), (0.4, 0.55), "does not clearly change: 55.0% before, 47.5% after, −7.5 ± 17.7 points run by"),
        ((0.4, 0.5), (0.5, 0.4), "the worst group stays where it was on average (45.0% before, 45.0% after)"),
        ((0.4, 0.5, 0.4), (0.6, 0.7, 0.39), "rises from 43.3% to 56.3% (+13.0 ± 12.1 points, in 2 of 3 runs)"),
    ],
)
def test_summary_claims_what_the_runs_show(demo, before, after, said):
    first = replace(demo.ours, runs=(demo.ours.runs * 2)[: len(before)])
    changed = replace(
        demo,
        ours=with_worst_groups(first, *before),
        linear=with_worst_groups(first, *before),
        removals=(with_worst_groups(replace(first, name="rescale"), *after),),
        placebo=with_worst_groups(first, *before),
        alternatives=(),
        linear_alternatives=(),
    )
    text = Page(demo_page(changed, SHEET)).text
    summary = text[: text.index("The images")]
    assert said in summary
    assert ("rises" in summary) == ("rises" in said)
    assert not re.search(r"improv|better|\bgain", text)


def test_summary_counts(page, demo):
    assert "2 models were trained on 120 of 300 drawn images" in page.text
    test = demo.table.part("test")
    agreeing = np.isin(test.groups, ["landbird on land", "waterbird on water"]).mean()
    assert f"among the 120 test images it does in {100 * agreeing:.1f}%." in page.text
    changes = np.subtract(demo.placebo.worst_groups, demo.ours.worst_groups)
    assert f"changes the worst group by {cell(changes, signed=True)} points".replace("\xa0", " ") in page.text


def test_one_run_has_no_spread():
    text = demo_page(small_demo(n_runs=1), SHEET)
    page = Page(text)
    assert "±" not in page.text
    assert "One model was trained" in page.text
    assert "in a single run" in page.text or "stays where it was" in page.text
    assert re.fullmatch(r"\d+\.\d", page.row("trained", "CHOQOLATE")[0])


def test_what_is_missing_is_an_error():
    with pytest.raises(jinja2.UndefinedError, match="summary"):
        render("demo.html", package="choqolate.demo")
