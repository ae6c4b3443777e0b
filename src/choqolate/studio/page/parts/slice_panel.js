import { button, h, replace } from "../app/dom.js";
import { changeText, count, counted, interval, percent, pText } from "../app/format.js";
import { selectionText } from "../app/selection.js";
import { measure, pairedChange, TOO_FEW } from "../engine/metrics.js";
import { distinguishing } from "../engine/moments.js";
import { conceptLink, removalStage } from "./concept_link.js";
import { divergingBars } from "./diverging_bars.js";
import { foldablePanel } from "./fold.js";
import { FEW } from "./score_rows.js";

const MOST = 8;
const CHOSEN_BY_PREDICTION = ["predicted", "right", "flipped"];
const STATES = [["original", "Original"], ["committed", "Last commit"], ["now", "Now"]];

/** Numbers of the selected images: {element, update()}. */
export function slicePanel(app) {
  return foldablePanel("Selection", { open: true, content: (body) => replace(body, sliceContent(app)) });
}

function sliceContent(app) {
  const rows = app.selection ?? app.visibleRows;
  const text = selectionText(app.route);
  const head = h("p", {}, h("strong", {}, counted(rows.length, "image")), ": ",
    app.route.picked ? "picked" : text ? h("span", { class: "name" }, text) : "all visible");
  const labelled = rows.filter((row) => app.rows.label[row] >= 0);
  if (!labelled.length) return [head, h("p", { class: "note" }, "None of them has a label, so there is no accuracy.")];
  const training = labelled.filter((row) => app.rows.role[row] === 0).length;
  if (labelled.length < TOO_FEW) return [head, h("p", { class: "message warn" }, tooFew(labelled.length))];
  const byPrediction = !app.route.picked && CHOSEN_BY_PREDICTION.some((key) => app.route[key]);
  return [head, numbers(app, labelled), !byPrediction && changeLine(app, labelled),
    labelled.length < FEW && h("p", { class: "message warn" },
      `Only ${counted(labelled.length, "image")}: look at the intervals before you rely on these numbers.`),
    h("p", { class: "note" }, [
      byPrediction && "Selected by the current predictions, so these numbers do not carry over to other images.",
      training > 0 && `Includes ${counted(training, "training image")}.`,
      weighted(app, labelled) && "Images are weighted to represent the whole table."].filter(Boolean).join(" "))];
}

function tooFew(n) {
  return `${n === 1 ? "1 image has" : `${count(n)} images have`} a label: too few to tell how accurate the model is here.`;
}

function weighted(app, rows) {
  return rows.some((row) => app.rows.weight[row] !== app.rows.weight[rows[0]]);
}

function numbers(app, rows) {
  return h("table", { class: "wide slice-numbers" },
    h("caption", { class: "visually-hidden" }, "Accuracy of the selected images"),
    h("thead", {}, h("tr", {}, ["Model", "Accuracy", "95% interval"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, STATES.map(([key, name]) => {
      const found = measure(app.rows, app.states[key].predicted, rows);
      const share = percent(found.accuracy);
      return h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, key === "now" ? h("strong", {}, share) : share),
        h("td", {}, interval(found.low, found.high)));
    })));
}

function changeLine(app, rows) {
  const { original, now } = app.states;
  const change = pairedChange(app.rows, original.predicted, now.predicted, rows);
  const { gained, lost, p } = change;
  if (!gained && !lost) return null;
  return h("p", {}, `Compared with the original model: ${changeText(change)}, `,
    `${count(gained)} became right, ${count(lost)} became wrong (${pText(p)}).`);
}

/** Concepts whose mean in the selection differs most from the other images: {element, update()}. */
export function distinguishingPanel(app) {
  const draw = (body) => replace(body, distinguishingContent(app, app.selection));
  return foldablePanel("What sets it apart", { content: draw });
}

function distinguishingContent(app, selection) {
  if (!selection) {
    return h("p", { class: "note" }, "Select images with a filter, a cell of the confusion matrix, or by picking them in the grid.");
  }
  const chosen = new Set(selection);
  const others = app.visibleRows.filter((row) => !chosen.has(row));
  if (!selection.length || !others.length) return h("p", { class: "note" }, "There are no images to compare.");
  const found = distinguishing(app.network, app.rows, selection, others, MOST);
  const bars = found.map(({ name, difference }) =>
    ({ value: difference, name: conceptLink(app, name), more: removeButton(app, name) }));
  const left = found.map(({ name }) => name).filter((name) => !removalStage(app, name));
  return [
    divergingBars(bars, { label: "Difference of mean scores", lower: "lower here", higher: "higher here", digits: 2 }),
    h("div", { class: "row" },
      button(`Remove these ${count(left.length)}`, () => app.remove(left), { disabled: !left.length })),
    h("p", { class: "note" },
      "Mean score in the selection minus mean score of the other visible images, ordered by effect size (in standard deviations)."),
  ];
}

function removeButton(app, name) {
  const stage = removalStage(app, name);
  if (stage) return h("span", { class: "badge" }, stage === "draft" ? "in draft" : "removed");
  return button("Remove", () => app.remove([name]),
    { class: "button small", "aria-label": `Remove ${name}`, "data-key": `remove-${name}` });
}
