import { h, replace } from "../app/dom.js";
import { counted, percent } from "../app/format.js";
import { conceptEdit } from "./concept_edit.js";
import { conceptMarks, markBadges } from "./concept_marks.js";
import { conceptPlaces } from "./concept_places.js";
import { conceptStrip } from "./concept_strip.js";
import { changeMark } from "./score_table.js";
import { siblingList } from "./sibling_list.js";

/** All about the open concept. */
export function conceptDetail(app, view, ranking) {
  const title = h("h2", { class: "name", id: "concept-title", tabindex: "-1" });
  const badges = h("span", { class: "badges" });
  const shares = h("p", { class: "shares" });
  const effect = h("div", { class: "effect-alone" });
  const edit = conceptEdit(app, view);
  const places = conceptPlaces(app, view);
  const strip = conceptStrip(app);
  const siblings = siblingList(app, view);
  const rows = h("p", { class: "note" });
  const element = h("div", { class: "stack" },
    h("section", { class: "panel", "aria-labelledby": "concept-title" },
      h("div", { class: "panel-head concept-head" }, h("div", { class: "row" }, title, badges), shares),
      h("div", { class: "columns" }, edit.element, effect)),
    h("section", { class: "panel", "aria-label": "Where it acts" }, h("h2", {}, "Where it acts"), places.element),
    h("section", { class: "panel", "aria-label": "Its images" }, h("h2", {}, "Its images"), rows, strip.element),
    h("section", { class: "panel", "aria-label": "Siblings" }, h("h2", {}, "Siblings"),
      h("p", { class: "note" }, "Concepts whose scores rise and fall with it: the correlation on the rows that are not covered."),
      siblings.element));
  let shown = null;

  const update = (concept) => {
    const marks = conceptMarks(app);
    const { now, original } = app.states;
    if (shown !== concept) view.nodes.clear();
    shown = concept;
    title.textContent = app.network.concepts[concept];
    replace(badges, markBadges(marks[concept]));
    replace(shares, h("strong", {}, percent(now.conceptShares[concept])), " of the model",
      Math.abs(now.conceptShares[concept] - original.conceptShares[concept]) >= 5e-5
        && h("span", { class: "note" }, ` originally ${percent(original.conceptShares[concept])}`));
    edit.update(marks[concept]);
    replace(effect, h("h3", {}, "If it alone is removed"), effectOf(app, concept, marks[concept], ranking.of(view.mode)));
    places.update(concept);
    rows.textContent = "By its score, among all rows that may be seen. Scores are scaled: 0 is the lowest in training, 1 the highest.";
    strip.update(concept);
    siblings.update(concept, marks);
  };
  return { element, update };
}

function effectOf(app, concept, mark, { impact, progress }) {
  if (mark.removed) return h("p", { class: "note" }, "It is removed already.");
  if (!impact) return h("p", { class: "note" }, `Removing each concept on its own… ${Math.round(100 * progress)}%`);
  if (!Number.isFinite(impact.flips[concept]) || Number.isNaN(impact.accuracy[concept])) {
    return h("p", { class: "note" }, "It cannot be removed alone: a node would have nothing left, or there are no labels.");
  }
  return [
    h("dl", { class: "effects" },
      figure("Accuracy", impact.accuracyChange[concept], impact.accuracyNow, rankOf(impact.accuracyChange, concept)),
      impact.worstGroup && figure("Worst group", impact.worstGroupChange[concept], impact.worstGroupNow, rankOf(impact.worstGroupChange, concept)),
      h("div", {}, h("dt", {}, "Images that flip"), h("dd", {}, counted(impact.flips[concept], "image")))),
  ];
}

function figure(label, change, now, rank) {
  return h("div", {}, h("dt", {}, label),
    h("dd", {}, `${percent(now)} → ${percent(now + change)} `, changeMark(change), " ", h("small", { class: "note" }, rank)));
}

/** "rank 3 of 48": the first gains most. */
function rankOf(changes, concept) {
  const known = changes.filter(Number.isFinite);
  return `rank ${1 + known.filter((change) => change > changes[concept]).length} of ${known.length}`;
}
