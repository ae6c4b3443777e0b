// Values of integrals over rows. With b and c the weights of min and max of a pair,
//   sum_j Shap_j u_j + 1/2 sum_{j<l} (c_jl - b_jl) |u_j - u_l|
// is the integral times its mass. A change of one input costs only the terms that involve it.

import { PairList } from "./capacity.js";
import { addExpectedMinima, linearWeights, sortedInputs } from "./expected_minimum.js";

const NEGLIGIBLE = 1e-18; // of the mass of a node: pairs below that move no digit, even where little is retained
const CANCELLATION = 1e-6; // mass left of what was subtracted from, below which a node is computed again

/** Inputs of rows by column, and the same for inputs that are frozen at their mean. */
export class Sheet {
  constructor(n, columns, means) {
    Object.assign(this, { n, columns, means, constants: [], orders: [] });
  }

  /** The inputs of a row from the largest to the smallest. */
  order(i) {
    return (this.orders[i] ??= sortedInputs(this.columns, i));
  }

  /** An input as a node sees it. */
  column(j, frozen) {
    if (!frozen) return this.columns[j];
    return (this.constants[j] ??= new Float64Array(this.n).fill(this.means[j]));
  }
}

/** Workspace for the pairs of one input: the columns and weights that kernels take. */
class Terms {
  constructor(nInputs) {
    this.pairs = new PairList(nInputs);
    this.columns = new Array(nInputs + 1);
    this.weight = new Float64Array(nInputs + 1);
    this.linear = new Float64Array(nInputs + 1);
  }
}

/** Numerators of one node on the rows from `start` to `stop`, into `out`. */
export function evaluateNode(weights, n, sheet, out, start = 0, stop = sheet.n, negligible = NEGLIGIBLE) {
  const { capacity, factor, frozen, shapley } = weights;
  const I = capacity.nInputs;
  const at = n * I;
  const terms = new Terms(I);
  out.fill(0, start, stop);
  for (let j = 0; j < I; j++) terms.columns[j] = sheet.column(j, frozen[at + j]);
  const sorted = capacity.rank > 0;
  addLinear(out, terms.columns, sorted ? linearWeights(weights, n) : shapley.subarray(at, at + I), I, start, stop);
  if (sorted) return addExpectedMinima(weights, n, sheet, terms.columns, out, start, stop);
  const least = negligible * weights.size[n];
  for (let j = 0; j < I; j++) {
    const half = 0.5 * factor[at + j];
    const found = half === 0 ? 0 : capacity.pairs(n, j, terms.pairs);
    let count = 0;
    for (let k = 0; k < found; k++) {
      const l = terms.pairs.other[k];
      if (l < j) continue;
      const weight = half * factor[at + l] * (terms.pairs.high[k] - terms.pairs.low[k]);
      if (Math.abs(weight) <= least) continue;
      terms.columns[count] = sheet.column(l, frozen[at + l]);
      terms.weight[count++] = weight;
    }
    addDifferences(out, sheet.column(j, frozen[at + j]), terms.columns, terms.weight, count, start, stop);
  }
}

/** Move the numerators of one node from some weights to others, of which the pairs of few inputs differ. */
function updateNode(from, to, n, inputs, sheet, out) {
  const I = from.capacity.nInputs;
  const at = n * I;
  const now = { factor: from.factor.slice(at, at + I), frozen: from.frozen.slice(at, at + I) };
  const terms = new Terms(I);
  addExtra(from, to, n, new Set(inputs), terms, sheet, out);
  for (const j of inputs) {
    const [s, t] = [from.factor[at + j], to.factor[at + j]];
    const [before, after] = [from.single(n, j), to.single(n, j)];
    if (from.frozen[at + j] === to.frozen[at + j]) {
      addInvolvement(from, n, j, now, terms, sheet, out, t - s, after - before);
    } else {
      addInvolvement(from, n, j, now, terms, sheet, out, -s, -before);
      now.frozen[j] = to.frozen[at + j];
      addInvolvement(from, n, j, now, terms, sheet, out, t, after);
    }
    now.factor[j] = t;
  }
}

/** Add what inputs other than those given have more alone: their pairs are the same. */
function addExtra(from, to, n, inputs, terms, sheet, out) {
  const I = from.capacity.nInputs;
  let count = 0;
  for (let j = 0, at = n * I; j < I; j++, at++) {
    const more = to.extra[at] - from.extra[at];
    if (more === 0 || inputs.has(j)) continue;
    terms.columns[count] = sheet.column(j, from.frozen[at]);
    terms.linear[count++] = more;
  }
  addLinear(out, terms.columns, terms.linear, count, 0, sheet.n);
}

/** Add the terms that involve input j, with a factor for its pairs and a weight of its own. */
function addInvolvement({ capacity }, n, j, now, terms, sheet, out, factor, single) {
  const x = sheet.column(j, now.frozen[j]);
  const found = factor === 0 ? 0 : capacity.pairs(n, j, terms.pairs);
  let count = 0;
  let own = single;
  for (let k = 0; k < found; k++) {
    const l = terms.pairs.other[k];
    const half = 0.5 * factor * now.factor[l];
    if (half === 0) continue;
    terms.columns[count] = sheet.column(l, now.frozen[l]);
    terms.weight[count] = half * (terms.pairs.high[k] - terms.pairs.low[k]);
    terms.linear[count] = half * (terms.pairs.high[k] + terms.pairs.low[k]);
    own += terms.linear[count++];
  }
  addDifferences(out, x, terms.columns, terms.weight, count, 0, sheet.n);
  terms.columns[count] = x;
  terms.linear[count++] = own;
  addLinear(out, terms.columns, terms.linear, count, 0, sheet.n);
}

