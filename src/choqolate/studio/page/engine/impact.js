// What the removal of each concept alone would do to accuracy, to the worst group and to predictions.

import { EditError } from "./edit_error.js";
import { measure, TOO_FEW } from "./metrics.js";
import { argmax } from "./network.js";

const MOST_STEPS = 2e7; // concepts removed, times concepts: the time that a removal takes grows with their number
const FEWEST = 200;

/** The concepts that are removed alone: all, or of many those with the largest share, so many that it ends in time. */
export function triedConcepts({ conceptShares }) {
  const M = conceptShares.length;
  const all = Array.from(conceptShares, (_, concept) => concept);
  const most = Math.max(FEWEST, Math.floor(MOST_STEPS / M));
  return most >= M ? all : all.sort((a, b) => conceptShares[b] - conceptShares[a]).slice(0, most);
}

/**
 * Remove each concept alone from all nodes and measure on some rows. Yields the share that is done; returns accuracies,
 * those of the worst group (null without groups) and the number of predictions that change. NaN where the removal would
 * leave a node with nothing, and for concepts that are not tried, see triedConcepts.
 */
export function* impactOfEach(network, state, rowIndexes, { mode = "rescale" } = {}) {
  const { M, rows } = network;
  const numerators = state.numerators.take(rowIndexes);
  const members = groupMembers(rows, rowIndexes, network.document.rows.groups.length);
  const predictedNow = Int32Array.from(rowIndexes, (i) => state.predicted[i]);
  const table = taken(rows, rowIndexes);
  const now = accuracies(table, predictedNow, members);
  const [accuracy, worstGroup] = [new Float64Array(M).fill(NaN), new Float64Array(M).fill(NaN)];
  const flips = new Float64Array(M).fill(NaN);
  const tried = triedConcepts(state);
  for (const [place, j] of tried.entries()) {
    const predicted = predictedWithout(network, state, numerators, j, mode);
    if (predicted) {
      [accuracy[j], worstGroup[j]] = accuracies(table, predicted, members);
      flips[j] = predicted.reduce((count, r, i) => count + (r !== predictedNow[i]), 0);
    }
    yield (place + 1) / tried.length;
  }
  const grouped = members.length > 0;
  return { tried: new Set(tried), accuracy, worstGroup: grouped ? worstGroup : null, flips, accuracyNow: now[0],
    worstGroupNow: now[1] };
}

/** Predicted classes without a concept; null if a node would be left with nothing. */
function predictedWithout(network, state, numerators, concept, mode) {
  const edit = { edit: "remove", concepts: [network.concepts[concept]], nodes: null, mode };
  let weights;
  try {
    weights = state.weights.edited(edit, () => network.inputsOf(concept));
  } catch (error) {
    if (error instanceof EditError) return null;
    throw error;
  }
  const n = numerators.sheet.n;
  const scores = network.score(numerators.moved(weights).values(), n);
  const one = new Float64Array(network.C);
  return Int32Array.from({ length: n }, (_, i) => {
    for (let r = 0; r < network.C; r++) one[r] = scores[r][i] + state.shift[r];
    return argmax(one, 0, network.C);
  });
}

/** Accuracy on all rows and on the worst group; null without groups. */
function accuracies(table, predicted, members) {
  const all = measure(table, predicted, table.label.keys()).accuracy;
  const groups = members.map((some) => measure(table, predicted, some).accuracy);
  return [all, groups.length ? Math.min(...groups) : null];
}

/** Labels and weights of some rows. */
function taken(rows, rowIndexes) {
  return {
    label: Int32Array.from(rowIndexes, (i) => rows.label[i]),
    weight: Float64Array.from(rowIndexes, (i) => rows.weight[i]),
  };
}

/** Places of the rows of each group that has enough labelled ones to tell. */
function groupMembers(rows, rowIndexes, count) {
  const members = Array.from({ length: count }, () => []);
  rowIndexes.forEach((i, place) => {
    if (rows.group[i] >= 0 && rows.label[i] >= 0) members[rows.group[i]].push(place);
  });
  return members.filter((some) => some.length >= TOO_FEW);
}
