import { button, h } from "./dom.js";

const KEYS = [
  ["1 to 6", "go to a view"],
  ["/", "search concepts"],
  ["U, Ctrl+Z", "undo"],
  ["R, Ctrl+Shift+Z", "redo"],
  ["C", "commit the draft: type a reason, then press Enter"],
  ["Tab", "move to the next control; press it with Enter or Space"],
  ["Arrow keys", "move in the image grid, the concept list and sliders"],
  ["Enter", "open the image that has the focus"],
  ["Space", "pick the image that has the focus"],
  ["Escape", "close a dialog or the image"],
  ["?", "show this list"],
];

/** Watch the keyboard: shortcuts work wherever nothing is typed. */
export function watchKeys(app, views, bar) {
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input:not([type=range]):not([type=checkbox]), textarea, select, dialog");
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z" && !typing) {
      event.preventDefault();
      if (event.shiftKey) app.redo();
      else app.undo();
      return;
    }
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const action = actionOf(event.key, app, views, bar);
    if (!action) return;
    event.preventDefault();
    action();
  });
}

function actionOf(key, app, views, bar) {
  const place = Number(key) - 1;
  if (views[place]) return () => app.go({ view: views[place] });
  if (key === "u") return () => app.undo();
  if (key === "r") return () => app.redo();
  if (key === "c") return () => bar.focus();
  if (key === "?") return showShortcuts;
  if (key === "/") {
    return () => {
      app.go({ view: "concept" });
      requestAnimationFrame(() => requestAnimationFrame(() => {
        const search = document.getElementById("concept-search");
        search?.focus();
        search?.select();
      }));
    };
  }
  return null;
}

/** Show the list of keys. */
export function showShortcuts() {
  showDialog("Keyboard shortcuts", h("dl", { class: "keys" },
    KEYS.map(([key, what]) => [h("dt", {}, key), h("dd", {}, what)])));
}

/** Show a dialog that Escape closes; returns the element. */
export function showDialog(title, ...content) {
  const dialog = h("dialog", { "aria-label": title },
    h("div", { class: "dialog-head" }, h("h2", {}, title), button("Close", () => dialog.close(), { class: "button" })),
    ...content);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}
