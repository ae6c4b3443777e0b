"""What the views of the studio show and do, in a real browser, against Python."""

from __future__ import annotations

import csv
import io
import re

import numpy as np
import pytest

import choqolate as cq
from choqolate.analysis.comparison import compare_evaluations
from choqolate.analysis.interval_text import change_text, percent_range, point_range
from choqolate.studio import create_app, export_studio
from tests.studio.auditor import as_shown, audited, auditor, measurable
from tests.studio.running import running


@pytest.fixture(scope="module")
def address(model, table, tmp_path_factory):
    file = tmp_path_factory.mktemp("file") / "audit.html"
    export_studio(model, table, file)
    return file.as_uri()


def accuracy(model, rows):
    return as_shown((model.predict(rows) == rows.labels).mean())


def row_of_table(me, name):
    """The cells of a line of the table of numbers."""
    header = me.page.get_by_role("rowheader", name=re.compile(f"^{name}( worst group| few images)*$"))
    line = me.page.get_by_role("row").filter(has=header).first
    return line.inner_text()


def test_the_numbers_of_classes_and_groups_are_those_of_python(browser, address, model, table):
    rows = table.part("val")
    sizes = {group: int((rows.groups == group).sum()) for group in set(rows.groups)}
    assert min(sizes.values()) < 10
    assert max(sizes.values()) > 30
    with auditor(browser, address) as me:
        me.open()
        me.remove("sea")
        me.press("1")
        edited = model.remove_concepts("sea")
        for names, column in ((sizes, rows.groups), (table.classes, rows.labels)):
            for name in names:
                some = rows.take(column == name)
                said = row_of_table(me, name)
                assert ("few images" in said) == (len(some) < 30)
                assert ("too few to tell" in said) == (len(some) < 10)
                if len(some) < 10:
                    assert "%" not in said
                    continue
                assert f"{accuracy(model, some)}%" in said
                assert f"{accuracy(edited, some)}%" in said
                change = cq.metrics.paired_change(*(one.predict(some) == some.labels for one in (model, edited)))
                if change.gained + change.lost:
                    assert point_range(change.interval).replace("−", "-") in said.replace("−", "-")


def test_changes_are_shown_with_their_intervals_and_the_baseline_beside_them(browser, address, model, table):
    rows, edited = table.part("val"), model.remove_concepts("sea")
    compared = compare_evaluations(*(cq.evaluate(one, rows, "all", concept_counts=()) for one in (model, edited)))
    worst, change = compared.worst_group
    with auditor(browser, address) as me:
        me.open()
        said = row_of_table(me, f"Always predict {compared.before.majority_class}")
        assert f"{as_shown(compared.before.majority.value)}%" in said
        me.remove("sea")
        me.press("1")
        effect = me.page.locator(".draft .effect").inner_text()
        assert f"accuracy {change_text(compared.overall)}" in effect
        expected = change_text(change) if change.gained + change.lost else "no change"
        assert f"worst group before ({worst}) {expected}" in effect
        told = me.page.locator(".strip-figure span[title]").first.get_attribute("title")
        assert change_text(compared.overall) in told
        me.commit("test")
        me.press("5")
        said = " ".join(me.page.locator(".commit-numbers").last.inner_text().split())
        assert change_text(compared.overall) in said
        assert f"({percent_range(compared.after.overall.interval)})" in said


def test_nodes_are_clouds_and_formulas_that_an_edit_redraws(browser, address, model):
    with auditor(browser, address) as me:
        me.open()
        cards = me.page.locator(".node-card")
        assert cards.count() == 4
        for node in range(4):
            leading = model.concepts_[int(model.node_attributions_[node].argmax())]
            assert leading in cards.nth(node).inner_text()
        me.remove("sea")
        me.press("1")
        me.click("Formulas")
        me.page.wait_for_timeout(300)
        edited = model.remove_concepts("sea")
        for node, formula in enumerate(edited.formulas(3)):
            said = " ".join(cards.nth(node).inner_text().split())
            assert "sea" not in said.split("Makes up")[-1]
            for weight in formula.terms.weight.tolist():
                assert weight < 0.02 or f"{weight:.2f}" in said


def test_a_concept_can_be_reweighted_and_removed_in_chosen_nodes(browser, address, model, table):
    rows = table.part("val")
    with auditor(browser, address) as me:
        me.open("#view=concept&concept=sea")
        me.page.get_by_role("spinbutton", name="Weight").fill("0.3")
        me.press("Enter")
        assert me.number("Accuracy") == accuracy(model.reweight_concepts({"sea": 0.3}), rows)
        me.press("Control+z" if me.page.evaluate("() => document.activeElement === document.body") else "Tab", "u")
        assert me.number("Accuracy") == accuracy(model, rows)
        slider = me.page.get_by_role("slider", name="Weight")
        slider.focus()
        me.press("ArrowLeft", "ArrowLeft")
        factor = float(me.page.get_by_role("spinbutton", name="Weight").input_value())
        assert 0 < factor < 1
        assert me.number("Accuracy") == accuracy(model.reweight_concepts({"sea": factor}), rows)
        me.click("Discard")
        for node in (0, 2):
            me.page.get_by_label(f"Select node {node}").check()
        me.page.get_by_label("Impute").check()
        me.click("Remove in nodes 0, 2")
        expected = model.remove_concepts("sea", nodes=[0, 2], mode="impute")
        assert me.number("Accuracy") == accuracy(expected, rows)
        assert "Remove sea in nodes 0, 2 (impute)" in me.page.get_by_role("region", name="Draft").inner_text()


