// Recalibration: the shift of the class scores that gives predicted classes the shares that they should have.

import { EditError } from "./edit_error.js";
import { minimize } from "./minimize.js";

const HARDENING = 8; // steps in which the soft maximum becomes a hard one
const STARTS = 3; // of these steps, the last, from whose shifts classes are matched one by one
const SWEEPS = 20;

/** The recalibration of a state on some rows, as an edit; rows count by the rows of the table they stand for. */
export function recalibration(network, state, rowIndexes) {
  const { C, rows, model } = network;
  const scores = new Float64Array(rowIndexes.length * C);
  Array.from(rowIndexes).forEach((i, place) => {
    for (let r = 0; r < C; r++) scores[place * C + r] = state.scores[i * C + r] - state.shift[r];
  });
  const weights = Float64Array.from(rowIndexes, (i) => rows.weight[i]);
  const shift = matchShares(scores, rowIndexes.length, C, model.label_shares, weights);
  return { edit: "recalibrate", shift: Array.from(shift), rows: rowIndexes.length, fingerprint: null };
}

/**
 * The shift s of the class scores (n * C) for which the arg-max shares come nearest to the given ones. It minimizes the
 * convex function sum_i w_i max_r (o_ir + s_r) - sum_r wanted_r s_r with a soft maximum that hardens step by step, then
 * class by class.
 */
export function matchShares(scores, n, C, shares, weights = new Float64Array(n).fill(1)) {
  if (n < C) throw new EditError(`Expected at least as many rows as classes (${C}) to recalibrate on, got ${n}.`);
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const task = { scores, n, C, weights, total, wanted: Float64Array.from(shares, (share) => share * total) };
  const spread = Math.max(deviation(scores), 1e-6);
  let [shift, best] = [new Float64Array(C), { shift: null, error: Infinity }];
  for (let step = 0; step < HARDENING; step++) {
    shift = minimize((s) => softMaximum(task, s, spread * 4 ** -step), shift);
    if (step >= HARDENING - STARTS) best = bestOfSweeps(task, shift, best);
  }
  return centered(best.shift);
}

/** The best of some sweeps through the classes, as long as each is better than the one before, or what was better. */
function bestOfSweeps(task, start, known) {
  let [shift, best] = [start, { shift: start, error: Infinity }];
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const error = countError(task, shift);
    if (error >= best.error) break;
    best = { shift, error };
    shift = matchClassByClass(task, shift);
  }
  return best.error < known.error ? best : known;
}

function softMaximum({ scores, n, C, weights, total, wanted }, shift, softness) {
  const gradient = wanted.map((value) => -value);
  const parts = new Float64Array(C);
  let value = 0;
  for (let i = 0; i < n; i++) {
    let most = -Infinity;
    for (let r = 0; r < C; r++) most = Math.max(most, scores[i * C + r] + shift[r]);
    let sum = 0;
    for (let r = 0; r < C; r++) sum += parts[r] = Math.exp((scores[i * C + r] + shift[r] - most) / softness);
    value += weights[i] * (most + softness * Math.log(sum));
    for (let r = 0; r < C; r++) gradient[r] += (weights[i] * parts[r]) / sum;
  }
  for (let r = 0; r < C; r++) value -= wanted[r] * shift[r];
  return { value: value / total, gradient: gradient.map((part) => part / total) };
}

/** Distance between the weight of the rows that each class gets and what is wanted. */
function countError({ scores, n, C, weights, wanted }, shift) {
  const counts = new Float64Array(C);
  for (let i = 0; i < n; i++) {
    let best = 0;
    for (let r = 1; r < C; r++) if (scores[i * C + r] + shift[r] > scores[i * C + best] + shift[best]) best = r;
    counts[best] += weights[i];
  }
  return counts.reduce((sum, count, r) => sum + Math.abs(count - wanted[r]), 0);
}

function matchClassByClass(task, start) {
  const shift = start.slice();
  for (let r = 0; r < task.C; r++) shift[r] = matchOne(task, shift, r);
  return shift;
}

/** The shift of one class with which the weight of its rows comes nearest to what is wanted, the others left alone. */
function matchOne({ scores, n, C, weights, wanted }, shift, r) {
  const needed = new Float64Array(n); // the shift from which each row goes to class r
  for (let i = 0; i < n; i++) {
    let best = -Infinity;
    for (let o = 0; o < C; o++) if (o !== r) best = Math.max(best, scores[i * C + o] + shift[o]);
    needed[i] = best - scores[i * C + r];
  }
  const order = Array.from(needed.keys()).sort((x, y) => needed[x] - needed[y]);
  let [held, nearest, chosen] = [0, Infinity, 0];
  for (let count = 0; count <= n; count++) {
    const before = count ? needed[order[count - 1]] : needed[order[0]] - 1;
    const after = count < n ? needed[order[count]] : needed[order[n - 1]] + 1;
    if (count) held += weights[order[count - 1]];
    if (!(after > before) || Math.abs(held - wanted[r]) >= nearest) continue; // ties go together
    [nearest, chosen] = [Math.abs(held - wanted[r]), (before + after) / 2];
  }
  return chosen;
}

function deviation(values) {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length);
}

function centered(values) {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return values.map((value) => value - mean);
}
