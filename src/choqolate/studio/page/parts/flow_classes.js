import { button, h, replace, select } from "../app/dom.js";
import { measureAll } from "../engine/metrics.js";
import { range } from "./index_range.js";

const MOST = 10;
const WAYS = [
  ["images", `${MOST} classes with the most images`],
  ["change", `${MOST} classes with the largest change`],
  ["own", "Selected classes"],
];

/** The choice of classes for the flow, where there are many: most images, largest change, or the reader's own. */
export function flowClasses(app, onchange) {
  const { network } = app;
  const element = h("div", { class: "row flow-choice" });
  const many = network.C > MOST + 2;
  let way = "images";
  let own = [];

  const chosen = () => {
    if (!many) return range(network.C);
    if (way === "own") return [...own].sort((a, b) => a - b);
    const measured = measureAll(network, app.rows, app.states.now, app.numberRows).classes;
    const before = way === "change" && measureAll(network, app.rows, app.states.original, app.numberRows).classes;
    const rank = (r) => (before ? Math.abs(measured[r].accuracy - before[r].accuracy) || 0 : measured[r].n);
    return range(network.C).sort((a, b) => rank(b) - rank(a)).slice(0, MOST).sort((a, b) => a - b);
  };
  const choose = (classes) => {
    own = classes;
    way = "own";
    onchange();
  };
  const update = () => {
    if (!many) return;
    const now = chosen();
    const others = range(network.C).filter((r) => !now.includes(r));
    replace(element,
      select(WAYS, way, (value) => {
        if (value === "own") own = now;
        way = value;
        onchange();
      }, { "aria-label": "Classes to show", id: "flow-classes" }),
      way === "own" && select([["", "Add a class…"], ...others.map((r) => [r, network.classes[r]])], "",
        (value) => value !== "" && choose([...now, Number(value)]), { "aria-label": "Add a class", id: "flow-add" }),
      way === "own" && h("ul", { class: "chips" }, now.map((r) => h("li", { class: "chip" },
        h("span", { class: "name" }, network.classes[r]),
        now.length > 1 && button("×", () => choose(now.filter((other) => other !== r)),
          { class: "close", "data-key": `flow-drop-${r}`, "aria-label": `Hide ${network.classes[r]}` })))));
  };
  return { element, update, chosen };
}
