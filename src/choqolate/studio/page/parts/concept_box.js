import { h } from "../app/dom.js";

/** A text box that takes the name of a concept, with suggestions: {element, set(name)}. */
export function conceptBox(app, { id, label, onchoose }) {
  const list = h("datalist", { id: `${id}-names` }, app.network.concepts.map((name) => h("option", { value: name })));
  const input = h("input", { id, type: "search", list: list.id, "aria-label": label, placeholder: "Any concept",
    autocomplete: "off", spellcheck: "false", onchange: () => choose() });
  let current = "";
  const choose = () => {
    const found = input.value.trim() ? closest(app.network.concepts, input.value.trim()) : "";
    if (found === null) app.say(`There is no concept “${input.value.trim()}”.`, "warn");
    input.value = found ?? current;
    if (input.value !== current) onchoose(input.value);
  };
  const set = (name) => {
    current = name ?? "";
    if (document.activeElement !== input) input.value = current;
  };
  return { element: h("span", { class: "concept-box" }, input, list), set };
}

/** The concept with this name, else the first that begins with it or contains it, else null. */
function closest(names, text) {
  const low = text.toLowerCase();
  return names.find((name) => name === text)
    ?? names.find((name) => name.toLowerCase().startsWith(low))
    ?? names.find((name) => name.toLowerCase().includes(low))
    ?? null;
}
