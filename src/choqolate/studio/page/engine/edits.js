// Edits as plain objects: what is in force, what they are called, and the file that carries them.

import { isUnchanged } from "./checksum.js";
import { EditError } from "./edit_error.js";

const FORMAT = "choqolate-edits";
const FORMAT_VERSION = 1;
const FIELDS = {
  remove: ["concepts", "nodes", "mode"],
  reweight: ["factors", "nodes"],
  recalibrate: ["shift", "rows", "fingerprint"],
  restore: ["concepts"],
};
const NOTE = { author: "string", time: "string", reason: "string", reviewed: "boolean" };

/** The names that one edit removes or reweights. */
export function namesOf(edit) {
  if (edit.edit === "remove") return edit.concepts;
  return edit.edit === "reweight" ? Object.keys(edit.factors) : [];
}

/** The names that edits in force remove or reweight, in the order in which that happened. */
export function affected(edits) {
  return [...new Set(edits.flatMap(namesOf))];
}

/**
 * The edits that a state follows from: a restoration takes back what it names, and is gone itself.
 * Concepts that edits before these affect (`locked`) keep recalibrations in force.
 */
export function inForce(edits, locked = []) {
  let kept = [];
  for (const edit of edits) {
    if (edit.edit !== "restore") kept.push(edit);
    else kept = restored(kept, edit.concepts ?? null, locked);
  }
  return kept;
}

function restored(before, concepts, locked) {
  const kept = concepts === null ? [] : before.map((edit) => without(edit, new Set(concepts))).filter(Boolean);
  if (affected(kept).length || locked.length) return kept;
  const first = concepts === null ? 0 : before.findIndex((edit) => namesOf(edit).length);
  return first < 0 ? kept : before.slice(0, first); // recalibrations made since the first go too
}

/** What is left of an edit after some concepts are restored; null if nothing is. */
function without(edit, concepts) {
  if (edit.edit === "remove") {
    const left = edit.concepts.filter((name) => !concepts.has(name));
    return left.length ? { ...edit, concepts: left } : null;
  }
  if (edit.edit === "reweight") {
    const left = Object.entries(edit.factors).filter(([name]) => !concepts.has(name));
    return left.length ? { ...edit, factors: Object.fromEntries(left) } : null;
  }
  return edit;
}

/** What tells whether two lists of edits give the same state: all but their notes. */
export function keyOf(edits) {
  const fields = (edit) => FIELDS[edit.edit] ?? [];
  return JSON.stringify(edits.map((edit) => [edit.edit, ...fields(edit).map((field) => edit[field] ?? null)]));
}

/** The object of an edits file with the edits made here, on top of those that the model came with. */
export function editsDocument(document, edits) {
  if (!edits.length) throw new EditError("There are no edits to export. Make one first.");
  const { model } = document;
  return {
    format: FORMAT,
    format_version: FORMAT_VERSION,
    choqolate_version: document.choqolate_version,
    model: {
      identity: model.identity,
      state: model.state,
      concepts: model.concepts.length,
      nodes: model.n_nodes,
      classes: model.classes,
    },
    edits: edits.map((edit) => written(edit, model)),
  };
}

function written(edit, model) {
  const entry = { edit: edit.edit };
  for (const field of FIELDS[edit.edit]) entry[field] = edit[field] ?? null;
  if (entry.nodes) entry.nodes = entry.nodes.map((node) => describedNode(node, model));
  return edit.note ? { ...entry, note: knownNote(edit.note) } : entry;
}

/** A node as another training of the model can find it: by its leading concepts or, without nodes, by its class. */
function describedNode(node, model) {
  const described = { node, leading: model.leading[node] };
  return model.one_layer ? { ...described, class: model.classes[node] } : described;
}

/** What is known of who made an edit, when and why; what is of another type is not. */
export function knownNote(note) {
  const said = Object.keys(NOTE).filter((field) => typeof note?.[field] === NOTE[field]);
  return Object.fromEntries(said.map((field) => [field, note[field]]));
}

