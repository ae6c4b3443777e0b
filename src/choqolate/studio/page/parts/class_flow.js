import { h, replace, s } from "../app/dom.js";
import { percent } from "../app/format.js";
import { flowClasses } from "./flow_classes.js";
import { flowLayout, ribbonPath } from "./flow_layout.js";
import { place } from "./in_place.js";
import { range } from "./index_range.js";

const MOST_NODES = 16;
const OTHERS = -1;

/** Which nodes make up which classes: ribbons as thick as the shares. A node or class can be singled out. */
export function classFlow(app) {
  const choice = flowClasses(app, () => update());
  const svg = s("svg", { class: "ribbons", preserveAspectRatio: "none", "aria-hidden": "true" });
  const left = h("div", { class: "flow-labels left", role: "group", "aria-label": "Nodes" });
  const right = h("div", { class: "flow-labels right", role: "group", "aria-label": "Classes" });
  const drawing = h("div", { class: "flow" }, left, svg, right);
  const table = h("div", { class: "visually-hidden" });
  const element = h("section", { class: "panel", "aria-label": "From nodes to classes" },
    h("div", { class: "panel-head" }, h("h2", {}, "From nodes to classes"), choice.element),
    h("p", { class: "note" },
      "How much each node contributes to each class. Point at a node or class to highlight it, or press it to keep it highlighted."),
    drawing, table);
  const parts = new Map();
  let pinned = null;
  let shown = null;

  const update = () => {
    choice.update();
    shown = flowContent(app, choice.chosen());
    if (pinned && !parts.has(pinned)) pinned = null;
    const layout = flowLayout(shown.nodes, shown.classes, shown.share);
    const made = (key, create) => parts.get(key) ?? parts.set(key, create()).get(key);
    drawing.style.height = `${layout.height.toFixed(1)}px`;
    svg.setAttribute("viewBox", `0 0 100 ${layout.height.toFixed(1)}`);
    place(svg, layout.ribbons.map((ribbon) =>
      drawRibbon(made(`r${ribbon.node}-${ribbon.target}`, newRibbon), ribbon, shown)));
    const labels = (items, sign, text) => items.map((item) =>
      drawLabel(made(`${sign}${item.id}`, () => newLabel(`${sign}${item.id}`)), item, text(item.id)));
    place(left, labels(layout.left, "n", shown.nodeText));
    place(right, labels(layout.right, "c", shown.classText));
    replace(table, shareTable(shown));
    highlight(pinned);
  };
  const highlight = (key) => {
    drawing.classList.toggle("singled", Boolean(key));
    for (const ribbon of svg.children) {
      ribbon.classList.toggle("on", [ribbon.dataset.from, ribbon.dataset.to].includes(key));
    }
    for (const label of [...left.children, ...right.children]) {
      const share = key && label.dataset.key[0] !== key[0] ? shareBetween(shown, key, label.dataset.key) : null;
      label.classList.toggle("on", label.dataset.key === key || (share !== null && Math.abs(share) >= 0.005));
      label.setAttribute("aria-pressed", String(label.dataset.key === pinned));
      label.querySelector(".amount").textContent = share === null ? "" : percent(share, 0);
    }
  };
  const keyAt = (event) => event.target.closest?.("[data-key]")?.dataset.key ?? event.target.dataset?.from ?? null;
  drawing.addEventListener("mouseover", (event) => highlight(keyAt(event) ?? pinned));
  drawing.addEventListener("mouseleave", () => highlight(pinned));
  drawing.addEventListener("focusin", (event) => highlight(keyAt(event) ?? pinned));
  drawing.addEventListener("focusout", () => highlight(pinned));
  drawing.addEventListener("click", (event) => {
    const key = event.target.closest("[data-key]")?.dataset.key;
    if (!key) return;
    pinned = pinned === key ? null : key;
    highlight(pinned ?? key);
  });
  return { element, update };
}

/** What is drawn: node and class indexes, their shares and names; nodes that matter least are one. */
function flowContent({ network, states }, classes) {
  const N = network.nNodes;
  const shareIn = (state) => (r, n) => state.classAttributions[r * N + n];
  const before = shareIn(states.original);
  const now = shareIn(states.now);
  const mass = (n) => classes.reduce((sum, r) => sum + Math.abs(before(r, n)), 0);
  const ranked = range(N).sort((a, b) => mass(b) - mass(a));
  const kept = N > MOST_NODES + 1 ? ranked.slice(0, MOST_NODES) : ranked;
  const rest = ranked.slice(kept.length);
  const middle = (n) => classes.reduce((sum, r, index) => sum + index * Math.abs(before(r, n)), 0) / (mass(n) || 1);
  const names = network.nodeNames(states.now);
  return {
    classes,
    nodes: [...kept.sort((a, b) => middle(a) - middle(b) || a - b), ...(rest.length ? [OTHERS] : [])],
    share: (r, n) => (n === OTHERS ? rest.reduce((sum, other) => sum + now(r, other), 0) : now(r, n)),
    nodeText: (n) => (n === OTHERS ? ["", `${rest.length} other nodes`] : [String(n), names[n]]),
    classText: (r) => ["", network.classes[r]],
    second: (r) => network.C === 2 && r === 1,
  };
}

function shareBetween(shown, first, second) {
  const [node, target] = first[0] === "n" ? [first, second] : [second, first];
  return shown.share(Number(target.slice(1)), Number(node.slice(1)));
}

function newRibbon() {
  return s("path", {}, s("title"));
}

function drawRibbon(path, ribbon, shown) {
  path.setAttribute("d", ribbonPath(ribbon));
  path.setAttribute("class", shown.second(ribbon.target) ? "second" : "");
  path.dataset.from = `n${ribbon.node}`;
  path.dataset.to = `c${ribbon.target}`;
  const ends = [shown.nodeText(ribbon.node).join(" "), shown.classText(ribbon.target)[1]];
  path.firstChild.textContent = `${ends.join(" → ")}: ${percent(ribbon.share)}`;
  return path;
}

function newLabel(key) {
  return h("button", { type: "button", class: "flow-label", "data-key": key, "aria-pressed": "false" },
    ["number", "name", "amount", "post"].map((part) => h("span", { class: part })));
}

function drawLabel(label, item, [number, text]) {
  const [before, name, , post] = label.children;
  before.textContent = number;
  name.textContent = text;
  label.title = [number, text].filter(Boolean).join(" ");
  label.style.top = `${(item.y + item.size / 2).toFixed(1)}px`;
  post.style.height = `${Math.max(1, item.size).toFixed(1)}px`;
  return label;
}

/** The same as a table, for screen readers. */
function shareTable(shown) {
  const columns = ["Node", ...shown.classes.map((r) => shown.classText(r)[1])];
  return h("table", {}, h("caption", {}, "Share of each class that comes from each node"),
    h("thead", {}, h("tr", {}, columns.map((text) => h("th", { scope: "col" }, text)))),
    h("tbody", {}, shown.nodes.map((n) => h("tr", {}, h("th", { scope: "row" }, shown.nodeText(n).join(" ")),
      shown.classes.map((r) => h("td", {}, percent(shown.share(r, n), 0)))))));
}
