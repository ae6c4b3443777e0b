import { routeAddress } from "../app/address.js";
import { button, h } from "../app/dom.js";

const STEPS = [
  ["Find", [["suspects", "Suspects"], " lists concepts that the model may rely on by mistake."]],
  ["Edit", ["Remove or reweight them in ", ["concept", "Concepts"], ". All numbers update at once."]],
  ["Commit", ["Save the draft with a reason. ", ["history", "History"], " can undo and compare commits."]],
  ["Check once", ["After the last edit, run the final check on rows that were covered until then."]],
  ["Export", ["Review the commits, then take the edits with you from ", ["export", "Export"], "."]],
];

/** How an audit goes, for those who are new to it; it goes away with the first commit. */
export function firstSteps(app) {
  let isHidden = false;
  const hide = button("Hide", () => {
    isHidden = true;
    app.onChange();
  }, { class: "button small" });
  const element = h("section", { class: "panel first-steps", "aria-label": "How an audit works" },
    h("div", { class: "panel-head" }, h("h2", {}, "How an audit works"), hide),
    h("ol", {}, STEPS.map(([title, text]) => h("li", {}, h("strong", {}, title),
      h("p", { class: "note" }, text.map((part) => (typeof part === "string" ? part : viewLink(app, ...part))))))));
  const update = () => {
    element.hidden = isHidden || app.history.commits.length > 0;
  };
  return { element, update };
}

function viewLink(app, view, name) {
  return h("a", { href: routeAddress({ view }), onclick: (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    app.go({ view });
  } }, name);
}
