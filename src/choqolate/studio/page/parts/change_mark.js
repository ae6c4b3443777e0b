import { h } from "../app/dom.js";
import { points } from "../app/format.js";

/** A change in points, colored and with its sign. */
export function changeMark(change) {
  const direction = !(Math.abs(change) >= 5e-4) ? "" : change > 0 ? "better" : "worse";
  return h("span", { class: `change ${direction}` }, points(change));
}
