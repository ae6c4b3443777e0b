import { h } from "../app/dom.js";

/** The view Images. */
export function createImagesView(app) {
  const element = h("div", { class: "stack images-view" }, h("section", { class: "panel" }, h("h2", {}, "Images")));
  const update = () => {};
  return { element, update };
}
