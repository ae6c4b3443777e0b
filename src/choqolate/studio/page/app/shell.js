import { button, h, keepFocus, replace } from "./dom.js";
import { draftBar } from "./draft_bar.js";
import { showShortcuts, watchKeys } from "./shortcuts.js";
import { summaryStrip } from "./summary_strip.js";
import { createConceptView } from "../views/concept_view.js";
import { createExportView } from "../views/export_view.js";
import { createHistoryView } from "../views/history_view.js";
import { createImagesView } from "../views/images_view.js";
import { createOverviewView } from "../views/overview_view.js";
import { createSuspectsView } from "../views/suspects_view.js";

const VIEWS = [
  ["overview", "Overview", createOverviewView],
  ["concept", "Concepts", createConceptView],
  ["images", "Images", createImagesView],
  ["suspects", "Suspects", createSuspectsView],
  ["history", "History", createHistoryView],
  ["export", "Export", createExportView],
];

/** Draw the page around the views and keep it up to date. */
export function createShell(app, place) {
  const views = new Map(VIEWS.map(([key, , create]) => [key, { create, made: null }]));
  const main = h("main", { id: "main", tabindex: "-1" });
  const strip = summaryStrip(app);
  const bar = draftBar(app);
  const status = h("div", { class: "toasts", role: "status", "aria-live": "polite" });
  const head = header(app);
  let shown = null;

  const view = () => {
    const key = views.has(app.route.view) ? app.route.view : "overview";
    const entry = views.get(key);
    entry.made ??= entry.create(app);
    if (shown !== key) {
      shown = key;
      replace(main, entry.made.element);
      document.title = `${VIEWS.find(([name]) => name === key)[1]} · ${app.document.title} · CHOQOLATE studio`;
      scrollTo(0, 0);
    }
    return entry.made;
  };
  const update = () => keepFocus(() => {
    head.update();
    strip.update();
    bar.update();
    view().update();
  });
  let waiting = false;
  app.onChange = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      update();
    });
  };
  app.onSay = (text, kind) => showToast(status, text, kind);
  window.addEventListener("hashchange", () => app.follow());
  document.querySelector("[data-skip]")?.addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  watchKeys(app, VIEWS.map(([key]) => key), bar);
  replace(place, head.element, strip.element, main, h("div", { class: "foot" }, status, bar.element));
  update();
}

function header(app) {
  const tabs = VIEWS.map(([key, label], index) =>
    h("a", { href: `#view=${key}`, "data-view": key, title: `${label} (${index + 1})`,
      onclick: (event) => {
        event.preventDefault();
        app.go({ view: key });
      } }, label));
  const undo = button("Undo", () => app.undo(), { title: "Undo (U or Ctrl+Z)" });
  const redo = button("Redo", () => app.redo(), { title: "Redo (R or Ctrl+Shift+Z)" });
  const help = button("?", showShortcuts, { class: "button round", "aria-label": "Keyboard shortcuts", title: "Keyboard shortcuts (?)" });
  const nav = h("nav", { "aria-label": "Views" }, tabs);
  const element = h("header", { class: "top" },
    h("div", { class: "brand" }, h("span", { class: "logo" }, "CHOQOLATE"), h("h1", { class: "name" }, app.document.title)),
    nav,
    h("div", { class: "tools" }, undo, redo, help));
  const known = new Set(VIEWS.map(([key]) => key));
  const update = () => {
    for (const tab of tabs) {
      const current = tab.dataset.view === (known.has(app.route.view) ? app.route.view : "overview");
      if (current && !tab.hasAttribute("aria-current")) nav.scrollLeft = tab.offsetLeft - nav.offsetLeft - tab.offsetWidth;
      if (current) tab.setAttribute("aria-current", "page");
      else tab.removeAttribute("aria-current");
    }
    undo.disabled = !app.canUndo;
    redo.disabled = !app.canRedo;
  };
  return { element, update };
}

function showToast(status, text, kind) {
  const toast = h("div", { class: `toast ${kind}` }, h("span", {}, text),
    h("button", { type: "button", class: "close", "aria-label": "Close the message", onclick: () => toast.remove() }, "×"));
  for (const old of status.querySelectorAll(".toast.info")) old.remove();
  status.append(toast);
  setTimeout(() => toast.remove(), kind === "info" ? 5_000 : 12_000);
}
