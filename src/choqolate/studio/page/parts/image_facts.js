import { h } from "../app/dom.js";
import { percent } from "../app/format.js";
import { isEdited, outcome } from "./image_subject.js";
import { verdictSign } from "./verdict.js";

const MOST_CLASSES = 5;
const STATES = [["original", "Original"], ["committed", "Last commit"], ["now", "Now"]];

/** The image itself, what the table says of it, and what the model says. */
export function imageFacts(app, subject) {
  const { truth, group, split, path } = subject;
  const facts = [["Class", app.network.classes[truth]], ["Group", group], ["Split", split], ["Path", path]]
    .filter(([, value]) => value !== undefined && value !== null);
  return h("section", { class: `image-facts ${subject.source ? "" : "imageless"}` },
    subject.source && h("img", { class: "large-image", src: subject.source, alt: `Image ${subject.name}` }),
    h("div", { class: "stack tight" },
      facts.length > 0 && h("dl", { class: "facts" },
        facts.map(([name, value]) => [h("dt", {}, name), h("dd", { class: "name" }, value)])),
      predictions(app, subject)),
    subject.warnings.map((text) => h("p", { class: "message warn" }, text)));
}

function predictions(app, subject) {
  const shown = isEdited(app) ? STATES : STATES.slice(-1);
  return h("dl", { class: "facts predictions" }, shown.map(([key, name]) => {
    const { predicted, probabilities } = outcome(app, subject, app.states[key]);
    return [h("dt", {}, shown.length > 1 ? name : "Predicted"),
      h("dd", {}, verdictSign(app, subject.row, predicted), " ",
        h("strong", { class: "name" }, app.network.classes[predicted]), ` ${percent(probabilities[predicted])}`)];
  }));
}

/** Bars of the class probabilities; a line marks what they were before the edits. */
export function probabilityBars(app, subject) {
  const { classes } = app.network;
  const now = outcome(app, subject, app.states.now).probabilities;
  const before = isEdited(app) ? outcome(app, subject, app.states.original).probabilities : null;
  const order = [...now.keys()].sort((a, b) => now[b] - now[a] || a - b);
  const shown = order.slice(0, MOST_CLASSES);
  if (subject.truth >= 0 && !shown.includes(subject.truth)) shown.push(subject.truth);
  return h("section", {}, h("h3", {}, "Class probabilities"),
    h("ul", { class: "probabilities" }, shown.map((place) => h("li", {},
      h("span", { class: "name who", title: classes[place] }, classes[place],
        place === subject.truth && h("span", { class: "badge" }, "class")),
      h("span", { class: "signed-track", "aria-hidden": "true" },
        h("span", { class: "signed-bar for", style: { width: `${100 * now[place]}%` } }),
        before && h("span", { class: "tick", style: { left: `${100 * before[place]}%` } })),
      h("span", { class: "value" }, percent(now[place]), before && h("small", {}, `was ${percent(before[place])}`))))),
    shown.length < classes.length && h("p", { class: "note" }, `The most likely of ${classes.length} classes.`));
}
