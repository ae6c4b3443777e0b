// The weights of a layer in four forms behind one interface. For integral n and inputs j, l a form gives
//   single(n, j)          weight of u_j alone, multiplied by the factor of j,
//   square(n, j)          more weight of u_j alone, multiplied by the square of the factor (factored weights: p_j q_j),
//   pairs(n, j, out)      weights of min(u_j, u_l) and max(u_j, u_l) for all l that have any; returns how many,
//   shapley(n, ...)       Shapley values of all inputs, not divided by their sum.

/** Room for the pairs of one input: the other inputs, and the weights of minimum and maximum. */
export class PairList {
  constructor(nInputs) {
    this.other = new Int32Array(nInputs);
    this.low = new Float64Array(nInputs);
    this.high = new Float64Array(nInputs);
  }
}

/** The weights of a layer ("nodes" or "classes") from the arrays of a bundle. */
export function readCapacity(layer, arrays, nNodes, nInputs, free) {
  const array = (name) => arrays.get(`${layer}.${name}`)?.data;
  if (array("w")) return new PairwiseWeights(array("w"), nNodes, nInputs, free);
  if (array("weight")) return new SparseWeights(array, nNodes, nInputs);
  if (array("m")) return new FactoredWeights(array, nNodes, nInputs);
  return new AdditiveWeights(array("a"), nNodes, nInputs, free);
}

/** Weighted means: no pairs. */
class AdditiveWeights {
  constructor(a, nNodes, nInputs, free) {
    Object.assign(this, { a, nNodes, nInputs, free });
  }

  single(n, j) {
    return this.a[n * this.nInputs + j];
  }

  square() {
    return 0;
  }

  pairs() {
    return 0;
  }

  shapley(n, factor, extra, out) {
    const start = n * this.nInputs;
    for (let j = start; j < start + this.nInputs; j++) out[j] = factor[j] * this.a[j] + extra[j];
  }
}

/** All pairs: a matrix per integral with a on the diagonal, minima above it and maxima below it. */
class PairwiseWeights {
  constructor(w, nNodes, nInputs, free) {
    Object.assign(this, { w, nNodes, nInputs, free });
  }

  single(n, j) {
    return this.w[(n * this.nInputs + j) * this.nInputs + j];
  }

  square() {
    return 0;
  }

  pairs(n, j, out) {
    const { w, nInputs: I } = this;
    const start = n * I * I;
    let count = 0;
    for (let l = 0, row = start + j * I, column = start + j; l < I; l++, row++, column += I) {
      if (l === j) continue;
      const low = l < j ? w[column] : w[row];
      const high = l < j ? w[row] : w[column];
      if (low === 0 && high === 0) continue;
      out.other[count] = l;
      out.low[count] = low;
      out.high[count++] = high;
    }
    return count;
  }

  shapley(n, factor, extra, out) {
    const { w, nInputs: I } = this;
    const start = n * I;
    for (let j = 0; j < I; j++) out[start + j] = extra[start + j] + factor[start + j] * this.single(n, j);
    for (let j = 0; j < I; j++) {
      const half = 0.5 * factor[start + j];
      if (half === 0) continue;
      const row = (start + j) * I;
      let sum = 0;
      for (let l = 0; l < I; l++) {
        if (l === j) continue;
        const value = half * factor[start + l] * w[row + l];
        sum += value;
        out[start + l] += value;
      }
      out[start + j] += sum;
    }
  }
}

/** A list of terms; minimum and maximum of the same inputs are one pair. */
class SparseWeights {
  constructor(array, nNodes, nInputs) {
    Object.assign(this, { nNodes, nInputs, free: false });
    this.a = new Float64Array(nNodes * nInputs);
    this.#connect(this.#collect(...["node", "first", "second", "is_max", "weight"].map(array)));
  }

  single(n, j) {
    return this.a[n * this.nInputs + j];
  }

  square() {
    return 0;
  }

  pairs(n, j, out) {
    const from = this.start[n * this.nInputs + j];
    const count = this.start[n * this.nInputs + j + 1] - from;
    for (let k = 0; k < count; k++) {
      out.other[k] = this.other[from + k];
      out.low[k] = this.low[from + k];
      out.high[k] = this.high[from + k];
    }
    return count;
  }

  shapley(n, factor, extra, out) {
    const I = this.nInputs;
    for (let j = n * I; j < (n + 1) * I; j++) {
      let sum = 0;
      for (let k = this.start[j]; k < this.start[j + 1]; k++) {
        sum += factor[n * I + this.other[k]] * (this.low[k] + this.high[k]);
      }
      out[j] = factor[j] * (this.a[j] + 0.5 * sum) + extra[j];
    }
  }

