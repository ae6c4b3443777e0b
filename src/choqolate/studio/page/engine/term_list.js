// The terms of a node, the heaviest first: weighted inputs, and minima and maxima of two.

import { PairList } from "./capacity.js";

/** The heaviest terms of a node after its edits: at most so many, how many there are, and what those listed hold. */
export function heaviestTerms(network, state, node, most = 10) {
  const terms = allTerms(state.weights, node);
  const sizes = terms.map((term) => Math.abs(term.weight));
  const enough = sizes.slice().sort((x, y) => y - x)[most - 1] ?? 0;
  const listed = terms
    .filter((_, place) => sizes[place] >= enough)
    .sort((x, y) => Math.abs(y.weight) - Math.abs(x.weight) || x.first - y.first || x.second - y.second)
    .slice(0, most);
  return { terms: listed, total: terms.length, held: listed.reduce((sum, { weight }) => sum + weight, 0) };
}

function allTerms(weights, n) {
  const { capacity, factor } = weights;
  const at = n * capacity.nInputs;
  const divisor = weights.divisor(n);
  const pairs = new PairList(capacity.nInputs);
  const terms = [];
  const add = (first, second, kind, weight) => {
    if (weight !== 0) terms.push({ first, second, kind, weight: weight / divisor });
  };
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
  return terms;
}
