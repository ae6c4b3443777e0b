import { button, h, replace } from "../app/dom.js";
import { listed, percent } from "../app/format.js";
import { place } from "./in_place.js";
import { range } from "./index_range.js";
import { nodeFormula } from "./node_formula.js";
import { wordCloud } from "./word_cloud.js";

const MOST = 24;
const KINDS = [["", "Clouds"], ["formulas", "Formulas"]];

/** One card per node: its name, the classes that it contributes to, and its concepts as a cloud or as a formula. */
export function nodeCards(app) {
  const { network } = app;
  const cards = new Map();
  const grid = h("div", { class: "node-grid" });
  const choice = h("div", { class: "row", role: "group", "aria-label": "How nodes are shown" });
  const told = h("p", { class: "note" });
  const more = h("div", { class: "more-nodes" });
  let all = false;

  const update = () => {
    const kind = app.route.nodes === "formulas" ? "formulas" : "";
    replace(choice, KINDS.map(([key, label]) => button(label, () => app.go({ nodes: key }, { step: false }),
      { class: "button small", "data-key": `nodes-${key}`, "aria-pressed": kind === key })));
    told.textContent = kind ? "Weighted sums of concept scores, and of the smaller (min) or larger (max) of two scores."
      : `The larger the word, the larger its share of the ${network.oneLayer ? "class" : "node"}. `
        + "Removed concepts are crossed out; ↑ marks concepts whose share grew. Press one to open it.";
    const chosen = all ? range(network.nNodes) : heaviest(app, MOST);
    const names = network.nodeNames(app.states.now);
    place(grid, chosen.map((node) => {
      const key = `${kind}${node}`;
      if (!cards.has(key)) cards.set(key, nodeCard(app, node, kind));
      cards.get(key).update(names[node]);
      return cards.get(key).element;
    }));
    const label = all ? "Show fewer" : `Show all ${network.nNodes}`;
    replace(more, network.nNodes > MOST && button(label, () => {
      all = !all;
      update();
    }, { class: "button small", "data-key": "more-nodes", "aria-expanded": all }));
  };
  const title = network.oneLayer ? "Classes and their concepts" : "Nodes and their concepts";
  const element = h("section", { class: "panel", "aria-label": title },
    h("div", { class: "panel-head" }, h("h2", {}, title), choice), told, grid, more);
  return { element, update };
}

/** The nodes with most weight in the classes of the original model, in their own order. */
function heaviest({ network, states }, most) {
  const nodes = range(network.nNodes);
  if (nodes.length <= most || network.oneLayer) return nodes.slice(0, most);
  const shares = states.original.classAttributions;
  const size = (r, node) => Math.abs(shares[r * network.nNodes + node]);
  const weight = nodes.map((node) => range(network.C).reduce((sum, r) => sum + size(r, node), 0));
  return nodes.sort((a, b) => weight[b] - weight[a]).slice(0, most).sort((a, b) => a - b);
}

function nodeCard(app, node, kind) {
  const where = app.network.oneLayer ? `class ${app.network.classes[node]}` : `node ${node}`;
  const name = h("span", { class: "name" });
  const classes = h("p", { class: "note" });
  const left = h("p", { class: "node-left" });
  const body = kind ? nodeFormula(app, node, where) : wordCloud(app, node, where);
  const heading = app.network.oneLayer ? name : [h("span", { class: "node-number" }, `Node ${node}`), " ", name];
  const element = h("article", { class: "node-card" }, h("h3", {}, heading), classes, body.element, left);
  const update = (nodeName) => {
    name.textContent = app.network.oneLayer ? app.network.classes[node] : nodeName;
    classes.textContent = app.network.oneLayer ? "" : contribution(app, node);
    classes.hidden = app.network.oneLayer;
    body.update();
    replace(left, remainder(app.states.now, node));
  };
  return { element, update };
}

/** "62% of waterbird, 8% of landbird" */
function contribution({ network, states }, node) {
  const ranked = range(network.C)
    .map((r) => ({ r, share: states.now.classAttributions[r * network.nNodes + node] }))
    .filter(({ share }) => Math.abs(share) >= 0.005)
    .sort((a, b) => Math.abs(b.share) - Math.abs(a.share));
  if (!ranked.length) return "Contributes almost nothing to any class";
  return `Makes up ${listed(ranked.map(({ r, share }) => `${percent(share, 0)} of ${network.classes[r]}`), 3)}`;
}

function remainder(state, node) {
  const retained = state.retained[node];
  if (retained > 0.995) return null;
  const small = state.smallRemainders.some((one) => one.node === node) || retained < 0.05;
  const width = `${(100 * Math.min(1, retained)).toFixed(1)}%`;
  return h("span", { class: small ? "warn-text" : "note" },
    h("span", { class: "gauge", "aria-hidden": "true" }, h("span", { style: { width } })),
    `${percent(retained, retained < 0.1 ? 1 : 0)} of its trained weight left`,
    small && ", hardly the node that was trained");
}
