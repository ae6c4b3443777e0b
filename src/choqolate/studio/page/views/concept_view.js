import { h } from "../app/dom.js";

/** The view Concept. */
export function createConceptView(app) {
  const element = h("div", { class: "stack concept-view" }, h("section", { class: "panel" }, h("h2", {}, "Concept")));
  const update = () => {};
  return { element, update };
}
