import { button, h, replace } from "../app/dom.js";
import { counted } from "../app/format.js";
import { draftFactor } from "../app/draft.js";
import { weightSlider } from "./weight_slider.js";

/** What can be done to several concepts at once: remove, restore, reweight. */
export function chosenConcepts(app, view) {
  const names = () => [...view.chosen].sort((a, b) => a - b).map((concept) => app.network.concepts[concept]);
  const clear = () => {
    view.chosen.clear();
    app.onChange();
  };
  const slider = weightSlider(app, (factor, how) =>
    app.reweight(Object.fromEntries(names().map((name) => [name, factor])), how));
  const told = h("strong");
  const element = h("div", { class: "chosen-concepts", role: "group", "aria-label": "Selected concepts", hidden: true },
    h("div", { class: "row" }, told,
      button("Remove", () => app.remove(names(), { mode: view.mode }) && clear(), { class: "button small" }),
      button("Restore", () => app.restore(names()) && clear(), { class: "button small" }),
      button("Clear", clear, { class: "button small", "aria-label": "Clear the selection" })),
    slider.element);
  const update = () => {
    element.hidden = view.chosen.size === 0;
    if (element.hidden) return;
    replace(told, `${counted(view.chosen.size, "concept")} selected`);
    const factors = new Set(names().map((name) => draftFactor(app.draft, name, null)));
    slider.set(factors.size === 1 ? [...factors][0] : 1, { label: "Weight of all" });
  };
  return { element, update };
}
