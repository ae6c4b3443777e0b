"""An audit in a real browser, with a server and as one file: edits, history, review, what leaves the page."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import numpy as np
import pytest

import choqolate as cq
from choqolate.errors import ChoqolateWarning
from choqolate.studio import create_app, export_studio
from tests.reports import nasty_table, small_model
from tests.studio.auditor import Auditor, as_shown, audited, auditor
from tests.studio.running import running

IN_THE_HAND = """(text) => {
  const held = new DataTransfer();
  held.items.add(new File([Uint8Array.from(atob(text), (one) => one.charCodeAt(0))], "bird", { type: "image/jpeg" }));
  return held;
}"""
VIEWS = ("overview", "concept", "images", "suspects", "history", "export")


@pytest.fixture(scope="module")
def saved_to(tmp_path_factory):
    return tmp_path_factory.mktemp("saved") / "edited"


@pytest.fixture(scope="module")
def addresses(model, table, saved_to, tmp_path_factory):
    """Where the same studio is: as a file, and on a server."""
    file = tmp_path_factory.mktemp("file") / "audit.html"
    export_studio(model, table, file, title="birds", rows=2000)
    with running(create_app(model, table, title="birds", rows=2000, save_to=saved_to)) as server:
        yield {"file": file.as_uri(), "server": f"http://127.0.0.1:{server.port}/"}


@pytest.fixture(params=["file", "server"])
def address(request, addresses):
    return addresses[request.param]


def test_an_audit_from_the_first_look_to_the_saved_model(browser, address, model, table, saved_to, tmp_path):
    with auditor(browser, address) as me:
        me.open()
        before = audited(model, table)
        assert (me.number("Accuracy"), me.number("Worst group")) == before
        me.remove("sea")
        without_sea = audited(model, table, "sea")
        assert (me.number("Accuracy"), me.number("Worst group")) == without_sea
        assert me.number("Worst group", "committed") == before[1]
        me.commit("the sea is background")
        assert me.number("Worst group", "committed") == without_sea[1]
        me.remove("forest", "so is the forest")
        both = audited(model, table, "sea", "forest")
        assert (me.number("Accuracy"), me.number("Worst group")) == both
        assert both[1] > before[1] + 10
        me.press("u")
        assert me.number("Worst group") == without_sea[1]
        me.press("u")
        assert me.number("Worst group") == before[1]
        me.press("r", "r")
        assert me.number("Worst group") == both[1]
        compare_commits(me, model, table)
        see_flipped(me, model, table)
        me.page.reload()
        me.ready()
        assert me.number("Worst group") == both[1]
        review_all(me)
        if me.address.startswith("file"):
            check_edits_file(me, model, table, tmp_path)
        else:
            check_saved_model(me, model, table, saved_to)


def compare_commits(me, model, table):
    me.press("5")
    me.page.get_by_label("First").select_option("1")
    me.page.get_by_label("Second").select_option("2")
    me.settled()
    rows = table.part("val")
    first, second = (model.remove_concepts(names).predict(rows) for names in (["sea"], ["sea", "forest"]))
    gained = int(((first != rows.labels) & (second == rows.labels)).sum())
    lost = int(((first == rows.labels) & (second != rows.labels)).sum())
    panel = me.page.get_by_role("region", name="Compare two commits")
    assert f"{gained} became right, {lost} became wrong" in panel.inner_text()
    assert "a=1" in me.page.url
    assert "b=2" in me.page.url


def see_flipped(me, model, table):
    """The images that the edits flipped are those that Python says, and no covered one is among them."""
    me.page.locator(".strip a").click()
    me.settled()
    judged = table.part("val")
    flipped = int((model.predict(judged) != model.remove_concepts(["sea", "forest"]).predict(judged)).sum())
    assert flipped > 5
    assert me.page.locator(".strip a").inner_text() == str(flipped)
    assert re.findall(r"[\d,]+", me.page.locator(".grid-count").inner_text())[0] == str(flipped)
    assert "flipped=original" in me.page.url


def review_all(me):
    me.press("5")
    for box in me.page.get_by_role("checkbox", name=re.compile("is reviewed")).all():
        box.check()
    me.press("6")


def check_edits_file(me, model, table, tmp_path):
    with me.page.expect_download() as waiting:
        me.click("Download edits.json")
    file = tmp_path / "edits.json"
    waiting.value.save_as(file)
    edited = model.apply_edits(file)
    assert [str(edit) for edit in edited.edits_] == ["removed 'sea' (rescale)", "removed 'forest' (rescale)"]
    notes = [edit.note for edit in edited.edits_]
    assert [(note.author, note.reason, note.reviewed) for note in notes] == [
        ("Ada", "the sea is background", True),
        ("Ada", "so is the forest", True),
    ]
    assert all(re.match(r"\d{4}-\d\d-\d\dT", note.time) for note in notes)
    expected = model.remove_concepts("sea").remove_concepts("forest")
    np.testing.assert_array_equal(edited.class_scores(table), expected.class_scores(table))


def check_saved_model(me, model, table, saved_to):
    me.click("Save the model")
    me.page.get_by_text("The model is saved in").wait_for()
    said = me.page.get_by_role("region", name="Edited model").inner_text()
    accuracy, worst = audited(model, table, "sea", "forest")
    assert re.search(rf"accuracy {accuracy}% \([\d.]+ to [\d.]+\), worst group {worst}% \([\d.]+ to [\d.]+\)\.", said)
    saved = cq.load(saved_to)
    expected = model.remove_concepts("sea").remove_concepts("forest")
    np.testing.assert_array_equal(saved.class_scores(table), expected.class_scores(table))
    assert [edit.note.reviewed for edit in saved.edits_] == [True, True]


def test_saving_asks_for_committed_and_reviewed_edits(browser, addresses):
    with auditor(browser, addresses["server"]) as me:
        me.open("#view=export")
        save = me.page.get_by_role("button", name="Save the model")
        assert save.is_disabled()
        me.remove("sea", "background")
        me.press("6")
        assert save.is_disabled()
        me.click("Review 1 commit")
        me.page.get_by_label("Commit 1 is reviewed").check()
        me.press("6")
        assert save.is_enabled()
        me.remove("forest")
        me.press("6")
        assert save.is_disabled()


def test_the_whole_audit_without_a_mouse(browser, address, model, table):
    with auditor(browser, address) as me:
        me.open()
        me.press("/")
        me.page.keyboard.type("sea")
        me.press("Enter")
        tab_to(me, "Remove everywhere")
        me.press("Enter", "c")
        me.page.keyboard.type("background")
        me.press("Enter")
        assert me.number("Worst group", "committed") == audited(model, table, "sea")[1]
        me.press("5")
        tab_to(me, "Commit 1 is reviewed")
        me.press("Space", "Control+z")
        assert me.number("Worst group") == audited(model, table)[1]
        me.press("Control+Shift+Z", "3")
        tab_to_grid(me)
        me.press("ArrowRight", "Enter")
        assert re.search(r"image=\d+", me.page.url)
        me.press("Escape")
        assert "image=" not in me.page.url
        me.press("?")
        assert me.page.get_by_role("dialog", name="Keyboard shortcuts").is_visible()
        me.press("Escape", "6")
        (kept,) = me.history
        assert kept["commits"][0]["note"]["reviewed"] is True


def tab_to(me, name):
    """Press Tab until a control of this name has the focus."""
    for _ in range(150):
        me.page.keyboard.press("Tab")
        focused = "(e) => e.getAttribute('aria-label') || e.innerText || e.labels?.[0]?.innerText || ''"
        if name in me.page.evaluate(f"() => ({focused})(document.activeElement)"):
            return
    pytest.fail(f"Tab does not lead to {name}")


def tab_to_grid(me):
    for _ in range(150):
        me.page.keyboard.press("Tab")
        if me.page.evaluate("() => document.activeElement.closest('[role=option]') !== null"):
            return
    pytest.fail("Tab does not lead to the images")


def test_covered_rows_are_not_seen_before_the_final_check(browser, addresses, model, table):
    number = int(np.flatnonzero(table.split == "test")[0])
    rows = table.part("test")
    with auditor(browser, addresses["file"]) as me:
        me.open(f"#view=images&image={number}")
        assert "covered" in me.page.get_by_role("main").inner_text().lower()
        assert table.paths[number] not in me.page.get_by_role("main").inner_text()
        me.open("#view=overview&rows=covered")
        accuracy = f"{as_shown((model.predict(rows) == rows.labels).mean())}%"
        assert accuracy not in me.page.get_by_role("main").inner_text()
        me.click("Final check…")
        me.click("Show the numbers")
        assert accuracy in me.page.get_by_role("main").inner_text()
        me.remove("sea", "background")
        me.press("5")
        assert "Final check" in me.page.get_by_role("region", name="Commits", exact=True).inner_text()
        (kept,) = me.history
        assert [check["at"] for check in kept["finalChecks"]] == [None]


def test_commits_can_be_left_checked_out_and_deleted(browser, addresses, model, table):
    with auditor(browser, addresses["file"]) as me:
        me.open()
        me.remove("sea", "one")
        me.remove("forest", "two")
        me.press("5")
        me.page.locator("[data-commit='1']").get_by_role("button", name="Check out").click()
        me.settled()
        assert me.number("Worst group") == audited(model, table, "sea")[1]
        me.remove("crest", "another way")
        assert me.number("Worst group") == audited(model, table, "sea", "crest")[1]
        me.press("5")
        assert "after commit 1" in me.page.locator("[data-commit='3']").inner_text()
        me.page.get_by_label("Delete commit 1").click()
        me.settled()
        assert me.number("Worst group") == audited(model, table, "crest")[1]
        (kept,) = me.history
        assert [(commit["id"], commit["parent"]) for commit in kept["commits"]] == [(2, None), (3, None)]


def test_tabs_do_not_share_edits_and_an_audit_can_be_continued(browser, addresses):
    with auditor(browser, addresses["server"]) as me:
        me.open()
        me.remove("sea", "background")
        start = me.number("Worst group", "original")
        other = Auditor(me.page.context.new_page(), me.address)
        other.open()
        assert other.number("Worst group") == start
        me.page.reload()
        me.ready()
        other.remove("forest", "background too")
        assert len(me.history) == 2
        me.press("5")
        assert "sea" in me.page.locator("[data-commit='1']").inner_text()
        third = Auditor(me.page.context.new_page(), me.address)
        third.open()
        third.click("Continue it")
        third.press("5")
        assert "forest" in third.page.locator("[data-commit='1']").inner_text()
        assert other.said == third.said == []


def test_an_audit_that_has_begun_is_not_replaced_by_an_earlier_one(browser, addresses):
    with auditor(browser, addresses["server"]) as me:
        me.open()
        me.remove("sea", "first audit")
        me.page = me.page.context.new_page()
        me.open()
        offer = me.page.get_by_role("button", name="Continue it")
        assert offer.is_visible()
        me.remove("forest")
        assert offer.count() == 0


def test_numbers_of_a_sample_say_so_until_all_rows_are_loaded(browser, model, table):
    app = create_app(model, table, rows=150)
    with running(app) as server, auditor(browser, f"http://127.0.0.1:{server.port}/") as me:
        me.open("#view=images")
        summary = me.page.locator(".strip-rows")
        assert "60 of 180 audit rows" in summary.inner_text()
        me.click("Load more rows")
        me.page.locator(".grid-count", has_text="540 images").wait_for()
        me.settled()
        assert summary.inner_text().startswith("On 180 audit rows")
        assert (me.number("Accuracy"), me.number("Worst group")) == audited(model, table)
        me.press("1")
        assert me.page.get_by_text("900 of 900 rows are loaded.").is_visible()


def test_a_link_holds_the_edits(browser, address, model, table):
    with auditor(browser, address) as me:
        me.open()
        me.remove("sea", "background")
        link = me.page.url[len(me.address) :]
    with auditor(browser, address) as other:
        other.open(link)
        assert other.number("Worst group") == audited(model, table, "sea")[1]
        assert "Remove sea" in other.page.get_by_role("region", name="Draft").inner_text()


def test_an_impossible_edit_is_refused_with_a_sentence(browser, addresses):
    with auditor(browser, addresses["file"]) as me:
        me.open("#edits=" + json.dumps([{"edit": "remove", "concepts": ["unicorn"], "nodes": None, "mode": "rescale"}]))
        assert "unicorn" in me.page.get_by_role("status").last.inner_text()
        for name in ("webbed feet", "long bill", "hooked bill", "crest", "sea"):
            me.remove(name)
        before = me.number("Accuracy")
        me.remove("forest")
        assert "Keep at least one" in me.page.get_by_role("status").last.inner_text()
        assert me.number("Accuracy") == before


def test_an_edits_file_can_be_opened_and_others_are_refused(browser, addresses, model, table, tmp_path):
    edited = model.remove_concepts("sea", nodes=[0, 2], note="colleague").reweight_concepts({"forest": 0.3})
    cq.save_edits(edited, tmp_path / "edits.json")
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "other.json").write_text('{"format": "something else"}')
    (tmp_path / "changed.json").write_text((tmp_path / "edits.json").read_text().replace("0.3", "0.9"))
    with auditor(browser, addresses["file"]) as me:
        me.open("#view=export")
        for name in ("broken.json", "other.json", "changed.json"):
            me.page.set_input_files("#open-edits", tmp_path / name)
            me.page.get_by_text(f"{name} cannot be opened").wait_for()
        me.page.set_input_files("#open-edits", tmp_path / "edits.json")
        me.page.get_by_text("Added 2 edits from edits.json").wait_for()
        rows = table.part("val")
        accuracy = as_shown((edited.predict(rows) == rows.labels).mean())
        assert me.number("Accuracy") == accuracy
        me.press("5")
        assert "colleague" in me.page.locator("[data-commit='1']").inner_text()


def test_a_file_with_damaged_data_says_so_instead_of_numbers(browser, addresses, tmp_path):
    html = Path(addresses["file"].removeprefix("file://")).read_text("utf-8")
    start = html.index('id="studio-data"') + 200
    place = html.index("</script>", start) - 2000  # among the arrays
    damaged = tmp_path / "damaged.html"
    damaged.write_text(html[:place] + ("A" if html[place] != "A" else "B") + html[place + 1 :], "utf-8")
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(damaged.as_uri())
        page.get_by_text("their checksum does not match").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_all_views_without_scrolling_sideways(browser, addresses, scheme):
    with auditor(browser, addresses["file"], width=390, height=844, color_scheme=scheme) as me:
        me.open()
        me.remove("sea")
        for view in VIEWS:
            me.open(f"#view={view}&concept=sea")
            wide = me.page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, view
        me.open("#view=images&image=2")
        assert me.page.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0


def test_names_with_markup_do_nothing(browser, tmp_path):
    table = nasty_table()
    model = small_model(table)
    with pytest.warns(ChoqolateWarning, match="not found"):
        export_studio(model, table, tmp_path / "nasty.html")
    with auditor(browser, (tmp_path / "nasty.html").as_uri()) as me:
        me.open()
        for concept in table.concepts[:2]:
            for view in VIEWS:
                me.page.evaluate("(to) => { location.hash = to; }", f"#{nasty_route(view, concept)}")
                me.settled()
        me.click("Overview", role="link")
        me.open(f"#{nasty_route('concept', table.concepts[0])}")
        me.click("Remove everywhere")
        me.commit("<script>window.injected = 2</script>")
        for view in VIEWS:
            me.open(f"#view={view}")
        assert me.page.evaluate("() => window.injected") is None
        assert me.page.locator("main b, main img[onerror], main script").count() == 0


def nasty_route(view, concept):
    from urllib.parse import urlencode

    return urlencode({"view": view, "concept": concept})


def test_an_image_can_be_dropped_where_the_server_has_the_encoder(browser, studio_place):
    table, model = studio_place.table, studio_place.model
    image = studio_place.folder / "birds" / str(table.paths[0])
    with running(create_app(model, table)) as server, auditor(browser, f"http://127.0.0.1:{server.port}/") as me:
        me.open("#view=images")
        content = base64.b64encode(image.read_bytes()).decode()
        me.page.dispatch_event(".drop", "drop", {"dataTransfer": me.page.evaluate_handle(IN_THE_HAND, content)})
        me.page.wait_for_function("() => location.hash.includes('image=dropped')")
        me.settled()
        shares = model.predict_proba(table.take([0]))[0]
        assert me.predicted == (str(model.classes_[shares.argmax()]), as_shown(shares.max()))
        me.page.set_input_files("input[type=file]", studio_place.folder / "scores.parquet")
        me.page.locator(".toast.warn").wait_for()
        me.said.clear()  # the browser notes the refusal in its console
