// What edits make of the weights of the first layer, apart from any rows.
//
// The weight of a single input is s_j a_j + s_j^2 d_j + e_j and that of a pair s_j s_l times the trained one, where s
// are factors and e what canonical removal gives to the kept member of a broken pair. They are not divided by their
// sum, the mass of the node, until values are computed; so every edit is a product or a sum, in any order.

import { PairList } from "./capacity.js";
import { EditError, listed } from "./edit_error.js";
import { namesOf } from "./edits.js";

const SMALL_REMAINDER = 0.05; // retained mass below which a node is hardly the one that was trained

/** The weights of N nodes over I inputs after some edits; never changed once made. */
export class NodeWeights {
  constructor(parts) {
    Object.assign(this, parts);
  }

  /** The weights before any edit, with what the base of the model has frozen, gone and retained. */
  static unedited(capacity, { frozen, gone, retained, shift }) {
    const size = capacity.nNodes * capacity.nInputs;
    const weights = new NodeWeights({
      capacity,
      factor: new Float64Array(size).fill(1),
      extra: new Float64Array(size),
      frozen: frozen ?? new Uint8Array(size),
      gone: gone ?? new Uint8Array(size),
      retained: Float64Array.from(retained ?? new Float64Array(capacity.nNodes).fill(1)),
      latest: new Float64Array(capacity.nNodes).fill(1),
      shift: Float64Array.from(shift ?? []),
      shapley: new Float64Array(size),
      mass: new Float64Array(capacity.nNodes),
      size: new Float64Array(capacity.nNodes),
    });
    for (let n = 0; n < capacity.nNodes; n++) weights.#sum(n);
    return weights;
  }

  /** The weights after one more edit. `inputsOf` gives the inputs of a concept by name. */
  edited(edit, inputsOf) {
    const latest = new Float64Array(this.retained.length).fill(1);
    if (edit.edit === "recalibrate") return new NodeWeights({ ...this, latest, shift: Float64Array.from(edit.shift) });
    const copies = ["factor", "extra", "frozen", "gone", "retained", "shapley", "mass", "size"];
    const changed = new NodeWeights({ ...this, latest });
    for (const name of copies) changed[name] = this[name].slice();
    for (const n of edit.nodes ?? this.retained.keys()) changed.#edit(n, edit, inputsOf, this);
    changed.#checkLeft(edit);
    return changed;
  }

  #edit(n, edit, inputsOf, before) {
    const start = n * this.capacity.nInputs;
    const factors = edit.edit === "remove" ? edit.concepts.map((name) => [name, 0]) : Object.entries(edit.factors);
    const changes = factors.flatMap(([name, factor]) => inputsOf(name).map((j) => [start + j, factor]));
    for (const [at, factor] of changes) if (factor === 0) this.gone[at] = 1;
    if (edit.mode === "impute") {
      for (const [at] of changes) this.frozen[at] = 1;
      return;
    }
    const freed = edit.mode === "canonical" ? before.#freed(n, changes.map(([at]) => at - start)) : null;
    for (const [at, factor] of changes) {
      this.factor[at] *= factor;
      this.extra[at] *= factor;
    }
    freed?.forEach((value, l) => (this.extra[start + l] += value));
    this.#sum(n);
    this.latest[n] = before.size[n] === this.size[n] ? 1 : this.size[n] / before.size[n];
    this.retained[n] *= this.latest[n];
  }

  /** What kept inputs get back of their pairs with removed ones: the common part of minimum and maximum. */
  #freed(n, removed) {
    const { capacity, factor } = this;
    const start = n * capacity.nInputs;
    const pairs = new PairList(capacity.nInputs);
    const freed = new Float64Array(capacity.nInputs);
    for (const j of removed) {
      const count = factor[start + j] === 0 ? 0 : capacity.pairs(n, j, pairs);
      for (let k = 0; k < count; k++) {
        const l = pairs.other[k];
        freed[l] += factor[start + j] * factor[start + l] * Math.min(pairs.low[k], pairs.high[k]);
      }
    }
    for (const j of removed) freed[j] = 0;
    return freed;
  }

  /** Shapley values, mass and size (the mass of absolute weights) of one node. */
  #sum(n) {
    const { capacity, factor, extra, shapley } = this;
    const I = capacity.nInputs;
    capacity.shapley(n, factor, extra, shapley);
    let mass = 0;
    for (let j = n * I; j < (n + 1) * I; j++) mass += shapley[j];
    this.mass[n] = mass;
    this.size[n] = capacity.free ? this.#absolute(n) : mass;
  }

  #absolute(n) {
    const { capacity, factor } = this;
    const start = n * capacity.nInputs;
    const pairs = new PairList(capacity.nInputs);
    let sum = 0;
    for (let j = 0; j < capacity.nInputs; j++) {
      sum += Math.abs(this.single(n, j));
      const count = capacity.pairs(n, j, pairs);
      for (let k = 0; k < count; k++) {
        const both = Math.abs(pairs.low[k]) + Math.abs(pairs.high[k]);
        sum += 0.5 * factor[start + j] * factor[start + pairs.other[k]] * both; // each pair comes twice
      }
    }
    return sum;
  }

  /** Weight of an input alone, before it is divided by the mass. */
  single(n, j) {
    const at = n * this.capacity.nInputs + j;
    const s = this.factor[at];
    return s * this.capacity.single(n, j) + s * s * this.capacity.square(n, j) + this.extra[at];
  }

  /** The most that a term of a node can be multiplied by. */
  largestProduct(n) {
    const I = this.capacity.nInputs;
    const [first, second] = this.factor.slice(n * I, (n + 1) * I).sort().reverse();
    return Math.max(first, first * (second ?? 0));
  }

  /** What values and weights of a node are divided by. */
  divisor(n) {
    return this.capacity.free ? 1 : this.mass[n];
  }

  /** A node must keep something. */
  #checkLeft(edit) {
    const I = this.capacity.nInputs;
    for (let n = 0; n < this.retained.length; n++) {
      if (this.gone.subarray(n * I, (n + 1) * I).every(Boolean)) {
        const names = listed(namesOf(edit));
        throw new EditError(`Removing ${names} would leave node ${n} without any concept. Keep at least one.`);
      }
    }
    const nothing = this.retained.findIndex((kept) => !(kept > 0 && Number.isFinite(kept)));
    if (nothing >= 0) {
      throw new EditError(
        `Node ${nothing} is made of the removed concepts alone, so nothing is left to rescale. Use the mode impute, ` +
          "or leave this node out.",
      );
    }
  }

  /** Nodes of which the latest edit left little. */
  smallRemainders() {
    return [...this.retained]
      .map((share, node) => ({ node, share }))
      .filter(({ share, node }) => share < SMALL_REMAINDER && this.latest[node] < 1);
  }

  /** Shares of the inputs in each node (N*I): Shapley values by size; zero for what is frozen. */
  attributions() {
    const I = this.capacity.nInputs;
    const shares = this.shapley.map((value, at) => (this.frozen[at] ? 0 : Math.abs(value)));
    for (let n = 0; n < this.mass.length; n++) {
      let total = 0;
      for (let j = n * I; j < (n + 1) * I; j++) total += shares[j];
      if (total > 0) for (let j = n * I; j < (n + 1) * I; j++) shares[j] /= total;
    }
    return shares;
  }
}
