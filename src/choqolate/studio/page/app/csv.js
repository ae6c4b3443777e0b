import { margins } from "../engine/metrics.js";

const COLUMNS = ["row", "path", "split", "group", "truth", "predicted_original", "predicted_committed",
  "predicted_now", "margin", "flipped"];

/** The selected images, or all that may be seen, as a table in CSV. */
export function selectionCsv(app) {
  const chosen = app.selection ?? app.visibleRows;
  const margin = margins(app.network, app.rows, app.states.now, chosen);
  const lines = Array.from(chosen, (row, place) => csvLine(cells(app, row, margin[place])));
  return `${[csvLine(COLUMNS), ...lines].join("\r\n")}\r\n`;
}

function cells(app, row, margin) {
  const { rows, states, network, document } = app;
  const predicted = ["original", "committed", "now"].map((key) => network.classes[states[key].predicted[row]]);
  return [rows.number[row], rows.paths[row] ?? "", document.rows.splits[rows.split[row]] ?? "",
    document.rows.groups[rows.group[row]] ?? "", network.classes[rows.label[row]] ?? "", ...predicted,
    Number(margin.toPrecision(7)), predicted[0] === predicted[2] ? "no" : "yes"];
}

/** One line of CSV. Text that a spreadsheet would run as a formula gets an apostrophe before it. */
function csvLine(values) {
  return values.map((value) => {
    if (typeof value === "number") return String(value);
    const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
    return /[",\r\n']/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  }).join(",");
}
