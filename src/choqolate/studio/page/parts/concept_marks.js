import { h } from "../app/dom.js";
import { range } from "./index_range.js";

/** What has happened to each concept, and what is known of it: one object per concept. */
export function conceptMarks(app) {
  const { network, states: { now }, document: { spurious, suspects, model } } = app;
  const named = (names) => new Set(names ?? []);
  const [marked, suspect, locked] = [named(spurious), named(suspectNames(suspects)), named(model.locked_concepts)];
  const reweighted = named(now.inForce.flatMap((edit) => (edit.edit === "reweight" ? Object.keys(edit.factors) : [])));
  return network.concepts.map((name, concept) => {
    const nodes = nodesWithout(network, now, concept);
    return {
      removed: nodes === network.nNodes, partly: nodes > 0 && nodes < network.nNodes, reweighted: reweighted.has(name),
      spurious: marked.has(name), suspect: suspect.has(name), locked: locked.has(name),
    };
  });
}

/** Concepts that are not in use in any node. */
export function removedConcepts(app) {
  const { network, states: { now } } = app;
  return range(network.M).filter((concept) => isRemoved(network, now, concept));
}

/** Whether a concept is gone in all nodes. */
export function isRemoved(network, state, concept) {
  return nodesWithout(network, state, concept) === network.nNodes;
}

/** Whether a concept is gone in a node. */
export function isGone(network, state, node, concept) {
  return Boolean(state.gone[node * network.I + concept]);
}

function nodesWithout(network, state, concept) {
  let count = 0;
  for (let node = 0; node < network.nNodes; node += 1) if (isGone(network, state, node, concept)) count += 1;
  return count;
}

function suspectNames(suspects) {
  return suspects ? [...suspects.to_remove, ...suspects.helpful.flatMap((one) => one.concepts)] : [];
}

/** Badges of a concept; the short form is for lists. */
export function markBadges(mark) {
  return [
    mark.removed && h("span", { class: "badge warn" }, "removed"),
    mark.partly && h("span", { class: "badge warn", title: "Removed from some nodes" }, "partly removed"),
    mark.reweighted && !mark.removed && h("span", { class: "badge" }, "reweighted"),
    mark.spurious && h("span", { class: "badge", title: "Marked as spurious in the table or the model" }, "spurious"),
    mark.suspect && !mark.spurious && h("span", { class: "badge", title: "Listed among the suspects" }, "suspect"),
    mark.locked && h("span", { class: "badge", title: "Edited before the model was simplified, so it cannot be changed here" }, "fixed"),
  ].filter(Boolean);
}
