import { h } from "../app/dom.js";
import { routeAddress } from "../app/address.js";

/** A concept's name that leads to the view of the concept. */
export function conceptLink(app, name, properties = {}) {
  const target = { view: "concept", concept: name };
  return h("a", { class: "name concept-link", href: routeAddress(target), ...properties, onclick: (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    app.go(target);
  } }, name);
}

/** Several concepts, separated by commas, each a link. */
export function conceptLinks(app, names) {
  return names.flatMap((name, place) => (place ? [", ", conceptLink(app, name)] : [conceptLink(app, name)]));
}

/** How far a concept is removed from all nodes: "" (it is not), "draft" or "committed". */
export function removalStage(app, name) {
  if (!removed(app, app.states.now, name)) return "";
  return removed(app, app.states.committed, name) ? "committed" : "draft";
}

function removed({ network }, state, name) {
  const place = network.concepts.indexOf(name);
  if (place < 0) return false;
  for (let n = 0; n < network.nNodes; n += 1) if (!state.gone[n * network.I + place]) return false;
  return true;
}
