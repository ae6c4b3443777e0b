"""Of a group of four images every command, and the report, say that it is too small; none gives it a number."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from rich.cells import cell_len

import choqolate as cq
from choqolate.data.scores import ConceptScores
from tests.browser import open_browser, visit
from tests.cli.test_data_commands import choqolate
from tests.small_tables import CONCEPTS, bird_scores

SMALL = "landbird on water"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """What each command says about a table with a group of four test images, at 80 columns, and two reports."""
    folder = tmp_path_factory.mktemp("small")
    X, y, groups = bird_scores(600, agreement=0.8)
    split = np.array(["train", "train", "test"])[np.arange(600) % 3]
    table = ConceptScores(X.to_numpy(), CONCEPTS, labels=y, groups=groups, split=split)
    model = cq.fit_scores(table, n_nodes=3, epochs=20)
    right, small = model.predict(table.frame) == y, (split == "test") & (groups == SMALL)
    kept = sorted(np.flatnonzero(small), key=lambda row: right[row])[:4]  # most of them wrong
    table.take(np.sort([*np.flatnonzero(~small), *kept])).save(folder / "few.parquet")
    said = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, command in {
            "fit": "fit few.parquet -o model --paper --nodes 3 --epochs 20 --runs 1",
            "eval": "eval model few.parquet",
            "json": "eval model few.parquet --json",
            "remove": "remove model sea forest -o edited --scores few.parquet",
            "explain": "explain model --scores few.parquet",
            "report": "explain model --scores few.parquet -o model.html",
            "edited report": "explain edited --scores few.parquet -o edited.html",
        }.items():
            said[name] = choqolate(*command.split(), width=80)
            assert said[name].code == 0, said[name].err
    return folder, {name: one.out for name, one in said.items()}


@pytest.mark.parametrize("command", ["fit", "eval", "remove", "explain", "report", "edited report"])
def test_the_terminal_gives_it_no_number(place, command):
    said = place[1][command]
    lines = [line for line in said.splitlines() if not line.startswith("  choqolate")]
    assert max(map(cell_len, lines)) <= 80
    text = " ".join(said.split())
    assert f"too few to tell: {SMALL} (4 images)" in text
    for line in lines:
        if SMALL in line and "4 images" not in line:
            assert re.fullmatch(rf" *{SMALL} +4[ –]+too few to tell *", line), line
    assert "75.0" not in text
    assert f"worst group: {SMALL}" not in text


@pytest.mark.parametrize("command", ["explain", "report"])
def test_nothing_is_claimed_about_removals(place, command):
    text = " ".join(place[1][command].split())
    assert f"the worst group, {SMALL}, has only 4 images: too few to tell whether a removal helps" in text
    assert "lifts the worst group" not in text


def test_json_tells_the_small_group_apart(place):
    numbers = json.loads(place[1]["json"])
    assert numbers["small_groups"] == {SMALL: 4}
    assert numbers["worst_group"]["group"] == SMALL
    assert numbers["worst_measurable_group"]["group"] != SMALL
    low, high = numbers["group_intervals"][SMALL]
    assert high - low > 0.4


def test_the_report_draws_intervals_and_no_bar_for_a_small_group(place):
    with open_browser() as browser:
        for page, kinds in (("model.html", 1), ("edited.html", 2)):
            for width in (360, 1280):
                with visit(browser, place[0] / page, width=width) as seen:
                    groups = seen.page.evaluate(
                        """() => [...document.querySelectorAll("#groups dt")].map(dt => {
                          const found = {name: dt.textContent, bars: [], lines: [], values: []};
                          for (let e = dt.nextElementSibling; e && e.tagName === "DD"; e = e.nextElementSibling) {
                            const box = one => one.getBoundingClientRect(), track = box(e.querySelector(".track"));
                            const share = x => (x - track.left) / track.width;
                            e.querySelectorAll(".bar").forEach(b => found.bars.push(share(box(b).right)));
                            e.querySelectorAll(".whisker").forEach(w =>
                              found.lines.push([share(box(w).left), share(box(w).right)]));
                            found.values.push(e.querySelector(".value").textContent.replace(/\\s+/g, " ").trim());
                          }
                          return found;
                        })"""
                    )
                    assert len(groups) == 4
                    small = [group for group in groups if SMALL in group["name"]]
                    assert [(one["bars"], one["lines"], one["values"]) for one in small] == [
                        ([], [], ["too few to tell (4 images)"])
                    ]
                    assert "points" not in small[0]["name"]
                    for group in groups:
                        if group in small:
                            continue
                        assert len(group["bars"]) == len(group["lines"]) == kinds
                        for bar, line, value in zip(group["bars"], group["lines"], group["values"], strict=True):
                            wanted = [float(number) / 100 for number in re.findall(r"[\d.]+", value)]
                            assert [bar, *line] == pytest.approx(wanted, abs=0.02)
                    suspects = seen.page.inner_text("#suspects")
                    assert "75.0" not in suspects
                    if page == "model.html":
                        assert f"The worst group, “{SMALL}”, has only 4 images: too few to tell" in suspects
                    assert not seen.console
