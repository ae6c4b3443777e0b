import { h } from "../app/dom.js";
import { decimal } from "../app/format.js";
import { leading } from "../engine/attribution.js";
import { digitsFor, signed, trackScale } from "./number_scale.js";

/**
 * From a baseline to a number, one bar for each contribution.
 *
 * name(index, text) gives what stands beside a bar; startName and endName are the baseline and the end in words. A lead
 * has a sign and a tie at zero; another value has neither.
 */
export function waterfall(attribution, { most = 8, name, startName, endName, label, levelName = "score", isLead = true }) {
  const steps = waterfallSteps(attribution, most);
  const { start, end } = attribution;
  const scale = trackScale([...(isLead ? [0] : []), start, end, ...steps.flatMap(({ from, to }) => [from, to])]);
  const digits = digitsFor([...(isLead ? [start, end] : []), ...steps.map(({ value }) => value)]);
  const total = (text, value) => h("li", { class: "waterfall-total" }, h("span", { class: "who" }, text),
    isLead ? track(scale, 0, value, "total") : track(scale, value, value, "at"),
    h("span", { class: "value" }, isLead ? signed(value, digits) : decimal(value, digits)));
  return h("ol", { class: `waterfall ${isLead ? "of-lead" : ""}`, "aria-label": label },
    total(startName, start),
    steps.map((step) => h("li", {},
      h("span", { class: "who" }, step.index === null ? h("span", { class: "note" }, step.name) : name(step.index, step.name),
        step.level !== null && h("span", { class: "level", title: `${levelName} ${decimal(step.level, 2)}` }, decimal(step.level, 2))),
      track(scale, step.from, step.to, step.value < 0 ? "against" : "for"),
      h("span", { class: "value" }, signed(step.value, digits)))),
    total(endName, end));
}

function waterfallSteps(attribution, most) {
  const { shares, others } = leading(attribution, most);
  let at = attribution.start;
  const step = (index, name, value, level) => {
    const from = at;
    at += value;
    return { index, name, value, level, from, to: at };
  };
  const steps = shares.map(({ index, name, value, level }) => step(index, name, value, Number.isFinite(level) ? level : null));
  if (others.count) steps.push(step(null, `${others.count} others`, others.value, null));
  return steps;
}

function track(scale, from, to, kind) {
  const [left, right] = [scale.place(Math.min(from, to)), scale.place(Math.max(from, to))];
  return h("span", { class: "signed-track", "aria-hidden": "true", style: { "--zero": `${scale.zero}%` } },
    h("span", { class: `signed-bar ${kind}`, style: kind === "at" ? { left: `${left}%` } : { left: `${left}%`, width: `${Math.max(right - left, 0.4)}%` } }));
}
