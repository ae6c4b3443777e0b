import { count, points, share } from "../app/format.js";

/** The ways to order the list of concepts, as far as labels and groups allow: [[key, text], ...]. */
export function orders(app) {
  const labelled = app.auditRows.some((row) => app.rows.label[row] >= 0);
  const grouped = labelled && app.document.rows.groups.length > 0;
  return [
    ["share", "Share in the model"],
    grouped && ["worst", "Effect on worst group"],
    labelled && ["accuracy", "Effect on accuracy"],
    ["flips", "Images flipped"],
    ["name", "Name"],
  ].filter(Boolean);
}

/** Whether an order needs the effects of removing each concept. */
export function needsImpact(order) {
  return ["worst", "accuracy", "flips"].includes(order);
}

/**
 * The value that stands beside each concept: {value, text, size, sign}; size in [0, 1] is the length of its bar.
 *
 * Without effects yet, or for one that cannot be removed alone, the value is NaN and the text a dash.
 */
export function conceptValues(app, order, impact) {
  const { conceptShares } = app.states.now;
  if (!needsImpact(order)) return bars(conceptShares, share);
  if (!impact) return bars(conceptShares.map(() => Number.NaN), () => "…");
  if (order === "flips") return bars(impact.flips, count);
  return bars(order === "worst" ? impact.worstGroupChange : impact.accuracyChange, (value) => points(value));
}

function bars(values, text) {
  const most = values.reduce((best, value) => (Number.isFinite(value) ? Math.max(best, Math.abs(value)) : best), 0);
  const size = (value) => (most && Number.isFinite(value) ? Math.abs(value) / most : 0);
  return Array.from(values, (value) => ({ value, text: text(value), size: size(value), sign: Math.sign(value) || 0 }));
}

/** Places of all concepts in an order; until effects are known, by their shares. */
export function orderedConcepts(app, order, values) {
  const { concepts } = app.network;
  const places = concepts.map((_, concept) => concept);
  if (order === "name") return places.sort((a, b) => concepts[a].localeCompare(concepts[b]));
  const shares = app.states.now.conceptShares;
  const known = (concept) => (Number.isFinite(values[concept].value) ? values[concept].value : -Infinity);
  return places.sort((a, b) => known(b) - known(a) || shares[b] - shares[a]);
}
