import { button, h, replace } from "../app/dom.js";
import { count, counted } from "../app/format.js";
import { filteredRows } from "../app/selection.js";
import { confusion } from "../engine/metrics.js";
import { foldablePanel } from "./fold.js";
import { isEdited } from "./image_subject.js";

const MOST_IN_SIGHT = 6; // classes of a matrix beside the grid
const MOST_PAIRS = 10;

/** Which class is taken for which, now and against the original model; a cell chooses its images. */
export function confusionPanel(app) {
  const full = h("details", { class: "full-matrix" }, h("summary", {}, "Full matrix"), h("div", {}));
  const many = app.network.C > MOST_IN_SIGHT;
  const draw = (body) => {
    const found = confusions(app);
    if (!found.labelled) return replace(body, h("p", { class: "note" }, "No image here has a label."));
    if (!many) return replace(body, matrix(app, found), note(app, found));
    replace(body, pairList(app, found), full, note(app, found));
    if (full.open) replace(full.lastChild, matrix(app, found));
  };
  const panel = foldablePanel("Confusions", { content: draw });
  full.addEventListener("toggle", () => full.open && panel.update());
  panel.element.hidden = !app.rows.label.some((label) => label >= 0);
  return panel;
}

/** Counts now and in the original model, of the rows that the other filters choose. */
function confusions(app) {
  const rows = filteredRows(app, { ...app.route, truth: null, predicted: null, right: null });
  const labelled = rows.filter((row) => app.rows.label[row] >= 0).length;
  const of = (state) => confusion(app.network, app.rows, state.predicted, rows);
  return { labelled, now: of(app.states.now), before: of(app.states.original) };
}

function note(app, { labelled }) {
  const more = isEdited(app) && " Small numbers: change from the original model.";
  return h("p", { class: "note" }, `${counted(labelled, "image")}.`, more);
}

function matrix(app, { now, before }) {
  const { classes, C } = app.network;
  const largest = Math.max(1, ...now);
  const row = (name, truth) => h("tr", {},
    h("th", { scope: "row" }, h("span", { class: "name matrix-row", title: name }, name)),
    classes.map((_, predicted) => {
      const place = truth * C + predicted;
      return cell(app, truth, predicted, now[place], before[place], largest);
    }));
  return h("div", { class: "scroll matrix", tabindex: "0", role: "region", "aria-label": "Confusion matrix" },
    h("table", {},
      h("caption", { class: "visually-hidden" }, "Images by true class (rows) and predicted class (columns)"),
      matrixHead(classes), h("tbody", {}, classes.map(row))));
}

function matrixHead(classes) {
  const kind = classes.length <= 3 ? "name" : "name sideways";
  return h("thead", {},
    h("tr", {}, h("td", {}),
      h("th", { scope: "colgroup", colspan: classes.length, class: "matrix-axis" }, "predicted")),
    h("tr", {}, h("th", { scope: "col", class: "matrix-axis" }, "class"),
      classes.map((name) => h("th", { scope: "col" }, h("span", { class: kind, title: name }, name)))));
}

function cell(app, truth, predicted, now, before, largest) {
  const { classes } = app.network;
  const right = truth === predicted;
  const chosen = app.route.truth === classes[truth] && app.route.predicted === classes[predicted];
  const style = { "--shade": `${Math.round(60 * Math.sqrt(now / largest))}%` };
  if (!now && !before) return h("td", { class: right ? "right" : "", style }, h("span", { class: "nothing" }, "·"));
  const what = right ? `${classes[truth]}, right` : `${classes[truth]} predicted as ${classes[predicted]}`;
  const said = `${what}: ${count(now)}, change ${changeText(now - before)}`;
  return h("td", { class: right ? "right" : "wrong", style },
    button([count(now), change(now - before)], () => choose(app, truth, predicted),
      { class: "matrix-cell", title: said, "aria-label": said, "aria-pressed": chosen,
        "data-key": `cell-${truth}-${predicted}` }));
}

/** The most frequent mistakes, as "A predicted as B". */
function pairList(app, { now, before }) {
  const { classes, C } = app.network;
  const pairs = [...now.keys()]
    .filter((place) => Math.floor(place / C) !== place % C && (now[place] || before[place]))
    .sort((a, b) => now[b] - now[a] || before[b] - before[a])
    .slice(0, MOST_PAIRS);
  if (!pairs.length) return h("p", {}, "No mistakes.");
  return h("ol", { class: "pairs", "aria-label": "Most frequent mistakes" }, pairs.map((place) => {
    const [truth, predicted] = [Math.floor(place / C), place % C];
    const chosen = app.route.truth === classes[truth] && app.route.predicted === classes[predicted];
    return h("li", {}, button([
      h("span", {}, h("strong", { class: "name" }, classes[truth]), " predicted as ",
        h("strong", { class: "name" }, classes[predicted])),
      h("span", { class: "value" }, count(now[place]), change(now[place] - before[place])),
    ], () => choose(app, truth, predicted), { class: "pair", "aria-pressed": chosen, "data-key": `pair-${place}` }));
  }));
}

function choose(app, truth, predicted) {
  const { classes } = app.network;
  const again = app.route.truth === classes[truth] && app.route.predicted === classes[predicted];
  const chosen = again ? { truth: null, predicted: null } : { truth: classes[truth], predicted: classes[predicted] };
  app.go({ ...chosen, right: null, picked: null, only: null });
}

function change(value) {
  return value ? h("small", {}, changeText(value)) : null;
}

function changeText(value) {
  return `${value < 0 ? "−" : value > 0 ? "+" : ""}${count(Math.abs(value))}`;
}
