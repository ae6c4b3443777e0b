import { button, h, replace } from "../app/dom.js";
import { counted } from "../app/format.js";
import { changeSection } from "../parts/image_change.js";
import { imageFacts, probabilityBars } from "../parts/image_facts.js";
import { flipSearch } from "../parts/image_flip.js";
import { nodeSection, whySection } from "../parts/image_reasons.js";
import { isExplained, openSubject } from "../parts/image_subject.js";

/** The panel of one image: {element, update()}; rowsInOrder() gives the rows among which one goes on. */
export function oneImagePanel(app, rowsInOrder) {
  const title = h("h2", { id: "image-title", tabindex: "-1", class: "name" });
  const place = h("span", { class: "note" });
  const [previous, next] = [["←", "Previous image", -1], ["→", "Next image", 1]].map(([sign, text, step]) =>
    button(sign, () => go(step), { class: "button small", "aria-label": text, title: text }));
  const close = button("Close", () => app.go({ image: null, why: null, against: null }), { class: "button small", title: "Close (Escape)" });
  const facts = h("div", { class: "stack image-body" });
  const reasons = h("div", { class: "stack image-body" });
  const element = h("aside", { class: "panel one-image", "aria-labelledby": "image-title" },
    h("div", { class: "image-head" }, title, h("div", { class: "row" }, place, previous, next, close)), facts, reasons);
  const open = new Set();
  let drawn = "";
  let waiting = 0;

  const position = () => {
    const rows = rowsInOrder();
    return { rows, at: rows.findIndex((row) => String(app.rows.number[row]) === app.route.image) };
  };
  const go = (step) => {
    const { rows, at } = position();
    const row = rows[at + step];
    if (row !== undefined) app.go({ image: String(app.rows.number[row]), why: null, against: null }, { step: false });
  };
  const drawReasons = () => {
    const subject = openSubject(app);
    if (!subject || subject.missing) return;
    replace(reasons, whySection(app, subject), changeSection(app, subject), search.section(subject), nodeSection(app, subject, open, drawReasons));
    reasons.setAttribute("aria-busy", "false");
  };
  const search = flipSearch(app, drawReasons);
  const draw = () => {
    const subject = openSubject(app);
    clearTimeout(waiting);
    title.textContent = subject.name ?? "Image";
    if (subject.missing) {
      search.stop();
      replace(facts, h("p", { class: "message" }, subject.missing));
      replace(reasons);
      return;
    }
    replace(facts, imageFacts(app, subject), probabilityBars(app, subject));
    if (isExplained(app, subject)) return drawReasons();
    reasons.setAttribute("aria-busy", "true"); // many nodes take a while: the rest of the page goes first
    waiting = setTimeout(drawReasons, 0);
  };

  const update = () => {
    element.hidden = !app.route.image;
    if (element.hidden) {
      clearTimeout(waiting);
      search.stop();
      return;
    }
    const { rows, at } = position();
    place.textContent = at < 0 ? "" : `${at + 1} of ${counted(rows.length, "image")}`;
    previous.disabled = at <= 0;
    next.disabled = at < 0 || at === rows.length - 1;
    if (drawn !== app.route.image) element.scrollTop = 0;
    drawn = app.route.image;
    draw();
  };
  return { element, update, focus: () => title.focus({ preventScroll: true }) };
}
