import { button, h, replace } from "../app/dom.js";
import { count, counted, decimal } from "../app/format.js";
import { failingSlice } from "../parts/failing_slices.js";
import { suspectList } from "../parts/suspect_list.js";
import { tryButton } from "../parts/try_button.js";

const MOST_QUESTIONS = 6;
const ABOUT_FAILING = "For each concept, the images of a class that resemble other classes in that concept are compared with "
  + "the rest of the class. Only you can tell whether the concept is relevant or a shortcut.";
const ABOUT_IDLE = "The model relies on these, but removing any one of them costs less than half a point of accuracy. Often "
  + "another concept takes its place, so this alone is no reason to remove it.";

/** The view Suspects: removals that help the worst group, and questions about images on which the model fails. */
export function createSuspectsView(app) {
  const helpful = h("section", { class: "panel" });
  const failing = failingPart(app);
  const idle = h("details", { class: "panel fold" }, h("summary", {}), h("div", { class: "fold-body" }));
  const element = h("div", { class: "stack suspects-view" }, helpful, failing.element, idle);
  const update = () => {
    const { suspects } = app.document;
    failing.element.hidden = !suspects;
    idle.hidden = !suspects?.idle.length;
    if (!suspects) {
      replace(helpful, h("h2", {}, "Suspects"),
        h("p", { class: "message" }, "Suspects are found on audit rows with labels, and this table has none."));
      return;
    }
    replace(helpful, helpfulContent(app, suspects));
    failing.update();
    replace(idle.firstChild, h("h2", {}, `Used but hardly needed: ${counted(suspects.n_idle, "concept")}`));
    replace(idle.lastChild, idleContent(app, suspects));
  };
  return { element, update };
}

function helpfulContent(app, suspects) {
  const { helpful, mode } = suspects;
  const all = suspects.to_remove ?? [];
  const title = "Removals that help the worst group";
  return [
    h("div", { class: "panel-head" }, h("h2", {}, title),
      all.length > 0
        && tryButton(app, all, { mode, label: "Try all", kind: "button primary", key: "try-all" })),
    h("p", { class: "lead-text" }, verdict(suspects)),
    helpful.length > 0
      && suspectList(app, helpful, { label: title, grouped: true, judged: true, mode, key: "helpful" }),
    first(helpful, suspects.n_helpful),
    (suspects.needed || suspects.unclear) && h("p", { class: "note" }, measured(suspects)),
  ];
}

function verdict({ unclear, needed, worst_group: worst, helpful }) {
  if (unclear && worst) {
    return ["The worst group, “", h("span", { class: "name" }, worst[0]),
      `”, has only ${counted(worst[1], "image")}, too few to tell whether a removal helps. At least 30 are needed.`];
  }
  if (!worst || !needed) {
    return ["The table has no groups, so there is no worst group. Add a column ", h("code", {}, "group"),
      " with something that may mislead the model, such as the location or the camera."];
  }
  const least = `${decimal(100 * needed, 1)} points`;
  const tried = "Each concept was removed alone, and correlated concepts were removed together.";
  if (!helpful.length) return `${tried} None of these removals raises the accuracy of the worst group by ${least} or more.`;
  const lift = `These removals raise the accuracy of the worst group by at least ${least}.`;
  return `${tried} ${lift} You decide whether a concept should matter.`;
}

function measuredOn({ chosen }) {
  return `Measured on ${chosen}, with the original model.`;
}

function measured({ worst_group: worst, tried, helpful, ...suspects }) {
  const parts = [measuredOn(suspects)];
  if (helpful.length && worst) {
    parts.push(` Paired tests on the ${counted(worst[1], "image")} of the worst group, “`,
      h("span", { class: "name" }, worst[0]),
      `”. The p-values are too low, because the best of ${count(tried)} removals are shown.`);
  }
  return parts;
}

/** Questions about images on which the model fails; the first ones until the reader wants all. */
function failingPart(app) {
  const element = h("section", { class: "stack" });
  let most = MOST_QUESTIONS;
  const update = () => replace(element, failingContent(app, app.document.suspects, most, () => {
    most = Infinity;
    update();
  }));
  return { element, update };
}

function failingContent(app, suspects, most, showAll) {
  const { failing } = suspects;
  return [
    h("div", {}, h("h2", {}, "Where does the model fail?"),
      h("p", { class: "lead-text" }, ABOUT_FAILING),
      h("p", { class: "note" }, [suspects.verdict, measuredOn(suspects)].filter(Boolean).join(" "))),
    failing.length > 0 && h("div", { class: "questions" },
      failing.slice(0, most).map((entry, place) =>
        failingSlice(app, entry, { mode: suspects.mode, key: `failing-${place}` }))),
    failing.length > most && h("p", {}, button(`Show all ${count(failing.length)} questions`, showAll)),
  ];
}

/** A note that a list shows only the first of many, if so. */
function first(shown, total) {
  return shown.length < total && h("p", { class: "note" }, `The first ${count(shown.length)} of ${count(total)}.`);
}

function idleContent(app, suspects) {
  const { idle, needed, mode } = suspects;
  return [
    h("p", { class: "lead-text" }, ABOUT_IDLE),
    suspectList(app, idle, { label: "Used but hardly needed", grouped: Boolean(needed), mode, key: "idle" }),
    first(idle, suspects.n_idle),
    h("p", { class: "note" }, measuredOn(suspects)),
  ];
}
