import { h } from "../app/dom.js";

/** Whether the page is wide enough for two columns. */
export function isWide() {
  return matchMedia("(min-width: 60rem)").matches;
}

/** A panel that folds; its content is made when it is open: {element, update()}. */
export function foldablePanel(title, { open = isWide(), content, ...properties }) {
  const body = h("div", { class: "fold-body" });
  const element = h("details", { class: "panel fold", ...properties },
    h("summary", {}, h("h2", {}, title)), body);
  element.open = open;
  const update = () => {
    if (element.open) content(body);
  };
  element.addEventListener("toggle", update);
  return { element, update };
}
