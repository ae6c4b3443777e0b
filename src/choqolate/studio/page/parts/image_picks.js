import { button, h } from "../app/dom.js";
import { counted } from "../app/format.js";
import { FILTERS, pickedNumbers } from "../app/selection.js";

/** Open the panel of one row. */
export function openImage(app, row) {
  app.go({ view: "images", image: String(app.rows.number[row]), why: null, against: null });
}

/** Pick a row, or let it go. */
export function togglePick(app, row) {
  const picked = pickedNumbers(app.route);
  const number = app.rows.number[row];
  if (!picked.delete(number)) picked.add(number);
  app.go({ picked: [...picked].join(",") }, { step: false });
}

/** Pick all rows of some. */
export function pickAll(app, rows) {
  const picked = pickedNumbers(app.route);
  for (const row of rows) picked.add(app.rows.number[row]);
  app.go({ picked: [...picked].join(",") }, { step: false });
}

/** Show some rows and no others in the grid, as picked ones. */
export function showOnly(app, rows) {
  const cleared = Object.fromEntries(FILTERS.map((key) => [key, null]));
  const picked = rows.map((row) => app.rows.number[row]).join(",");
  app.go({ ...cleared, view: "images", image: null, picked, only: "picked" });
}

/** What can be done with picked images. */
export function pickTools(app) {
  const picked = pickedNumbers(app.route).size;
  const only = Boolean(app.route.only);
  return [h("span", {}, `${counted(picked, "image")} picked`),
    button(only ? "Show all images" : "Show only these", () => app.go({ only: only ? null : "picked" }),
      { class: "button small", "data-key": "only" }),
    button("Clear picks", () => app.go({ picked: null, only: null }),
      { class: "button small", "data-key": "clear-picks" })];
}
