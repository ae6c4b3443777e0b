import { button, h, replace } from "../app/dom.js";
import { count, counted, sentenceStart } from "../app/format.js";
import { classBalance } from "../parts/class_balance.js";
import { classFlow } from "../parts/class_flow.js";
import { checkedNote, coveredCard } from "../parts/final_check.js";
import { firstSteps } from "../parts/first_steps.js";
import { nodeCards } from "../parts/node_cards.js";
import { scoreTable } from "../parts/score_table.js";

const NEGLIGIBLE = 1e-6;

/** The view Overview: numbers three ways, the nodes and their concepts, and how nodes make up classes. */
export function createOverviewView(app) {
  const steps = firstSteps(app);
  const numbers = numbersPanel(app);
  const nodes = nodeCards(app);
  const flow = app.network.oneLayer ? null : classFlow(app);
  const leftOut = h("p", { class: "note" });
  const element = h("div", { class: "stack overview-view" },
    steps.element, numbers.element, nodes.element, flow?.element, leftOut);
  const update = () => {
    steps.update();
    numbers.update();
    nodes.update();
    flow?.update();
    showLeftOut(leftOut, app);
  };
  return { element, update };
}

function numbersPanel(app) {
  const choice = h("div", { class: "row", role: "group", "aria-label": "Rows to measure on" });
  const told = h("p", { class: "note" });
  const table = scoreTable(app);
  const balance = classBalance(app);
  const content = h("div", { class: "stack" });
  const element = h("section", { class: "panel numbers", "aria-label": "Numbers" },
    h("div", { class: "panel-head" }, h("h2", {}, "Accuracy"), choice), told, content);
  const update = () => {
    const shown = shownRows(app);
    choice.hidden = rowChoices(app).length < 2;
    replace(choice, rowChoices(app).map(([key, label]) => button(label, () => app.go({ rows: key }, { step: false }),
      { class: "button small", "data-key": `rows-${key}`, "aria-pressed": shown === key })));
    told.textContent = rowsText(app, shown);
    told.hidden = !told.textContent;
    if (shown === "covered" && !app.finalChecked) {
      replace(content, coveredCard(app));
      return;
    }
    table.update(app.numberRows);
    balance.update();
    replace(content, shown === "covered" && checkedNote(app), table.element, balance.element,
      h("p", { class: "note" }, loadedText(app)));
  };
  return { element, update };
}

/** Which rows are loaded: a sentence. */
function loadedText(app) {
  const { loaded, total, chosen } = app.document.rows;
  return app.rows.n > loaded ? `${count(app.rows.n)} of ${counted(total, "row")} are loaded.` : chosen;
}

function shownRows(app) {
  return rowChoices(app).some(([key]) => key === app.route.rows) ? app.route.rows : "";
}

function rowChoices(app) {
  const choices = [["", "Audit rows"]];
  if (app.trainRows.length) choices.push(["train", areTraining(app) ? "Training rows" : "Other rows"]);
  if (app.coveredRows.length) choices.push(["covered", "Final check"]);
  return choices;
}

/** Whether the rows that are neither audit rows nor covered are training rows. */
function areTraining(app) {
  const train = app.document.rows.splits.indexOf("train");
  return train >= 0 && app.trainRows.every((row) => app.rows.split[row] === train);
}

/** Which rows the numbers are of, and whether they stand for more than are loaded. */
function rowsText(app, shown) {
  const { audit } = app.document.rows;
  const sampled = app.numberRows.some((row) => app.rows.weight[row] !== 1)
    ? " Only some of them are loaded; their weights make up for the others." : "";
  if (shown === "covered") return app.finalChecked ? `${sentenceStart(app.document.rows.covered)}.${sampled}` : "";
  if (shown === "train") {
    const what = areTraining(app) ? "that the model was trained on" : "that are neither audit rows nor covered";
    return `${counted(app.trainRows.length, "row")} ${what}.${sampled}`;
  }
  return `Edits are judged on the audit rows: ${audit}.${sampled}`;
}

/** One line on the terms that the page leaves out. */
function showLeftOut(element, app) {
  const most = Math.max(0, ...app.states.now.leftOut);
  element.hidden = most === 0;
  element.className = most > NEGLIGIBLE ? "message warn" : "note";
  const told = `This page leaves out terms that cannot change a node value by more than ${most.toExponential(0)}.`;
  const advice = "After these edits, that is no longer negligible. Apply the edits file and let Python compute the numbers.";
  element.textContent = most > NEGLIGIBLE ? `${told} ${advice}` : told;
}
