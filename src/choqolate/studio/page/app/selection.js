import { decimal } from "./format.js";

/** Keys of a route that choose rows, with what they are called. */
export const FILTERS = ["split", "truth", "predicted", "right", "group", "flipped", "above", "below", "path", "picked"];

/** Whether a route chooses some of the rows. */
export function hasSelection(route) {
  return FILTERS.some((key) => route[key]);
}

/**
 * The rows that the route chooses among those that may be seen: Int32Array.
 *
 * split, truth, predicted, group: names; right: "yes" or "no"; flipped: "original" or "committed"; above, below:
 * "0.7,sea" (scaled score, concept); path: text; picked: row numbers of the table, "3,5,8".
 */
export function selectedRows(app, route = app.route) {
  const tests = rowTests(app, route);
  return app.visibleRows.filter((row) => tests.every((test) => test(row)));
}

function rowTests(app, route) {
  const { rows, network, states } = app;
  const tests = [];
  const equal = (column, place) => tests.push((row) => column[row] === place);
  if (route.split) equal(rows.split, app.document.rows.splits.indexOf(route.split));
  if (route.truth) equal(rows.label, network.classes.indexOf(route.truth));
  if (route.predicted) equal(states.now.predicted, network.classes.indexOf(route.predicted));
  if (route.group) equal(rows.group, app.document.rows.groups.indexOf(route.group));
  if (route.right) {
    const wanted = route.right === "yes";
    tests.push((row) => rows.label[row] >= 0 && (states.now.predicted[row] === rows.label[row]) === wanted);
  }
  if (route.flipped) {
    const before = states[route.flipped === "committed" ? "committed" : "original"].predicted;
    tests.push((row) => before[row] !== states.now.predicted[row]);
  }
  for (const [key, sign] of [["above", 1], ["below", -1]]) {
    const limit = route[key] ? readLimit(route[key]) : null;
    const place = limit ? network.concepts.indexOf(limit.concept) : -1;
    if (place >= 0) tests.push((row) => sign * (rows.score(row, place) - limit.level) >= 0);
  }
  if (route.path) {
    const text = route.path.toLowerCase();
    tests.push((row) => (rows.paths[row] ?? "").toLowerCase().includes(text));
  }
  if (route.picked) {
    const picked = new Set(route.picked.split(",").map(Number));
    tests.push((row) => picked.has(rows.number[row]));
  }
  return tests;
}

/** {level, concept} of "0.7,sea". */
export function readLimit(text) {
  const comma = text.indexOf(",");
  return { level: Number(text.slice(0, comma)), concept: text.slice(comma + 1) };
}

/** What the route chooses, in words; "" if it chooses all rows. */
export function selectionText(route) {
  const parts = [];
  if (route.split) parts.push(`split ${route.split}`);
  if (route.truth) parts.push(`class ${route.truth}`);
  if (route.predicted) parts.push(`predicted ${route.predicted}`);
  if (route.right) parts.push(route.right === "yes" ? "right" : "wrong");
  if (route.group) parts.push(`group ${route.group}`);
  if (route.flipped) parts.push(route.flipped === "committed" ? "flipped by the draft" : "flipped by the edits");
  for (const [key, sign] of [["above", "≥"], ["below", "≤"]]) {
    if (route[key]) parts.push(`${readLimit(route[key]).concept} ${sign} ${decimal(readLimit(route[key]).level, 2)}`);
  }
  if (route.path) parts.push(`path contains “${route.path}”`);
  if (route.picked) parts.push("picked images");
  return parts.join(", ");
}
