import { button, h, replace } from "../app/dom.js";
import { counted, decimal, listed, percent } from "../app/format.js";
import { closeFrom, scoreMoments, siblingsOf } from "./score_moments.js";

const MOST = 8;
const CLOSE = 0.6;

/** Concepts whose scores rise and fall with those of the open one; the close ones can be removed with it. */
export function siblingList(app, view) {
  const element = h("div", { class: "siblings" });
  let choice = { concept: -1, chosen: new Set() };
  const update = (concept, marks) => {
    const siblings = siblingsOf(app, concept, MOST);
    if (choice.concept !== concept) {
      const from = closeFrom(app, CLOSE);
      const close = siblings.filter((one) => one.correlation >= from && !marks[one.index].removed);
      choice = { concept, chosen: new Set(close.map((one) => one.index)) };
    }
    const toRemove = siblings.filter((one) => choice.chosen.has(one.index) && !marks[one.index].removed);
    const names = toRemove.map((one) => one.name);
    const own = app.network.concepts[concept];
    const all = marks[concept].removed ? names : [own, ...names];
    const choose = (index, on) => {
      if (on) choice.chosen.add(index);
      else choice.chosen.delete(index);
      update(concept, marks);
    };
    replace(element,
      h("p", { class: "note" }, `Correlation of scores on ${counted(scoreMoments(app).n, "loaded row")}.`),
      siblings.length
        ? h("ul", { class: "sibling-list" }, siblings.map((one) =>
          siblingItem(app, one, marks[one.index], choice.chosen.has(one.index), choose)))
        : h("p", { class: "note" }, "No other concept varies on these rows."),
      names.length > 0 && button(marks[concept].removed ? `Remove ${listed(names, 3)} too` : `Remove ${listed(all, 3)}`,
        () => {
          element.querySelector("button").focus(); // this one goes away with what it offers
          app.remove(all, { mode: view.mode });
        }, { "data-key": "remove-siblings" }));
  };
  return { element, update };
}

function siblingItem(app, { index, name, correlation }, mark, chosen, choose) {
  return h("li", { class: mark.removed ? "gone" : null },
    h("input", { type: "checkbox", "data-key": `sibling-${index}`, "aria-label": `Select ${name}`,
      checked: chosen && !mark.removed, disabled: mark.removed,
      onchange: (event) => choose(index, event.target.checked) }),
    button(name, () => app.go({ concept: name }), { class: "button link name", "data-key": `open-${index}` }),
    h("span", { class: "level-track", "aria-hidden": "true" },
      h("span", { class: `level ${correlation < 0 ? "negative" : ""}`, style: { width: percent(Math.abs(correlation)) } })),
    h("span", { class: "amount" }, decimal(correlation, 2)));
}
