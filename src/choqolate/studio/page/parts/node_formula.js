import { h, replace } from "../app/dom.js";
import { counted, decimal, percent } from "../app/format.js";
import { heaviestTerms } from "../engine/term_list.js";
import { conceptOf } from "./cloud_words.js";

const MOST = 8;

/** A node as a formula: its heaviest terms, and how many smaller ones there are. Names open their concepts. */
export function nodeFormula(app, node, where) {
  const element = h("p", { class: "formula", "aria-label": `Formula of ${where}` });
  const update = () => {
    const { terms, total } = heaviestTerms(app.network, app.states.now, node, MOST);
    const shown = terms.filter((term) => Math.abs(term.weight) >= 5e-4);
    const rest = 1 - shown.reduce((sum, term) => sum + term.weight, 0);
    replace(element,
      shown.map((term, index) => h("span", { class: "term" }, sign(term.weight, index), decimal(Math.abs(term.weight), 2), " ",
        expression(app, term, node, index), " ")),
      total > shown.length && h("span", { class: "note" },
        `+ ${counted(total - shown.length, "smaller term")}, ${percent(rest, 0)} of the weight`));
  };
  return { element, update };
}

function sign(weight, index) {
  if (weight < 0) return "− ";
  return index ? "+ " : "";
}

function expression(app, { first, second, kind }, node, index) {
  const name = (input, place) => h("button", { type: "button", class: "button link name", "data-key": `term-${node}-${index}-${place}`,
    onclick: () => app.go({ view: "concept", concept: app.network.concepts[conceptOf(app.network, input)] }) }, app.network.inputs[input]);
  if (kind === "single") return name(first, 0);
  return [`${kind}(`, name(first, 0), ", ", name(second, 1), ")"];
}
