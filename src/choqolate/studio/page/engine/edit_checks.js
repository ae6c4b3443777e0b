// Whether an edit fits a model: the same cases as in Python, before anything is computed.

import { EditError, listed, quoted } from "./edit_error.js";
import { affected, inForce, namesOf } from "./edits.js";

const MODES = ["rescale", "canonical", "impute"];
const LARGEST_FACTOR = 1e6;

/** Check one edit against the model (its document) and the edits that are in force before it. */
export function checkEdit(edit, model, before) {
  const check = { remove: checkRemove, reweight: checkReweight, recalibrate: checkRecalibrate, restore: checkRestore };
  if (!check[edit.edit]) {
    throw new EditError(`The studio removes, reweights, recalibrates and restores, but got ${quoted(edit.edit)}.`);
  }
  check[edit.edit](edit, model, before);
}

/** The edits in force after those that the model came with and those given. */
export function allInForce(model, edits) {
  return inForce([...model.edits, ...edits], model.locked_concepts);
}

function checkRemove(edit, model) {
  checkNames(edit.concepts, model.concepts);
  checkNodes(edit.nodes, model.n_nodes);
  if (!MODES.includes(edit.mode)) {
    throw new EditError(`Expected a mode of removal among ${MODES.join(", ")}, got ${quoted(edit.mode)}.`);
  }
}

function checkReweight(edit, model) {
  checkNames(namesOf(edit), model.concepts);
  checkNodes(edit.nodes, model.n_nodes);
  for (const [name, factor] of Object.entries(edit.factors)) {
    if (!(factor >= 0 && factor <= LARGEST_FACTOR)) {
      throw new EditError(`Expected a factor from 0 to 1,000,000 for ${quoted(name)}, got ${factor}.`);
    }
  }
}

function checkRecalibrate(edit, model) {
  if (edit.shift.length !== model.classes.length) {
    throw new EditError(`Expected a shift of ${model.classes.length} class scores, got ${edit.shift.length}.`);
  }
  if (!Array.from(edit.shift).every(Number.isFinite)) throw new EditError("Expected a finite shift of class scores.");
}

function checkRestore(edit, model, before) {
  const all = (edit.concepts ?? null) === null;
  const asked = new Set(edit.concepts);
  const fixed = all ? model.locked : model.locked_concepts.filter((name) => asked.has(name));
  if (fixed.length) {
    const what = all ? "Everything" : listed(fixed);
    throw new EditError(
      `${what} cannot be restored here: the model was simplified after that edit. Use choqolate restore instead.`,
    );
  }
  if (all) return;
  const names = affected(before);
  if (!names.length) throw new EditError("Nothing was removed or reweighted, so there is nothing to restore.");
  checkNames(edit.concepts, names, "Removed or reweighted were");
}

function checkNames(names, known, what = "This model knows") {
  if (!names.length) throw new EditError("Expected the name of at least one concept, got none.");
  const all = new Set(known);
  const unknown = names.filter((name) => !all.has(name));
  if (unknown.length) throw new EditError(`Expected known concepts, got ${listed(unknown)}. ${what} ${listed(known)}.`);
  const seen = new Set();
  const twice = [...new Set(names.filter((name) => seen.size === seen.add(name).size))];
  if (twice.length) throw new EditError(`Expected every concept once, got ${listed(twice)} more than once.`);
}

function checkNodes(nodes, nNodes) {
  if ((nodes ?? null) === null) return;
  if (!nodes.length || !nodes.every((n) => Number.isInteger(n) && n >= 0 && n < nNodes)) {
    throw new EditError(`Expected numbers of nodes from 0 to ${nNodes - 1}, got ${nodes.join(", ") || "none"}.`);
  }
}
