import { Moments } from "../engine/moments.js";
import { removedConcepts } from "./concept_marks.js";

const MOST_SIBLINGS = 1000; // that are kept of a concept

let kept = { rows: null, moments: null, siblings: new Map() };

/** Means and correlations of the concepts on training and audit rows; computed once for the rows that are loaded. */
export function scoreMoments(app) {
  if (kept.rows !== app.allRows) {
    const rows = app.allRows.filter((row) => app.rows.role[row] !== 2);
    const moments = new Moments(app.network, app.rows, rows);
    kept = { rows: app.allRows, moments, siblings: new Map() };
  }
  return kept.moments;
}

/** Concepts that rise and fall with a concept, the closest first. */
export function siblingsOf(app, concept, most) {
  const moments = scoreMoments(app);
  if (!kept.siblings.has(concept)) kept.siblings.set(concept, moments.siblings(concept, MOST_SIBLINGS));
  return kept.siblings.get(concept).slice(0, most);
}

/** The correlation from which concepts count as close: the given one, and more where few rows give more by chance. */
export function closeFrom(app, least) {
  return Math.max(least, scoreMoments(app).chance);
}

/** Concepts that some node still uses. */
export function usedConcepts(app) {
  const removed = new Set(removedConcepts(app));
  return app.network.concepts.map((_, concept) => concept).filter((concept) => !removed.has(concept));
}

/** The closest siblings of a concept among those in use. */
export function siblingsInUse(app, concept, most, least) {
  const [used, from] = [new Set(usedConcepts(app)), closeFrom(app, least)];
  const close = (one) => used.has(one.index) && Math.abs(one.correlation) >= from;
  return siblingsOf(app, concept, MOST_SIBLINGS).filter(close).slice(0, most);
}
