import { h } from "../app/dom.js";
import { digitsFor, signed } from "./number_scale.js";

/** Bars to the left and to the right of a line: items [{value, name: element, more: element}]. */
export function divergingBars(items, { label, lower, higher, digits = digitsFor(items.map(({ value }) => value)) }) {
  const largest = Math.max(1e-12, ...items.map(({ value }) => Math.abs(value)));
  const tools = items.some(({ more }) => more);
  return h("div", { class: `diverging ${tools ? "with-tools" : ""}` },
    h("p", { class: "diverging-head note", "aria-hidden": "true" },
      h("span", {}, `← ${lower}`), h("span", {}, `${higher} →`)),
    h("ul", { "aria-label": label }, items.map(({ value, name, more }) => {
      const width = (50 * Math.abs(value)) / largest;
      const left = `${value < 0 ? 50 - width : 50}%`;
      return h("li", {}, h("span", { class: "who" }, name),
        h("span", { class: "signed-track", "aria-hidden": "true" },
          h("span", { class: `signed-bar ${value < 0 ? "against" : "for"}`, style: { left, width: `${width}%` } })),
        h("span", { class: "value" }, signed(value, digits)), more);
    })));
}
