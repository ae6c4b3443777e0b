// Names of nodes from the concepts that lead them, as Python gives them.

const MOST = 3; // concepts in a name
const LEAST = 0.5; // of the leading concept's share, to be named beside it

/** A name for each node: its leading concept, and up to two more with at least half of its share. */
export function nameNodes({ concepts, nNodes, M, I }, conceptShares, inputShares) {
  const nodes = Array.from({ length: nNodes }, (_, n) => {
    const shares = conceptShares.subarray(n * M, (n + 1) * M);
    const order = rank(shares);
    const top = order.slice(0, MOST).filter((j) => shares[order[0]] > 0 && shares[j] >= LEAST * shares[order[0]]);
    const words = (j) => (I > M && 2 * inputShares[n * I + M + j] > shares[j] ? `not ${concepts[j]}` : concepts[j]);
    return { shares, order, words, count: top.length };
  });
  const first = names(nodes);
  nodes.forEach((node, n) => {
    const shared = first.filter((name) => name === first[n]).length > 1;
    if (shared && node.count > 0 && node.count < M && node.shares[node.order[node.count]] > 0) node.count += 1;
  });
  return numbered(names(nodes));
}

/** Places of values from the largest to the smallest, equal ones as they come. */
export function rank(values) {
  return [...values.keys()].sort((j, l) => values[l] - values[j] || j - l);
}

function names(nodes) {
  return nodes.map(({ order, words, count }) => order.slice(0, count).map(words).join(", ") || "nothing");
}

/** Names of which each occurs once: the second of the same name ends with (2). */
function numbered(all) {
  const taken = new Set(all);
  const given = new Set();
  return all.map((name) => {
    let free = name;
    for (let number = 2; given.has(free) || (free !== name && taken.has(free)); number++) free = `${name} (${number})`;
    given.add(free);
    return free;
  });
}
