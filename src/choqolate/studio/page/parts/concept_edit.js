import { button, h, replace } from "../app/dom.js";
import { draftFactor } from "../app/draft.js";
import { weightSlider } from "./weight_slider.js";

const MODES = [
  ["rescale", "Rescale", "Its terms are dropped and the rest is scaled up."],
  ["canonical", "Canonical", "As rescale, but the concepts that it was paired with first get their own part of the pair back."],
  ["impute", "Impute", "It stays, with its mean score for every image."],
];

/** The edits of one concept: remove everywhere or in chosen nodes, restore, and its weight. */
export function conceptEdit(app, view) {
  const name = () => app.route.concept;
  const nodes = () => (view.nodes.size ? [...view.nodes].sort((a, b) => a - b) : null);
  const slider = weightSlider(app, (factor, how) => app.reweight({ [name()]: factor }, { nodes: nodes(), ...how }));
  const everywhere = button("Remove everywhere", () => app.remove([name()], { mode: view.mode }), { class: "button primary" });
  const here = button("", () => app.remove([name()], { nodes: nodes(), mode: view.mode }));
  const back = button("Restore", () => app.restore([name()]));
  const told = h("p", { class: "note" });
  const modes = h("div", { class: "removal-modes", role: "radiogroup", "aria-label": "How it is removed" }, MODES.map(([key, label, text]) =>
    h("label", { title: text }, h("input", { type: "radio", name: "removal-mode", value: key, checked: view.mode === key, onchange: () => {
      view.mode = key;
      app.onChange();
    } }), label)));
  const explained = h("p", { class: "note" });
  const element = h("div", { class: "concept-edit stack" },
    h("div", { class: "row" }, everywhere, here, back), h("div", {}, modes, explained), slider.element, told);
  const update = (mark) => {
    const chosen = nodes();
    const kind = app.network.oneLayer ? ["class", "classes"] : ["node", "nodes"];
    const where = chosen && `${kind[chosen.length === 1 ? 0 : 1]} ${chosen.map((node) => (app.network.oneLayer ? app.network.classes[node] : node)).join(", ")}`;
    everywhere.disabled = mark.removed;
    here.textContent = chosen ? `Remove in ${where}` : `Remove in chosen ${kind[1]}`;
    here.disabled = !chosen || mark.removed;
    here.title = chosen ? "" : `Choose ${kind[1]} below`;
    back.disabled = !app.states.now.affected.includes(name()) && !isDraft(app, name());
    explained.textContent = MODES.find(([key]) => key === view.mode)[2];
    for (const input of modes.querySelectorAll("input")) input.checked = input.value === view.mode;
    const gone = app.states.committed.inForce.some((edit) => edit.edit === "remove" && !edit.nodes && edit.concepts.includes(name()));
    slider.set(gone ? 0 : draftFactor(app.draft, name(), chosen), { label: chosen ? `Weight in ${where}` : "Weight", disabled: gone || mark.locked });
    replace(told, weightNote(app, name(), gone, mark));
  };
  return { element, update };
}

function isDraft(app, name) {
  return app.draft.some((edit) => edit.concepts?.includes(name) || (edit.factors && Object.hasOwn(edit.factors, name)));
}

function weightNote(app, name, gone, mark) {
  if (mark.locked) return "It was edited before the last simplification of this model, which cannot be taken back here.";
  if (gone) return "It is removed in the history. Restore it to give it another weight.";
  const before = app.states.committed.inForce.find((edit) => edit.edit === "reweight" && Object.hasOwn(edit.factors, name));
  return before ? "The weight comes on top of the one in the history." : "1 leaves it as it is, 0 takes it out, 2 doubles it against the others.";
}
