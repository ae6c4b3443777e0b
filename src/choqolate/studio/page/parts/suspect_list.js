import { h } from "../app/dom.js";
import { share } from "../app/format.js";
import { changeMark } from "./change_mark.js";
import { conceptLinks } from "./concept_link.js";
import { tryButton } from "./try_button.js";

/** Removals with their share and their effect, each with a button to try it. */
export function suspectList(app, entries, { label, grouped, judged, mode, key }) {
  return h("ul", { class: "suspects", "aria-label": label }, entries.map((entry, place) => h("li", { class: "suspect" },
    h("div", { class: "suspect-name" }, conceptChips(app, entry.concepts),
      entry.spurious && h("span", { class: "badge warn" }, "spurious")),
    h("dl", { class: "suspect-figures" },
      figure("share", share(entry.share)),
      changeFigure("accuracy, points", entry.accuracy_change),
      grouped && changeFigure("worst group, points", entry.worst_group_change)),
    tryButton(app, entry.concepts, { mode, key: `${key}-${place}` }),
    judged && h("p", { class: "note suspect-text" }, `Worst group: ${entry.text}`))));
}

function figure(name, content) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, content));
}

function changeFigure(name, change) {
  return figure(name, changeMark(change ?? Number.NaN));
}

/** Concepts as links; more than a few are folded. */
export function conceptChips(app, names, most = 6) {
  if (names.length <= most) return h("span", {}, conceptLinks(app, names));
  return h("details", { class: "more-concepts" },
    h("summary", {}, `${names.slice(0, most - 1).join(", ")} and ${names.length - most + 1} more`),
    h("span", {}, conceptLinks(app, names)));
}
