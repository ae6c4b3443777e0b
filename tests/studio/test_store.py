"""The store of the page in a real browser: drafts, history, what is kept, and what Python makes of the edits."""

from __future__ import annotations

import json
from contextlib import nullcontext
from urllib.parse import quote

import numpy as np
import pytest

from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateWarning
from choqolate.estimators.edits_file import apply_document
from choqolate.estimators.table_training import training_rows
from choqolate.studio import build_bundle
from tests.browser import open_browser
from tests.reports import bird_table, small_model
from tests.studio.store_page import open_store

SEA = {"edit": "remove", "concepts": ["sea"], "nodes": None, "mode": "rescale"}
FOREST = {**SEA, "concepts": ["forest"]}
RESTORE_SEA = {"edit": "restore", "concepts": ["sea"]}


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def table():
    """Birds without images."""
    birds = bird_table(None, 300)
    columns = {"labels": birds.labels, "split": birds.split, "groups": birds.groups, "spurious": birds.spurious}
    return ConceptScores(birds.scores, birds.concepts, **columns)


@pytest.fixture(scope="module")
def model(table):
    return small_model(table, epochs=5)


@pytest.fixture(scope="module")
def bundle(model, table):
    return build_bundle(model, table)


@pytest.fixture
def page(browser, bundle):
    with open_store(browser, bundle) as opened:
        yield opened


def test_redo_goes_forward_as_undo_went_back(page):
    page.evaluate("""() => { app.remove(["sea"]); app.commit({}); app.restore(["sea"]); app.undo(); app.undo(); }""")
    steps = [page.evaluate("() => { app.redo(); return [app.history.head, app.draft]; }") for _ in range(3)]
    assert steps == [[1, []], [1, [RESTORE_SEA]], [1, [RESTORE_SEA]]]
    assert not page.evaluate("() => app.canRedo")


def test_what_is_restored_can_be_removed_or_reweighted_again(page):
    page.evaluate(
        """() => { app.remove(["sea"]); app.commit({}); app.remove(["forest"]); app.reweight({crest: 2}); }"""
    )
    page.evaluate("""() => { app.restore(["sea"]); app.remove(["sea"]); }""")
    assert page.evaluate("() => app.states.now.affected") == ["forest", "crest", "sea"]
    page.evaluate("""() => { app.restore(["sea"]); app.reweight({sea: 0.5}); }""")
    assert page.evaluate("() => app.states.now.inForce.at(-1).factors") == {"sea": 0.5}
    assert page.evaluate("() => app.states.now.gone.some(Boolean)")  # the forest


def test_restoring_twice_is_nothing_to_complain_about(page):
    page.evaluate("""() => { app.remove(["sea"]); app.commit({}); app.restore(["sea"]); app.remove(["sea"]); }""")
    assert page.evaluate("""() => app.restore(["sea"])""")
    assert page.evaluate("() => app.draft") == [RESTORE_SEA]
    assert not page.evaluate("""() => app.restore(["sea"])""")
    assert page.evaluate("() => said.at(-1)") == "sea is neither removed nor reweighted."


def test_a_final_check_is_remembered_and_says_if_its_edits_have_changed(page):
    page.evaluate("() => app.finalCheck()")
    page.evaluate("() => open()")
    assert page.evaluate("() => app.finalChecked")
    page.evaluate("""() => { for (const name of ["sea", "forest"]) { app.remove([name]); app.commit({}); } }""")
    page.evaluate("() => { app.history.finalChecks = []; app.finalCheck(); }")
    differs = "() => app.history.differsFrom(app.history.finalChecks[0])"
    assert not page.evaluate(differs)
    page.evaluate("() => app.deleteCommit(1)")
    assert page.evaluate("() => [app.history.head, app.history.finalChecks[0].at]") == [2, 2]
    assert page.evaluate(differs)
    page.evaluate("() => open()")
    assert page.evaluate(differs)


