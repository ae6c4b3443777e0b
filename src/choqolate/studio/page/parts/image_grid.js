import { button, h, replace, select } from "../app/dom.js";
import { count, counted } from "../app/format.js";
import { ORDERS, orderedRows } from "../app/row_order.js";
import { FILTERS, filteredRows, pickedNumbers } from "../app/selection.js";
import { conceptBox } from "./concept_box.js";
import { clearFilters } from "./filter_bar.js";
import { imageTile, tileSignature } from "./image_tile.js";

const PAGE = 120;
const ARROWS = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"];

/** The grid of images that the filters choose: {element, update(), rows, focusOn(number)}. */
export function imageGrid(app) {
  const told = h("p", { class: "grid-count", "aria-live": "polite" });
  const covered = h("p", { class: "note" });
  const order = orderControl(app);
  const list = h("div", { class: `tiles ${app.rows.hasImage.some(Boolean) ? "" : "imageless"}`, role: "listbox", "aria-multiselectable": true, "aria-label": "Images" });
  const empty = h("div", { class: "empty-state", hidden: true });
  const more = button("", () => showMore(), { class: "button grid-more" });
  const load = loadButton(app);
  const picks = h("span", { class: "row" });
  const element = h("section", { class: "panel grid-panel", "aria-label": "Images" },
    h("div", { class: "panel-head" }, h("h2", {}, told), order.element),
    picks, list, empty, more, load.element, covered);
  const tiles = new Map();
  const grid = { element, rows: new Int32Array(), shown: PAGE, chosen: "", current: 0 };

  const tile = (row, picked) => {
    const signature = tileSignature(app, row, picked);
    const kept = tiles.get(row);
    if (kept?.signature === signature) return kept.element;
    const made = imageTile(app, row, picked);
    tiles.set(row, { signature, element: made });
    return made;
  };
  const draw = () => {
    const picked = pickedNumbers(app.route);
    const wanted = Array.from(grid.rows.subarray(0, grid.shown), (row) => tile(row, picked.has(app.rows.number[row])));
    if (wanted.length !== list.childElementCount || wanted.some((one, place) => list.children[place] !== one)) replace(list, wanted);
    setCurrent(Math.min(grid.current, wanted.length - 1), false);
    const left = grid.rows.length - wanted.length;
    more.hidden = left <= 0;
    more.textContent = `Show ${count(Math.min(PAGE, left))} more of ${count(left)}`;
  };
  const showMore = (most = grid.shown + PAGE) => {
    grid.shown = most;
    draw();
  };
  const setCurrent = (place, focus = true) => {
    list.querySelector('[tabindex="0"]')?.setAttribute("tabindex", "-1");
    grid.current = Math.max(0, place);
    const chosen = list.children[grid.current];
    chosen?.setAttribute("tabindex", "0");
    if (focus) chosen?.focus();
  };
  const placeOf = (target) => Array.prototype.indexOf.call(list.children, target.closest(".tile"));

  list.addEventListener("focusin", (event) => setCurrent(placeOf(event.target), false));
  list.addEventListener("click", (event) => {
    const place = placeOf(event.target);
    if (place < 0) return;
    const row = grid.rows[place];
    if (event.shiftKey) pickRange(app, grid.rows, grid.current, place);
    else if (event.ctrlKey || event.metaKey || event.target.closest(".tile-pick")) togglePick(app, row);
    else openImage(app, row);
    setCurrent(place);
  });
  list.addEventListener("keydown", (event) => {
    const place = placeOf(event.target);
    if (place < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter") openImage(app, grid.rows[place]);
    else if (event.key === " ") togglePick(app, grid.rows[place]);
    else if (ARROWS.includes(event.key)) {
      const next = nextPlace(event.key, place, grid.rows.length, columnsOf(list));
      if (next >= grid.shown) showMore(next + PAGE);
      setCurrent(next);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  watchEnd(more, showMore);

  grid.update = () => {
    const chosen = JSON.stringify([...FILTERS.filter((key) => key !== "picked"), "sort", "by"].map((key) => app.route[key] ?? ""));
    if (chosen !== grid.chosen) Object.assign(grid, { chosen, shown: PAGE, current: 0 });
    grid.rows = orderedRows(app, filteredRows(app));
    order.update();
    load.update();
    told.textContent = countText(app, grid.rows.length);
    covered.textContent = coveredText(app);
    replace(picks, pickTools(app));
    picks.hidden = !app.route.picked;
    empty.hidden = grid.rows.length > 0;
    replace(empty, h("p", {}, "No image passes these filters."), button("Clear the filters", () => clearFilters(app)));
    draw();
  };
  grid.focusOn = (number) => {
    const place = grid.rows.findIndex((row) => app.rows.number[row] === number);
    if (place < 0) return;
    if (place >= grid.shown) showMore(place + PAGE);
    setCurrent(place);
  };
  return grid;
}

/** Open the panel of one row. */
export function openImage(app, row) {
  app.go({ image: String(app.rows.number[row]), why: null, against: null });
}

function togglePick(app, row) {
  const picked = pickedNumbers(app.route);
  const number = app.rows.number[row];
  if (!picked.delete(number)) picked.add(number);
  app.go({ picked: [...picked].join(",") }, { step: false });
}

function pickRange(app, rows, from, to) {
  const picked = pickedNumbers(app.route);
  for (const row of rows.subarray(Math.min(from, to), Math.max(from, to) + 1)) picked.add(app.rows.number[row]);
  app.go({ picked: [...picked].join(",") }, { step: false });
}

function pickTools(app) {
  const picked = pickedNumbers(app.route).size;
  return [h("span", { class: "note" }, `${counted(picked, "image")} picked: the selection.`),
    button("Clear the picks", () => app.go({ picked: null }), { class: "button small" })];
}

function nextPlace(key, place, length, columns) {
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[key];
  if (key === "Home") return 0;
  if (key === "End") return length - 1;
  const next = place + step;
  return next < 0 || next >= length ? place : next;
}

function columnsOf(list) {
  return getComputedStyle(list).gridTemplateColumns.split(" ").length;
}

/** Show more as soon as the reader comes to the end. */
function watchEnd(more, showMore) {
  if (!("IntersectionObserver" in window)) return;
  new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting) && !more.hidden) showMore();
  }, { rootMargin: "300px" }).observe(more);
}

