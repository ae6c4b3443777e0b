import { runInSlices } from "../app/dom.js";
import { impactOfEach } from "../engine/impact.js";

const MOST_KEPT = 12;
const PAUSE = 250;

/**
 * The effect of removing each concept alone from the model as it is now, computed while the page stays alive.
 *
 * of(mode) returns {impact, progress}: impact is null until it is known, and onKnown is called then. Beside what the
 * engine tells it holds accuracyChange and worstGroupChange.
 */
export function impactRanking(app, onKnown) {
  const kept = new Map();
  let current = null;
  let progress = 0;
  let timer = 0;

  const start = (key, mode) => {
    current = key;
    progress = 0;
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (current !== key) return;
      runInSlices("impact", impactOfEach(app.network, app.states.now, app.numberRows, { mode }), {
        onProgress: (done) => {
          if (current !== key) return;
          const shown = Math.floor(20 * progress);
          progress = done;
          if (Math.floor(20 * done) !== shown) onKnown();
        },
        onDone: (impact) => {
          kept.set(key, withChanges(impact));
          if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
          if (current === key) current = null;
          onKnown();
        },
      });
    }, PAUSE);
  };
  const of = (mode) => {
    const key = rankingKey(app, mode);
    if (kept.has(key)) return { impact: kept.get(key), progress: 1 };
    if (current !== key) start(key, mode);
    return { impact: null, progress };
  };
  return { of };
}

/** The same with changes against now; where the removal is not possible, and without groups, they are NaN. */
function withChanges(impact) {
  const against = (values, now) => (values ?? impact.accuracy.map(() => Number.NaN)).map((value) => value - now);
  return { ...impact, accuracyChange: against(impact.accuracy, impact.accuracyNow),
    worstGroupChange: against(impact.worstGroup, impact.worstGroupNow) };
}

function rankingKey(app, mode) {
  const edits = app.states.now.edits.map(({ note, ...edit }) => edit);
  return JSON.stringify([mode, app.numberRows.length, app.route.rows ?? "", app.rows.n, edits]);
}