def test_edits_of_a_file_leave_the_draft_on_top(page):
    page.evaluate("""() => { app.remove(["crest"]); app.remove(["forest"]); }""")
    assert page.evaluate("(edits) => app.takeEdits(edits)", [{**SEA, "note": {"reviewed": True, "author": "Ada"}}])
    assert page.evaluate("() => app.states.now.affected") == ["sea", "crest", "forest"]
    assert page.evaluate("() => app.history.commits[0].note") == {"reviewed": True, "author": "Ada"}
    page.evaluate("() => { app.undo(); app.undo(); }")
    assert page.evaluate("() => app.states.now.affected") == []


def test_a_draft_is_not_lost_by_checking_out(page):
    page.evaluate("""() => { app.remove(["sea"]); app.commit({}); app.remove(["forest"]); app.checkOut(null); }""")
    assert page.evaluate("() => [app.history.head, app.draft, said.pop()]") == [
        1,
        [FOREST],
        "Commit or discard the draft first.",
    ]
    page.evaluate("() => { app.discardDraft(); app.checkOut(null); }")
    assert page.evaluate("() => [app.history.head, app.canUndo]") == [None, False]


def test_effects_of_removals_are_of_the_state_that_they_are_told_for(page):
    page.evaluate(
        """async () => {
          const { impactRanking } = await import("/parts/impact_ranking.js");
          window.ranking = impactRanking(app, () => {});
          app.remove(["sea"]);
          ranking.each("rescale");
          ranking.one(0, "rescale");
          app.undo(); // while another view is shown, so that nothing is asked for
        }"""
    )
    page.wait_for_timeout(700)
    before = page.evaluate("() => { app.redo(); return [ranking.each('rescale'), ranking.one(0, 'rescale')]; }")
    assert before == [{"impact": None, "progress": 0}, None]
    page.wait_for_function("() => ranking.each('rescale').progress === 1")
    flips, one, now = page.evaluate(
        """() => {
          const { impact } = ranking.each("rescale");
          const after = app.network.state([...app.draft, { edit: "remove", concepts: ["webbed feet"], nodes: null,
            mode: "rescale" }]);
          const flipped = app.auditRows.filter((row) => after.predicted[row] !== app.states.now.predicted[row]);
          return [flipped.length, ranking.one(0, "rescale").flips, impact.flips[0]];
        }"""
    )
    assert flips == one == now > 0


def test_effects_are_on_the_judged_rows_whatever_the_overview_shows(page):
    effects = [
        page.evaluate(
            """async (rows) => {
              const { impactRanking } = await import("/parts/impact_ranking.js");
              app.go({ rows });
              return new Promise((told) => {
                const ranking = impactRanking(app, () => told(ranking.one(4, "rescale")));
                ranking.one(4, "rescale");
              });
            }""",
            rows,
        )
        for rows in ("", "train")
    ]
    assert effects[0] == effects[1]


HOSTILE_EDITS = [
    {"edit": "toString"},
    {"edit": "__proto__"},
    {"edit": "reweight", "factors": {"sea": "2"}, "nodes": None},
    {"edit": "reweight", "factors": {"sea": None}, "nodes": None},
    {"edit": "reweight", "factors": ["sea"], "nodes": None},
    {"edit": "reweight", "factors": {"sea": 0.5}, "nodes": [0, 0]},
    {"edit": "remove", "concepts": "sea", "nodes": None, "mode": "rescale"},
    {"edit": "remove", "concepts": ["sea"], "nodes": [99], "mode": "rescale"},
    {"edit": "remove", "concepts": ["constructor"], "nodes": None, "mode": "rescale"},
    {"edit": "recalibrate", "shift": [0], "rows": 3},
    None,
    3,
]
COMMIT = {"id": 1, "parent": None, "edits": [SEA], "note": {"reviewed": False}}
DAMAGED = [
    {"commits": 3},
    {"commits": [None]},
    {"commits": [{**COMMIT, "id": "1"}], "head": "1"},
    {"commits": [COMMIT, COMMIT], "head": 1},
    {"commits": [{**COMMIT, "parent": 1}], "head": 1},
    {"commits": [{**COMMIT, "parent": 2}, {**COMMIT, "id": 2, "parent": 1}], "head": 1},
    {"commits": [COMMIT], "head": 7},
    {"commits": [{**COMMIT, "edits": None}], "head": 1},
    {"commits": [COMMIT], "head": 1, "finalChecks": 3},
    {"commits": [COMMIT, {**COMMIT, "id": 2, "edits": [{**SEA, "concepts": ["tree"]}]}], "head": 1},
    *({"commits": [{**COMMIT, "edits": [edit]}], "head": 1} for edit in HOSTILE_EDITS),
]


