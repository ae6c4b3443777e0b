import { h } from "../app/dom.js";
import { routeAddress } from "../app/address.js";
import { isRemoved } from "./concept_marks.js";

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
  const concept = app.network.placeOf(name);
  if (concept < 0 || !isRemoved(app.network, app.states.now, concept)) return "";
  return isRemoved(app.network, app.states.committed, concept) ? "committed" : "draft";
}
