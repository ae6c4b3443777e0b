"""The engine of the studio in the browser against Python, on random models and random edits."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import choqolate as cq
from choqolate.errors import ChoqolateError, SmallRemainderWarning
from choqolate.network.edits import Recalibrate, Remove, Restore, Reweight, Simplify, affected_concepts, edit_from_dict
from tests.browser import open_browser
from tests.studio.engine_page import numbers, open_engine
from tests.studio.random_models import CLASSES, CONCEPTS, FORMS, bundle_text, random_classifier, random_table

MODES = ("rescale", "canonical", "impute")
CLEAR = 1e-7  # margin beyond which rounding does not decide

EVERYTHING = """
([text, steps, mode, row, baseline, target]) => {
  const { document, rows, network } = load(text);
  const reread = (edits) => {
    return engine.readEditsDocument(document, JSON.parse(JSON.stringify(engine.editsDocument(document, edits))));
  };
  const [kept, possible] = [[], []];
  for (const edit of steps) {
    try {
      network.state([...kept, edit]);
      kept.push(edit);
      possible.push(true);
    } catch (error) {
      if (!(error instanceof engine.EditError)) throw error;
      possible.push(false);
    }
  }
  const state = network.state(kept);
  const all = rows.label.map((_, i) => i);
  const z = rows.scores(row);
  const explanation = engine.explainOne(network, state, z, { baseline });
  const { weights, numerators, ...said } = state;
  return plain({
    possible,
    state: said,
    inForce: state.inForce,
    names: network.nodeNames(state),
    one: network.valuesOf(state, z),
    probabilities: network.probabilities(state, row),
    explanation,
    contrast: engine.contrast(network, explanation, 0, 1),
    byNodes: engine.contrast(network, explanation, undefined, undefined, "nodes"),
    ofNode: engine.forNode(network, explanation, 1),
    terms: Array.from({ length: network.nNodes }, (_, n) => engine.heaviestTerms(network, state, n, 5)),
    impact: finish(engine.impactOfEach(network, state, all, { mode })),
    removal: finish(engine.smallestRemoval(network, state, z, { mode, most: 4, target })),
    measured: engine.measureAll(network, rows, state, all),
    file: kept.length ? engine.editsDocument(document, kept) : null,
    again: kept.length ? network.state(reread(kept)).scores : null,
  });
}
"""


@pytest.fixture(scope="module")
def page():
    with open_browser() as browser, open_engine(browser) as page:
        yield page


some_names = st.lists(st.sampled_from(CONCEPTS), min_size=1, max_size=3, unique=True).map(tuple)
some_nodes = st.one_of(st.none(), st.lists(st.integers(0, 2), min_size=1, max_size=2, unique=True).map(tuple))
factors = st.sampled_from([0.0, 1e-3, 0.3, 1.0, 2.5, 1e6])
edits = st.one_of(
    st.builds(Remove, some_names, some_nodes, st.sampled_from(MODES)),
    st.builds(Reweight, st.dictionaries(st.sampled_from(CONCEPTS), factors, min_size=1, max_size=3), some_nodes),
    st.builds(Recalibrate, st.tuples(*[st.floats(-0.1, 0.1)] * len(CLASSES)), st.just(12)),
    st.builds(Restore, st.one_of(st.none(), some_names)),
)


def edited_as_far_as_possible(network, steps, locked=()):
    """The network after those of the edits that are possible, and which these are."""
    possible = []
    for step in steps:
        fixed = isinstance(step, Restore) and locked and set(step.concepts or locked) & set(locked)
        try:
            network = network if fixed else network.edited(step)
            possible.append(not fixed)
        except ChoqolateError:
            possible.append(False)
    return network, possible


def tamed(form, steps):
    """Without huge factors for free weights: nothing rescales these, and Python's own differences lose their digits."""
    if not FORMS[form].get("free_weights"):
        return steps
    return [
        Reweight({name: min(factor, 2.5) for name, factor in step.factors.items()}, step.nodes)
        if isinstance(step, Reweight)
        else step
        for step in steps
    ]


