import { button, h, replace } from "../app/dom.js";
import { count, interval, percent, pointRange, pText } from "../app/format.js";
import { FILTERS } from "../app/selection.js";
import { TOO_FEW } from "../engine/metrics.js";
import { changeMark } from "./change_mark.js";
import { intervalBar } from "./interval_bar.js";
import { axisStart, FEW, scoreParts } from "./score_rows.js";

const MOST = 12;
const COLUMNS = ["Original", "Last commit", "Now", "Change", "95% interval", "Images"];

/** The table of accuracies: original, last commit and now, for all rows, the selection, groups and classes. */
export function scoreTable(app) {
  const element = h("div", { class: "score-table" });
  const open = new Set();
  const update = (rowIndexes) => {
    const parts = scoreParts(app, rowIndexes, MOST);
    if (!parts[0].rows[0].now.n) {
      replace(element, h("p", { class: "message" }, "None of these rows has a label, so there is no accuracy to show."));
      return;
    }
    const shown = parts.map((part) => ({ ...part, shown: open.has(part.key) ? part.rows : part.rows.slice(0, MOST) }));
    const start = axisStart(shown.flatMap((part) => part.shown));
    const toggle = (key) => {
      if (!open.delete(key)) open.add(key);
      update(rowIndexes);
    };
    replace(element,
      h("table", { class: "wide scores" },
        h("caption", { class: "visually-hidden" }, "Accuracy of the original model, at the last commit and now"),
        tableHead(start),
        shown.map((part) => tablePart(app, part, start, open.has(part.key), toggle))),
      legend(shown.flatMap((part) => part.shown)));
  };
  return { element, update };
}

function tableHead(start) {
  const [original, committed, now, change, range, images] = COLUMNS;
  const column = (text, properties) => h("th", { scope: "col", ...properties }, text);
  return h("thead", {}, h("tr", {},
    column(h("span", { class: "visually-hidden" }, "Rows"), { class: "of" }),
    column(original), column(committed), column(now), column(change, { title: "Points from the original to now, on the same images, with its 95% interval" }),
    h("th", { class: "drawn", "aria-hidden": "true" },
      h("span", { class: "axis" }, h("span", {}, percent(start, 0)), h("span", {}, "100%"))),
    column(range, { class: "range", title: "Wilson interval of the accuracy now" }),
    column(images, { class: "images" })));
}

function tablePart(app, part, start, isOpen, toggle) {
  const hidden = part.rows.length - MOST;
  return h("tbody", {},
    part.title && h("tr", { class: "part" }, h("th", { scope: "rowgroup", colspan: "8" }, part.title,
      part.many && h("small", {}, ", worst first"))),
    part.shown.map((row) => tableRow(app, row, start)),
    hidden > 0 && h("tr", { class: "more" }, h("td", { colspan: "8" },
      button(isOpen ? "Show fewer" : `Show all ${count(part.rows.length)}`, () => toggle(part.key),
        { class: "button small", "data-key": `more-${part.key}`, "aria-expanded": isOpen }))));
}

function tableRow(app, row, start) {
  const { original, committed, now } = row;
  const name = h("th", { scope: "row", class: "of" }, rowName(app, row));
  if (now.n < TOO_FEW) {
    return h("tr", { class: row.key === "all" ? "whole" : null }, name,
      h("td", { colspan: "4", class: "note" }, "too few to tell"), h("td", { class: "drawn" }), h("td", { class: "range" }),
      h("td", { class: "images" }, count(now.n)));
  }
  return h("tr", { class: row.key === "all" ? "whole" : null }, name,
    h("td", {}, row.fixed ? "" : percent(original.accuracy)),
    h("td", {}, row.fixed ? "" : percent(committed.accuracy)),
    h("td", { class: "now" }, percent(now.accuracy)),
    h("td", {}, row.change && changeCell(row.change)),
    h("td", { class: "drawn", "aria-hidden": "true" },
      intervalBar({ low: now.low, high: now.high, now: now.accuracy, original: original.accuracy }, start)),
    h("td", { class: "range" }, interval(now.low, now.high)),
    h("td", { class: "images" }, count(now.n)));
}

/** The change with its interval, if any prediction became right or wrong. */
function changeCell(change) {
  const { gained, lost, low, high, p } = change;
  const changed = gained + lost > 0;
  return [changeMark(change.change), changed && h("small", { class: "note change-range", title: `McNemar test: ${pText(p)}` },
    ` ${pointRange(low, high)}`)];
}

function rowName(app, row) {
  const clear = row.selection && button("Clear", () => app.go(Object.fromEntries(FILTERS.map((key) => [key, null]))),
    { class: "button link", "data-key": "clear-selection", "aria-label": "Clear the selection" });
  return [
    h("span", { class: "name" }, row.selection ? `Selection: ${row.label}` : row.label), " ",
    row.worst && h("span", { class: "badge warn" }, "worst group"), " ",
    !row.fixed && row.now.n < FEW && h("span", { class: "badge", title: fewText }, "few images"), " ",
    clear,
    row.detail && h("small", { class: "note detail" }, row.detail),
  ];
}

const fewText = `Fewer than ${FEW} images: a single image moves the accuracy by more than 3 points.`;

function legend(rows) {
  return h("p", { class: "note score-legend" },
    h("span", { class: "keys-of-bars", "aria-hidden": "true" },
      h("span", { class: "key-now" }), "now", h("span", { class: "key-before" }), "original",
      h("span", { class: "key-range" }), "95% interval now (Wilson)"),
    rows.some((row) => row.now.n < FEW) && h("span", {}, h("span", { class: "badge" }, "few images"), ` ${fewText}`));
}
