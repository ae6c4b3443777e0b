import { field, h, replace, say, select } from "../app/dom.js";
import { count, percent } from "../app/format.js";
import { conceptMarks, markBadges } from "./concept_marks.js";
import { conceptValues, needsImpact, orderedConcepts, orders } from "./concept_order.js";
import { place } from "./in_place.js";

const MOST = 200;

/** All concepts: searched, ordered, marked; one is opened, several are chosen. `view` holds what other parts share. */
export function conceptList(app, view, ranking) {
  const search = h("input", { type: "search", id: "concept-search", "aria-label": "Search concepts",
    autocomplete: "off", placeholder: `Search ${count(app.network.M)} concepts`, spellcheck: "false", oninput: () => update() });
  const order = h("div", { class: "row" });
  const status = h("span", { role: "status" });
  const done = h("span", { "aria-hidden": "true" });
  const told = h("p", { class: "note" }, status, " ", done);
  const list = h("ul", { class: "concept-list", "aria-label": "Concepts" });
  const rows = new Map();
  let shown = [];
  let active = null;

  const open = (concept) => app.go({ view: "concept", concept: app.network.concepts[concept] });
  const update = () => {
    const sort = orders(app).some(([key]) => key === app.route.order) ? app.route.order : "share";
    const { impact, progress } = needsImpact(sort) ? ranking.each(view.mode) : { impact: null, progress: 1 };
    const values = conceptValues(app, sort, impact);
    const marks = conceptMarks(app);
    const found = matching(app, search.value, orderedConcepts(app, sort, values));
    shown = found.slice(0, MOST);
    if (!shown.includes(active)) active = shown[0] ?? null;
    const reorder = (key) => app.go({ order: key === "share" ? null : key }, { step: false });
    replace(order, field("Order", select(orders(app), sort, reorder, { id: "concept-order" })));
    told.hidden = !needsImpact(sort) && found.length > 0 && found.length === shown.length;
    say(status, listText(found.length, shown.length, sort, progress, triedText(app, impact)));
    done.textContent = progress < 1 ? percent(progress, 0) : "";
    place(list, shown.map((concept) => {
      if (!rows.has(concept)) rows.set(concept, newRow(app, concept, open, (on) => choose(concept, on)));
      const row = rows.get(concept);
      showRow(row, values[concept], marks[concept], { current: app.network.concepts[concept] === app.route.concept,
        chosen: view.chosen.has(concept), active: concept === active });
      return row.element;
    }));
  };
  const choose = (concept, on) => {
    if (on) view.chosen.add(concept);
    else view.chosen.delete(concept);
    app.onChange();
  };
  const focusRow = (index, part) => {
    const concept = shown[Math.min(shown.length - 1, Math.max(0, index))];
    if (concept === undefined) return;
    rows.get(active)?.setTabbable(false);
    active = concept;
    rows.get(concept).setTabbable(true);
    rows.get(concept)[part].focus();
  };
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && shown.length) {
      open(shown[0]);
      focusTitle();
    }
    if (event.key === "ArrowDown") focusRow(0, "button");
    if (event.key === "Escape" && search.value) {
      search.value = "";
      update();
    } else if (!["Enter", "ArrowDown"].includes(event.key)) return;
    event.preventDefault();
  });
  list.addEventListener("keydown", (event) => moveInList(event, shown.indexOf(active), shown.length, focusRow, search));
  list.addEventListener("focusin", (event) => {
    const at = [...list.children].indexOf(event.target.closest("li"));
    if (at >= 0 && shown[at] !== active) focusRow(at, event.target.type === "checkbox" ? "box" : "button");
  });
  return { search, order, told, list, update, shown: () => shown };
}

/** Focus the heading of the open concept, once it is drawn. */
function focusTitle() {
  const focus = () => document.getElementById("concept-title")?.focus({ preventScroll: true });
  requestAnimationFrame(() => requestAnimationFrame(focus));
}

function moveInList(event, at, length, focusRow, search) {
  const part = event.target.type === "checkbox" ? "box" : "button";
  const moves = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: length - 1, PageDown: at + 10, PageUp: at - 10 };
  if (event.key === "ArrowLeft") focusRow(at, "box");
  else if (event.key === "ArrowRight") focusRow(at, "button");
  else if (event.key === "ArrowUp" && at === 0) search.focus();
  else if (event.key in moves) focusRow(moves[event.key], part);
  else return;
  event.preventDefault();
}

function matching(app, text, places) {
  const words = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return places;
  return places.filter((concept) => words.every((word) => app.network.concepts[concept].toLowerCase().includes(word)));
}

function listText(found, shown, sort, progress, tried) {
  if (!found) return "No matching concepts.";
  const parts = [];
  if (found > shown) parts.push(`Showing ${count(shown)} of ${count(found)}. Search to find others.`);
  if (progress < 1) parts.push(`Removing each concept alone…`);
  else if (needsImpact(sort)) {
    const what = sort === "flips" ? "Images flipped" : "Points gained";
    parts.push(`${what} by removing only this concept from the current model${tried}.`);
  }
  return parts.join(" ");
}

/** Which concepts were tried, if not all. */
function triedText(app, impact) {
  if (!impact || impact.tried.size === app.network.M) return "";
  return `, tried for the ${count(impact.tried.size)} concepts with the largest share`;
}

function newRow(app, concept, open, choose) {
  const name = app.network.concepts[concept];
  const box = h("input", { type: "checkbox", tabindex: "-1", "aria-label": `Select ${name}`,
    onchange: (event) => choose(event.target.checked) });
  const bar = h("span", { class: "level" });
  const value = h("span", { class: "amount" });
  const badges = h("span", { class: "mark-badges" });
  const button = h("button", { type: "button", tabindex: "-1", onclick: () => open(concept) },
    h("span", { class: "name" }, name), badges, value, h("span", { class: "level-track", "aria-hidden": "true" }, bar));
  const element = h("li", {}, box, button);
  const setTabbable = (on) => {
    for (const part of [box, button]) part.tabIndex = on ? 0 : -1;
  };
  return { element, box, button, bar, value, badges, setTabbable, shownMarks: "" };
}

function showRow(row, { text, size, sign }, mark, { current, chosen, active }) {
  row.value.textContent = text;
  row.bar.style.width = `${(100 * size).toFixed(1)}%`;
  row.bar.className = sign < 0 ? "level negative" : "level";
  row.box.checked = chosen;
  row.setTabbable(active);
  row.element.className = [current && "current", mark.removed && "gone"].filter(Boolean).join(" ");
  if (current) row.button.setAttribute("aria-current", "true");
  else row.button.removeAttribute("aria-current");
  const marks = JSON.stringify(mark);
  if (marks === row.shownMarks) return;
  row.shownMarks = marks;
  replace(row.badges, markBadges(mark));
}
