import { counted, decimal } from "./format.js";

/** Keys of a route that choose rows. */
export const FILTERS = [
  "role", "split", "truth", "predicted", "right", "group", "flipped", "above", "below", "path", "picked",
];

/** What rows are for, as the bundle numbers it. */
export const ROLES = { train: 0, audit: 1, covered: 2 };

/** Whether a route chooses some of the rows. */
export function hasSelection(route) {
  return FILTERS.some((key) => route[key]);
}

/**
 * The rows that the route chooses among those that may be seen: Int32Array.
 *
 * Images that were picked one by one are the selection, whatever the filters say; without them it is what the filters
 * choose.
 */
export function selectedRows(app, route = app.route) {
  if (!route.picked) return filteredRows(app, route);
  const picked = pickedNumbers(route);
  return app.visibleRows.filter((row) => picked.has(app.rows.number[row]));
}

/**
 * The rows that pass the filters of a route, among those that may be seen: Int32Array.
 *
 * split, truth, predicted, group: names; role: "train", "audit" or "covered"; right: "yes" or "no"; flipped: "original"
 * or "committed"; above, below: "0.7,sea" (scaled score, concept); path: text.
 */
export function filteredRows(app, route = app.route) {
  const tests = rowTests(app, route);
  return app.visibleRows.filter((row) => tests.every((test) => test(row)));
}

/** Row numbers of the table that were picked: "3,5,8" in the route. */
export function pickedNumbers(route) {
  return new Set(route.picked ? route.picked.split(",").map(Number) : []);
}

function rowTests(app, route) {
  const { rows, network, states } = app;
  const tests = [];
  const equal = (column, place) => tests.push((row) => column[row] === place);
  if (route.role) equal(rows.role, ROLES[route.role] ?? -1);
  if (route.split) equal(rows.split, named(app.document.rows.splits, route.split));
  if (route.truth) equal(rows.label, named(network.classes, route.truth));
  if (route.predicted) equal(states.now.predicted, named(network.classes, route.predicted));
  if (route.group) equal(rows.group, named(app.document.rows.groups, route.group));
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
    const place = limit ? network.placeOf(limit.concept) : -1;
    if (place >= 0) tests.push((row) => sign * (rows.score(row, place) - limit.level) >= 0);
  }
  if (route.path) {
    const text = route.path.toLowerCase();
    tests.push((row) => (rows.paths[row] ?? "").toLowerCase().includes(text));
  }
  return tests;
}

/** Place of a name; one that is unknown chooses no row, not those without a value (-1). */
function named(names, name) {
  const place = names.indexOf(name);
  return place < 0 ? -2 : place;
}

/** {level, concept} of "0.7,sea". */
export function readLimit(text) {
  const comma = text.indexOf(",");
  return { level: Number(text.slice(0, comma)), concept: text.slice(comma + 1) };
}

/** The filters of a route in words: [{key, text}]. */
export function filterTexts(route) {
  const parts = [];
  const add = (key, text) => route[key] && parts.push({ key, text: text(route[key]) });
  add("role", (role) => ({ train: "training rows", audit: "audit rows", covered: "covered rows" })[role] ?? role);
  add("split", (name) => `split ${name}`);
  add("truth", (name) => `class ${name}`);
  add("predicted", (name) => `predicted ${name}`);
  add("right", (answer) => (answer === "yes" ? "right" : "wrong"));
  add("group", (name) => `group ${name}`);
  add("flipped", (since) => (since === "committed" ? "flipped by the draft" : "flipped by the edits"));
  add("above", (text) => limitText(text, "≥"));
  add("below", (text) => limitText(text, "≤"));
  add("path", (text) => `path contains “${text}”`);
  add("picked", (numbers) => `${counted(numbers.split(",").length, "image")} picked`);
  return parts;
}

function limitText(text, sign) {
  const { level, concept } = readLimit(text);
  return `${concept} ${sign} ${decimal(level, 2)}`;
}

/** What the route chooses, in words; "" if it chooses all rows. */
export function selectionText(route) {
  const parts = filterTexts(route);
  return (route.picked ? parts.filter(({ key }) => key === "picked") : parts).map(({ text }) => text).join(", ");
}
