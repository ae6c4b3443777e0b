// Accuracies with their intervals, confusion, flips and margins. Rows count by the rows of the table they stand for.

const Z = 1.959963984540054; // of a 95% interval

/** Rows below which nothing is told of a share or of a change. */
export const TOO_FEW = 10;

/** Wilson's 95% interval of a share of n rows; (0, 1) of no rows. */
export function wilson(hits, n) {
  if (!(n > 0)) return [0, 1];
  const rows = Math.max(n, 1);
  const [share, square] = [hits / rows, (Z * Z) / rows];
  const center = share + square / 2;
  const reach = Math.sqrt(square * (share * (1 - share) + square / 4));
  return [hits === 0 ? 0 : (center - reach) / (1 + square), hits === n ? 1 : (center + reach) / (1 + square)];
}

/**
 * Accuracy on some rows; those without a label are left out. `n` and `hits` count rows, `accuracy` weighs them, and the
 * interval takes the effective number of rows, (sum w)^2 / sum w^2.
 */
export function measure(rows, predicted, rowIndexes) {
  let [n, hits, total, right, squares] = [0, 0, 0, 0, 0];
  for (const i of rowIndexes) {
    if (rows.label[i] < 0) continue;
    const weight = rows.weight[i];
    n += 1;
    total += weight;
    squares += weight * weight;
    if (predicted[i] !== rows.label[i]) continue;
    hits += 1;
    right += weight;
  }
  const effective = squares > 0 ? (total * total) / squares : 0;
  const accuracy = n === 0 ? NaN : hits === n ? 1 : right / total;
  const [low, high] = wilson(hits === n ? effective : effective * accuracy, effective);
  return { n, hits, accuracy, low, high };
}

/** Accuracy on some rows: of all, of each class, of each group, and of the group with the smallest, see TOO_FEW. */
export function measureAll(network, rows, state, rowIndexes) {
  const parts = (column, names) => {
    const members = names.map(() => []);
    for (const i of rowIndexes) if (column[i] >= 0) members[column[i]].push(i);
    return members.map((some, k) => ({ name: names[k], ...measure(rows, state.predicted, some) }));
  };
  const groups = parts(rows.group, network.document.rows.groups);
  return {
    all: measure(rows, state.predicted, rowIndexes),
    classes: parts(rows.label, network.classes),
    groups,
    worstGroup: smallest(groups),
  };
}

function smallest(groups) {
  const known = groups.map((one, index) => ({ index, ...one })).filter((one) => one.n >= TOO_FEW);
  return known.reduce((worst, one) => (worst && worst.accuracy <= one.accuracy ? worst : one), null);
}

/** Rows by true and predicted class (truth * C + predicted). */
export function confusion(network, rows, predicted, rowIndexes) {
  const counts = new Float64Array(network.C * network.C);
  for (const i of rowIndexes) if (rows.label[i] >= 0) counts[rows.label[i] * network.C + predicted[i]] += 1;
  return counts;
}

/** Rows whose prediction differs. */
export function flips(before, after, rowIndexes) {
  return Int32Array.from(rowIndexes).filter((i) => before[i] !== after[i]);
}

/**
 * Rows that became right or wrong, of how many, the (weighted) change of the accuracy with its 95% interval (Bonett and
 * Price, on the effective number of rows), and the p value of McNemar's exact test.
 */
export function pairedChange(rows, before, after, rowIndexes) {
  let [n, gained, lost, total, squares, better, worse] = [0, 0, 0, 0, 0, 0, 0];
  for (const i of rowIndexes) {
    if (rows.label[i] < 0) continue;
    const [was, is] = [before[i] === rows.label[i], after[i] === rows.label[i]];
    n += 1;
    total += rows.weight[i];
    squares += rows.weight[i] ** 2;
    if (was === is) continue;
    if (is) [gained, better] = [gained + 1, better + rows.weight[i]];
    else [lost, worse] = [lost + 1, worse + rows.weight[i]];
  }
  const [low, high] = changeInterval(better / total, worse / total, squares > 0 ? (total * total) / squares : 0);
  return { n, gained, lost, change: (better - worse) / total, low, high, p: twoSided(gained, lost) };
}

function changeInterval(better, worse, n) {
  const [p, q] = [better, worse].map((share) => (share * n + 1) / (n + 2));
  const reach = Z * Math.sqrt((p + q - (p - q) ** 2) / (n + 2));
  return [Math.max(p - q - reach, -1), Math.min(p - q + reach, 1)];
}

/** How often chance alone splits so many rows at least as unevenly. */
function twoSided(gained, lost) {
  const [n, k] = [gained + lost, Math.min(gained, lost)];
  let logTerm = -n * Math.LN2; // of no successes in n
  let tail = Math.exp(logTerm);
  for (let j = 1; j <= k; j++) {
    logTerm += Math.log((n - j + 1) / j);
    tail += Math.exp(logTerm);
  }
  return Math.min(1, 2 * tail);
}

/** Lead of the true class (without a label, of the predicted one) over the best other, for each of some rows. */
export function margins(network, rows, state, rowIndexes) {
  const { C } = network;
  return Float64Array.from(rowIndexes, (i) => {
    const own = rows.label[i] >= 0 ? rows.label[i] : state.predicted[i];
    let best = -Infinity;
    for (let r = 0; r < C; r++) if (r !== own) best = Math.max(best, state.scores[i * C + r]);
    return state.scores[i * C + own] - best;
  });
}
