// What nodes lose with each concept of one image and get back for each pair: with A and B values, D and E weights,
//   h without J = (h - sum_j A_j + sum_{j<l} B_jl) / (1 - sum_j D_j + sum_{j<l} E_jl),
// so that a set costs a few additions.

import { PairList } from "./capacity.js";

/** The tables of one image; a group is the inputs of a concept. Nodes last: A[k * N + n], B[(k * K + m) * N + n]. */
export function removalTables(network, state, inputs, groups, mode) {
  const { nNodes: N, I, means } = network;
  const K = groups.length;
  const { weights } = state;
  const sizes = { value: N, A: K * N, B: K * K * N, D: K * N, E: K * K * N };
  const tables = Object.fromEntries(Object.entries(sizes).map(([name, size]) => [name, new Float64Array(size)]));
  Object.assign(tables, { K, N, rescaled: mode !== "impute" && !weights.capacity.free });
  const groupOf = new Int32Array(I).fill(-1);
  groups.forEach((members, k) => members.forEach((j) => (groupOf[j] = k)));
  for (let n = 0; n < N; n++) {
    const u = inputs.map((value, j) => (weights.frozen[n * I + j] ? means[j] : value));
    fillNode(tables, weights, n, u, means, groupOf, mode);
  }
  return tables;
}

/** Add the terms of one node: single weights, then each pair once. */
function fillNode(tables, weights, n, u, means, groupOf, mode) {
  const { capacity, factor } = weights;
  const [I, at] = [capacity.nInputs, n * capacity.nInputs];
  const divisor = weights.divisor(n);
  const pairs = new PairList(I);
  for (let j = 0; j < I; j++) {
    const single = weights.single(n, j) / divisor;
    tables.value[n] += single * u[j];
    if (groupOf[j] >= 0) addLost(tables, n, groupOf[j], single * (mode === "impute" ? u[j] - means[j] : u[j]), single);
    const count = factor[at + j] === 0 ? 0 : capacity.pairs(n, j, pairs);
    for (let k = 0; k < count; k++) {
      const l = pairs.other[k];
      const both = (factor[at + j] * factor[at + l]) / divisor;
      const [low, high] = [both * pairs.low[k], both * pairs.high[k]];
      if (l > j && both !== 0) addPair(tables, n, j, l, low, high, u, means, groupOf, mode);
    }
  }
}

function addPair(tables, n, j, l, low, high, u, means, groupOf, mode) {
  const value = (x, y) => low * Math.min(x, y) + high * Math.max(x, y);
  const all = value(u[j], u[l]);
  tables.value[n] += all;
  const [g, h] = [groupOf[j], groupOf[l]];
  const mass = low + high;
  if (g >= 0 && g === h) {
    addLost(tables, n, g, mode === "impute" ? all - value(means[j], means[l]) : all, mass); // both members go together
  } else if (mode === "impute") {
    const [withoutJ, withoutL] = [value(means[j], u[l]), value(u[j], means[l])];
    if (g >= 0) addLost(tables, n, g, all - withoutJ, 0);
    if (h >= 0) addLost(tables, n, h, all - withoutL, 0);
    if (g >= 0 && h >= 0) addBack(tables, n, g, h, all - withoutJ - withoutL + value(means[j], means[l]), 0);
  } else {
    const common = mode === "canonical" ? Math.min(low, high) : 0; // goes to the member that is kept
    if (g >= 0) addLost(tables, n, g, all - common * u[l], mass - common);
    if (h >= 0) addLost(tables, n, h, all - common * u[j], mass - common);
    if (g >= 0 && h >= 0) addBack(tables, n, g, h, all - common * (u[j] + u[l]), mass - 2 * common);
  }
}

function addLost({ A, D, N }, n, group, value, mass) {
  A[group * N + n] += value;
  D[group * N + n] += mass;
}

function addBack({ B, E, K, N }, n, g, h, value, mass) {
  for (const at of [(g * K + h) * N + n, (h * K + g) * N + n]) {
    B[at] += value;
    E[at] += mass;
  }
}
