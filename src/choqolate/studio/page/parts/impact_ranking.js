import { runInSlices } from "../app/dom.js";
import { impactOfEach } from "../engine/impact.js";
import { flips, measureAll } from "../engine/metrics.js";
import { EditError } from "../engine/network.js";

const MOST_KEPT = 12;
const PAUSE = 400;
const SHORT_PAUSE = 60;
const REFUSAL = "It cannot be removed alone, because a node would have no concepts left.";

/**
 * The effects of removing each concept alone from the model as it is now, computed while the page stays alive.
 *
 * each(mode) returns {impact, progress}: what the engine tells of all concepts, with accuracyChange and
 * worstGroupChange; while it is computed, progress is below one and impact that of an earlier state, or null.
 * one(concept, mode) returns the effect of one concept, which is known sooner, or null.
 */
export function impactRanking(app, onKnown) {
  const all = new Map();
  const single = new Map();
  let current = null;
  let progress = 0;
  let latest = { mode: null, impact: null };
  let timers = {};

  const each = (mode) => {
    const key = rankingKey(app, mode);
    if (all.has(key)) {
      latest = { mode, impact: all.get(key) };
      return { impact: latest.impact, progress: 1 };
    }
    if (current !== key) {
      [current, progress] = [key, 0];
      clearTimeout(timers.each);
      timers.each = setTimeout(() => start(key, mode), PAUSE);
    }
    return { impact: latest.mode === mode ? latest.impact : null, progress };
  };
  const steps = (mode) => impactOfEach(app.network, app.states.now, app.auditRows, { mode });
  const start = (key, mode) => {
    if (rankingKey(app, mode) === key) compute(key, mode);
    else if (current === key) current = null; // the model changed while another view was shown
  };
  const compute = (key, mode) => runInSlices("impact", steps(mode), {
    onProgress: (done) => {
      if (current !== key) return;
      const shown = Math.floor(20 * progress);
      progress = done;
      if (Math.floor(20 * done) !== shown) onKnown();
    },
    onDone: (impact) => {
      keep(all, key, withChanges(impact));
      if (current === key) current = null;
      onKnown();
    },
  });
  const one = (concept, mode) => {
    const key = rankingKey(app, mode);
    if (all.get(key)?.tried.has(concept)) return ofConcept(all.get(key), concept);
    const place = `${concept}/${key}`;
    if (single.has(place)) return single.get(place);
    clearTimeout(timers.one);
    timers.one = setTimeout(() => {
      if (rankingKey(app, mode) !== key) return;
      keep(single, place, removalEffect(app, concept, mode));
      onKnown();
    }, SHORT_PAUSE);
    return null;
  };
  return { each, one };
}

function keep(map, key, value) {
  map.set(key, value);
  if (map.size > MOST_KEPT) map.delete(map.keys().next().value);
}

function rankingKey(app, mode) {
  const edits = app.states.now.edits.map(({ note, ...edit }) => edit);
  return JSON.stringify([mode, app.auditRows.length, app.rows.n, edits]);
}

/** The same with changes against now: NaN where the removal is not possible, and without groups. */
function withChanges(impact) {
  const against = (values, now) => (values ?? impact.accuracy.map(() => Number.NaN)).map((value) => value - now);
  return { ...impact, accuracyChange: against(impact.accuracy, impact.accuracyNow),
    worstGroupChange: against(impact.worstGroup, impact.worstGroupNow) };
}

function ofConcept(impact, concept) {
  if (Number.isNaN(impact.accuracy[concept]) && !Number.isNaN(impact.accuracyNow)) return { refusal: REFUSAL };
  const { accuracyNow, accuracyChange, worstGroupNow, worstGroupChange, flips: flipped } = impact;
  return { accuracyNow, accuracyChange: accuracyChange[concept], worstGroupNow,
    worstGroupChange: worstGroupChange[concept], flips: flipped[concept], refusal: null };
}

/** The effect of removing one concept, or the sentence that says why it cannot be removed. */
function removalEffect(app, concept, mode) {
  const { network, rows, auditRows, states: { now } } = app;
  const edit = { edit: "remove", concepts: [network.concepts[concept]], nodes: null, mode };
  try {
    const after = network.state([...now.edits, edit]);
    const [before, then] = [now, after].map((state) => measureAll(network, rows, state, auditRows));
    const [worstGroupNow, worstGroupThen] = [before, then].map((one) => one.worstGroup?.accuracy);
    return { accuracyNow: before.all.accuracy, accuracyChange: then.all.accuracy - before.all.accuracy,
      worstGroupNow, worstGroupChange: worstGroupThen - worstGroupNow,
      flips: flips(now.predicted, after.predicted, auditRows).length, refusal: null };
  } catch (error) {
    if (!(error instanceof EditError)) throw error;
    return { refusal: error.message };
  }
}
