// The fitted network on the loaded rows: its state after any edits, computed from the nearest state that is known.

import { readCapacity } from "./capacity.js";
import { allInForce, checkEdit } from "./edit_checks.js";
import { EditError as ImpossibleEdit } from "./edit_error.js";
import { affected, keyOf } from "./edits.js";
import { nameNodes } from "./node_names.js";
import { evaluateNode, Numerators, Sheet } from "./node_rows.js";
import { NodeWeights } from "./node_weights.js";

const SLICE = 30; // milliseconds that the page may stand still
const SLICE_ROWS = 256; // rows of one node between two looks at the clock
const MOST_STATES = 16; // on rows, that are kept
const MOST_WEIGHTS = 500;
const MOST_CHECKED = 5000; // lists of edits that are known to be possible: a slider makes many
const NEGLIGIBLE_PAIR = 1e-12; // of the mass of a class, whose weights are never edited

/** An edit that is not possible; the message is a sentence for a person. */
export const EditError = ImpossibleEdit;

/** The fitted network on the loaded rows. */
export class Network {
  #sheet = null;
  #base = null;
  #known = new Map(); // numerators by the key of the edits in force, the latest used last
  #weights = new Map();
  #checked = new Set();
  #places;

  constructor(document, arrays, rows) {
    const { model } = document;
    this.document = document;
    this.model = model;
    this.rows = rows;
    this.concepts = model.concepts;
    this.#places = new Map(model.concepts.map((name, place) => [name, place]));
    this.inputs = model.inputs;
    this.classes = model.classes;
    this.nNodes = model.n_nodes;
    [this.M, this.I, this.C] = [model.concepts.length, model.inputs.length, model.classes.length];
    this.bipolar = model.bipolar;
    this.oneLayer = model.one_layer;
    this.means = arrays.get("means").data;
    const data = (name) => arrays.get(name)?.data;
    this.capacity = readCapacity("nodes", arrays, this.nNodes, this.I, model.free);
    this.trained = NodeWeights.unedited(this.capacity, {
      frozen: data("base.frozen"),
      gone: data("base.gone"),
      retained: data("base.retained"),
      shift: data("base.shift"),
    });
    if (this.oneLayer) return;
    this.classWeights = NodeWeights.unedited(readCapacity("classes", arrays, this.C, this.nNodes, model.free), {});
  }

  /** Compute the nodes of all rows before any edit, in slices, so that the page stays alive. */
  async prepare(onProgress = () => {}) {
    await this.#compute(onProgress);
  }

  /** Compute the nodes of rows that were appended to the table; states are to be asked for again. */
  async extend() {
    await this.#compute(() => {});
  }

