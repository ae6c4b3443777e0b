import { button, field, h, select } from "../app/dom.js";
import { decimal } from "../app/format.js";
import { contrast, forNode } from "../engine/attribution.js";
import { conceptLink } from "./concept_link.js";
import { comparedClasses, explanation, isEdited, outcome } from "./image_subject.js";
import { signed } from "./number_scale.js";
import { waterfall } from "./waterfall.js";

const MOST_NODES = 8;
const BASELINES = [["mean", "mean training image"], ["zero", "all scores zero"]];

/** Why this class rather than that: what leads from the baseline to this image. */
export function whySection(app, subject) {
  const { classes, oneLayer } = app.network;
  const [first, second] = comparedClasses(app, subject);
  const by = app.route.parts === "nodes" && !oneLayer ? "nodes" : "concepts";
  const attribution = contrast(app.network, explanation(app, subject, app.states.now), first, second, by);
  const [one, other] = [classes[first], classes[second]];
  return h("section", { class: "stack tight" },
    classChoice(app, one, other),
    h("div", { class: "row" }, !oneLayer && partsToggle(app), baselineChoice(app)),
    waterfall(attribution, {
      label: `Contributions to the lead of ${one} over ${other}`,
      startName: baselineName(app),
      levelName: by === "nodes" ? "value" : "score",
      name: (text) => (by === "nodes" ? h("span", { class: "name" }, text) : conceptLink(app, text)),
    }),
    h("p", { class: "note" }, `Lead: score of ${one} minus score of ${other}. Striped bars favor ${other}. `,
      `The small number is the ${by === "nodes" ? "node's value" : "concept's score"}, from 0 to 1.`));
}

/** "Why [one] rather than [other]" */
function classChoice(app, one, other) {
  const options = (without) => app.network.classes.filter((name) => name !== without).map((name) => [name, name]);
  const compare = (why, against) => app.go({ why, against: against === why ? null : against }, { step: false });
  return h("div", { class: "row why", role: "group", "aria-label": "Classes to compare" },
    h("h3", {}, "Why"),
    select(options(), one, (name) => compare(name, other), { id: "why-class", "aria-label": "Class" }),
    h("span", {}, "rather than"),
    select(options(one), other, (name) => compare(one, name), { id: "against-class", "aria-label": "Other class" }));
}

function partsToggle(app) {
  const choice = (key, text) => button(text, () => app.go({ parts: key }, { step: false }),
    { class: "button small", "aria-pressed": key === (app.route.parts ?? ""), "data-key": `parts-${key}` });
  return h("span", { class: "toggle", role: "group", "aria-label": "Parts" },
    choice("", "By concepts"), choice("nodes", "By nodes"));
}

function baselineChoice(app) {
  const choose = (value) => app.go({ baseline: value === "zero" ? value : null }, { step: false });
  return field("From", select(BASELINES, app.route.baseline ?? "mean", choose, { id: "baseline" }));
}

function baselineName(app) {
  return app.route.baseline === "zero" ? "all scores zero" : "mean image";
}

/** For each node its value and what leads to it; those that matter most for the lead first. */
export function nodeSection(app, subject, open, redraw) {
  const { network, states } = app;
  const found = explanation(app, subject, states.now);
  const effects = contrast(network, found, ...comparedClasses(app, subject), "nodes").values;
  const order = [...effects.keys()].sort((a, b) => Math.abs(effects[b]) - Math.abs(effects[a]) || a - b);
  const shown = open.has("all") ? order : order.slice(0, MOST_NODES);
  const names = network.nodeNames(states.now);
  const before = isEdited(app) ? outcome(app, subject, states.original).nodeValues : null;
  const what = network.oneLayer ? "class" : "node";
  const lead = network.oneLayer ? "" : ", and its contribution to the lead";
  return h("section", { class: "stack tight" }, h("h3", {}, `Attributions by ${what}`),
    h("p", { class: "note" }, `Value of each ${what} for this image${lead}. Open one to see its concepts.`),
    h("div", { class: "node-list" }, shown.map((n) =>
      foldedNode(app, { n, name: names[n], found, was: before?.[n], effect: effects[n], open }))),
    shown.length < order.length && h("p", {}, button(`Show all ${order.length}`, () => {
      open.add("all");
      redraw();
    }, { class: "button small" })));
}

function foldedNode(app, { n, name, found, was, effect, open }) {
  const key = `node-${n}`;
  const value = found.nodeValues[n];
  const moved = was !== undefined && Math.abs(was - value) >= 5e-4;
  const { oneLayer } = app.network;
  const body = h("div", {});
  const fill = () => body.childElementCount || body.append(nodeWaterfall(app, found, n, name));
  const element = h("details", {}, h("summary", { "data-key": key },
    h("span", { class: "who" },
      !oneLayer && h("span", { class: "node-number" }, n), " ", h("span", { class: "name" }, name)),
    h("span", { class: "value" }, decimal(value, 3), moved && h("small", {}, ` was ${decimal(was, 3)}`)),
    !oneLayer && h("span", { class: "value effect" }, signed(effect, 4))), body);
  element.open = open.has(key);
  if (element.open) fill();
  element.addEventListener("toggle", () => {
    if (element.open) fill();
    open[element.open ? "add" : "delete"](key);
  });
  return element;
}

function nodeWaterfall(app, found, n, name) {
  return waterfall(forNode(app.network, found, n), {
    most: 6,
    isLead: false,
    label: `Contributions to ${name}`,
    startName: baselineName(app),
    name: (text) => conceptLink(app, text),
  });
}