  /** Keep weights of single inputs, and merge terms of the same two inputs, which follow each other. */
  #collect(node, first, second, isMax, weight) {
    const pairs = { one: [], other: [], low: [], high: [] };
    let last = -1;
    for (let t = 0; t < weight.length; t++) {
      const one = node[t] * this.nInputs + first[t];
      if (first[t] === second[t]) {
        this.a[one] += weight[t];
        continue;
      }
      const other = node[t] * this.nInputs + second[t];
      if (last < 0 || pairs.one[last] !== one || pairs.other[last] !== other) {
        last = pairs.one.push(one) - 1;
        pairs.other.push(other);
        pairs.low.push(0);
        pairs.high.push(0);
      }
      (isMax[t] ? pairs.high : pairs.low)[last] += weight[t];
    }
    return pairs;
  }

  /** Lay out the pairs by input, each at both of its inputs. */
  #connect({ one, other, low, high }) {
    const I = this.nInputs;
    this.start = new Int32Array(this.nNodes * I + 1);
    for (const ends of [one, other]) for (const end of ends) this.start[end + 1] += 1;
    for (let k = 1; k < this.start.length; k++) this.start[k] += this.start[k - 1];
    const next = this.start.slice();
    this.other = new Int32Array(2 * one.length);
    this.low = new Float64Array(2 * one.length);
    this.high = new Float64Array(2 * one.length);
    const place = (k, own, partner) => {
      const at = next[own]++;
      this.other[at] = partner % I;
      this.low[at] = low[k];
      this.high[at] = high[k];
    };
    for (let k = 0; k < one.length; k++) {
      place(k, one[k], other[k]);
      place(k, other[k], one[k]);
    }
  }
}

/** Pairs as products of a few distributions: the weight of min(u_j, u_l) is the sum of m_r (p_j q_l + q_j p_l). */
class FactoredWeights {
  constructor(array, nNodes, nInputs) {
    const [m, a, p, q] = ["m", "a", "p", "q"].map(array);
    const rank = (m.length / nNodes - 1) / 2;
    Object.assign(this, { m, a, p, q, rank, nNodes, nInputs, free: false });
  }

  /** Mixture weight of the linear part (r = 0), of the minima (1 to R) and of the maxima (R + 1 to 2R). */
  mixture(n, r) {
    return this.m[n * (1 + 2 * this.rank) + r];
  }

  single(n, j) {
    return this.mixture(n, 0) * this.a[n * this.nInputs + j];
  }

  square(n, j) {
    let sum = 0;
    for (let r = 0; r < this.rank; r++) {
      const at = (n * this.rank + r) * this.nInputs + j;
      sum += (this.mixture(n, 1 + r) + this.mixture(n, 1 + this.rank + r)) * this.p[at] * this.q[at];
    }
    return sum;
  }

  pairs(n, j, out) {
    const { p, q, rank, nInputs: I } = this;
    const low = new Float64Array(I);
    const high = new Float64Array(I);
    for (let r = 0; r < rank; r++) {
      const start = (n * rank + r) * I;
      const onMin = this.mixture(n, 1 + r);
      const onMax = this.mixture(n, 1 + rank + r);
      for (let l = 0; l < I; l++) {
        const product = p[start + j] * q[start + l] + q[start + j] * p[start + l];
        low[l] += onMin * product;
        high[l] += onMax * product;
      }
    }
    let count = 0;
    for (let l = 0; l < I; l++) {
      if (l === j || (low[l] === 0 && high[l] === 0)) continue;
      out.other[count] = l;
      out.low[count] = low[l];
      out.high[count++] = high[l];
    }
    return count;
  }

  shapley(n, factor, extra, out) {
    const { rank, nInputs: I } = this;
    const start = n * I;
    for (let j = 0; j < I; j++) out[start + j] = extra[start + j] + factor[start + j] * this.single(n, j);
    for (let r = 0; r < rank; r++) {
      const both = this.mixture(n, 1 + r) + this.mixture(n, 1 + rank + r);
      const [p, q] = [this.left(n, r, factor, this.p), this.left(n, r, factor, this.q)];
      const [onP, onQ] = [sumOf(p), sumOf(q)];
      for (let j = 0; j < I; j++) out[start + j] += 0.5 * both * (p[j] * onQ + q[j] * onP);
    }
  }

  /** What factors leave of a distribution (p or q) of one product. */
  left(n, r, factor, distribution) {
    const I = this.nInputs;
    const start = (n * this.rank + r) * I;
    const out = new Float64Array(I);
    for (let j = 0; j < I; j++) out[j] = factor[n * I + j] * distribution[start + j];
    return out;
  }
}

function sumOf(values) {
  let sum = 0;
  for (let k = 0; k < values.length; k++) sum += values[k];
  return sum;
}
