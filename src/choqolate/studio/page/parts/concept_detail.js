import { h, replace } from "../app/dom.js";
import { counted, percent, share } from "../app/format.js";
import { TOO_FEW } from "../engine/metrics.js";
import { changeMark } from "./change_mark.js";
import { conceptEdit } from "./concept_edit.js";
import { conceptMarks, markBadges } from "./concept_marks.js";
import { conceptPlaces } from "./concept_places.js";
import { conceptStrip } from "./concept_strip.js";
import { siblingList } from "./sibling_list.js";

/** All about the open concept, in panels: the first has its name and its edits. */
export function conceptDetail(app, view, ranking) {
  const title = h("h2", { class: "name", id: "concept-title", tabindex: "-1" });
  const badges = h("span", { class: "mark-badges" });
  const shares = h("p", { class: "model-shares" });
  const effect = h("div", { class: "effect-alone" });
  const edit = conceptEdit(app, view);
  const places = conceptPlaces(app, view);
  const strip = conceptStrip(app);
  const siblings = siblingList(app, view);
  const panels = [
    h("section", { class: "panel", "aria-labelledby": "concept-title" },
      h("div", { class: "panel-head concept-head" }, h("div", { class: "row" }, title, badges), shares),
      h("div", { class: "columns concept-top" }, edit.element, effect)),
    panel("Where it acts", null, places.element),
    panel("Its images", "Visible images by score, from 0 (lowest in training) to 1 (highest).",
      strip.element),
    panel("Correlated concepts", "Concepts with correlated scores. Below zero, one rises where the other falls.",
      siblings.element),
  ];
  let shown = null;

  const update = (concept) => {
    const marks = conceptMarks(app);
    const { now, original } = app.states;
    if (shown !== concept) view.nodes.clear();
    shown = concept;
    title.textContent = app.network.concepts[concept];
    replace(badges, markBadges(marks[concept]));
    replace(shares, h("strong", {}, share(now.conceptShares[concept])), " of the model",
      Math.abs(now.conceptShares[concept] - original.conceptShares[concept]) >= 5e-5
        && h("span", { class: "note" }, `, originally ${share(original.conceptShares[concept])}`));
    edit.update(marks[concept]);
    replace(effect, h("h3", {}, "If it alone is removed"), effectOf(concept, marks[concept], view, ranking, app.auditRows.length));
    places.update(concept);
    strip.update(concept);
    siblings.update(concept, marks);
  };
  return { panels, update };
}

function panel(title, note, content) {
  return h("section", { class: "panel", "aria-label": title }, h("h2", {}, title),
    note && h("p", { class: "note" }, note), content);
}

function effectOf(concept, mark, view, ranking, rows) {
  if (mark.removed) return h("p", { class: "note" }, "It is already removed.");
  const effect = ranking.one(concept, view.mode);
  const { impact, progress } = ranking.each(view.mode);
  if (!effect) return h("p", { class: "note effect-pending" }, "Computing…");
  if (effect.refusal) return h("p", { class: "note" }, effect.refusal);
  const rank = (changes) => (progress === 1 && changes ? rankOf(changes, concept) : "");
  return h("dl", { class: "effect-list" },
    rows >= TOO_FEW && figure("Accuracy", effect.accuracyNow, effect.accuracyChange, rank(impact?.accuracyChange)),
    Number.isFinite(effect.worstGroupNow)
      && figure("Worst group", effect.worstGroupNow, effect.worstGroupChange, rank(impact?.worstGroupChange)),
    h("div", {}, h("dt", {}, "Flipped"), h("dd", {}, counted(effect.flips, "image"))),
    h("div", {}, h("dt", {}, "Measured on"), h("dd", {}, counted(rows, "audit row"),
      h("small", { class: "note" }, rows < TOO_FEW ? " too few to tell" : ` one image is ${(100 / rows).toFixed(1)} points`))));
}

function figure(label, now, change, rank) {
  if (Number.isNaN(now)) return null;
  return h("div", {}, h("dt", {}, label),
    h("dd", {}, `${percent(now)} → ${percent(now + change)} `, changeMark(change),
      h("small", { class: "note" }, rank)));
}

/** "rank 3 of 48": the first gains most. */
function rankOf(changes, concept) {
  const known = changes.filter(Number.isFinite);
  return `rank ${1 + known.filter((change) => change > changes[concept]).length} of ${known.length}`;
}
