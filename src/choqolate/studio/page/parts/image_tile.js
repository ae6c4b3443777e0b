import { h } from "../app/dom.js";
import { rowName, verdictSign } from "./verdict.js";

/** The image of a row, or a neutral place with its name. */
export function thumbnail(app, row, alt = "") {
  const source = app.images(row);
  const name = rowName(app, row);
  return source
    ? h("img", { class: "thumbnail", src: source, alt, loading: "lazy", decoding: "async", draggable: "false" })
    : h("span", { class: "thumbnail missing name", "aria-hidden": alt ? null : "true" }, name);
}

/** All that a tile shows of a row, as text: a tile is made again only if it changes. */
export function tileSignature(app, row, picked) {
  const { original, now } = app.states;
  const isOpen = app.route.image === String(app.rows.number[row]);
  return `${original.predicted[row]},${now.predicted[row]},${picked},${isOpen}`;
}

/** One image of the grid, an option of a listbox: Enter opens it, Space picks it. */
export function imageTile(app, row, picked) {
  const { classes } = app.network;
  const number = app.rows.number[row];
  const [was, now] = [app.states.original.predicted[row], app.states.now.predicted[row]];
  const truth = app.rows.label[row];
  const group = app.document.rows.groups[app.rows.group[row]];
  return h("div", { class: "tile", role: "option", tabindex: "-1", "data-key": `tile-${number}`, "data-row": row,
    "aria-label": tileLabel(app, row), "aria-selected": picked,
    "aria-current": app.route.image === String(number) ? "true" : null },
  h("span", { class: "tile-image" }, thumbnail(app, row),
    h("span", { class: "tile-pick", "aria-hidden": "true", title: "Pick (Space)" }, picked ? "✓" : "")),
  h("span", { class: "tile-line" }, verdictSign(app, row, now), line(classes[now])),
  truth >= 0 && truth !== now && h("span", { class: "tile-line tile-truth" }, line(`class: ${classes[truth]}`)),
  was !== now && h("span", { class: "tile-line" },
    flippedBadge(classes[was], truth < 0 ? "" : truth === now ? "good" : "warn")),
  group !== undefined && h("span", { class: "tile-line tile-group" }, line(group)));
}

/** A tile in words. */
function tileLabel(app, row) {
  const { classes } = app.network;
  const [was, now, truth] = [app.states.original.predicted[row], app.states.now.predicted[row], app.rows.label[row]];
  const group = app.document.rows.groups[app.rows.group[row]];
  const verdict = truth === now ? ", right" : `, wrong, class ${classes[truth]}`;
  return [`predicted ${classes[now]}${truth < 0 ? "" : verdict}`,
    was !== now && `was ${classes[was]}`, group, rowName(app, row)].filter(Boolean).join(", ");
}

function flippedBadge(name, kind) {
  return h("span", { class: `badge name ${kind}`, title: `was ${name}` }, `was ${name}`);
}

function line(text) {
  return h("span", { class: "name", title: text }, text);
}
