import { button, field, h, select } from "../app/dom.js";
import { contrast, forNode } from "../engine/attribution.js";
import { conceptLink } from "./concept_link.js";
import { decimal } from "../app/format.js";
import { comparedClasses, explanation, isEdited, outcome } from "./image_subject.js";
import { signed } from "./number_scale.js";
import { waterfall } from "./waterfall.js";

const MOST_NODES = 8;

/** Why this class rather than that: what leads from the baseline to this image. */
export function whySection(app, subject) {
  const [first, second] = comparedClasses(app, subject);
  const { classes, oneLayer } = app.network;
  const byNodes = app.route.parts === "nodes" && !oneLayer;
  const attribution = contrast(app.network, explanation(app, subject, app.states.now), first, second, byNodes ? "nodes" : "concepts");
  const options = (without) => classes.map((name, place) => [name, place]).filter(([, place]) => place !== without).map(([name]) => [name, name]);
  const choose = (key, other, without) => (name) => app.go({ [key]: name, [other]: classes[without] === name ? null : classes[without] }, { step: false });
  return h("section", { class: "stack tight" },
    h("div", { class: "row why", role: "group", "aria-label": "Classes that are compared" },
      h("h3", {}, "Why"), select(options(-1), classes[first], choose("why", "against", second), { id: "why-class", "aria-label": "Class" }),
      h("span", {}, "rather than"), select(options(first), classes[second], choose("against", "why", first), { id: "against-class", "aria-label": "Other class" })),
    h("div", { class: "row" },
      !oneLayer && toggle("Parts", [["", "By concepts"], ["nodes", "By nodes"]], app.route.parts ?? "", (parts) => app.go({ parts }, { step: false })),
      field("From", select([["mean", "mean training image"], ["zero", "scores of zero"]], app.route.baseline ?? "mean",
        (value) => app.go({ baseline: value === "zero" ? value : null }, { step: false }), { id: "baseline" }))),
    waterfall(attribution, { label: `Contributions to the lead of ${classes[first]} over ${classes[second]}`,
      startName: baselineName(app), endName: "this image", levelName: byNodes ? "value" : "score",
      name: (index, text) => (byNodes ? h("span", { class: "name" }, text) : conceptLink(app, text)) }),
    h("p", { class: "note" }, `Lead: score of ${classes[first]} minus score of ${classes[second]}. Striped bars speak for ${classes[second]}. `,
      `The small number is the ${byNodes ? "node's value" : "concept's score"}, from 0 to 1.`));
}

/** For each node its value and what leads to it. */
export function nodeSection(app, subject, open, redraw) {
  const { network, states } = app;
  const names = network.nodeNames(states.now);
  const found = explanation(app, subject, states.now);
  const before = isEdited(app) ? outcome(app, subject, states.original).nodeValues : null;
  const [first, second] = comparedClasses(app, subject);
  const effects = contrast(network, found, first, second, "nodes").values;
  const order = [...names.keys()].sort((a, b) => Math.abs(effects[b]) - Math.abs(effects[a]) || a - b);
  const shown = open.has("all") ? order : order.slice(0, MOST_NODES);
  const what = network.oneLayer ? "class" : "node";
  return h("section", { class: "stack tight" }, h("h3", {}, `Attributions by ${what}`),
    h("p", { class: "note" }, `Value of each ${what} on this image${network.oneLayer ? "" : ", and its contribution to the lead"}. Open one for its concepts.`),
    h("div", { class: "node-list" }, shown.map((n) => foldedNode(app, { n, name: names[n], found, before, effect: effects[n], open }))),
    shown.length < order.length && h("p", {}, button(`Show all ${order.length}`, () => {
      open.add("all");
      redraw();
    }, { class: "button small" })));
}

function foldedNode(app, { n, name, found, before, effect, open }) {
  const key = `node-${n}`;
  const value = found.nodeValues[n];
  const moved = before && Math.abs(before[n] - value) >= 5e-4;
  const body = h("div", {});
  const fill = () => body.childElementCount || body.append(nodeWaterfall(app, found, n, name));
  const element = h("details", {}, h("summary", { "data-key": key },
    h("span", { class: "who" }, !app.network.oneLayer && h("span", { class: "node-number" }, n), " ", h("span", { class: "name" }, name)),
    h("span", { class: "value" }, decimal(value, 3), moved && h("small", {}, ` was ${decimal(before[n], 3)}`)),
    !app.network.oneLayer && h("span", { class: "value effect" }, signed(effect, 4))), body);
  element.open = open.has(key);
  if (element.open) fill();
  element.addEventListener("toggle", () => {
    if (element.open) fill();
    open[element.open ? "add" : "delete"](key);
  });
  return element;
}

function nodeWaterfall(app, found, n, name) {
  return waterfall(forNode(app.network, found, n), { most: 6, isLead: false, label: `Contributions to ${name}`, startName: baselineName(app), endName: "this image",
    name: (index, text) => conceptLink(app, text) });
}

function baselineName(app) {
  return app.route.baseline === "zero" ? "scores of zero" : "mean image";
}

function toggle(label, options, value, onchoose) {
  return h("span", { class: "toggle", role: "group", "aria-label": label }, options.map(([key, text]) =>
    button(text, () => onchoose(key), { class: "button small", "aria-pressed": key === value, "data-key": `parts-${key}` })));
}
