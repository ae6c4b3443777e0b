import { h } from "../app/dom.js";
import { contrast } from "../engine/attribution.js";
import { conceptLink } from "./concept_link.js";
import { divergingBars } from "./diverging_bars.js";
import { comparedClasses, explanation, isEdited, outcome } from "./image_subject.js";
import { digitsFor, signed } from "./number_scale.js";

const MOST = 6;
const STATES = [["original", "original"], ["committed", "last commit"], ["now", "now"]];

/** Before and after the edits: the lead, and the concepts whose contribution changed most; null without edits. */
export function changeSection(app, subject) {
  if (!isEdited(app)) return null;
  const { classes } = app.network;
  const [first, second] = comparedClasses(app, subject);
  const leads = STATES.map(([key]) => {
    const { scores } = outcome(app, subject, app.states[key]);
    return scores[first] - scores[second];
  });
  return h("section", { class: "stack tight" }, h("h3", {}, "Before and after the edits"),
    leadTable(classes[first], classes[second], leads), changedConcepts(app, subject, first, second));
}

function leadTable(first, second, leads) {
  const digits = digitsFor(leads);
  return h("table", { class: "wide" },
    h("caption", { class: "visually-hidden" }, `Lead of ${first} over ${second}`),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Lead"),
      STATES.map(([, name]) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, h("tr", {},
      h("th", { scope: "row" }, h("span", { class: "name" }, first), " over ", h("span", { class: "name" }, second)),
      leads.map((lead) => h("td", {}, signed(lead, digits))))));
}

function changedConcepts(app, subject, first, second) {
  const { classes, concepts } = app.network;
  const of = (state) => contrast(app.network, explanation(app, subject, state), first, second, "concepts").values;
  const [before, after] = [of(app.states.original), of(app.states.now)];
  const changes = [...concepts.keys()].map((place) => ({ name: concepts[place], value: after[place] - before[place] }))
    .filter(({ value }) => Math.abs(value) > 1e-9)
    .sort((a, b) => Math.abs(b.value) - Math.abs(a.value))
    .slice(0, MOST);
  if (!changes.length) return h("p", { class: "note" }, "No contribution changed.");
  return [h("p", {}, "Contributions to the lead that changed the most:"),
    divergingBars(changes.map(({ name, value }) => ({ value, name: conceptLink(app, name) })),
      { label: "Change of the contributions", lower: `for ${classes[second]}`, higher: `for ${classes[first]}` })];
}