function countText(app, chosen) {
  const all = app.visibleRows.length;
  return chosen === all ? counted(all, "image") : `${count(chosen)} of ${counted(all, "image")}`;
}

function coveredText(app) {
  if (app.finalChecked || !app.coveredRows.length) return "";
  const rows = app.document.rows.covered || counted(app.coveredRows.length, "row");
  return `${rows[0].toUpperCase()}${rows.slice(1)} stay covered until the final check (see History).`;
}

function orderControl(app) {
  const sort = select(ORDERS, "", (value) => app.go({ sort: value, by: value === "high" || value === "low" ? concept() : null }));
  const concept = () => app.route.by ?? app.route.concept ?? app.network.concepts[0];
  const box = conceptBox(app, { id: "sort-concept", label: "Concept to sort by", onchoose: (name) => app.go({ by: name || concept() }) });
  const update = () => {
    sort.value = app.route.sort ?? "";
    box.element.hidden = !["high", "low"].includes(app.route.sort);
    box.set(app.route.by);
  };
  return { element: h("div", { class: "row" }, h("label", { class: "field" }, h("span", { class: "field-label" }, "Sort"), sort), box.element), update };
}

function loadButton(app) {
  const element = button("", async () => {
    element.disabled = true;
    element.textContent = "Loading rows…";
    await app.loadRows();
    element.disabled = false;
    update();
  }, { class: "button" });
  const update = () => {
    element.hidden = !app.rowsLeft;
    if (!element.disabled) element.textContent = `Load more rows (${count(app.rowsLeft)} left in the table)`;
  };
  return { element, update };
}
