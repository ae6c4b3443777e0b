import { h, replace } from "./dom.js";
import { changeText, count, counted, interval, percent, pText } from "./format.js";
import { ROLES } from "./selection.js";
import { measureAll, pairedChange, TOO_FEW } from "../engine/metrics.js";
import { changeMark } from "../parts/change_mark.js";

/** The numbers that stay in sight: accuracy and worst group, original, at the last commit, and now. */
export function summaryStrip(app) {
  const element = h("section", { class: "strip", "aria-label": "Summary" });
  const update = () => replace(element, content(app));
  return { element, update };
}

function content(app) {
  const rows = app.auditRows;
  const measured = {};
  for (const key of ["original", "committed", "now"]) {
    measured[key] = measureAll(app.network, app.rows, app.states[key], rows);
  }
  const flipped = rows.filter((row) => app.states.original.predicted[row] !== app.states.now.predicted[row]).length;
  return [
    h("p", { class: "strip-rows", title: `Edits are judged on the audit rows: ${app.document.rows.audit}` },
      "On ", h("strong", {}, loadedText(app)),
      h("span", { class: "strip-legend", "aria-hidden": "true" }, "original → committed → now")),
    measured.now.all.n > 0 && figure("Accuracy", measured, (one) => one.all, paired(app, rows)),
    measured.now.worstGroup && figure("Worst group", measured, (one) => one.worstGroup,
      paired(app, rows.filter((i) => app.rows.group[i] === measured.original.worstGroup.index)),
      measured.now.worstGroup.name, measured.original.worstGroup.name),
    h("div", { class: "strip-figure" }, h("p", { class: "strip-label" }, "Flipped"),
      h("a", { class: "strip-now", "data-key": "flipped", "aria-label": `${counted(flipped, "flipped image")}`,
        title: "Images whose prediction differs from the original model", href: "#view=images&flipped=original&role=audit", onclick: (event) => {
        event.preventDefault();
        app.go({ view: "images", flipped: "original", role: "audit" });
      } }, count(flipped))),
  ];
}

/** "600 audit rows", or "800 of 846 audit rows" if only some of them are loaded. */
function loadedText(app) {
  const audit = app.document.rows.strata.filter(({ role }) => role === ROLES.audit);
  const total = audit.reduce((sum, stratum) => sum + stratum.total, 0);
  const loaded = app.auditRows.length;
  return `${loaded < total ? `${count(loaded)} of ` : ""}${counted(Math.max(loaded, total), "audit row")}`;
}

function paired(app, rows) {
  return pairedChange(app.rows, app.states.original.predicted, app.states.now.predicted, rows);
}

/** Accuracies three ways; the change is that of the same rows: all, or the group that was worst originally. */
function figure(label, measured, value, change, detail, changed) {
  const parts = ["original", "committed", "now"].map((key) => value(measured[key]));
  const [original, committed, now] = parts.map((one) => one.accuracy);
  const { low, high, n } = parts[2];
  const told = `${changed ? `${changed}: ` : ""}${changeText(change)}, ${pText(change.p)}`;
  const step = (name, text, kind = "") => h("span", { class: `strip-step ${kind}` }, text, h("small", {}, name));
  const arrow = () => h("span", { class: "strip-arrow", "aria-hidden": "true" }, "→");
  return h("div", { class: "strip-figure" },
    h("p", { class: "strip-label" }, label, detail && h("span", { class: "strip-detail name" }, detail)),
    h("p", { class: "strip-steps" }, step("original", percent(original)), arrow(), step("committed", percent(committed)), arrow(),
      step("now", percent(now), "strip-now"),
      h("small", { class: "note strip-range", title: "95% interval of the accuracy now" },
        n < TOO_FEW ? "too few to tell" : interval(low, high)),
      change.gained + change.lost > 0 && n >= TOO_FEW && h("span", { title: told },
        changed && changed !== detail && h("small", { class: "note" }, `${changed} `), changeMark(change.change),
        h("small", { class: "note" }, ` ${pText(change.p)}`))));
}
