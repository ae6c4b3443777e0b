import { margins } from "../engine/metrics.js";

/** Orders of images: [key of the route, text]; the first is the default. */
export const ORDERS = [
  ["", "Lowest margin first"],
  ["best", "Highest margin first"],
  ["high", "Highest score of a concept"],
  ["low", "Lowest score of a concept"],
  ["row", "Row number"],
];

/** Rows in the order of the route (sort, by): Int32Array. Rows that are equal stay in the order of the table. */
export function orderedRows(app, rows, { sort, by } = app.route) {
  const keys = sortKeys(app, rows, sort, app.network.placeOf(by));
  const places = Array.from(rows, (_, place) => place);
  places.sort((a, b) => keys[a] - keys[b] || app.rows.number[rows[a]] - app.rows.number[rows[b]]);
  return Int32Array.from(places, (place) => rows[place]);
}

function sortKeys(app, rows, sort, concept) {
  if (sort === "row") return rows.map((row) => app.rows.number[row]);
  if ((sort === "high" || sort === "low") && concept >= 0) {
    const sign = sort === "high" ? -1 : 1;
    return Float64Array.from(rows, (row) => sign * app.rows.score(row, concept));
  }
  const found = margins(app.network, app.rows, app.states.now, rows);
  return sort === "best" ? found.map((margin) => -margin) : found;
}
