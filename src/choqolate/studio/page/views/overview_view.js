import { h } from "../app/dom.js";

/** The view Overview. */
export function createOverviewView(app) {
  const element = h("div", { class: "stack overview-view" }, h("section", { class: "panel" }, h("h2", {}, "Overview")));
  const update = () => {};
  return { element, update };
}
