import { h, replace } from "../app/dom.js";
import { count, decimal } from "../app/format.js";
import { openImage } from "./image_picks.js";

const HIGHEST = 8;
const MIDDLE = 4;

/** Images of a concept, from the highest score to the lowest. */
export function conceptStrip(app) {
  const element = h("div", { class: "concept-strip" });
  const update = (concept) => {
    const rows = byScore(app, concept);
    const parts = rows.length <= 2 * HIGHEST + MIDDLE ? [["From highest to lowest", rows]] : [
      ["Highest", rows.subarray(0, HIGHEST)],
      ["Around the middle", rows.subarray((rows.length - MIDDLE) >> 1, (rows.length + MIDDLE) >> 1)],
      ["Lowest", rows.subarray(rows.length - HIGHEST)],
    ];
    replace(element, parts.map(([title, some]) => h("div", { class: "strip-part" },
      h("h3", {}, title), h("ul", {}, Array.from(some, (row) => h("li", {}, tile(app, row, concept)))))));
  };
  return { element, update };
}

let sorted = { key: null, rows: null };

function byScore(app, concept) {
  const key = `${concept}/${app.rows.n}/${app.visibleRows.length}`;
  if (sorted.key !== key) {
    const score = (row) => app.rows.score(row, concept);
    sorted = { key, rows: Int32Array.from(app.visibleRows).sort((a, b) => score(b) - score(a)) };
  }
  return sorted.rows;
}

function tile(app, row, concept) {
  const score = decimal(app.rows.score(row, concept), 2);
  const { truth, right, text } = verdict(app, row);
  const address = app.images(row);
  const number = app.rows.number[row];
  return h("button", { type: "button", class: "strip-tile", "data-key": `strip-${number}`,
    title: app.rows.paths[row] ?? `Row ${count(number)}`,
    onclick: () => openImage(app, row) },
  address ? h("img", { src: address, alt: `Image of row ${number}`, loading: "lazy", width: "96", height: "96" })
    : h("span", { class: "no-image" }, `row ${count(number)}`),
  h("span", { class: "score" }, score),
  h("span", { class: "truth name" }, truth),
  text && h("span", { class: right ? "right" : "wrong" }, text));
}

function verdict(app, row) {
  const { classes } = app.network;
  const [label, predicted] = [app.rows.label[row], app.states.now.predicted[row]];
  if (label < 0) return { truth: classes[predicted], right: true, text: "predicted" };
  return { truth: classes[label], right: label === predicted, text: label === predicted ? "✓ right" : "✗ wrong" };
}
