import { button, h, replace } from "../app/dom.js";
import { count, percent, share } from "../app/format.js";
import { isGone } from "./concept_marks.js";
import { range } from "./index_range.js";

const MOST = 8;
const LEAST = 5e-4;

/** Where a concept acts: its share of each node, with a choice of nodes, and of each class. */
export function conceptPlaces(app, view) {
  const nodes = h("div");
  const classes = h("div");
  const open = new Set();
  const element = h("div", { class: "columns places" }, nodes, classes);
  const update = (concept) => {
    const toggle = (key) => {
      if (!open.delete(key)) open.add(key);
      update(concept);
    };
    const names = app.network.nodeNames(app.states.now);
    const nodeEntries = entries(app, "conceptAttributions", concept, app.network.nNodes);
    replace(nodes, shareTable(app.network.oneLayer ? "Share of each class" : "Share of each node", nodeEntries, {
      key: "nodes", open: open.has("nodes"), toggle, name: (n) => nodeTitle(app.network, names, n),
      choice: (n) => nodeChoice(app, view, concept, n), gone: (n) => isGone(app.network, app.states.now, n, concept),
    }));
    replace(classes, !app.network.oneLayer && shareTable("Share of each class",
      entries(app, "conceptToClass", concept, app.network.C), {
        key: "classes", open: open.has("classes"), toggle,
        name: (r) => h("span", { class: "name" }, app.network.classes[r]),
      }));
  };
  return { element, update };
}

function entries({ network, states }, key, concept, length) {
  const at = (state, place) => state[key][place * network.M + concept];
  return range(length).map((place) => ({ place, now: at(states.now, place), before: at(states.original, place) }))
    .sort((a, b) => Math.abs(b.before) - Math.abs(a.before) || Math.abs(b.now) - Math.abs(a.now));
}

function nodeTitle(network, names, node) {
  const number = network.oneLayer ? null : h("span", { class: "node-number" }, String(node));
  return [number, " ", h("span", { class: "name" }, names[node])];
}

function nodeChoice(app, view, concept, node) {
  const where = app.network.oneLayer ? app.network.classes[node] : `node ${node}`;
  const choose = (event) => {
    if (event.target.checked) view.nodes.add(node);
    else view.nodes.delete(node);
    app.onChange();
  };
  return h("input", { type: "checkbox", "data-key": `node-${node}`, "aria-label": `Select ${where}`,
    checked: view.nodes.has(node), disabled: isGone(app.network, app.states.now, node, concept), onchange: choose });
}

function shareTable(title, found, { key, open, toggle, name, choice, gone }) {
  const larger = ({ now, before }) => Math.max(Math.abs(now), Math.abs(before));
  const most = Math.max(...found.map(larger), 1e-9);
  const leading = found.slice(0, MOST).filter((one, rank) => rank < 1 || larger(one) >= LEAST);
  const shown = open ? found : leading;
  return h("div", {}, h("table", { class: "wide share-table" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, title), h("th", { "aria-hidden": "true" }),
      h("th", { scope: "col" }, "Original"), h("th", { scope: "col" }, "Now"))),
    h("tbody", {}, shown.map(({ place, now, before }) => h("tr", { class: gone?.(place) ? "gone" : null },
      h("th", { scope: "row" }, h("label", {}, choice?.(place), " ", name(place))),
      h("td", { class: "bar-cell", "aria-hidden": "true" }, shareBar(now, before, most)),
      h("td", {}, share(before)), h("td", { class: "now" }, gone?.(place) ? "removed" : share(now)))))),
  found.length > leading.length && button(open ? "Show fewer" : `Show all ${count(found.length)}`,
    () => toggle(key), { class: "button small", "data-key": `more-${key}`, "aria-expanded": open }));
}

function shareBar(now, before, most) {
  const part = (kind, value) => h("span", { class: kind, style: { width: percent(Math.abs(value) / most) } });
  return h("span", { class: "share-bar" }, part("before", before), part("now", now));
}
