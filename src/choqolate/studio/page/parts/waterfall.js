import { h } from "../app/dom.js";
import { decimal } from "../app/format.js";
import { leading } from "../engine/attribution.js";
import { digitsFor, signed, trackScale } from "./number_scale.js";

/**
 * From a baseline to a number, one bar for each contribution.
 *
 * name(text) gives what stands beside a bar; startName and endName are the baseline and the end in words. A lead has a
 * sign and a tie at zero; another value has neither.
 */
export function waterfall(attribution, options) {
  const { most = 8, name, startName, endName = "this image", label, levelName = "score", isLead = true } = options;
  const { start, end } = attribution;
  const steps = waterfallSteps(attribution, most);
  const scale = trackScale([...(isLead ? [0] : []), start, end, ...steps.flatMap(({ from, to }) => [from, to])]);
  const digits = digitsFor([...(isLead ? [start, end] : []), ...steps.map(({ value }) => value)]);
  const total = (text, value) => h("li", { class: "waterfall-total" }, h("span", { class: "who" }, text),
    isLead ? track(scale, 0, value, "total") : track(scale, value, value, "at"),
    h("span", { class: "value" }, isLead ? signed(value, digits) : decimal(value, digits)));
  const line = (step) => h("li", {},
    h("span", { class: "who" }, step.isRest ? h("span", { class: "note" }, step.name) : name(step.name),
      Number.isFinite(step.level) && levelMark(step.level, levelName)),
    track(scale, step.from, step.to, step.value < 0 ? "against" : "for"),
    h("span", { class: "value" }, signed(step.value, digits)));
  return h("ol", { class: `waterfall ${isLead ? "of-lead" : ""}`, "aria-label": label },
    total(startName, start), steps.map(line), total(endName, end));
}

/** The leading contributions and what the others sum to, each with where it starts and ends. */
function waterfallSteps(attribution, most) {
  const { shares, others } = leading(attribution, most);
  const rest = { name: `${others.count} others`, value: others.value, isRest: true };
  let at = attribution.start;
  return [...shares, ...(others.count ? [rest] : [])].map((share) => {
    const from = at;
    at += share.value;
    return { ...share, from, to: at };
  });
}

function levelMark(level, levelName) {
  const text = decimal(level, 2);
  return h("span", { class: "level", title: `${levelName} ${text}` }, text);
}

function track(scale, from, to, kind) {
  const [left, right] = [scale.place(Math.min(from, to)), scale.place(Math.max(from, to))];
  const style = kind === "at" ? { left: `${left}%` } : { left: `${left}%`, width: `${Math.max(right - left, 0.4)}%` };
  return h("span", { class: "signed-track", "aria-hidden": "true", style: { "--zero": `${scale.zero}%` } },
    h("span", { class: `signed-bar ${kind}`, style }));
}
