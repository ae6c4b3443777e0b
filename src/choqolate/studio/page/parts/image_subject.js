import { explainOne } from "../engine/attribution.js";
import { softmax } from "../engine/network.js";
import { rowName } from "./verdict.js";

/** The image that the route opens, a row or one that was dropped; null if none, {missing: why} if it is not there. */
export function openSubject(app) {
  const { image } = app.route;
  if (!image) return null;
  if (image === "dropped" && app.dropped) return droppedSubject(app.dropped);
  if (image === "dropped") return { missing: "The dropped image is no longer here. Drop it again." };
  const row = app.rows.number.indexOf(Number(image));
  if (row < 0) return { missing: `Row ${image} of the table is not loaded.` };
  if (app.rows.role[row] === 2 && !app.finalChecked) {
    return { missing: `Row ${image} of the table is covered until the final check.` };
  }
  return rowSubject(app, row);
}

function rowSubject(app, row) {
  const { rows, document } = app;
  const z = Float64Array.from({ length: rows.M }, (_, place) => rows.score(row, place));
  const [path, truth] = [rows.paths[row] ?? null, rows.label[row]];
  const [group, split] = [document.rows.groups[rows.group[row]], document.rows.splits[rows.split[row]]];
  const source = app.images(row);
  return { key: `row-${row}`, row, z, name: rowName(app, row), source, path, truth, group, split, warnings: [] };
}

function droppedSubject({ key, name, scores, warnings, thumbnail }) {
  const source = thumbnail ? `data:image/jpeg;base64,${thumbnail}` : null;
  return { key, row: null, z: scores, name, source, path: null, truth: -1, warnings: warnings ?? [] };
}

/** What a state makes of an image: {scores, predicted, nodeValues, probabilities}. */
export function outcome(app, subject, state) {
  const { row, z } = subject;
  const found = row === null ? app.network.valuesOf(state, z) : rowOutcome(app.network, state, row);
  return { ...found, probabilities: softmax(found.scores, app.document.probability_temperature) };
}

function rowOutcome({ C, nNodes }, state, row) {
  const part = (values, width) => values.slice(row * width, (row + 1) * width);
  return { scores: part(state.scores, C), nodeValues: part(state.nodeValues, nNodes), predicted: state.predicted[row] };
}

/** Attributions of an image in a state, from the baseline of the route. */
export function explanation(app, subject, state) {
  const baseline = app.route.baseline === "zero" ? "zero" : "mean";
  if (!explanations.has(state)) explanations.set(state, new Map());
  const known = explanations.get(state);
  const key = explanationKey(app, subject);
  if (!known.has(key)) known.set(key, explainOne(app.network, state, subject.z, { baseline }));
  return known.get(key);
}

/** Whether the attributions of an image in the current state are computed already. */
export function isExplained(app, subject) {
  return Boolean(explanations.get(app.states.now)?.has(explanationKey(app, subject)));
}

const explanations = new WeakMap(); // by state

function explanationKey(app, subject) {
  return `${subject.key} ${app.route.baseline ?? ""}`;
}

/** The two classes that are compared: those of the route, else the predicted one and the truth or the runner-up. */
export function comparedClasses(app, subject) {
  const { scores, predicted } = outcome(app, subject, app.states.now);
  const { classes } = app.network;
  const told = (name) => (name === undefined ? -1 : classes.indexOf(name));
  const first = told(app.route.why) >= 0 ? told(app.route.why) : predicted;
  const ranking = [...scores.keys()].sort((a, b) => scores[b] - scores[a] || a - b);
  const natural = [subject.truth, ...ranking].find((place) => place >= 0 && place !== first);
  const second = told(app.route.against);
  return [first, second >= 0 && second !== first ? second : natural];
}

/** Whether edits since the model was opened are in force. */
export function isEdited(app) {
  return app.history.editsAt().length + app.draft.length > 0;
}