def test_concepts_are_ranked_by_what_their_removal_does(browser, address, model, table):
    rows = table.part("val")
    impact = model.removal_impact(rows)
    impact["worst_group"] = model.removal_impact(rows.take(np.isin(rows.groups, measurable(rows))))["worst_group"]
    with auditor(browser, address) as me:
        me.open("#view=concept&concept=sea")
        me.page.get_by_text(re.compile(r"rank \d of 6")).first.wait_for()
        said = " ".join(me.page.get_by_text("If it alone is removed").locator("..").inner_text().split())
        for column in ("accuracy", "worst_group"):
            assert f"{as_shown(impact.loc['sea', column])}%" in said
        rank = int((impact["worst_group"] > impact.loc["sea", "worst_group"] + 1e-9).sum()) + 1
        assert f"rank {rank} of 6" in said


def test_what_is_left_of_a_removed_concept_is_measured(browser, address):
    with auditor(browser, address) as me:
        me.open("#view=concept&concept=sea")
        me.click("Remove everywhere")
        meter = me.page.get_by_role("meter", name="Left of sea")
        meter.wait_for()
        me.page.wait_for_function("() => !document.querySelector('.residuals').innerText.includes('Computing')")
        before = int(meter.get_attribute("aria-valuenow"))
        assert before > 50  # the forest tells where there is no sea
        me.click(re.compile("Remove .*forest.* too"))
        me.page.wait_for_function(
            "(most) => Number(document.querySelector('.residuals [role=meter]').ariaValueNow) < most", arg=before
        )


def test_one_image_is_explained_and_flipped(browser, address, model, table):
    rows = table.part("val")
    number = int(np.flatnonzero(table.split == "val")[np.flatnonzero(model.predict(rows) != rows.labels)[0]])
    with auditor(browser, address) as me:
        me.open(f"#view=images&image={number}")
        shares = model.predict_proba(table.take([number]))[0]
        assert me.predicted == (str(model.classes_[shares.argmax()]), as_shown(shares.max()))
        me.click("Search", exact=True)
        me.click("Try it")
        removed = re.findall(r"Remove ([\w ,]+?)(?: and ([\w ]+))?\n", me.page.locator(".draft").inner_text() + "\n")[0]
        names = [name.strip() for part in removed if part for name in part.split(",")]
        assert model.remove_concepts(names).predict(table.take([number])) != model.predict(table.take([number]))


def test_a_selection_has_its_own_numbers_and_goes_to_a_table(browser, address, model, table, tmp_path):
    with auditor(browser, address) as me:
        me.open("#view=images&split=val&truth=waterbird&group=waterbird on land")
        rows = table.part("val")
        chosen = rows.take(rows.groups == "waterbird on land")
        assert f"{accuracy(model, chosen)}%" in me.page.locator(".images-side").inner_text()
        me.press("1")
        assert f"{accuracy(model, chosen)}%" in me.page.get_by_role("region", name="Numbers").inner_text()
        me.press("6")
        with me.page.expect_download() as waiting:
            me.click("Download images.csv")
        waiting.value.save_as(tmp_path / "images.csv")
        lines = list(csv.DictReader(io.StringIO((tmp_path / "images.csv").read_text())))
        assert sorted(line["path"] for line in lines) == sorted(chosen.paths)
        predicted = dict(zip(chosen.paths, model.predict(chosen), strict=True))
        assert all(line["predicted_now"] == predicted[line["path"]] for line in lines)


def test_more_rows_can_be_loaded_from_the_server(browser, model, table):
    with (
        running(create_app(model, table, rows=120)) as server,
        auditor(browser, f"http://127.0.0.1:{server.port}/") as me,
    ):
        me.open("#view=images")
        me.remove("sea", "background")
        me.press("3")
        load = me.page.get_by_role("button", name=re.compile("Load more rows"))
        while load.is_visible():
            load.click()
            me.page.wait_for_function("() => !document.body.innerText.includes('Loading rows')")
            me.settled()
        assert (me.number("Accuracy"), me.number("Worst group")) == audited(model, table, "sea")
        me.press("u")
        assert (me.number("Accuracy"), me.number("Worst group")) == audited(model, table)


def test_the_classes_can_be_recalibrated(browser, address, model, table):
    edited = model.remove_concepts("sea").recalibrate(table.part("train"))
    with auditor(browser, address) as me:
        me.open()
        me.remove("sea")
        me.press("1")
        me.click("Recalibrate the classes")
        assert abs(me.number("Accuracy") - accuracy(edited, table.part("val"))) < 0.6  # a row at the limit may differ
        assert "Recalibrate the classes on 360 rows" in me.page.get_by_role("region", name="Draft").inner_text()


def test_the_report_comes_after_the_final_check(browser, model, table, tmp_path):
    app = create_app(model, table, save_to=tmp_path / "edited")
    with running(app) as server, auditor(browser, f"http://127.0.0.1:{server.port}/") as me:
        me.open()
        me.remove("sea", "background")
        me.press("6")
        report = me.page.get_by_role("button", name="Download the report")
        assert report.is_disabled()
        me.open("#view=overview&rows=covered")
        me.click("Final check…")
        me.click("Show the numbers")
        me.press("6")
        with me.page.expect_download() as waiting:
            report.click()
        waiting.value.save_as(tmp_path / "report.html")
        assert "sea" in (tmp_path / "report.html").read_text()
