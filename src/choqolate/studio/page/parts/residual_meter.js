import { button, h, replace, runInSlices } from "../app/dom.js";
import { count, listed, percent } from "../app/format.js";
import { removedConcepts } from "./concept_marks.js";
import { scoreMoments, siblingsInUse, usedConcepts } from "./score_moments.js";

const PAUSE = 120;
const MOST = 4;
const OFFERED = 3;
const CLOSE = 0.5;
const WORTH = 0.1;

/** How well the concepts in use still tell each removed one, with the closest of them offered for removal. */
export function residualMeters(app, view) {
  const list = h("ul", { class: "residuals" });
  const more = h("div");
  const element = h("section", { class: "panel", "aria-label": "What is left of removed concepts", hidden: true },
    h("h2", {}, "What is left of removed concepts"),
    h("p", { class: "note" }, "How well the remaining concepts predict the score of a removed one: cross-validated R² of a ridge ",
      "regression. If it is high, the model can still rely on the concept through others."),
    list, more);
  const known = new Map();
  let key = null;
  let timer = 0;
  let all = false;

  const show = () => {
    const removed = inOrder(app, known);
    const shown = all ? removed : removed.slice(0, MOST);
    replace(list, shown.map((concept) => meter(app, view, concept, known.get(concept))));
    replace(more, removed.length > MOST && button(all ? "Show fewer" : `Show all ${count(removed.length)}`, () => {
      all = !all;
      show();
    }, { class: "button small", "data-key": "more-residuals", "aria-expanded": all }));
  };
  const isStale = (started) => {
    if (keyOf(app) !== started && key === started) key = null; // the model changed while another view was shown
    return key !== started;
  };
  const compute = (started) => {
    if (isStale(started)) return;
    runInSlices("residual", scoreMoments(app).residualSteps(removedConcepts(app), usedConcepts(app)), {
      onDone: (found) => {
        if (isStale(started)) return;
        for (const { index, r2 } of found) known.set(index, { r2, siblings: siblingsInUse(app, index, OFFERED, CLOSE) });
        show();
      },
    });
  };
  const update = () => {
    const now = keyOf(app);
    element.hidden = removedConcepts(app).length === 0;
    if (now !== key) {
      key = now;
      known.clear();
      clearTimeout(timer);
      if (!element.hidden) timer = setTimeout(() => compute(now), PAUSE);
    }
    show();
  };
  return { element, update };
}

function keyOf(app) {
  return `${app.rows.n}/${removedConcepts(app)}`;
}

/** Removed concepts: the open one first, then those that the others still tell best. */
function inOrder(app, known) {
  const open = app.network.placeOf(app.route.concept);
  const rank = (concept) => (concept === open ? 2 : known.get(concept)?.r2 ?? -1);
  return removedConcepts(app).sort((a, b) => rank(b) - rank(a));
}

function meter(app, view, concept, found) {
  const name = app.network.concepts[concept];
  const told = found ? residualText(found.r2) : "Computing…";
  const level = Math.min(1, Math.max(0, found?.r2 || 0));
  const siblings = level >= WORTH ? found.siblings.map((one) => one.name) : [];
  const open = button(name, () => app.go({ concept: name }),
    { class: "button link name", "data-key": `residual-${concept}` });
  return h("li", { class: name === app.route.concept ? "current" : null }, open,
    h("span", { class: "residual-meter", role: "meter", "aria-label": `Left of ${name}`,
      "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(100 * level), "aria-valuetext": told },
    h("span", { class: level >= 0.5 ? "much" : null, style: { width: percent(level) } })),
    h("span", { class: "told" }, told),
    siblings.length > 0 && button(`Remove ${listed(siblings)} too`,
      () => {
        open.focus(); // the button goes away with what it offers
        app.remove(siblings, { mode: view.mode });
      }, { class: "button small", "data-key": `residual-remove-${concept}` }));
}

function residualText(r2) {
  if (!Number.isFinite(r2)) return "Its score does not vary on these rows";
  if (r2 < 0.05) return "Hardly predicted by the remaining concepts";
  return `${percent(r2, r2 >= 0.995 ? 1 : 0)} predictable from the remaining concepts`;
}