def test_damaged_and_hostile_audits_are_refused(page):
    for audit in [*({"draft": [edit]} for edit in HOSTILE_EDITS), *({"history": one} for one in DAMAGED)]:
        refused = page.evaluate("(audit) => [app.takeUp(audit), said.pop()]", audit)
        assert refused[0] is False, audit
        assert refused[1].startswith("These edits do not fit this model."), audit
    assert page.evaluate("() => [app.draft, app.history.commits, Object.keys({}), said]") == [[], [], [], []]


def test_what_is_missing_of_a_kept_audit_is_made_up(page):
    kept = {"commits": [{"id": 4, "edits": [SEA]}], "head": 4, "forward": [9], "finalChecks": [{"at": 3}]}
    assert page.evaluate("(history) => app.takeUp({history})", kept)
    assert page.evaluate("() => { app.remove(['forest']); app.commit({}); return app.history.head; }") == 5
    assert page.evaluate("() => [app.history.commits[0].note, app.history.forward]") == [{"reviewed": False}, []]
    check = page.evaluate("() => app.history.finalChecks[0]")
    assert check == {"time": "", "at": None, "before": 5, "altered": True}


@pytest.mark.parametrize("edits", ["[", '[{"edit": "toString"}]', "[{}]", "{}", json.dumps([SEA] * 200)])
def test_a_link_with_other_edits_opens_the_model_as_it_is(browser, bundle, edits):
    with open_store(browser, bundle, f"#edits={quote(edits)}") as page:
        assert page.evaluate("() => [app.draft, app.history.commits]") == [[], []]


def test_the_address_holds_the_edits_after_going_back(page):
    page.evaluate("""() => { addEventListener("hashchange", () => app.follow()); app.go({view: "concept"}); }""")
    page.evaluate("""() => { app.remove(["sea"]); history.back(); }""")
    page.wait_for_function("() => app.route.view === 'overview' && location.hash.includes('sea')")
    assert page.evaluate("() => app.isLinkWhole")
    many = [{"edit": "reweight", "factors": {"forest": 1 + k / 100}, "nodes": None} for k in range(120)]
    assert page.evaluate("(draft) => app.takeUp({draft})", many)
    assert not page.evaluate("() => app.isLinkWhole || location.hash.includes('forest')")


def test_a_session_is_kept_for_the_model_and_the_rows_that_it_was_made_on(browser, bundle, model, table):
    edited = build_bundle(model.remove_concepts("sea"), table)
    fewer = build_bundle(model, table.take(np.arange(200)))
    with open_store(browser, bundle) as page:
        prefixes = {
            page.evaluate(
                """async ({ model, rows }) => {
                  const { Keeper } = await import("/app/keeping.js");
                  return new Keeper({ model, rows }).prefix;
                }""",
                one.document,
            )
            for one in (bundle, edited, fewer)
        }
        assert len(prefixes) == 3


# ---------------------------------------------------------------------- Python's word


def without_split(table: ConceptScores) -> ConceptScores:
    labels = table.labels.copy()
    labels[:10] = None
    return ConceptScores(table.scores, table.concepts, labels=labels)


def without_labels(table: ConceptScores) -> ConceptScores:
    return ConceptScores(table.scores, table.concepts)