def prepared(form, seed, spread, earlier, terms):
    """A classifier that comes with edits, perhaps simplified after them."""
    classifier = random_classifier(form, seed, spread)
    network, _ = edited_as_far_as_possible(classifier.network_, earlier)
    locked = ()
    if terms and "free" not in form:
        network = network.edited(Simplify(max_terms=terms))
        locked = affected_concepts(network.edits_in_force)
    return classifier.with_network(network), locked or (("simplified",) if terms and "free" not in form else ())


def close(got, expected, atol=1e-8):
    np.testing.assert_allclose(np.array(numbers(got), dtype=float).ravel(), np.ravel(expected), rtol=1e-8, atol=atol)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    form=st.sampled_from(list(FORMS)),
    seed=st.integers(0, 10**6),
    spread=st.sampled_from([0.3, 2.0, 12.0]),
    earlier=st.lists(edits, max_size=2),
    terms=st.sampled_from([0, 0, 0, 6, 30]),
    steps=st.lists(edits, max_size=6),
    mode=st.sampled_from(MODES),
    baseline=st.sampled_from(["zero", "mean"]),
    target=st.booleans(),
)
def test_the_engine_computes_what_python_computes(
    page, tmp_path, form, seed, spread, earlier, terms, steps, mode, baseline, target
):
    steps = tamed(form, steps)
    model, locked = prepared(form, seed, spread, tamed(form, earlier), terms)
    table, row = random_table(seed), seed % 24
    network, possible = edited_as_far_as_possible(model.network_, steps, locked)
    edited = model.with_network(network)
    scores = edited.class_scores(table.scores)[row]
    wanted = int(scores.argmin()) if target and np.ptp(scores) > CLEAR else None
    task = [bundle_text(model, table), [step.as_dict() for step in steps], mode, row, baseline, wanted]
    got = page.evaluate(EVERYTHING, task)
    assert got["possible"] == possible
    check_state(got, edited, table, locked)
    check_explanation(got, edited, table.scores[[row]], baseline)
    check_terms(got, edited)
    check_impact(got["impact"], edited, table, mode)
    check_removal(got["removal"], edited, table.scores[[row]], mode, wanted)
    check_measures(got["measured"], edited, table)
    check_file(got, model, edited, table, tmp_path / "edits.json")


def check_state(got, edited, table, locked):
    network, state = edited.network_, got["state"]
    u = network.as_inputs(table.scores)
    scores = network.class_scores(u)
    size = 1 + np.abs(scores).max()
    close(state["nodeValues"], network.node_values(u), atol=1e-8 * size)
    close(state["scores"], scores, atol=1e-8 * size)
    clear = margins(scores) > CLEAR
    np.testing.assert_array_equal(np.array(state["predicted"])[clear], scores.argmax(1)[clear])
    close(state["shift"], network.class_shift)
    np.testing.assert_allclose(np.array(state["retained"], dtype=float), network.retained, rtol=1e-8)
    np.testing.assert_array_equal(state["gone"], network.gone.numpy().ravel())
    np.testing.assert_array_equal(state["frozen"], network.nodes.frozen.numpy().ravel())
    close(state["nodeAttributions"], edited.node_attributions_)
    close(state["conceptAttributions"], edited.concept_attributions_)
    close(state["classAttributions"], edited.class_attributions_)
    close(state["conceptShares"], edited.concept_shares_)
    close(state["conceptToClass"], edited.class_attributions_ @ edited.concept_attributions_)
    later = [edit for edit in network.edits_in_force if not (locked and isinstance(edit, Simplify))]
    assert set(affected_concepts(later)) == set(state["affected"]) | (set(locked) & set(CONCEPTS))
    if clearly_ranked(edited):
        assert got["names"] == list(edited.node_names_)
    described = [str(edit_from_dict(edit)) for edit in got["inForce"]]
    assert described == list(map(str, network.edits_in_force))[-len(described) :] or not described
    small = {one["node"]: one["share"] for one in state["smallRemainders"]}
    assert set(small) <= set(network.small_remainders)  # Python may count what rounding alone took
    close(got["probabilities"], edited.predict_proba(table.scores)[table_row(got, scores)], atol=1e-6)


