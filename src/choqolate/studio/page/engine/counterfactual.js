// The smallest set of concepts without which an image would be put into another class.

import { classScorer } from "./class_scorer.js";
import { EditError } from "./edit_error.js";
import { argmax } from "./network.js";
import { rank } from "./node_names.js";
import { removalTables } from "./removal_tables.js";

const EXACT_UP_TO = 3; // concepts: all sets of so many are tried
const MOST_SETS = 4_000_000; // of one size
const ROUNDING = 1e-12; // a lead that is smaller is a tie
const NOTHING = 1e-9; // retained mass of a node that is nothing but rounding

/**
 * Find the smallest set of concepts whose removal changes the prediction of one image; to the class `target`, if given
 * by its number. All sets of up to three are tried, the best of these is then extended one by one. Yields progress;
 * returns the names, and the classes before and after by number.
 */
export function* smallestRemoval(network, state, z, options = {}) {
  const { target = null, mode = "rescale", most = 6, mostSets = MOST_SETS } = options;
  const search = new Search(network, state, z, { target, mode, most, mostSets });
  let best = [];
  for (let size = 1; size <= Math.min(most, search.concepts.length); size++) {
    const sets = size <= EXACT_UP_TO ? allSets(search, size) : extensions(search, best);
    yield* timed(sets, (done) => (size - 1 + done) / most);
    if (search.lead < -ROUNDING) return search.result(size <= EXACT_UP_TO ? "exact" : "greedy");
    if (!search.best.length) break; // every set leaves a node with nothing
    best = search.restart();
  }
  return search.result("none");
}

function* timed(sets, progress) {
  for (const done of sets) yield progress(done);
}

/** Try all sets of so many concepts; yields the share that is done. */
function* allSets(search, size) {
  const K = search.concepts.length;
  for (let first = 0; first < K; first++) {
    if (size === 1) search.tryEach([], first, first + 1);
    else if (size === 2) search.tryEach([first], first + 1, K);
    else for (let second = first + 1; second < K; second++) search.tryEach([first, second], second + 1, K);
    yield (first + 1) / K;
  }
}

/** Try a set with each one more concept. */
function* extensions(search, set) {
  const K = search.concepts.length;
  for (let k = 0; k < K; k++) if (!set.includes(k)) search.tryEach(set, k, k + 1);
  yield 1;
}

/** Sets of concepts for one image: node values without them, from tables made once. */
class Search {
  constructor(network, state, z, { target, mode, most, mostSets }) {
    Object.assign(this, { network, state, target, most });
    const now = network.valuesOf(state, z);
    this.before = now.predicted;
    if (target !== null && (target === this.before || !(target >= 0 && target < network.C))) {
      throw new EditError("Expected another class than the predicted one to get to. Choose a different class.");
    }
    this.leadBefore = this.#lead(now.scores);
    [this.concepts, this.complete] = this.#candidates(mostSets);
    const groups = this.concepts.map((concept) => network.inputsOf(concept));
    this.tables = removalTables(network, state, now.inputs, groups, mode);
    this.left = this.#inputsLeft();
    this.score = classScorer(network, state);
    this.restart();
  }

  /** Forget the best set, and return it. */
  restart() {
    const { best } = this;
    [this.best, this.lead] = [[], Infinity];
    return best;
  }

