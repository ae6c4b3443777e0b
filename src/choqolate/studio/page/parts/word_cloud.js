import { h } from "../app/dom.js";
import { percent, share } from "../app/format.js";
import { cloudWords, conceptOf, wordSize } from "./cloud_words.js";
import { place } from "./in_place.js";

/** The word cloud of a node: each word is a button that opens its concept. Words keep their order after an edit. */
export function wordCloud(app, node, where) {
  const buttons = new Map();
  const others = h("li", { class: "others" });
  const element = h("ul", { class: "word-cloud", "aria-label": `Concepts of ${where}` });
  const update = () => {
    const { words, others: rest } = cloudWords(app.network, app.states.original, app.states.now, node);
    const items = words.map((word) => {
      if (!buttons.has(word.input)) buttons.set(word.input, newWord(app, word));
      const item = buttons.get(word.input);
      showWord(item.firstChild, word, where);
      return item;
    });
    const worthTelling = rest.share >= 0.005;
    others.textContent = worthTelling ? `+ ${rest.count} more, ${percent(rest.share, 0)}` : "";
    place(element, worthTelling ? [...items, others] : items);
  };
  return { element, update };
}

function newWord(app, word) {
  const open = () => app.go({ view: "concept", concept: app.network.concepts[conceptOf(app.network, word.input)] });
  return h("li", {}, h("button", { type: "button", class: "word name", onclick: open }, word.name));
}

function showWord(element, word, where) {
  const gone = word.gone && !word.share;
  element.style.fontSize = `${wordSize(gone ? word.before : word.share).toFixed(3)}rem`;
  element.classList.toggle("gone", gone);
  element.classList.toggle("grew", Boolean(word.grew));
  element.classList.toggle("faint", !gone && Math.abs(word.share) < 0.02);
  const told = wordText(word, gone, where);
  if (element.title === told) return;
  element.title = told;
  element.setAttribute("aria-label", told);
}

function wordText(word, gone, where) {
  if (gone) return `${word.name}: removed, was ${share(word.before)} of ${where}`;
  const was = Math.abs(word.share - word.before) >= 5e-4 ? `, was ${share(word.before)}` : "";
  return `${word.name}: ${share(word.share)} of ${where}${was}`;
}