def clearly_ranked(edited):
    """Whether the names of the nodes do not hang on rounding: no two shares are equal, or one half of the largest."""
    shares = edited.concept_attributions_
    inputs = edited.node_attributions_[:, : shares.shape[1]]
    ranked = -np.sort(-shares, axis=1)
    apart = np.abs(np.diff(ranked, axis=1))[ranked[:, 1:] > 0]
    from_half = np.abs(ranked - ranked[:, :1] / 2)[ranked > 0]
    from_absence = np.abs(inputs - shares / 2)[shares > 0]
    return all((distances > 1e-9).all() for distances in (apart, from_half, from_absence))


def table_row(got, scores):
    """The row that was looked at, found by its scores."""
    return int(np.abs(scores - np.array(got["one"]["scores"])).max(1).argmin())


def margins(scores):
    top = np.sort(scores, axis=1)
    return top[:, -1] - top[:, -2]


def check_explanation(got, edited, z, baseline):
    expected, said = edited.explain(z, baseline=baseline), got["explanation"]
    size = 1 + np.abs(expected.class_scores).max()
    for name, value in {
        "conceptToNode": expected.concept_to_node[0],
        "nodeToClass": expected.node_to_class[0],
        "nodeValues": expected.node_values[0],
        "classScores": expected.class_scores[0],
        "nodeBaseline": expected.node_baseline,
        "classBaseline": expected.class_baseline,
        "inputs": expected.inputs[0],
    }.items():
        close(said[name], value, atol=1e-8 * size)
    close(got["one"]["nodeValues"], expected.node_values[0], atol=1e-8 * size)
    moved = np.abs(expected.node_values[0] - expected.node_baseline)
    if ((moved > 1e-9) | (moved == 0)).all():  # else rounding decides whether a node has moved
        for name, attribution in {
            "contrast": expected.contrast(CLASSES[0], CLASSES[1]),
            "ofNode": expected.for_node(1),
        }.items():
            close(got[name]["values"], attribution.values[0], atol=1e-6 * size)
            close([got[name]["start"], got[name]["end"]], [attribution.start[0], attribution.end[0]], atol=1e-8 * size)
            close(got[name]["levels"], attribution.levels[0])
            assert got[name]["names"] == list(attribution.names)
    if margins(expected.class_scores + expected.class_shift).min() > CLEAR:
        assert said["ranking"][0] == expected.ranking[0, 0]
        leads = expected.contrast(by="nodes")
        if abs(np.diff(np.sort((expected.class_scores + expected.class_shift)[0]))).min() > CLEAR:
            close(got["byNodes"]["values"], leads.values[0], atol=1e-8 * size)


def check_terms(got, edited):
    capacity = edited.network_.nodes.capacity
    for node, listed in enumerate(got["terms"]):
        expected = capacity.terms(node, 5).weight
        weights = [term["weight"] for term in listed["terms"] if abs(term["weight"]) > 1e-12]
        close(weights, expected[expected.abs() > 1e-12])
        close(listed["held"], expected.sum())
        a, (b, c) = capacity.singles()[node], (part[node] for part in capacity.pairs(slice(None)))
        for term in listed["terms"]:
            weights = {"single": a.diag(), "min": b, "max": c}[term["kind"]]
            assert term["weight"] == pytest.approx(float(weights[term["first"], term["second"]]), rel=1e-8, abs=1e-8)


