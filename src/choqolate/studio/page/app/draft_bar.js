import { button, h, replace, say } from "./dom.js";
import { changeText, counted, editText } from "./format.js";
import { flips, measureAll, pairedChange } from "../engine/metrics.js";

/** The bar at the bottom: the draft, what it changes, and the reason with which it is committed. */
export function draftBar(app) {
  const chips = h("ul", { class: "chips", "aria-label": "Draft edits" });
  const effect = h("p", { class: "effect", "aria-live": "polite" });
  const reason = h("input", { id: "reason", type: "text", placeholder: "Reason for this change", maxlength: "500" });
  const author = h("input", { id: "author", type: "text", placeholder: "Your name", maxlength: "100", value: app.keeper.author });
  const form = h("form", { onsubmit: (event) => {
    event.preventDefault();
    app.commit({ author: author.value.trim(), reason: reason.value.trim() });
    reason.value = "";
    document.getElementById("main").focus({ preventScroll: true });
  } },
  h("label", { class: "grow" }, h("span", { class: "visually-hidden" }, "Reason"), reason),
  h("label", {}, h("span", { class: "visually-hidden" }, "Author"), author),
  h("button", { type: "submit", class: "button primary", title: "Commit (C, then Enter)" }, "Commit"),
  button("Discard", () => app.discardDraft(), { title: "Discard the draft" }));
  const element = h("section", { class: "draft", "aria-label": "Draft", hidden: true },
    h("div", { class: "draft-edits" }, h("h2", {}, "Draft"), chips, effect), form);
  const update = () => {
    element.hidden = !app.draft.length;
    if (!app.draft.length) return;
    replace(chips, app.draft.map((edit, index) => h("li", { class: "chip" }, h("span", { class: "name" }, editText(edit)),
      h("button", { type: "button", class: "close", "data-key": `drop-${index}`, "aria-label": `Drop from the draft: ${editText(edit)}`, title: "Drop from the draft",
        onclick: () => app.dropFromDraft(index) }, "×"))));
    say(effect, effectText(app));
  };
  return { element, update, focus: () => !element.hidden && reason.focus() };
}

function effectText(app) {
  const rows = app.auditRows;
  const { committed, now } = app.states;
  const before = measureAll(app.network, app.rows, committed, rows);
  const change = (some) => changeText(pairedChange(app.rows, committed.predicted, now.predicted, some));
  const changed = flips(app.states.committed.predicted, app.states.now.predicted, rows).length;
  const parts = before.all.n ? [`accuracy ${change(rows)}`] : [];
  if (before.worstGroup) {
    const { index, name } = before.worstGroup;
    parts.push(`worst group before (${name}) ${change(rows.filter((i) => app.rows.group[i] === index))}`);
  }
  parts.push(`${counted(changed, "image")} flipped`);
  return `Since the last commit: ${parts.join(", ")}`;
}
