import { counted } from "../app/format.js";
import { selectionText } from "../app/selection.js";
import { measure, measureAll, pairedChange, TOO_FEW } from "../engine/metrics.js";

const COLUMNS = { groups: "group", classes: "label" };
const STATES = ["original", "committed", "now"];

/** Images below which an accuracy says little. */
export const FEW = 30;

/**
 * What the table of numbers shows, in parts: [{title, rows: [{key, label, detail, original, committed, now, worst}]}].
 *
 * A part with `many` rows has the worst first, else they stand in the order of the data.
 */
export function scoreParts(app, rowIndexes, most) {
  const measured = threeWays((key) => measureAll(app.network, app.rows, app.states[key], rowIndexes));
  const worst = measured.now.worstGroup?.index;
  const paired = (some) => pairedChange(app.rows, app.states.original.predicted, app.states.now.predicted, some);
  const all = { key: "all", label: "All rows", ...threeWays((key) => measured[key].all), change: paired(rowIndexes) };
  const top = [all, majorityRow(app, rowIndexes), selectionRow(app, rowIndexes, paired)];
  const parts = [{ key: "all", title: null, rows: top.filter(Boolean) }];
  const add = (key, title, names, mark) => {
    const rows = names.map((label, index) => ({
      key: `${key}-${index}`, index, label, worst: index === mark, ...threeWays((state) => measured[state][key][index]),
      change: paired(rowIndexes.filter((i) => app.rows[COLUMNS[key]][i] === index)),
    })).filter((row) => row.now.n > 0);
    const many = rows.length > most;
    if (rows.length) parts.push({ key, title, many, rows: many ? worstFirst(rows) : rows });
  };
  add("groups", "Groups", app.document.rows.groups, worst);
  add("classes", "Classes", app.network.classes, undefined);
  return parts;
}

function threeWays(value) {
  return Object.fromEntries(STATES.map((key) => [key, value(key)]));
}

function worstFirst(rows) {
  const few = (row) => Number(row.now.n < TOO_FEW);
  return [...rows].sort((a, b) => few(a) - few(b) || a.now.accuracy - b.now.accuracy || b.now.n - a.now.n);
}

/** What any model has to beat: always the most frequent class of the training labels. */
function majorityRow(app, rowIndexes) {
  const shares = [...app.network.model.label_shares];
  const majority = shares.indexOf(Math.max(...shares));
  const now = measure(app.rows, new Int32Array(app.rows.n).fill(majority), rowIndexes);
  return now.n > 0 && { key: "majority", label: `Always predict ${app.network.classes[majority]}`, fixed: true,
    ...threeWays(() => now) };
}

/** The current selection as far as it lies in these rows; null without one. */
function selectionRow(app, rowIndexes, paired) {
  const selection = app.selection;
  if (!selection) return null;
  const inside = new Set(rowIndexes);
  const rows = selection.filter((row) => inside.has(row));
  const outside = selection.length - rows.length;
  const detail = outside > 0 && `${counted(outside, "selected image")} ${outside === 1 ? "is" : "are"} not among these rows`;
  return { key: "selection", label: selectionText(app.route), selection: true, detail,
    ...threeWays((key) => measure(app.rows, app.states[key].predicted, rows)), change: paired(rows) };
}

/** The lowest value that the bars show: the tens of percent below all intervals, so that small changes can be seen. */
export function axisStart(rows) {
  const ends = rows.filter((row) => row.now.n >= TOO_FEW).map((row) => Math.min(row.now.low, row.original.accuracy));
  const lowest = Math.min(0.9, ...ends.filter(Number.isFinite));
  return Math.max(0, Math.floor(lowest * 10) / 10);
}
