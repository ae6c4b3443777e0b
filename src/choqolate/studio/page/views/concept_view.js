import { h } from "../app/dom.js";
import { chosenConcepts } from "../parts/chosen_concepts.js";
import { conceptDetail } from "../parts/concept_detail.js";
import { conceptList } from "../parts/concept_list.js";
import { removedConcepts } from "../parts/concept_marks.js";
import { impactRanking } from "../parts/impact_ranking.js";
import { place } from "../parts/in_place.js";
import { residualMeters } from "../parts/residual_meter.js";

/** The view Concepts: the list of all of them, and the open one. */
export function createConceptView(app) {
  const view = { chosen: new Set(), nodes: new Set(), mode: "rescale" };
  const ranking = impactRanking(app, () => app.route.view === "concept" && app.onChange());
  const list = conceptList(app, view, ranking);
  const chosen = chosenConcepts(app, view);
  const detail = conceptDetail(app, view, ranking);
  const residuals = residualMeters(app, view);
  const content = h("div", { class: "stack" });
  const element = h("div", { class: "concept-view" },
    h("section", { class: "panel concept-side", "aria-label": "All concepts" },
      list.search, list.order, chosen.element, list.told, list.list),
    content);
  const update = () => {
    list.update();
    chosen.update();
    const concept = app.network.placeOf(app.route.concept);
    residuals.update();
    if (concept < 0) place(content, [nothingOpen(app), residuals.element]);
    else {
      const [first, ...others] = detail.panels;
      detail.update(concept);
      const isRemoved = removedConcepts(app).includes(concept);
      place(content, isRemoved ? [first, residuals.element, ...others] : [first, ...others, residuals.element]);
    }
  };
  return { element, update };
}

function nothingOpen(app) {
  const missing = app.route.concept ? `This model has no concept named “${app.route.concept}”. ` : "";
  return h("section", { class: "panel empty" }, h("h2", {}, "Select a concept"),
    h("p", { class: "note" }, `${missing}Select one from the list to see where it acts, and to remove or reweight it.`),
    known(app, "Marked as spurious", app.document.spurious),
    known(app, "Suspects", app.document.suspects?.to_remove));
}

function known(app, title, names = []) {
  const here = (names ?? []).filter((name) => app.network.placeOf(name) >= 0);
  if (!here.length) return null;
  return h("div", { class: "known" }, h("h3", {}, title), h("ul", { class: "chips" }, here.map((name) => h("li", {},
    h("button", { type: "button", class: "chip name", onclick: () => app.go({ concept: name }) }, name)))));
}