  /** The state after some edits, on top of those that the model came with. Throws EditError. */
  state(edits) {
    if (!this.#base) for (const _ of this.#baseSlices()) continue;
    this.check(edits);
    const inForce = allInForce(this.model, edits);
    const weights = this.weightsOf(inForce);
    const found = this.#numerators(keyOf(inForce), weights);
    return { ...this.#derive(found), edits, inForce, affected: affected(inForce) };
  }

  /** Throw EditError unless each of the edits is possible after those before it. */
  check(edits) {
    for (let count = 0; count < edits.length; count++) {
      const key = keyOf(edits.slice(0, count + 1));
      if (this.#checked.has(key)) continue;
      checkEdit(edits[count], this.model, allInForce(this.model, edits.slice(0, count)));
      this.weightsOf(allInForce(this.model, edits.slice(0, count + 1)));
      if (this.#checked.size >= MOST_CHECKED) this.#checked.clear();
      this.#checked.add(key);
    }
  }

  /** The weights of the nodes after edits in force. */
  weightsOf(inForce) {
    if (!inForce.length) return this.trained;
    const key = keyOf(inForce);
    if (!this.#weights.has(key)) {
      const before = this.weightsOf(inForce.slice(0, -1));
      if (this.#weights.size >= MOST_WEIGHTS) this.#weights.clear();
      this.#weights.set(key, before.edited(inForce.at(-1), (name) => this.inputsOf(this.placeOf(name))));
    }
    return this.#weights.get(key);
  }

  /** Place of a concept among all, by its name; -1 if there is none. */
  placeOf(name) {
    return this.#places.get(name) ?? -1;
  }

  /** Inputs of a concept: itself, and its absence if that is an input too. */
  inputsOf(concept) {
    return this.bipolar ? [concept, this.M + concept] : [concept];
  }

  /** Node values, scores and predicted class of one image, from its scaled scores. */
  valuesOf(state, z) {
    const { inputs, nodeValues, classScores } = this.layersOf(state, z);
    const scores = classScores.map((score, r) => score + state.shift[r]);
    return { inputs, nodeValues, scores, predicted: argmax(scores, 0, this.C) };
  }

  /** Inputs, node values and class scores (without the shift) of one image. */
  layersOf(state, z) {
    const sheet = this.sheetOf(1, (j) => Float64Array.of(z[j]));
    const nodes = Numerators.direct(state.weights, sheet).values();
    const [inputs, nodeValues, classScores] = [sheet.columns, nodes, this.score(nodes, 1)].map(firstOfEach);
    return { inputs, nodeValues, classScores };
  }

  /** Columns of inputs from columns of concepts: with `bipolar`, absences follow. */
  sheetOf(n, column) {
    const columns = Array.from({ length: this.M }, (_, j) => column(j));
    const absences = this.bipolar ? columns.map((present) => present.map((value) => 1 - value)) : [];
    return new Sheet(n, [...columns, ...absences], this.means);
  }

  /** The rows as columns of inputs, as they were computed last. */
  get sheet() {
    return this.#sheet;
  }

  /** Class scores without a shift, one array per class, from node values, one array per node. */
  score(values, n) {
    if (this.oneLayer) return values;
    const sheet = new Sheet(n, values, null);
    return this.classes.map((_, r) => {
      const out = new Float64Array(n);
      evaluateNode(this.classWeights, r, sheet, out, 0, n, NEGLIGIBLE_PAIR);
      const divisor = this.classWeights.divisor(r);
      for (let i = 0; i < n; i++) out[i] /= divisor;
      return out;
    });
  }

  /** Names of all nodes from their leading concepts; without nodes, the classes. */
  nodeNames(state) {
    if (this.oneLayer) return this.classes;
    return nameNodes(this, state.conceptAttributions, state.nodeAttributions);
  }

  /** Name of one node. */
  nodeName(state, n) {
    return this.nodeNames(state)[n];
  }

  /** Class probabilities of a row. */
  probabilities(state, i) {
    return softmax(state.scores.subarray(i * this.C, (i + 1) * this.C), this.document.probability_temperature);
  }

  async #compute(onProgress) {
    let since = performance.now();
    for (const done of this.#baseSlices()) {
      if (performance.now() - since < SLICE) continue;
      onProgress(done);
      await new Promise((resolve) => setTimeout(resolve));
      since = performance.now();
    }
    onProgress(1);
  }

  /** Evaluate the nodes on rows that have no values yet; yields the share that is done. */
  *#baseSlices() {
    const [sheet, known] = [this.#rowSheet(), this.#base?.sheet.n ?? 0];
    const parts = Array.from({ length: this.nNodes }, (_, n) => {
      const part = new Float64Array(sheet.n);
      if (known) part.set(this.#base.parts[n]);
      return part;
    });
    for (let start = known; start < sheet.n; start += SLICE_ROWS) {
      for (let n = 0; n < this.nNodes; n++) {
        evaluateNode(this.trained, n, sheet, parts[n], start, Math.min(start + SLICE_ROWS, sheet.n));
        yield (start - known) / (sheet.n - known);
      }
    }
    this.#sheet = sheet;
    this.#base = new Numerators(this.trained, sheet, parts, this.trained.size.slice(), 0);
    this.#known.clear();
  }

  #rowSheet() {
    const { rows, M } = this;
    return this.sheetOf(rows.n, (j) => Float64Array.from({ length: rows.n }, (_, i) => rows.z[i * M + j]));
  }

  /** The numerators of a state, moved from the nearest one that is known. */
  #numerators(key, weights) {
    let found = this.#known.get(key);
    if (!found) {
      const candidates = [this.#base, ...[...this.#known.values()].map((one) => one.numerators)];
      const distances = candidates.map((one) => one.distance(weights) + 1e-6 * one.depth); // of equals, fewer steps
      const nearest = candidates[argmin(distances)];
      found = { numerators: nearest.moved(weights), state: null };
    }
    this.#known.delete(key);
    this.#known.set(key, found);
    if (this.#known.size > MOST_STATES) this.#known.delete(this.#known.keys().next().value);
    return found;
  }

  #derive(found) {
    return (found.state ??= describeState(this, found.numerators));
  }
}

/** All that follows from the numerators of the nodes. */
function describeState(network, numerators) {
  const { C } = network;
  const { weights, sheet } = numerators;
  const columns = numerators.values();
  const scores = interleaved(network.score(columns, sheet.n), sheet.n, weights.shift);
  const predicted = Int32Array.from({ length: sheet.n }, (_, i) => argmax(scores, i * C, C));
  const leftOut = network.model.left_out.map((mass, n) => (mass * weights.largestProduct(n)) / weights.retained[n]);
  return {
    weights,
    numerators,
    nodeValues: interleaved(columns, sheet.n),
    scores,
    predicted,
    shift: weights.shift,
    retained: weights.retained,
    gone: weights.gone,
    frozen: weights.frozen,
    leftOut: Float64Array.from(leftOut),
    smallRemainders: weights.smallRemainders(),
    ...shares(network, weights),
  };
}

/** Shares of inputs and concepts in the nodes, of nodes in the classes, and of concepts in classes and model. */
function shares(network, weights) {
  const { nNodes: N, M, I, C } = network;
  const nodeAttributions = weights.attributions();
  const conceptAttributions = new Float64Array(N * M);
  for (let n = 0; n < N; n++) {
    for (let j = 0; j < I; j++) conceptAttributions[n * M + (j % M)] += nodeAttributions[n * I + j];
  }
  const classAttributions = network.oneLayer ? identity(C) : network.classWeights.attributions();
  const conceptToClass = product(classAttributions, conceptAttributions, C, N, M);
  const conceptShares = new Float64Array(M);
  conceptToClass.forEach((value, at) => (conceptShares[at % M] += value));
  const total = conceptShares.reduce((sum, value) => sum + value, 0) || 1;
  for (let j = 0; j < M; j++) conceptShares[j] /= total;
  return { nodeAttributions, conceptAttributions, classAttributions, conceptToClass, conceptShares };
}

/** Columns as rows: the value of column k in row i at i * K + k, with a shift of each column. */
function interleaved(columns, n, shift = null) {
  const K = columns.length;
  const out = new Float64Array(n * K);
  columns.forEach((column, k) => {
    const more = shift ? shift[k] : 0;
    for (let i = 0; i < n; i++) out[i * K + k] = column[i] + more;
  });
  return out;
}

function firstOfEach(columns) {
  return Float64Array.from(columns, (column) => column[0]);
}

function identity(size) {
  const out = new Float64Array(size * size);
  for (let k = 0; k < size; k++) out[k * size + k] = 1;
  return out;
}

/** The matrix product of (rows, inner) and (inner, columns). */
function product(left, right, rows, inner, columns) {
  const out = new Float64Array(rows * columns);
  for (let r = 0; r < rows; r++) {
    for (let k = 0; k < inner; k++) {
      const factor = left[r * inner + k];
      for (let c = 0; c < columns; c++) out[r * columns + c] += factor * right[k * columns + c];
    }
  }
  return out;
}

/** Place of the first largest of `count` values from `start`, counted from there. */
export function argmax(values, start, count) {
  let best = 0;
  for (let k = 1; k < count; k++) if (values[start + k] > values[start + best]) best = k;
  return best;
}

function argmin(values) {
  return values.reduce((best, value, k) => (value < values[best] ? k : best), 0);
}

/** Softmax of scores over a temperature. */
export function softmax(scores, temperature) {
  const largest = scores.reduce((most, value) => Math.max(most, value), -Infinity);
  const parts = Float64Array.from(scores, (value) => Math.exp((value - largest) / temperature));
  const total = parts.reduce((sum, value) => sum + value, 0);
  return parts.map((value) => value / total);
}