  /** Try the set with one more concept, each from `start` to `stop`. */
  tryEach(set, start, stop) {
    const base = this.#without(set);
    const values = new Float64Array(this.tables.N);
    for (let k = start; k < stop; k++) {
      const bound = this.#values(base, set, k, values);
      if (!(bound < this.lead) || !this.#leavesSomething(set, k)) continue;
      const lead = this.#lead(this.score(values));
      if (lead < this.lead) [this.lead, this.best] = [lead, [...set, k]];
    }
  }

  result(method) {
    const { network, best, most, before, leadBefore, complete } = this;
    const found = method !== "none";
    const set = found ? best : [];
    const values = new Float64Array(network.nNodes);
    if (found) this.#values(this.#without(set.slice(0, -1)), set.slice(0, -1), set.at(-1), values);
    const scores = found ? this.score(values) : null;
    return {
      concepts: set.map((k) => network.concepts[this.concepts[k]]),
      before,
      after: found ? argmax(scores, 0, network.C) : null,
      method,
      searched: this.concepts.length,
      complete,
      most,
      leadBefore,
      leadAfter: found ? this.#lead(scores) : NaN,
    };
  }

  /** Numerators and masses of the nodes without a set. */
  #without(set) {
    const { value, A, B, D, E, K, N } = this.tables;
    const [numerator, mass] = [value.slice(), new Float64Array(N).fill(1)];
    set.forEach((k, place) => {
      for (let n = 0; n < N; n++) {
        numerator[n] -= A[k * N + n];
        mass[n] -= D[k * N + n];
        for (const m of set.slice(0, place)) {
          numerator[n] += B[(k * K + m) * N + n];
          mass[n] += E[(k * K + m) * N + n];
        }
      }
    });
    return { numerator, mass };
  }

  /**
   * Node values without a set and one more concept, into `out`. Returns a bound from below of the lead, for an integral
   * moves at most as much as the input that moves most; infinity if a node is left with nothing.
   */
  #values({ numerator, mass }, set, k, out) {
    const { value, A, B, D, E, K, N, rescaled } = this.tables;
    let [rise, fall] = [0, 0];
    for (let n = 0; n < N; n++) {
      let top = numerator[n] - A[k * N + n];
      let bottom = mass[n] - D[k * N + n];
      for (let s = 0; s < set.length; s++) {
        const at = (k * K + set[s]) * N + n;
        top += B[at];
        bottom += E[at];
      }
      if (rescaled && !(bottom > NOTHING)) return Infinity;
      out[n] = rescaled ? top / bottom : top;
      rise = Math.max(rise, out[n] - value[n]);
      fall = Math.min(fall, out[n] - value[n]);
    }
    return this.network.model.free ? -Infinity : this.leadBefore - rise + fall;
  }

  /** Whether every node keeps a concept, those counted that are frozen. */
  #leavesSomething(set, k) {
    const { total, has, K } = this.left;
    for (let n = 0; n < total.length; n++) {
      let gone = has[n * K + k];
      for (let s = 0; s < set.length; s++) gone += has[n * K + set[s]];
      if (gone >= total[n]) return false;
    }
    return true;
  }

  /** How many concepts each node has, and which of those that are tried. */
  #inputsLeft() {
    const { network: { nNodes: N, M, I }, state: { gone }, concepts } = this;
    const total = new Int32Array(N);
    const has = new Uint8Array(N * concepts.length);
    for (let n = 0; n < N; n++) {
      for (let j = 0; j < M; j++) total[n] += 1 - gone[n * I + j];
      concepts.forEach((j, k) => (has[n * concepts.length + k] = 1 - gone[n * I + j]));
    }
    return { total, has, K: concepts.length };
  }

  /** The concepts that sets are made of, those with the largest share in a node first; and whether these are all. */
  #candidates(mostSets) {
    const { network: { nNodes: N, M, I }, state } = this;
    const largest = new Float64Array(M);
    state.nodeAttributions.forEach((share, at) => {
      const j = (at % I) % M;
      largest[j] = Math.max(largest[j], share);
    });
    const isThere = (j) => Array.from({ length: N }, (_, n) => state.gone[n * I + j]).some((gone) => !gone);
    const present = rank(largest).filter(isThere);
    let room = present.length;
    while (combinations(room, Math.min(this.most, EXACT_UP_TO)) > mostSets) room -= 1;
    return [present.slice(0, room), room === present.length];
  }

  /** By how much the class before is ahead of all others; with a target, the best other class of the target. */
  #lead(scores) {
    const own = this.target ?? this.before;
    let best = -Infinity;
    for (let r = 0; r < scores.length; r++) if (r !== own) best = Math.max(best, scores[r]);
    return this.target === null ? scores[own] - best : best - scores[own];
  }
}

function combinations(n, k) {
  let count = 1;
  for (let j = 1; j <= k; j++) count = (count * (n - k + j)) / j;
  return n < k ? 0 : Math.round(count);
}