def check_impact(got, edited, table, mode):
    known = table.label >= 0
    impact = edited.removal_impact(table.scores[known], CLASSES[table.label[known]], table.group[known], mode=mode)
    measurable = [group for group in set(table.group[known].tolist()) if (table.group[known] == group).sum() >= 10]
    u = edited.network_.as_inputs(table.scores)
    clear_now = margins(edited.network_.class_scores(u)).min() > CLEAR
    for j, name in enumerate(CONCEPTS):
        try:
            without = edited.network_.edited(Remove((name,), mode=mode))
        except ChoqolateError:
            assert np.isnan(numbers(got["accuracy"][j]))
            assert np.isnan(impact["accuracy"].iloc[j])
            continue
        scores = without.class_scores(u)
        if margins(scores).min() > CLEAR:
            assert got["accuracy"][j] == pytest.approx(impact["accuracy"].iloc[j])
            if measurable:
                hits = scores.argmax(1) == table.label
                worst = min(hits[known & (table.group == group)].mean() for group in measurable)
                assert got["worstGroup"][j] == pytest.approx(worst)
            else:
                assert got["worstGroup"] is None
            if clear_now:
                flipped = scores.argmax(1) != edited.network_.class_scores(u).argmax(1)
                assert got["flips"][j] == flipped.sum()


def check_removal(got, edited, z, mode, wanted):
    target = None if wanted is None else CLASSES[wanted]
    scores = edited.class_scores(z)
    if margins(scores).min() < CLEAR:
        return
    expected = cq.find_counterfactual(edited, z, mode=mode, most=4, target=target)
    leads = [lead for lead in (expected.lead_after, numbers(got["leadAfter"])) if not np.isnan(lead)]
    if any(abs(lead) < CLEAR for lead in leads):
        return
    assert CLASSES[got["before"]] == expected.before
    assert (got["method"], len(got["concepts"])) == (expected.method, len(expected.concepts))
    assert got["searched"] == expected.searched
    assert got["leadBefore"] == pytest.approx(expected.lead_before, abs=1e-8 * (1 + np.abs(scores).max()))
    if got["method"] != "none":
        without = edited.with_network(edited.network_.edited(Remove(tuple(got["concepts"]), mode=mode)))
        assert without.predict(z)[0] != CLASSES[got["before"]]
        if margins(without.class_scores(z)).min() > CLEAR:
            assert without.predict(z)[0] == CLASSES[got["after"]]
        assert got["leadAfter"] == pytest.approx(expected.lead_after, abs=1e-6 * (1 + np.abs(scores).max()))


def check_measures(got, edited, table):
    predicted = edited.predict(table.scores)
    if margins(edited.class_scores(table.scores)).min() < CLEAR:
        return
    known = table.label >= 0
    truth = CLASSES[table.label[known]]
    hits = predicted[known] == truth
    assert (got["all"]["n"], got["all"]["hits"]) == (known.sum(), hits.sum())
    assert got["all"]["accuracy"] == pytest.approx(cq.metrics.accuracy(truth, predicted[known]))
    close([got["all"]["low"], got["all"]["high"]], cq.metrics.wilson_interval(hits.sum(), known.sum()))
    groups = cq.metrics.group_accuracies(truth, predicted[known], table.group[known])
    for group, accuracy in groups.items():
        assert got["groups"][group]["accuracy"] == pytest.approx(accuracy)
    sizes = {group: (table.group[known] == group).sum() for group in groups}
    measurable = [accuracy for group, accuracy in groups.items() if sizes[group] >= 10]
    assert (got["worstGroup"] is None) == (not measurable)
    if measurable:
        assert got["worstGroup"]["accuracy"] == pytest.approx(min(measurable))
    for r, name in enumerate(CLASSES):
        if (truth == name).any():
            assert got["classes"][r]["accuracy"] == pytest.approx(hits[truth == name].mean())


def check_file(got, model, edited, table, path):
    """The exported edits give the same network in Python, and the same state when they are read again."""
    if got["file"] is None:
        return
    path.write_text(json.dumps(got["file"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallRemainderWarning)
        applied = model.apply_edits(path)
    np.testing.assert_array_equal(applied.class_scores(table.scores), edited.class_scores(table.scores))
    assert [edit.as_dict() for edit in applied.edits_] == [edit.as_dict() for edit in edited.edits_]
    assert got["again"] == got["state"]["scores"]