/** The edits of the text of an edits file, see readEditsDocument. */
export function readEditsFile(document, text) {
  const object = JSON.parse(text.replace(/^\ufeff/, ""));
  if (!isUnchanged(text, object)) {
    throw new EditError(
      "It is damaged, or was edited after it was saved: its checksum does not match. If you edited it on purpose, delete the line \"checksum\" from it.",
    );
  }
  return readEditsDocument(document, object);
}

/** The edits of an edits file, with nodes by number; they go on top of those that the model came with. */
export function readEditsDocument(document, object) {
  if (object?.format !== FORMAT) throw new EditError("This is not a file of edits. Choose one that was exported here.");
  if (object.format_version !== FORMAT_VERSION) {
    throw new EditError(
      `This file of edits has version ${object.format_version}, and this page reads version ${FORMAT_VERSION}. ` +
        "Upgrade choqolate.",
    );
  }
  if (!Array.isArray(object.edits) || !object.edits.length || typeof object.model !== "object" || !object.model) {
    throw new EditError("This file of edits is incomplete or damaged. Export it again.");
  }
  const { model } = document;
  if (object.model.identity !== model.identity) {
    throw new EditError("These edits were made on another model. Apply them to this one with choqolate apply.");
  }
  const edits = object.edits.map((entry, index) => readEdit(entry, index + 1, model));
  return sameState(object.model, model) ? edits : forOtherState(edits);
}

/** Whether edits of a file were made on the model as it is here; a file that does not say began with the training. */
function sameState(made, model) {
  return made.state === undefined ? !model.locked.length && !model.edits.length : made.state === model.state;
}

/** On another state, restorations concern the edits of the file alone, and a recalibration means nothing. */
function forOtherState(edits) {
  if (edits.some((edit) => edit.edit === "recalibrate")) {
    throw new EditError(
      "This file holds a recalibration of another state of the model. Apply it with choqolate apply --recalibrate.",
    );
  }
  return inForce(edits);
}

function readEdit(entry, number, model) {
  const nodes = Array.isArray(entry?.nodes) ? nodeNumbers(entry.nodes, number, model) : entry?.nodes;
  const edit = plainEdit({ mode: "rescale", ...entry, nodes }, `Edit ${number} of this file`);
  return entry.note && typeof entry.note === "object" ? { ...edit, note: knownNote(entry.note) } : edit;
}

function nodeNumbers(nodes, number, model) {
  const numbers = nodes.map((node) => node?.node);
  const isNode = (node) => Number.isInteger(node) && node >= 0 && node < model.n_nodes;
  if (numbers.every(isNode) && new Set(numbers).size === numbers.length) return numbers;
  throw new EditError(`Edit ${number} of this file names nodes that this model does not have, or one of them twice.`);
}

/** An edit from outside, with nodes by number: its own fields and no others, of the types that a network expects. */
export function plainEdit(entry, what = "An edit") {
  if (!Object.hasOwn(FIELDS, entry?.edit)) {
    throw new EditError(`${what} is of a kind that this page does not know.`);
  }
  const fields = FIELDS[entry.edit];
  const edit = { edit: entry.edit };
  for (const field of fields) edit[field] = entry[field] ?? null;
  if (fields.every((field) => IS_FINE[field](edit[field], edit))) return edit;
  throw new EditError(`${what} is damaged. Export it again.`);
}

const isText = (value) => typeof value === "string";
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const isList = (value, is) => Array.isArray(value) && value.every(is);
const isFactors = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** Whether a field of an edit is of the type that it should be. */
const IS_FINE = {
  concepts: (value, { edit }) => isList(value, isText) || (edit === "restore" && value === null),
  nodes: (value) => value === null || (isList(value, Number.isInteger) && new Set(value).size === value.length),
  mode: isText,
  factors: (value) => isFactors(value) && Object.values(value).every(isNumber),
  shift: (value) => isList(value, isNumber),
  rows: (value) => value === null || Number.isInteger(value),
  fingerprint: (value) => value === null || isText(value),
};
