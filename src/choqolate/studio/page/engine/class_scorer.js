// Class scores of one image after another, for searches that ask for many.

import { PairList } from "./capacity.js";

const NEGLIGIBLE = 1e-12; // of the mass of a class

/** A function from node values to class scores with the shift; it returns the same array each time. */
export function classScorer(network, state) {
  const scores = new Float64Array(network.C);
  const parts = network.oneLayer ? null : network.classes.map((_, r) => flatten(network.classWeights, r));
  return (values) => {
    for (let r = 0; r < scores.length; r++) {
      scores[r] = state.shift[r] + (parts ? evaluate(parts[r], values) : values[r]);
    }
    return scores;
  };
}

/** The weights of one class: of single nodes, and of the differences of two, divided by their mass. */
function flatten(weights, r) {
  const N = weights.capacity.nInputs;
  const [first, second, weight] = [[], [], []];
  const pairs = new PairList(N);
  for (let j = 0; j < N; j++) {
    const count = weights.capacity.pairs(r, j, pairs);
    for (let k = 0; k < count; k++) {
      const value = (0.5 * (pairs.high[k] - pairs.low[k])) / weights.divisor(r);
      if (pairs.other[k] < j || Math.abs(value) <= NEGLIGIBLE) continue;
      first.push(j);
      second.push(pairs.other[k]);
      weight.push(value);
    }
  }
  const linear = weights.shapley.slice(r * N, (r + 1) * N).map((value) => value / weights.divisor(r));
  return { linear, first: Int32Array.from(first), second: Int32Array.from(second), weight: Float64Array.from(weight) };
}

function evaluate({ linear, first, second, weight }, values) {
  let sum = 0;
  for (let n = 0; n < linear.length; n++) sum += linear[n] * values[n];
  for (let k = 0; k < weight.length; k++) sum += weight[k] * Math.abs(values[first[k]] - values[second[k]]);
  return sum;
}
