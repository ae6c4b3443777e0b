import { h } from "../app/dom.js";

/** A sign for right (✓), wrong (✗) or unknown, with its word for a screen reader. */
export function verdictSign(app, row, predicted) {
  const truth = row === null ? -1 : app.rows.label[row];
  if (truth < 0) return null;
  const right = truth === predicted;
  return h("span", { class: `verdict ${right ? "right" : "wrong"}` },
    h("span", { "aria-hidden": "true" }, right ? "✓" : "✗"),
    h("span", { class: "visually-hidden" }, right ? "right:" : "wrong:"));
}

/** What a row is called: the end of its path, or its number. */
export function rowName(app, row) {
  const path = app.rows.paths[row];
  return path ? path.split(/[\\/]/).at(-1) : `row ${app.rows.number[row]}`;
}
