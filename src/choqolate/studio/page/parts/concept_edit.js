import { button, h, replace } from "../app/dom.js";
import { draftFactor, restores } from "../app/draft.js";
import { weightSlider } from "./weight_slider.js";

const MODES = [
  ["rescale", "Rescale", "Drop its terms and scale up the rest."],
  ["canonical", "Canonical", "Like rescale, but where a pair has both min and max weight, the equal part first goes to its two concepts."],
  ["impute", "Impute", "Replace its score with the training mean for every image."],
];

/** The edits of one concept: remove everywhere or in chosen nodes, restore, and its weight. */
export function conceptEdit(app, view) {
  const name = () => app.route.concept;
  const nodes = () => (view.nodes.size ? [...view.nodes].sort((a, b) => a - b) : null);
  const thenFocus = (taken, next) => taken && requestAnimationFrame(() => next.focus({ preventScroll: true }));
  const slider = weightSlider(app, (factor, how) => app.reweight({ [name()]: factor }, { nodes: nodes(), ...how }));
  const everywhere = button("Remove everywhere", () => thenFocus(app.remove([name()], { mode: view.mode }), back),
    { class: "button primary" });
  const here = button("", () => {
    const chosen = nodes();
    view.nodes.clear();
    thenFocus(app.remove([name()], { nodes: chosen, mode: view.mode }), back);
  });
  const back = button("Restore", () => thenFocus(app.restore([name()]), everywhere));
  const told = h("p", { class: "note" });
  const modes = modeChoice(app, view);
  const element = h("div", { class: "concept-edit stack" },
    h("div", { class: "row" }, everywhere, here, back), modes.element, slider.element, told);
  const update = (mark) => {
    const chosen = nodes();
    const { words, where } = placeWords(app.network, chosen);
    everywhere.disabled = mark.removed;
    here.textContent = chosen ? `Remove in ${where}` : `Remove in selected ${words}`;
    here.disabled = !chosen || mark.removed;
    here.title = chosen ? "" : `Select ${words} below`;
    back.disabled = !app.states.now.affected.includes(name());
    modes.update();
    const gone = removedBefore(app, name());
    slider.set(gone ? 0 : draftFactor(app.draft, name(), chosen),
      { label: chosen ? `Weight in ${where}` : "Weight", disabled: gone || mark.locked });
    replace(told, weightNote(app, name(), gone, mark));
  };
  return { element, update };
}

/** How a concept is removed; other parts take the mode from the view. */
function modeChoice(app, view) {
  const choose = (key) => {
    view.mode = key;
    app.onChange();
  };
  const inputs = MODES.map(([value]) =>
    h("input", { type: "radio", name: "removal-mode", value, onchange: () => choose(value) }));
  const labels = MODES.map(([, label, text], place) => h("label", { title: text }, inputs[place], label));
  const explained = h("p", { class: "note" });
  const element = h("div", {},
    h("div", { class: "removal-modes", role: "radiogroup", "aria-label": "How it is removed" }, labels), explained);
  const update = () => {
    for (const input of inputs) input.checked = input.value === view.mode;
    explained.textContent = MODES.find(([key]) => key === view.mode)[2];
  };
  return { element, update };
}

/** {words: "nodes", where: "nodes 0, 3"}; without nodes, classes and their names. */
function placeWords(network, chosen) {
  const [word, words] = network.oneLayer ? ["class", "classes"] : ["node", "nodes"];
  const names = (chosen ?? []).map((node) => (network.oneLayer ? network.classes[node] : node));
  return { words, where: `${names.length === 1 ? word : words} ${names.join(", ")}` };
}

/** Whether the history removes a concept from all nodes, and the draft does not bring it back. */
function removedBefore(app, name) {
  const removes = (edit) => edit.edit === "remove" && !edit.nodes && edit.concepts.includes(name);
  return app.states.committed.inForce.some(removes) && !app.draft.some((edit) => restores(edit, name));
}

function weightNote(app, name, gone, mark) {
  if (mark.locked) return "It was edited before the model was simplified, which cannot be undone here.";
  if (gone) return "A commit removed it. Restore it to set a weight.";
  const reweights = (edit) => edit.edit === "reweight" && Object.hasOwn(edit.factors, name);
  return app.states.committed.inForce.some(reweights) ? "This multiplies the weight set by earlier commits."
    : "1 keeps its weight, 0 removes it, 2 doubles it relative to the others.";
}
