import { h, replace, runInSlices } from "../app/dom.js";
import { counted, decimal, percent } from "../app/format.js";
import { heaviestTerms } from "../engine/term_list.js";
import { conceptOf } from "./cloud_words.js";

const MOST = 8;
const LEAST = 5e-3;

/** A node as a formula: its heaviest terms, and how many smaller ones there are. Names open their concepts. */
export function nodeFormula(app, node, where) {
  const element = h("p", { class: "formula", "aria-label": `Formula of ${where}` });
  let shown = null;
  const update = () => {
    const { weights } = app.states.now;
    if (weights === shown) return;
    runInSlices(`formula-${node}`, termsOf(app, node), { onDone: (found) => {
      shown = weights;
      showFormula(element, app, node, found);
    } });
  };
  return { element, update };
}

/** One step only: a node with many pairs takes a while, and the page goes on between two nodes. */
function* termsOf(app, node) {
  yield 0;
  return heaviestTerms(app.network, app.states.now, node, MOST);
}

function showFormula(element, app, node, { terms, total }) {
  const listed = terms.filter((term) => Math.abs(term.weight) >= LEAST);
  const rest = 1 - listed.reduce((sum, term) => sum + term.weight, 0);
  replace(element,
    listed.map((term, index) => h("span", { class: "term" }, sign(term.weight, index), decimal(Math.abs(term.weight), 2), " ",
      expression(app, term, node, index), " ")),
    rest >= LEAST && h("span", { class: "note" },
      `+ ${counted(total - listed.length, "smaller term")}, ${percent(rest, 0)} of the weight`));
}

function sign(weight, index) {
  if (weight < 0) return "− ";
  return index ? "+ " : "";
}

function expression(app, { first, second, kind }, node, index) {
  const name = (input, place) => h("button", { type: "button", class: "button link name", "data-key": `term-${node}-${index}-${place}`,
    onclick: () => app.go({ view: "concept", concept: app.network.concepts[conceptOf(app.network, input)] }) }, app.network.inputs[input]);
  const value = (input, place) => (app.states.now.frozen[node * app.network.I + input] ? ["mean(", name(input, place), ")"] : name(input, place));
  if (kind === "single") return value(first, 0);
  return [`${kind}(`, value(first, 0), ", ", value(second, 1), ")"];
}
