import { button, field, h, replace, select } from "../app/dom.js";
import { count, counted, sentenceStart } from "../app/format.js";
import { ORDERS, orderedRows } from "../app/row_order.js";
import { FILTERS, filteredRows, selectedRows } from "../app/selection.js";
import { conceptBox } from "./concept_box.js";
import { clearFilters } from "./filter_bar.js";
import { pickTools } from "./image_picks.js";
import { tileList } from "./tile_list.js";

const PAGE = 120;
const VIEW_KEYS = [...FILTERS.filter((key) => key !== "picked"), "only", "sort", "by"];

/** The grid of images that the filters choose: {element, rows, update(), focusOn(number)}. */
export function imageGrid(app) {
  const parts = {
    told: h("span", { class: "grid-count" }),
    picks: h("div", { class: "row" }),
    empty: h("div", { class: "empty-state" }, h("p", {}, "No images match these filters."),
      button("Clear filters", () => clearFilters(app))),
    more: button("", () => showUpTo(grid.shown), { class: "button grid-more" }),
    covered: h("p", { class: "note" }),
    order: orderControl(app),
    load: loadButton(app),
  };
  const showUpTo = (place) => {
    if (place < grid.shown) return;
    grid.shown = place + PAGE;
    draw();
  };
  const tiles = tileList(app, showUpTo);
  const element = h("section", { class: "panel grid-panel", "aria-label": "Images" },
    h("div", { class: "panel-head" }, h("h2", { "aria-live": "polite" }, parts.told), parts.order.element),
    parts.picks, tiles.element, parts.empty, parts.more, parts.load.element, parts.covered);
  const grid = { element, rows: new Int32Array(), shown: PAGE, chosen: "" };
  const draw = () => {
    tiles.draw(grid.rows, grid.shown);
    const left = grid.rows.length - grid.shown;
    parts.more.hidden = left <= 0;
    parts.more.textContent = `Show ${count(Math.min(PAGE, left))} more of ${count(left)}`;
  };
  watchEnd(parts.more, () => showUpTo(grid.shown));

  grid.update = () => {
    const chosen = JSON.stringify(VIEW_KEYS.map((key) => app.route[key] ?? ""));
    if (chosen !== grid.chosen) {
      Object.assign(grid, { chosen, shown: PAGE });
      tiles.current = 0;
    }
    grid.rows = orderedRows(app, app.route.only && app.route.picked ? selectedRows(app) : filteredRows(app));
    refreshParts(app, parts, grid.rows.length);
    draw();
  };
  grid.focusOn = (number) => {
    const place = grid.rows.findIndex((row) => app.rows.number[row] === number);
    if (place >= 0) tiles.focusOn(place);
  };
  return grid;
}

function refreshParts(app, parts, chosen) {
  const all = app.visibleRows.length;
  parts.told.textContent = chosen === all ? counted(all, "image") : `${count(chosen)} of ${counted(all, "image")}`;
  parts.covered.textContent = coveredText(app);
  parts.picks.hidden = !app.route.picked;
  if (app.route.picked) replace(parts.picks, pickTools(app));
  parts.empty.hidden = chosen > 0;
  parts.order.update();
  parts.load.update();
}

function coveredText(app) {
  if (app.finalChecked || !app.coveredRows.length) return "";
  return `${sentenceStart(app.document.rows.covered)} are covered until the final check (see Overview).`;
}

/** Show more as soon as the reader comes to the end. */
function watchEnd(more, showMore) {
  if (!("IntersectionObserver" in window)) return;
  new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting) && !more.hidden) showMore();
  }, { rootMargin: "300px" }).observe(more);
}

function orderControl(app) {
  const isByConcept = (sort) => sort === "high" || sort === "low";
  const concept = () => app.route.by ?? app.route.concept ?? app.network.concepts[0];
  const choose = (value) => app.go({ sort: value, by: isByConcept(value) ? concept() : null });
  const sort = select(ORDERS, "", choose, { id: "sort" });
  const box = conceptBox(app, { id: "sort-concept", label: "Concept to sort by",
    onchoose: (name) => app.go({ by: name || concept() }) });
  const update = () => {
    sort.value = app.route.sort ?? "";
    box.element.hidden = !isByConcept(app.route.sort);
    box.set(app.route.by);
  };
  return { element: h("div", { class: "row" }, field("Sort", sort), box.element), update };
}

function loadButton(app) {
  const element = button("", async () => {
    element.disabled = true;
    element.textContent = "Loading rows…";
    await app.loadRows();
    element.disabled = false;
    update();
  });
  const update = () => {
    element.hidden = !app.rowsLeft;
    if (!element.disabled) element.textContent = `Load more rows (${count(app.rowsLeft)} not loaded)`;
  };
  return { element, update };
}
