import { h } from "../app/dom.js";

/** The view Suspects. */
export function createSuspectsView(app) {
  const element = h("div", { class: "stack suspects-view" }, h("section", { class: "panel" }, h("h2", {}, "Suspects")));
  const update = () => {};
  return { element, update };
}
