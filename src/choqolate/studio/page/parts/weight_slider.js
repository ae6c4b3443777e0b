import { h } from "../app/dom.js";
import { shortFactor } from "../app/format.js";

const PAUSE = 800;
let made = 0;

/**
 * A slider for a factor from 0 to 2, with a number beside it.
 *
 * onFactor(factor, {amend, live}) is called while it moves, at most once per frame; all of one move is one step of the
 * draft. Returns {element, set(factor, {label, disabled})}.
 */
export function weightSlider(app, onFactor) {
  const id = `weight-${(made += 1)}`;
  const text = h("span", { class: "field-label" });
  const slider = h("input", { type: "range", id, min: "0", max: "2", step: "0.05", list: `${id}-marks` });
  const number = h("input", { type: "number", id: `${id}-number`, min: "0", max: "100", step: "0.05" });
  const marks = h("datalist", { id: `${id}-marks` }, ["0", "1", "2"].map((value) => h("option", { value })));
  const element = h("div", { class: "weight-slider" }, h("label", { for: id }, text), slider, marks,
    h("span", { class: "times" }, "×"), number);
  const move = oneMove(app, onFactor);
  slider.addEventListener("pointerdown", () => move.hold(true));
  slider.addEventListener("pointerup", () => move.hold(false));
  slider.addEventListener("pointercancel", () => move.hold(false));
  slider.addEventListener("input", () => {
    number.value = slider.value;
    move.to(Number(slider.value));
  });
  slider.addEventListener("change", () => move.settle());
  number.addEventListener("change", () => {
    const factor = Number(number.value);
    if (number.value !== "" && Number.isFinite(factor) && factor >= 0) onFactor(factor, { amend: false, live: false });
    else app.onChange();
  });
  const set = (factor, { label, disabled = false }) => {
    text.textContent = label;
    number.setAttribute("aria-label", label);
    slider.setAttribute("aria-valuetext", `× ${shortFactor(factor)}`);
    slider.disabled = number.disabled = disabled;
    if (move.pending) return;
    slider.value = String(Math.min(2, factor));
    if (document.activeElement !== number) number.value = shortFactor(factor);
  };
  return { element, set };
}

/** One move of a slider: from the first change until it is released or, by keyboard, rests. */
function oneMove(app, onFactor) {
  let draft = null;
  let held = false;
  let wanted = null;
  let rest = 0;
  const apply = () => {
    if (wanted === null) return;
    const factor = wanted;
    wanted = null;
    const amend = draft !== null && app.draft === draft;
    draft = onFactor(factor, { amend, live: true }) ? app.draft : null;
  };
  return {
    get pending() {
      return wanted !== null;
    },
    to(factor) {
      if (wanted === null) requestAnimationFrame(apply);
      wanted = factor;
    },
    hold(on) {
      held = on;
      if (on) draft = null;
    },
    settle() {
      apply();
      app.changed();
      clearTimeout(rest);
      rest = setTimeout(() => {
        if (!held) draft = null;
      }, PAUSE);
    },
  };
}
