const MOST = 14;
const LEAST = 0.01;
const GROWTH = 0.02;

/** The concept of an input: with absences, the second half of the inputs is "not sea". */
export function conceptOf(network, input) {
  return input % network.M;
}

/**
 * The words of a node's cloud, in the order of their shares in the original model, so that an edit moves nothing.
 *
 * Returns {words: [{input, name, share, before, gone, grew}], others: {count, share}}.
 */
export function cloudWords(network, original, now, node, most = MOST) {
  const { I, inputs } = network;
  const words = [];
  for (let input = 0; input < I; input += 1) {
    const place = node * I + input;
    const share = now.nodeAttributions[place];
    const before = original.nodeAttributions[place];
    if (share || before) words.push({ input, name: inputs[input], share, before, gone: Boolean(now.gone[place]) });
  }
  const size = (word) => Math.max(Math.abs(word.share), Math.abs(word.before));
  const ranked = [...words].sort((a, b) => size(b) - size(a));
  const kept = ranked.filter((word, rank) => rank < most && (rank < 3 || size(word) >= LEAST));
  const rest = ranked.slice(kept.length).filter((word) => !word.gone);
  for (const word of kept) word.grew = word.share - word.before >= GROWTH;
  kept.sort((a, b) => Math.abs(b.before) - Math.abs(a.before));
  const share = rest.reduce((sum, word) => sum + Math.abs(word.share), 0);
  return { words: kept, others: { count: rest.length, share } };
}

/** Size of a word in rem: its area grows with its share, on one scale for all nodes. */
export function wordSize(share) {
  return 0.75 + 1.9 * Math.sqrt(Math.min(0.6, Math.abs(share)));
}
