import { field, h, replace, select } from "../app/dom.js";
import { count, counted, percent, pointRange, points, pText } from "../app/format.js";
import { flips, measureAll, pairedChange, TOO_FEW } from "../engine/metrics.js";
import { openImage } from "./image_picks.js";

const MOST_IMAGES = 18;
const MOST_LINES = 12;

/** Two commits beside each other: numbers, images that flipped. The route says which (a, b). */
export function commitComparison(app) {
  const choice = h("div", { class: "row" });
  const body = h("div", { class: "stack" });
  const element = h("section", { class: "panel", "aria-label": "Compare two commits" }, h("h2", {}, "Compare"), choice, body);
  const update = () => {
    const [a, b] = ["a", "b"].map((key) => chosen(app, key));
    replace(choice, picker(app, "a", a, "First"), picker(app, "b", b, "Second"));
    replace(body, content(app, stateAt(app, a), stateAt(app, b)));
  };
  return { element, update };
}

function chosen(app, key) {
  const known = app.route[key];
  if (known === "opened" || known === "now" || app.history.find(Number(known))) return known;
  return key === "a" ? "opened" : "now";
}

function picker(app, key, value, label) {
  const commits = app.history.commits.map(({ id }) => [String(id), `commit ${id}`]);
  const options = [["opened", "original"], ...commits, ["now", app.draft.length ? "now (with draft)" : "now"]];
  return field(label, select(options, value, (chosenValue) => app.go({ [key]: chosenValue }, { step: false }), { "data-key": `compare-${key}` }));
}

function stateAt(app, key) {
  if (key === "now") return app.states.now;
  return app.network.state(key === "opened" ? [] : app.history.editsAt(Number(key)));
}

function content(app, first, second) {
  const rows = app.auditRows;
  const [a, b] = [first, second].map((state) => measureAll(app.network, app.rows, state, rows));
  const paired = pairedChange(app.rows, first.predicted, second.predicted, rows);
  const flipped = flips(first.predicted, second.predicted, rows);
  const [part, was, is] = b.groups.length ? ["groups", a.groups, b.groups] : ["classes", a.classes, b.classes];
  const column = b.groups.length ? app.rows.group : app.rows.label;
  const change = (k) => pairedChange(app.rows, first.predicted, second.predicted, rows.filter((i) => column[i] === k));
  const parts = is.map((one, k) => [one.name, was[k], one, k]).filter(([, , one]) => one.n);
  const lines = [["All rows", a.all, b.all, paired], ...mostChanged(parts).map(([name, one, other, k]) => [name, one, other, change(k)])];
  return [
    b.all.n > 0 && lineTable(lines),
    parts.length > MOST_LINES && h("p", { class: "note" }, `The ${MOST_LINES} of ${count(parts.length)} ${part} that change the most.`),
    h("p", {}, flipped.length ? changeText(paired, flipped.length) : "Both predict the same class for every image."),
    h("ul", { class: "flip-tiles" }, [...flipped].slice(0, MOST_IMAGES).map((row) => tile(app, row, first, second))),
    flipped.length > MOST_IMAGES && h("p", { class: "note" }, `${count(flipped.length - MOST_IMAGES)} more flipped.`),
  ];
}

/** All of a few parts, in their order; of many those with the largest change first. */
function mostChanged(parts) {
  if (parts.length <= MOST_LINES) return parts;
  const change = ([, one, other]) => (other.n < TOO_FEW ? -1 : Math.abs(other.accuracy - one.accuracy) || 0);
  return [...parts].sort((a, b) => change(b) - change(a)).slice(0, MOST_LINES);
}

function lineTable(lines) {
  return h("div", { class: "scroll" }, h("table", { class: "wide" }, h("caption", { class: "visually-hidden" }, "Accuracy at the two commits"),
    h("thead", {}, h("tr", {}, ["Rows", "First", "Second", "Change", "95% interval of the change", "Images"].map((text) => h("th", { scope: "col" }, text)))),
    h("tbody", {}, lines.map(([name, one, other, change]) => h("tr", {}, h("th", { scope: "row", class: "name" }, name),
      other.n < TOO_FEW ? h("td", { colspan: "4", class: "note" }, "too few to tell") : [
        h("td", {}, percent(one.accuracy)), h("td", {}, percent(other.accuracy)), h("td", {}, points(change.change)),
        h("td", {}, pointRange(change.low, change.high))],
      h("td", {}, count(other.n)))))));
}

function changeText({ gained, lost, p }, n) {
  const judged = p < 0.05 ? "beyond chance" : "may be chance";
  return `${counted(n, "image")} flipped: ${count(gained)} became right, ${count(lost)} became wrong (${judged}, ${pText(p)}).`;
}

function tile(app, row, first, second) {
  const name = app.rows.paths[row] ?? `row ${app.rows.number[row]}`;
  const [was, is] = [first, second].map((state) => app.network.classes[state.predicted[row]]);
  const source = app.images(row);
  return h("li", {}, h("a", { class: "flip-tile", href: `#view=images&image=${app.rows.number[row]}`,
    "aria-label": `${name}: ${was} → ${is}`, title: name, onclick: (event) => {
    event.preventDefault();
    openImage(app, row);
  } }, source ? h("img", { src: source, alt: "", loading: "lazy" }) : h("span", { class: "tile-name name" }, name),
  h("span", { class: "name" }, `${was} → ${is}`)));
}
