import { button, field, h, replace, select } from "../app/dom.js";
import { decimal } from "../app/format.js";
import { FILTERS, filterTexts, readLimit } from "../app/selection.js";
import { conceptBox } from "./concept_box.js";
import { isWide } from "./fold.js";

const PAUSE = 150;

/** Filters of the images; each that is set is a chip, too: {element, update()}. */
export function filterBar(app) {
  const labelled = app.rows.label.some((label) => label >= 0);
  const controls = [
    choice(app, "truth", "Class", labelled ? app.network.classes : []),
    choice(app, "predicted", "Predicted", app.network.classes),
    choice(app, "right", "Result", labelled ? [["yes", "right"], ["no", "wrong"]] : []),
    choice(app, "group", "Group", app.document.rows.groups),
    splitChoice(app),
    roleChoice(app),
    choice(app, "flipped", "Flipped", [["original", "by the edits"], ["committed", "by the draft"]]),
    limitControl(app),
    app.rows.paths.some(Boolean) ? pathControl(app) : null,
  ].filter(Boolean);
  const chips = h("ul", { class: "chips", "aria-label": "Active filters" });
  const body = h("details", { class: "filters" }, h("summary", {}, h("h2", {}, "Filters")),
    h("div", { class: "filter-controls" }, controls.map(({ element }) => element)));
  body.open = isWide();
  const element = h("section", { class: "panel filter-panel", "aria-label": "Filters" }, body, chips);
  const update = () => {
    for (const control of controls) control.update();
    replace(chips, chipItems(app));
    chips.hidden = !chips.childElementCount;
  };
  return { element, update };
}

/** Drop all filters, and picked images. */
export function clearFilters(app) {
  app.go({ ...Object.fromEntries(FILTERS.map((key) => [key, null])), only: null });
}

function chipItems(app) {
  const found = filterTexts(app.route);
  const chips = found.map(({ key, text }) => h("li", { class: "chip" }, h("span", { class: "name" }, text),
    h("button", { type: "button", class: "close", "data-key": `filter-${key}`, "aria-label": `Remove the filter: ${text}`,
      onclick: () => app.go({ [key]: null }) }, "×")));
  if (chips.length) chips.push(h("li", {}, button("Clear", () => clearFilters(app), { class: "button small" })));
  return chips;
}

function choice(app, key, label, options, visible = () => options) {
  if (!options.length) return null;
  const pairs = (items) => items.map((item) => (Array.isArray(item) ? item : [item, item]));
  const control = select([], "", (value) => app.go({ [key]: value }), { id: `filter-${key}` });
  let shown = null;
  const update = () => {
    const items = [["", "any"], ...pairs(visible())];
    const text = JSON.stringify(items);
    if (text !== shown) {
      shown = text;
      replace(control, items.map(([value, name]) => h("option", { value }, name)));
    }
    control.value = app.route[key] ?? "";
  };
  return { element: field(label, control), update };
}

/** Splits that may be seen: those of covered rows only after the final check. */
function splitChoice(app) {
  const names = app.document.rows.splits;
  const seen = () => {
    const places = new Set(app.visibleRows.map((row) => app.rows.split[row]));
    return names.filter((_, place) => places.has(place));
  };
  return names.length > 1 ? choice(app, "split", "Split", names, seen) : null;
}

/** Audit and training rows, where a split does not say which are which. */
function roleChoice(app) {
  const told = new Map();
  for (const row of app.allRows) {
    const split = app.rows.split[row];
    told.set(split, (told.get(split) ?? new Set()).add(app.rows.role[row]));
  }
  if ([...told.values()].every((roles) => roles.size === 1)) return null;
  const options = () => [
    ["audit", "audit"],
    app.trainRows.length && ["train", "training"],
    app.finalChecked && ["covered", "final check"],
  ].filter(Boolean);
  return choice(app, "role", "Rows", options(), options);
}

/** "Score of [sea] [above] [0.70]" */
function limitControl(app) {
  const choose = (concept) => (concept ? write({ concept }) : app.go({ above: null, below: null }));
  const box = conceptBox(app, { id: "filter-concept", label: "Concept to filter by", onchoose: choose });
  const side = select([["above", "at least"], ["below", "at most"]], "above", (key) => write({ key }),
    { "aria-label": "At least or at most" });
  const slider = h("input", { type: "range", min: "0", max: "1", step: "0.01", value: "0.5",
    "aria-label": "Score threshold",
    oninput: () => later(() => write({ level: Number(slider.value) }, { step: false })) });
  const level = h("output", { class: "level" });
  const later = paused();
  const current = () => {
    const key = app.route.above || !app.route.below ? "above" : "below";
    const limit = app.route[key] ? readLimit(app.route[key]) : { level: Number(slider.value), concept: "" };
    return { key: limit.concept ? key : side.value, ...limit };
  };
  const write = (change, options) => {
    const { key, concept, level: at } = { ...current(), ...change };
    if (!concept) return;
    app.go({ above: null, below: null, [key]: `${at.toFixed(2)},${concept}` }, options);
  };
  const update = () => {
    const { key, concept, level: at } = current();
    box.set(concept);
    side.value = key;
    if (document.activeElement !== slider) slider.value = String(at);
    level.textContent = decimal(Number(slider.value), 2);
    slider.disabled = side.disabled = !concept;
  };
  const element = h("div", { class: "field limit", role: "group", "aria-label": "Score of a concept" },
    h("span", { class: "field-label" }, "Score of"), box.element, side, slider, level);
  return { element, update };
}

function pathControl(app) {
  const later = paused();
  const input = h("input", { id: "filter-path", type: "search", placeholder: "any text", autocomplete: "off",
    spellcheck: "false",
    oninput: () => later(() => app.go({ path: input.value.trim() }, { step: false })) });
  const update = () => {
    if (document.activeElement !== input) input.value = app.route.path ?? "";
  };
  return { element: field("Path contains", input), update };
}

/** Run only the latest of several calls that follow each other quickly. */
function paused() {
  let waiting = 0;
  return (action) => {
    clearTimeout(waiting);
    waiting = setTimeout(action, PAUSE);
  };
}
