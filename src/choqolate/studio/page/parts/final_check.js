import { button, h } from "../app/dom.js";
import { moment, sentenceStart } from "../app/format.js";
import { showDialog } from "../app/shortcuts.js";

/** What stands in place of the numbers until the final check. */
export function coveredCard(app) {
  return h("div", { class: "covered-card" },
    h("h3", {}, "Covered until the final check"),
    h("p", {}, `${sentenceStart(app.document.rows.covered)} are held out, so that no edit is tuned to them. `,
      "Look at their numbers once, after your last edit."),
    button("Final check…", () => askForFinalCheck(app), { class: "button primary", "data-key": "final-check" }));
}

/** Ask whether the covered rows should be shown. */
function askForFinalCheck(app) {
  const dialog = showDialog("Final check",
    h("div", { class: "stack" },
      h("p", {}, `This shows the numbers for ${app.document.rows.covered} and records the time in the history.`),
      h("p", {}, "Do this once, after your last edit. If you keep editing with these numbers in view, they no longer ",
        "show how well the model does on new images."),
      app.draft.length > 0 && h("p", { class: "message warn" },
        "The draft is not committed. Commit or discard it first."),
      h("div", { class: "row" },
        button("Show the numbers", () => {
          dialog.close();
          app.finalCheck();
        }, { class: "button primary" }),
        button("Not yet", () => dialog.close()))));
}

/** When the final check was, with a warning if edits came after it. */
export function checkedNote(app) {
  const { finalChecks } = app.history;
  const stale = finalChecks.find((check) => app.history.differsFrom(check)) ?? (app.draft.length ? finalChecks.at(-1) : null);
  if (stale) {
    return h("p", { class: "message warn" }, `The edits have changed since the final check (${moment(stale.time)}), and these rows may have `,
      "influenced them. Mention this wherever you report the numbers.");
  }
  return h("p", { class: "note" }, `Final check: ${moment(finalChecks.at(-1).time)}.`);
}
