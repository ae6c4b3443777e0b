/** Build an element: h("button", { class: "chip", onclick: f, "aria-pressed": true }, "text", child, [more]). */
export function h(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** Build an SVG element, as h does. */
export function s(tag, properties, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, size] of Object.entries(value)) element.style.setProperty(key, size);
    else if (name === "value" || name === "checked" || name === "disabled" || name === "selected") element[name] = value;
    else element.setAttribute(name, value === true && !name.startsWith("aria-") ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(element, child);
    else if (child !== null && child !== undefined && child !== false) element.append(child);
  }
}

/** Put other children into an element; what has the focus keeps it if it has an id or a data-key that is there again. */
export function replace(element, ...children) {
  const active = element !== document.activeElement && element.contains(document.activeElement)
    ? document.activeElement : null;
  const key = active && (active.id || active.dataset.key);
  const attribute = active && active.id ? "id" : "data-key";
  element.replaceChildren();
  append(element, children);
  if (key) element.querySelector(`[${attribute}="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
  if (active && !element.contains(document.activeElement)) focusNear(element);
  return element;
}

/** Run an action; if what has the focus goes away or is disabled, the focus moves to what is around it. */
export function keepFocus(action) {
  const active = document.activeElement;
  const around = [];
  for (let element = active; element && element !== document.body; element = element.parentElement) around.push(element);
  action();
  const now = document.activeElement;
  const isLost = now === document.body || now?.disabled || !now?.checkVisibility();
  if (around.length && isLost) focusNear(around.find((one) => one.isConnected && one !== now));
}

/** Focus the closest region around an element that can be seen, else the view. */
function focusNear(element) {
  const regions = "section, article, aside, details, dialog, main";
  let near = element?.closest(regions);
  while (near && !near.checkVisibility()) near = near.parentElement?.closest(regions);
  near ??= document.getElementById("main");
  if (!near) return;
  if (!near.hasAttribute("tabindex")) near.tabIndex = -1;
  near.focus({ preventScroll: true });
}

/** Put a text into a live region; the same text is not said again. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A button. */
export function button(label, onclick, properties = {}) {
  return h("button", { type: "button", class: "button", onclick, ...properties }, label);
}

/** A labelled control: the label stands before it. */
export function field(label, control, properties = {}) {
  return h("label", { class: "field", ...properties }, h("span", { class: "field-label" }, label), control);
}

/** A choice of options [[value, text], ...]. */
export function select(options, value, onchange, properties = {}) {
  const items = options.map(([key, text]) => h("option", { value: key, selected: String(key) === String(value) }, text));
  return h("select", { onchange: (event) => onchange(event.target.value), ...properties }, items);
}

/** Hand a file to the person: it is made in the page and goes nowhere else. */
export function download(name, content, type) {
  const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = h("a", { href: address, download: name, hidden: true });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** Run a generator in slices, so that the page stays alive; a later task for the same key stops an earlier one. */
export function runInSlices(key, generator, { onProgress, onDone }) {
  const mark = {};
  running.set(key, mark);
  const step = () => {
    if (running.get(key) !== mark) return;
    const until = performance.now() + 24;
    let next;
    do next = generator.next();
    while (!next.done && performance.now() < until);
    if (next.done) {
      running.delete(key);
      onDone(next.value);
    } else {
      onProgress?.(next.value);
      setTimeout(step, 0);
    }
  };
  setTimeout(step, 0);
}

const running = new Map();
