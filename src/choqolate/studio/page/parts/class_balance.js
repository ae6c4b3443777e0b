import { button, h, replace } from "../app/dom.js";
import { listed, percent } from "../app/format.js";

const MOST = 3;

/** How often each class is predicted against its share of the training labels, and the edit that evens it out. */
export function classBalance(app) {
  const told = h("span", {});
  const recalibrate = button("Recalibrate the classes", () => app.recalibrate(), { class: "button small", "data-key": "recalibrate",
    title: "Shift the class scores so that each class is predicted as often as it occurs among the training labels" });
  const element = h("p", { class: "row note" }, told, recalibrate);
  const update = () => replace(told, balanceText(app));
  return { element, update };
}

/** The classes whose share of the predictions differs most from that of the training labels. */
function balanceText(app) {
  const { classes, model } = app.network;
  const shares = new Float64Array(classes.length);
  let total = 0;
  for (const row of app.calibrationRows) {
    shares[app.states.now.predicted[row]] += app.rows.weight[row];
    total += app.rows.weight[row];
  }
  const order = classes.map((_, place) => place).sort((a, b) => gap(b) - gap(a));
  const parts = order.slice(0, MOST).map((r) => `${classes[r]} ${percent(shares[r] / total)} (${percent(model.label_shares[r])} of the labels)`);
  const hasTraining = app.calibrationRows.some((row) => app.document.rows.splits[app.rows.split[row]] === "train");
  const which = hasTraining ? "training rows" : "all rows that are not covered";
  return `Predictions on ${which}${classes.length > MOST ? ", largest differences" : ""}: ${listed(parts)}.`;

  function gap(r) {
    return Math.abs(shares[r] / total - model.label_shares[r]);
  }
}
