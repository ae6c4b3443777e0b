import { button, h, replace } from "../app/dom.js";
import { count, counted, decimal } from "../app/format.js";
import { failingSlice } from "../parts/failing_slices.js";
import { suspectList } from "../parts/suspect_list.js";
import { tryButton } from "../parts/try_button.js";

const MOST_QUESTIONS = 6;
const ABOUT_FAILING = "This uses labels only: images of a class that have, or lack, a concept as images of other "
  + "classes do, compared with the other images of the class. A concept may be relevant or a shortcut; only a person "
  + "can tell.";
const ABOUT_IDLE = "The model relies on these, but without each alone accuracy falls by less than half a point. Often "
  + "another concept stands in for it; that is no reason to remove it.";

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
        h("p", { class: "message" }, "Suspects need images with labels to be judged on, and this table has none."));
      return;
    }
    replace(helpful, helpfulContent(app, suspects));
    failing.update();
    replace(idle.firstChild, h("h2", {}, `Relied on, hardly needed: ${count(suspects.idle.length)}`));
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
        && tryButton(app, all, { mode, label: "Try all that help", kind: "button primary", key: "try-all" })),
    h("p", { class: "lead-text" }, verdict(suspects)),
    helpful.length > 0
      && suspectList(app, helpful, { label: title, grouped: true, judged: true, mode, key: "helpful" }),
    (suspects.needed || suspects.unclear) && h("p", { class: "note" }, measured(suspects)),
  ];
}

function verdict({ unclear, needed, worst_group: worst, helpful }) {
  if (unclear && worst) {
    return ["The worst group, “", h("span", { class: "name" }, worst[0]),
      `”, has only ${counted(worst[1], "image")}: too few to tell whether a removal helps. At least 30 are needed.`];
  }
  if (!worst || !needed) {
    return ["The table has no groups, so no worst group can be found. Add a column ", h("code", {}, "group"),
      " for what may mislead the model, such as the place or the camera."];
  }
  const least = `${decimal(100 * needed, 1)} points`;
  const tried = "Each concept was removed alone, and those that rise and fall together were removed together.";
  if (!helpful.length) return `${tried} No such removal lifts the worst group by at least ${least}.`;
  const lift = `These removals lift the worst group by at least ${least}.`;
  return `${tried} ${lift} You decide whether a concept should count.`;
}

function measuredOn({ chosen }) {
  return `Measured on ${chosen}, with the model as opened.`;
}

function measured({ worst_group: worst, tried, helpful, ...suspects }) {
  const parts = [measuredOn(suspects)];
  if (helpful.length && worst) {
    parts.push(` Paired tests on the ${counted(worst[1], "image")} of the worst group, “`,
      h("span", { class: "name" }, worst[0]),
      `”; p-values are too low because the best of ${count(tried)} removals are shown.`);
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

function idleContent(app, suspects) {
  const { idle, needed, mode } = suspects;
  return [
    h("p", { class: "lead-text" }, ABOUT_IDLE),
    suspectList(app, idle, { label: "Relied on, hardly needed", grouped: Boolean(needed), mode, key: "idle" }),
    h("p", { class: "note" }, measuredOn(suspects)),
  ];
}
