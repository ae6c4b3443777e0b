// One image: exact Shapley values of concepts in nodes and of nodes in classes, from a baseline on, and their chain.

import { PairList } from "./capacity.js";
import { rank } from "./node_names.js";

const STILL = 1e-12; // a node that moved less has not moved: what is left is rounding

/** Exact local attributions of one image, layer by layer; the baseline is "zero" or the training "mean". */
export function explainOne(network, state, z, { baseline = "zero" } = {}) {
  const { nNodes: N, C } = network;
  const level = baseline === "mean" ? network.means.slice(0, network.M) : new Float64Array(network.M);
  const [here, start] = [z, level].map((scores) => network.layersOf(state, scores));
  const scores = here.classScores.map((score, r) => score + state.shift[r]);
  const nodeToClass = network.oneLayer
    ? diagonal(here.nodeValues.map((value, n) => value - start.nodeValues[n]))
    : localShapley(network.classWeights, null, here.nodeValues, start.nodeValues, C, N);
  const ranking = rank(scores);
  return {
    conceptToNode: localShapley(state.weights, network.means, here.inputs, start.inputs, N, network.I),
    nodeToClass,
    nodeValues: here.nodeValues,
    classScores: here.classScores,
    nodeBaseline: start.nodeValues,
    classBaseline: start.classScores,
    inputs: here.inputs,
    shift: state.shift,
    predicted: ranking[0],
    ranking,
    baseline,
    nodeNames: network.nodeNames(state),
  };
}

/** What made the lead of one class over another; by default of the predicted class over the best other. */
export function contrast(network, explanation, first, second, by = "concepts") {
  const { ranking } = explanation;
  const one = first ?? ranking.find((r) => r !== second);
  const other = second ?? ranking.find((r) => r !== one);
  const of = (r) => ofClass(network, explanation, r);
  const [x, y] = [of(one), of(other)];
  const nodes = x.nodes.map((value, n) => value - y.nodes[n]);
  return attribution(network, explanation, nodes, x.start - y.start, x.end - y.end, by);
}

/** Contributions of the concepts to the value of a node. */
export function forNode(network, explanation, n) {
  const values = explanation.conceptToNode.slice(n * network.I, (n + 1) * network.I);
  return byConcept(network, explanation, values, explanation.nodeBaseline[n], explanation.nodeValues[n]);
}

/** The `most` largest contributions by size, and what the others sum to; zeros are left out. */
export function leading({ values, start, end, levels, names }, most = 10) {
  const sizes = values.map(Math.abs);
  const shown = rank(sizes).slice(0, most).filter((index) => values[index] !== 0);
  const shares = shown.map((index) => ({ index, name: names[index], value: values[index], level: levels[index] }));
  const count = values.filter((value) => value !== 0).length - shares.length;
  return { shares, others: { count, value: end - start - shares.reduce((sum, { value }) => sum + value, 0) } };
}

function ofClass({ nNodes: N }, { nodeToClass, classBaseline, classScores, shift }, r) {
  return {
    nodes: nodeToClass.slice(r * N, (r + 1) * N),
    start: classBaseline[r] + shift[r],
    end: classScores[r] + shift[r],
  };
}

/** Contributions of nodes, or their chain: each concept has its share of what a node contributes. */
function attribution(network, explanation, nodes, start, end, by) {
  const { nodeValues, nodeBaseline, conceptToNode, nodeNames } = explanation;
  if (by === "nodes") return { values: nodes, start, end, levels: nodeValues, names: nodeNames };
  const values = new Float64Array(network.I);
  nodes.forEach((contribution, n) => {
    const change = nodeValues[n] - nodeBaseline[n];
    if (Math.abs(change) <= STILL) return;
    for (let j = 0; j < network.I; j++) values[j] += (contribution / change) * conceptToNode[n * network.I + j];
  });
  return byConcept(network, explanation, values, start, end);
}

/** Contributions of inputs as those of concepts: presence and absence are added. */
function byConcept({ M, I, concepts }, { inputs }, values, start, end) {
  const sums = values.slice(0, M);
  for (let j = M; j < I; j++) sums[j - M] += values[j];
  return { values: sums, start, end, levels: inputs.slice(0, M), names: concepts };
}

/**
 * Exact Shapley values (K * I) of the change of K integrals from x to y. With Shap the global ones and d = (c - b) / 2,
 *   Shap_j (y_j - x_j) + 1/2 sum_l d_jl (|y_j - y_l| + |y_j - x_l| - |x_j - y_l| - |x_j - x_l|).
 */
function localShapley(weights, means, y, x, K, I) {
  const out = new Float64Array(K * I);
  const pairs = new PairList(I);
  for (let n = 0; n < K; n++) {
    const frozen = weights.frozen.subarray(n * I, (n + 1) * I);
    const seen = y.map((value, j) => (frozen[j] ? means[j] : value));
    const start = x.map((value, j) => (frozen[j] ? means[j] : value));
    for (let j = 0; j < I; j++) {
      out[n * I + j] = changeBy(weights, n, j, seen, start, pairs) / weights.divisor(n);
    }
  }
  return out;
}

function changeBy({ capacity, factor, shapley }, n, j, y, x, pairs) {
  if (y[j] === x[j]) return 0; // whatever the others do
  const at = n * capacity.nInputs;
  const quarter = 0.25 * factor[at + j];
  const count = quarter === 0 ? 0 : capacity.pairs(n, j, pairs);
  let sum = shapley[at + j] * (y[j] - x[j]);
  for (let k = 0; k < count; k++) {
    const l = pairs.other[k];
    const there = Math.abs(y[j] - y[l]) + Math.abs(y[j] - x[l]);
    const before = Math.abs(x[j] - y[l]) + Math.abs(x[j] - x[l]);
    sum += quarter * factor[at + l] * (pairs.high[k] - pairs.low[k]) * (there - before);
  }
  return sum;
}

function diagonal(values) {
  const out = new Float64Array(values.length ** 2);
  values.forEach((value, k) => (out[k * values.length + k] = value));
  return out;
}