/** out += sum_k weight_k |x - column_k|, four columns at a time. */
function addDifferences(out, x, columns, weight, count, start, stop) {
  let k = 0;
  for (; k + 3 < count; k += 4) {
    const [p, q, r, s] = [columns[k], columns[k + 1], columns[k + 2], columns[k + 3]];
    const [a, b, c, d] = [weight[k], weight[k + 1], weight[k + 2], weight[k + 3]];
    for (let i = start; i < stop; i++) {
      const v = x[i];
      out[i] += a * Math.abs(v - p[i]) + b * Math.abs(v - q[i]) + c * Math.abs(v - r[i]) + d * Math.abs(v - s[i]);
    }
  }
  for (; k < count; k++) {
    const [p, a] = [columns[k], weight[k]];
    for (let i = start; i < stop; i++) out[i] += a * Math.abs(x[i] - p[i]);
  }
}

/** out += sum_k weight_k column_k, four columns at a time. */
function addLinear(out, columns, weight, count, start, stop) {
  let k = 0;
  for (; k + 3 < count; k += 4) {
    const [p, q, r, s] = [columns[k], columns[k + 1], columns[k + 2], columns[k + 3]];
    const [a, b, c, d] = [weight[k], weight[k + 1], weight[k + 2], weight[k + 3]];
    for (let i = start; i < stop; i++) out[i] += a * p[i] + b * q[i] + c * r[i] + d * s[i];
  }
  for (; k < count; k++) {
    const [p, a] = [columns[k], weight[k]];
    for (let i = start; i < stop; i++) out[i] += a * p[i];
  }
}

/** Numerators of all nodes on all rows of a sheet, node by node, and how far digits can be trusted. */
export class Numerators {
  constructor(weights, sheet, parts, anchor, depth) {
    Object.assign(this, { weights, sheet, parts, anchor, depth });
  }

  /** All numerators computed from nothing. */
  static direct(weights, sheet) {
    const parts = Array.from(weights.mass, () => new Float64Array(sheet.n));
    parts.forEach((out, n) => evaluateNode(weights, n, sheet, out));
    return new Numerators(weights, sheet, parts, weights.size.slice(), 0);
  }

  /** The numerators with other weights: nodes that are the same are shared, the others are moved or computed again. */
  moved(weights) {
    const anchor = this.anchor.slice();
    const parts = this.parts.map((part, n) => {
      if (sameNode(this.weights, weights, n)) return part;
      const inputs = differing(this.weights, weights, n);
      anchor[n] = Math.max(anchor[n], weights.size[n]);
      if (weights.size[n] < CANCELLATION * anchor[n] || 2 * inputs.length > weights.capacity.nInputs) {
        anchor[n] = weights.size[n];
        const again = new Float64Array(this.sheet.n);
        evaluateNode(weights, n, this.sheet, again);
        return again;
      }
      const changed = part.slice();
      updateNode(this.weights, weights, n, inputs, this.sheet, changed);
      return changed;
    });
    return new Numerators(weights, this.sheet, parts, anchor, this.depth + 1);
  }

  /** The same on some of the rows. */
  take(rowIndexes) {
    const some = (column) => Float64Array.from(rowIndexes, (i) => column[i]);
    const sheet = new Sheet(rowIndexes.length, this.sheet.columns.map(some), this.sheet.means);
    return new Numerators(this.weights, sheet, this.parts.map(some), this.anchor, this.depth);
  }

  /** How many inputs of nodes have to be moved to come to other weights. */
  distance(weights) {
    let count = 0;
    for (let n = 0; n < this.parts.length; n++) count += differing(this.weights, weights, n).length;
    return count;
  }

  /** Values of the nodes on the rows, one array per node. */
  values() {
    return this.parts.map((part, n) => {
      const divisor = this.weights.divisor(n);
      return part.map((value) => value / divisor);
    });
  }
}

/** Inputs whose pairs differ between two weights of a node; those that lose first, so that no sum exceeds both ends. */
function differing(one, other, n) {
  const I = one.capacity.nInputs;
  const [less, more] = [[], []];
  for (let j = 0, at = n * I; j < I; j++, at++) {
    const [before, after] = [one.factor[at], other.factor[at]];
    if (before !== after || one.frozen[at] !== other.frozen[at]) (after < before ? less : more).push(j);
  }
  return less.concat(more);
}

function sameNode(one, other, n) {
  const I = one.capacity.nInputs;
  for (let at = n * I; at < (n + 1) * I; at++) {
    if (one.factor[at] !== other.factor[at] || one.extra[at] !== other.extra[at]) return false;
    if (one.frozen[at] !== other.frozen[at]) return false;
  }
  return true;
}
