"""Tables with next to no rows: every command says what cannot be told, and counts in good grammar."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import choqolate as cq
from choqolate.analysis.drift import compare_tables
from tests.cli.test_data_commands import choqolate
from tests.small_tables import CONCEPTS, bird_scores

MODEL = "--paper --nodes 3 --epochs 20 --runs 1"
ONE_OF_MANY = re.compile(
    r"(?<![\d.,])1 (?:test |training |validation )?"
    r"(?:images|rows|concepts|classes|nodes|groups|settings|edits|slices|runs|terms|removals|pictures)\b"
)


def table_of(n_train, n_test, groups=None):
    X, y, background = bird_scores(n_train + n_test, agreement=0.8)
    split = ["train"] * n_train + ["test"] * n_test
    groups = background if groups is None else groups
    paths = [f"{row}.jpg" for row in range(len(y))]
    return cq.ConceptScores(X.to_numpy(), CONCEPTS, labels=y, split=split, groups=groups, paths=paths)


def said_of(folder, *commands):
    """What commands say about a table, together with the files that they write."""
    said = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for command in commands:
            one = choqolate(*command.split(), width=100)
            assert one.code == 0, (command, one.err)
            said[command.split()[0]] = said.get(command.split()[0], "") + one.out + one.err
    pages = "".join(file.read_text() for kind in ("*.html", "*.md") for file in sorted(folder.glob(kind)))
    return said, re.sub(r"\s+", " ", re.sub(r"<style.*?</style>|<script.*?</script>|<[^>]*>", " ", pages, flags=re.S))


@pytest.fixture(scope="module", params=[1, 6])
def few(request, tmp_path_factory):
    """One test row, or six."""
    folder = tmp_path_factory.mktemp("few")
    table_of(30, request.param).save(folder / "t.parquet")
    said, pages = said_of(
        folder,
        f"fit t.parquet -o m {MODEL}",
        "eval m t.parquet",
        "remove m sea -o edited --scores t.parquet",
        "simplify m -o short --terms 3 --scores t.parquet",
        "explain m --scores t.parquet -o m.html",
        "explain edited --scores t.parquet -o edited.html",
        "explain edited --against m --scores t.parquet -o difference.html",
        "card edited --scores t.parquet -o card.md",
        "predict m t.parquet -o p.csv",
        "drift m t.parquet t.parquet",
    )
    return request.param, said, pages


def test_nothing_is_counted_as_1_images(few):
    n_rows, said, pages = few
    for text in (*said.values(), pages):
        assert not ONE_OF_MANY.search(text), ONE_OF_MANY.search(text)
    assert ("1 image" if n_rows == 1 else "6 images") in said["eval"]


def test_no_share_is_given_of_fewer_than_ten_rows(few):
    n_rows, said, pages = few
    told = f"too few to tell ({n_rows} image{'s' * (n_rows > 1)})"
    for line in said["eval"].splitlines():
        if line.startswith(("accuracy", "always predict", "worst group ", "calibration error")):
            assert "too few to tell" in line, line
            assert not re.search(r"\d\.\d", line), line
    for line in said["eval"].split("class  ")[1].splitlines()[1:3]:
        assert not line or "too few to tell" in line
    assert f"accuracy with 5, 10, 15, 20, 25, 30 concepts per class: {told}" in " ".join(said["eval"].split())
    assert f"accuracy: {told}" in said["remove"]
    assert f"predicted class: {told}" in said["simplify"]
    assert f"expected calibration error {told}" in pages
    assert "would reach 100" not in pages  # the baseline, beside an accuracy that is not given
    assert "100.0% (20.7 to 100.0)" not in pages


def test_a_tiny_change_is_given_with_its_interval_and_the_test(tmp_path):
    table_of(16, 32, groups=["common"] * 43 + ["four"] * 4 + ["single"]).save(tmp_path / "t.parquet")
    said, _ = said_of(tmp_path, f"fit t.parquet -o m {MODEL}", "remove m sea -o e --scores t.parquet")
    out = said["remove"]
    assert re.search(r"accuracy: (no change on|[+-]\d+\.\d points \([+-]\d.* to [+-]\d.*\) on) 32 images", out)
    assert re.search(r"worst group before, common: .* on 27 images", out)
    assert "too few to tell: four (4 images), single (1 image)" in out


def test_json_says_which_classes_are_too_small(tmp_path):
    X, _, _ = bird_scores(60)
    labels = np.array(["gull", "owl"])[np.arange(60) % 2].astype(object)
    labels[[*range(8), 40]] = "albatross"
    split = ["train"] * 36 + ["test"] * 24
    cq.ConceptScores(X.to_numpy(), CONCEPTS, labels=labels.tolist(), split=split).save(tmp_path / "t.parquet")
    said, _ = said_of(tmp_path, f"fit t.parquet -o m {MODEL}", "eval m t.parquet --json")
    numbers = json.loads(said["eval"])
    assert numbers["small_classes"] == {"albatross": 1}
    assert numbers["too_few"] is False


def test_a_model_without_flags_does_not_count_them(tmp_path):
    table_of(16, 32).save(tmp_path / "t.parquet")
    said, _ = said_of(tmp_path, f"fit t.parquet -o m {MODEL}", "predict m t.parquet -o p.csv")
    assert "Not compared with the training images" in said["predict"]
    assert "0 of 48 rows flagged" not in said["predict"]


def test_drift_shows_the_rows_outside_the_training_range_with_intervals(tmp_path):
    first = table_of(60, 40)
    first.save(tmp_path / "a.parquet")
    later = first.scores + np.array([0, 0, 0, 0, 0.1, 0])
    cq.ConceptScores(later, CONCEPTS, labels=first.labels).save(tmp_path / "b.parquet")
    said, _ = said_of(tmp_path, f"fit a.parquet -o m {MODEL}", "drift m a.parquet b.parquet")
    found = compare_tables(cq.load(tmp_path / "m"), first, cq.ConceptScores.load(tmp_path / "b.parquet"))
    sea = next(one for one in found.concepts if one.concept == "sea")
    for share in found.outside(sea):
        low, high = share.interval
        assert f"{share.value:.1%} ({100 * low:.1f} to {100 * high:.1f})" in said["drift"]
    assert found.as_dict()["concepts"][0]["outside_intervals"][1] == pytest.approx(list(found.outside(sea)[1].interval))


def test_a_search_gives_intervals_and_the_number_of_rows(tmp_path):
    table_of(30, 6).save(tmp_path / "t.parquet")
    said, _ = said_of(tmp_path, "fit t.parquet -o m --nodes 3 --interactions none --epochs 2 --runs 1")
    search = cq.load(tmp_path / "m").search_
    ends = re.escape(f"({search.choice.accuracy_low:.2f} to {search.choice.accuracy_high:.2f})")
    assert re.search(rf"chosen: .* {search.choice.accuracy:.3f} {ends}, Gini", said["fit"])
    assert f"in parentheses: 95% intervals of accuracies on {search.rows} validation rows" in said["fit"]


@pytest.mark.filterwarnings("ignore:(of . concept|with one node):choqolate.ChoqolateWarning")
@pytest.mark.parametrize("n_rows", [1, 2])
def test_reprs_count_in_good_grammar(n_rows):
    X, _, _ = bird_scores(40)
    one = cq.ConceptScores(X.to_numpy()[:, :n_rows], CONCEPTS[:n_rows], labels=["gull", "owl"] * 20)
    words = f"{n_rows} concept{'s' * (n_rows > 1)}"
    assert words + "," in repr(one)
    model = cq.ChoqolateClassifier(n_nodes=n_rows, interactions="none", epochs=1).fit(one, one.labels)
    sizes = f"{words}, {n_rows} node{'s' * (n_rows > 1)}, 2 classes"
    assert sizes in repr(model.network_)
    assert sizes in repr(model.explain(one.take(range(n_rows))))
    rows = f"{n_rows} row{'s' * (n_rows > 1)}"
    assert repr(one.take(range(n_rows))).startswith(f"ConceptScores({rows}, {words}, ")
    assert repr(cq.evaluate(model, one.take(range(n_rows)))).startswith(f"Evaluation({rows}, accuracy too few rows")
