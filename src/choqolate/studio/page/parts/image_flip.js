import { button, h, runInSlices, select } from "../app/dom.js";
import { count, counted } from "../app/format.js";
import { smallestRemoval } from "../engine/counterfactual.js";
import { conceptLinks, removalStage } from "./concept_link.js";
import { outcome } from "./image_subject.js";
import { digitsFor, signed } from "./number_scale.js";

const TASK = "smallest-removal";
const MOST = 6;
const WORK = 3e8; // products of pairs of nodes and classes in a search: some seconds

function mostSets({ C, nNodes }) {
  return Math.round(Math.min(4e6, Math.max(2e4, WORK / (C * nNodes * nNodes))));
}

/** The smallest removal that flips an image: found on request, then tried: {section(app, subject), stop()}. */
export function flipSearch(app, redraw) {
  const search = { key: "", at: "", progress: null, found: null, target: "" };
  const stop = () => {
    runInSlices(TASK, nothing(), { onDone: () => {} });
    Object.assign(search, { progress: null, found: null });
  };
  const start = (subject) => {
    const target = search.target ? app.network.classes.indexOf(search.target) : null;
    Object.assign(search, { at: editsKey(app), progress: 0, found: null });
    redraw();
    const options = { target, mode: "rescale", most: MOST, mostSets: mostSets(app.network) };
    runInSlices(TASK, smallestRemoval(app.network, app.states.now, subject.z, options), {
      onProgress: (done) => {
        search.progress = done;
        redraw();
      },
      onDone: (found) => {
        Object.assign(search, { progress: null, found });
        redraw();
      },
    });
  };
  const section = (subject) => {
    if (search.key !== subject.key) {
      stop();
      Object.assign(search, { key: subject.key, target: "" });
    }
    if (search.at !== editsKey(app) && !isTried(app, search)) stop();
    const { predicted } = outcome(app, subject, app.states.now);
    const targets = app.network.classes.filter((_, place) => place !== predicted);
    if (search.target && !targets.includes(search.target)) search.target = "";
    return h("section", { class: "stack tight", "aria-label": "Smallest removal" },
      h("h3", {}, "Smallest removal that flips this image"),
      targets.length > 1 && h("label", { class: "field" }, h("span", { class: "field-label" }, "To"),
        select([["", "any other class"], ...targets.map((name) => [name, name])], search.target, (name) => {
          stop();
          search.target = name;
          redraw();
        }, { id: "flip-target" })),
      h("div", { "aria-live": "polite" }, answer(app, search)),
      h("div", { class: "row" }, tools(app, search, () => start(subject), () => {
        stop();
        redraw();
      })));
  };
  return { section, stop };
}

function tools(app, search, start, cancel) {
  if (search.progress !== null) return button("Stop", cancel, { "data-key": "flip" });
  if (!search.found) return button("Search", start, { class: "button", "data-key": "flip" });
  const { concepts } = search.found;
  if (!concepts.length) return null;
  const left = concepts.filter((name) => !removalStage(app, name));
  const drafted = concepts.some((name) => removalStage(app, name) === "draft");
  if (!left.length) return h("span", { class: "badge" }, drafted ? "In draft" : "Removed");
  return button("Try it", () => app.remove(left), { class: "button primary", "data-key": "flip" });
}

function answer(app, search) {
  if (search.progress !== null) return h("p", { class: "note" }, [`Searching… `, h("span", { "aria-hidden": "true" }, `${Math.round(100 * search.progress)}%`)]);
  if (!search.found) {
    return h("p", { class: "note" }, "The fewest concepts to remove so that the model predicts another class.");
  }
  const { concepts, before, after, method, searched, complete, most, leadBefore, leadAfter } = search.found;
  const name = (place) => (typeof place === "number" ? app.network.classes[place] : place);
  const among = complete ? "" : ` among the ${count(searched)} most influential concepts`;
  if (method === "none") {
    const sets = `No set of up to ${counted(most, "concept")}`;
    return h("p", {}, `${sets} was found${among} whose removal changes the prediction.`);
  }
  const digits = digitsFor([leadBefore, leadAfter]);
  return [
    h("p", {}, "Without ", conceptLinks(app, concepts), ", the model predicts ",
      h("strong", { class: "name" }, name(after)), " instead of ", h("strong", { class: "name" }, name(before)), "."),
    h("p", { class: "note" },
      method === "exact" ? `No smaller set flips it${among}.` : `Found by a greedy search${among}. A smaller set may exist.`,
      ` Lead: ${signed(leadBefore, digits)} before, ${signed(leadAfter, digits)} after.`),
  ];
}

/** Whether what was found is removed by now. */
function isTried(app, { found }) {
  return Boolean(found?.concepts.length) && found.concepts.every((name) => removalStage(app, name));
}

function editsKey(app) {
  return JSON.stringify(app.states.now.edits);
}

function* nothing() {}
