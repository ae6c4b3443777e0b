import { Moments } from "../engine/moments.js";
import { removedConcepts } from "./concept_marks.js";

let kept = { network: null, n: 0, moments: null };

/** Means and correlations of the concepts on training and audit rows; computed once for the rows that are loaded. */
export function scoreMoments(app) {
  if (kept.network !== app.network || kept.n !== app.rows.n) {
    const rows = app.allRows.filter((row) => app.rows.role[row] !== 2);
    kept = { network: app.network, n: app.rows.n, moments: new Moments(app.network, app.rows, rows) };
  }
  return kept.moments;
}

/** Concepts that some node still uses. */
export function usedConcepts(app) {
  const removed = new Set(removedConcepts(app));
  return app.network.concepts.map((_, concept) => concept).filter((concept) => !removed.has(concept));
}

/** Concepts in use that rise and fall with a concept, the closest first. */
export function siblingsInUse(app, concept, most, least) {
  const used = new Set(usedConcepts(app));
  return scoreMoments(app).siblings(concept, app.network.M)
    .filter((one) => used.has(one.index) && Math.abs(one.correlation) >= least)
    .slice(0, most);
}
