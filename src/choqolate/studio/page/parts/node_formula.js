import { button, h, replace, runInSlices } from "../app/dom.js";
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
    listed.map((term, index) => h("span", { class: "term" },
      `${sign(term.weight, index)}${decimal(Math.abs(term.weight), 2)} `, expression(app, term, node, index))),
    rest >= LEAST && h("span", { class: "note" },
      `+ ${counted(total - listed.length, "smaller term")}, ${percent(rest, 0)} of the weight`));
}

function sign(weight, index) {
  if (weight < 0) return "− ";
  return index ? "+ " : "";
}

/** An input, or the minimum or maximum of two; an input that is frozen is its mean. */
function expression(app, { first, second, kind }, node, index) {
  const { network, states } = app;
  const value = (input, place) => {
    const open = () => app.go({ view: "concept", concept: network.concepts[conceptOf(network, input)] });
    const name = button(network.inputs[input], open,
      { class: "button link name", "data-key": `term-${node}-${index}-${place}` });
    return states.now.frozen[node * network.I + input] ? ["mean(", name, ")"] : name;
  };
  return kind === "single" ? value(first, 0) : [`${kind}(`, value(first, 0), ", ", value(second, 1), ")"];
}
