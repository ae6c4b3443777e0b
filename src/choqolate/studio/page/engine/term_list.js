// The terms of a node, the heaviest first: weighted inputs, and minima and maxima of two.

import { PairList } from "./capacity.js";

/** The heaviest terms of a node after its edits: at most so many, how many there are, and what those listed hold. */
export function heaviestTerms(network, state, node, most = 10) {
  const divisor = state.weights.divisor(node);
  const found = []; // the heaviest so far, in order; of equals the first
  let total = 0;
  visitTerms(state.weights, node, (first, second, kind, weight) => {
    total += 1;
    const size = Math.abs(weight);
    if (found.length === most && size <= found[most - 1].size) return;
    const place = found.findIndex((term) => term.size < size);
    found.splice(place < 0 ? found.length : place, 0, { first, second, kind, weight, size });
    if (found.length > most) found.pop();
  });
  const terms = found.map(({ first, second, kind, weight }) => ({ first, second, kind, weight: weight / divisor }));
  return { terms, total, held: terms.reduce((sum, { weight }) => sum + weight, 0) };
}

/** Call visit(first, second, kind, weight) for each term that has a weight; weights are not divided by their sum. */
function visitTerms(weights, n, visit) {
  const { capacity, factor } = weights;
  const at = n * capacity.nInputs;
  const pairs = new PairList(capacity.nInputs);
  const add = (first, second, kind, weight) => weight !== 0 && visit(first, second, kind, weight);
  for (let j = 0; j < capacity.nInputs; j++) {
    add(j, j, "single", weights.single(n, j));
    const count = factor[at + j] === 0 ? 0 : capacity.pairs(n, j, pairs);
    for (let k = 0; k < count; k++) {
      const l = pairs.other[k];
      if (l < j) continue;
      const both = factor[at + j] * factor[at + l];
      add(j, l, "min", both * pairs.low[k]);
      add(j, l, "max", both * pairs.high[k]);
    }
  }
}
