import { button, h } from "../app/dom.js";
import { counted, share } from "../app/format.js";
import { openImage, showOnly } from "./image_picks.js";
import { thumbnail } from "./image_tile.js";
import { conceptChips } from "./suspect_list.js";
import { tryButton } from "./try_button.js";
import { rowName, verdictSign } from "./verdict.js";

const MOST_IMAGES = 5;

/** A question about images of a class on which the model fails, with these images and a removal to try. */
export function failingSlice(app, entry, { mode, key }) {
  const rows = entry.rows.filter((row) => app.rows.role[row] !== 2 || app.finalChecked);
  return h("article", { class: "panel failing" },
    h("h3", {}, entry.question, entry.spurious && h("span", { class: "badge warn" }, "spurious")),
    rows.length > 0 && h("ul", { class: "failing-images", "aria-label": "Images that the model gets wrong" },
      rows.slice(0, MOST_IMAGES).map((row) => h("li", {}, failingImage(app, row, `${key}-image-${row}`)))),
    h("p", {}, entry.text),
    h("p", { class: "note" }, entry.concepts.length > 1 ? "Correlated concepts: " : "Concept: ",
      conceptChips(app, entry.concepts),
      Number.isFinite(entry.share) ? `. Share in the model: ${share(entry.share)}.` : "."),
    h("div", { class: "row" }, tryButton(app, entry.concepts, { mode, label: "Try removing", key }),
      rows.length > 0 && button(`See ${rows.length === 1 ? "the image" : `all ${counted(rows.length, "image")}`}`,
        () => showOnly(app, rows), { "data-key": `${key}-all` })));
}

function failingImage(app, row, key) {
  const predicted = app.states.now.predicted[row];
  const name = app.network.classes[predicted];
  return button([
    thumbnail(app, row),
    h("span", { class: "tile-line" }, verdictSign(app, row, predicted),
      h("span", { class: "name", title: name }, name)),
  ], () => openImage(app, row),
  { class: "failing-image", "data-key": key, "aria-label": `Open ${rowName(app, row)}, predicted ${name}` });
}