KINDS = {
    "pairwise": {},
    "factored": {"interactions": "factored", "rank": 2},
    "none": {"interactions": "none"},
    "bipolar": {"bipolar": True},
    "one layer": {"n_nodes": None},
}
CAME_WITH = {
    "nothing": lambda model, table: model,
    "edits": lambda model, table: (
        model.remove_concepts("forest")
        .reweight_concepts({"crest": 0.4}, nodes=[0])
        .recalibrate(training_rows(model, table))
    ),
    "a simplification": lambda model, table: (
        model.remove_concepts("forest").simplify(max_terms=4).reweight_concepts({"crest": 0.4})
    ),
}
AUDIT = """() => {
  app.remove(["sea"]);
  app.reweight({ "long bill": 0.3 }, { nodes: [1] });
  app.commit({ author: "Ada", reason: "background" });
  app.remove(["webbed feet"], { nodes: [0], mode: "canonical" });
  app.commit({});
  app.restore(["sea"]);
  if (app.states.committed.affected.includes("forest")) app.restore(["forest"]);
  app.remove(["hooked bill"], { mode: "impute" });
  app.commit({});
  const shift = app.network.classes.map((_, r) => (r ? -0.01 : 0.01));
  app.tryDraft([{ edit: "recalibrate", shift, rows: 10, fingerprint: null }]);
  app.commit({});
}"""
RESULT = """async () => {
  const { editsDocument } = await import("/engine/edits.js");
  const { now, original } = app.states;
  const [number, probabilities] = [Array.from(app.rows.number), Array.from(app.allRows, (row) =>
    Array.from(app.network.probabilities(now, row)))];
  return { number, probabilities, now: Array.from(now.scores), original: Array.from(original.scores),
    document: JSON.parse(JSON.stringify(editsDocument(app.document, app.history.editsAt()))) };
}"""


@pytest.mark.parametrize(("kind", "came_with"), [(kind, came) for kind in KINDS for came in CAME_WITH])
def test_the_edits_file_gives_what_the_page_showed(browser, table, kind, came_with):
    opened = CAME_WITH[came_with](small_model(table, epochs=3, **KINDS[kind]), table)
    with open_store(browser, build_bundle(opened, table)) as page:
        page.evaluate(AUDIT)
        assert page.evaluate("() => app.history.commits.length") == 4, page.evaluate("() => said")
        found = page.evaluate(RESULT)
    rows = table.take(found["number"])
    applied = apply_document(opened, found["document"])
    shape = (len(rows), 2)
    np.testing.assert_allclose(np.reshape(found["original"], shape), opened.class_scores(rows), atol=1e-6)
    np.testing.assert_allclose(np.reshape(found["now"], shape), applied.class_scores(rows), atol=1e-6)
    np.testing.assert_allclose(found["probabilities"], applied.predict_proba(rows), atol=1e-4)
    assert applied.edits_[-1].note.reviewed is False


@pytest.mark.parametrize(
    ("change", "on"),
    [(lambda table: table, "train"), (without_split, "uncovered"), (without_labels, "uncovered")],
)
def test_recalibration_is_on_the_rows_that_python_takes(browser, model, table, change, on):
    rows = change(table)
    judged_in_training = pytest.warns(ChoqolateWarning, match="used for training")
    with judged_in_training if change is without_split else nullcontext():
        bundle = build_bundle(model, rows)
    with open_store(browser, bundle) as page:
        page.evaluate("""() => { app.remove(["sea"]); app.recalibrate(); }""")
        edit = page.evaluate("() => app.draft.at(-1)")
        chosen = page.evaluate("() => Array.from(app.calibrationRows, (row) => app.rows.number[row])")
        covered = page.evaluate("() => Array.from(app.coveredRows, (row) => app.rows.number[row])")
    assert edit["edit"] == "recalibrate"
    assert edit["rows"] == len(chosen)
    expected = np.flatnonzero(rows.split == "train") if on == "train" else np.setdiff1d(np.arange(len(rows)), covered)
    assert sorted(chosen) == expected.tolist()
