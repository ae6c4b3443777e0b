import { h } from "../app/dom.js";

/** The view History. */
export function createHistoryView(app) {
  const element = h("div", { class: "stack history-view" }, h("section", { class: "panel" }, h("h2", {}, "History")));
  const update = () => {};
  return { element, update };
}
