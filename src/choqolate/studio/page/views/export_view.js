import { h } from "../app/dom.js";

/** The view Export. */
export function createExportView(app) {
  const element = h("div", { class: "stack export-view" }, h("section", { class: "panel" }, h("h2", {}, "Export")));
  const update = () => {};
  return { element, update };
}
