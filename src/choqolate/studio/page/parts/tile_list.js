import { h, replace } from "../app/dom.js";
import { pickedNumbers } from "../app/selection.js";
import { openImage, pickAll, togglePick } from "./image_picks.js";
import { imageTile, tileSignature } from "./image_tile.js";

const ARROWS = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"];

/**
 * Tiles of images, one of which is in the tab order: arrow keys move, Enter opens, Space picks. Tiles are kept, so that
 * images do not flicker: {element, draw(rows, shown), focusOn(place)}. showUpTo(place) is asked for tiles not drawn yet.
 */
export function tileList(app, showUpTo) {
  const imageless = app.rows.hasImage.some(Boolean) ? "" : "imageless";
  const element = h("div", { class: `tiles ${imageless}`, role: "listbox", "aria-multiselectable": true, "aria-label": "Images" });
  const tiles = new Map();
  const list = { element, rows: new Int32Array(), current: 0 };

  list.draw = (rows, shown) => {
    list.rows = rows;
    const picked = pickedNumbers(app.route);
    const wanted = Array.from(rows.subarray(0, shown), (row) => keptTile(app, tiles, row, picked.has(app.rows.number[row])));
    const same = wanted.length === element.childElementCount && wanted.every((one, place) => element.children[place] === one);
    if (!same) replace(element, wanted);
    setCurrent(list, Math.min(list.current, wanted.length - 1));
  };
  list.focusOn = (place) => {
    showUpTo(place);
    setCurrent(list, place);
    element.children[place]?.focus();
  };
  element.addEventListener("focusin", (event) => setCurrent(list, placeOf(list, event)));
  element.addEventListener("click", (event) => onClick(app, list, event));
  element.addEventListener("keydown", (event) => onKey(app, list, event));
  return list;
}

/** The tile of a row: made again only if it looks different. */
function keptTile(app, tiles, row, picked) {
  const signature = tileSignature(app, row, picked);
  const kept = tiles.get(row);
  if (kept?.signature === signature) return kept.element;
  const element = imageTile(app, row, picked);
  tiles.set(row, { signature, element });
  return element;
}

function setCurrent(list, place) {
  list.element.querySelector('[tabindex="0"]')?.setAttribute("tabindex", "-1");
  list.current = Math.max(0, place);
  list.element.children[list.current]?.setAttribute("tabindex", "0");
}

function placeOf(list, event) {
  return Array.prototype.indexOf.call(list.element.children, event.target.closest(".tile"));
}

function onClick(app, list, event) {
  const place = placeOf(list, event);
  if (place < 0) return;
  const [from, to] = [Math.min(list.last ?? place, place), Math.max(list.last ?? place, place)];
  if (event.shiftKey) pickAll(app, list.rows.subarray(from, to + 1));
  else if (event.ctrlKey || event.metaKey || event.target.closest(".tile-pick")) togglePick(app, list.rows[place]);
  else openImage(app, list.rows[place]);
  list.last = place;
}

function onKey(app, list, event) {
  const place = placeOf(list, event);
  if (place < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Enter") openImage(app, list.rows[place]);
  else if (event.key === " ") togglePick(app, list.rows[place]);
  else if (ARROWS.includes(event.key)) list.focusOn(nextPlace(event.key, place, list));
  else return;
  event.preventDefault();
  event.stopPropagation();
}

function nextPlace(key, place, { element, rows }) {
  if (key === "Home") return 0;
  if (key === "End") return rows.length - 1;
  const columns = getComputedStyle(element).gridTemplateColumns.split(" ").length;
  const next = place + { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[key];
  return next < 0 || next >= rows.length ? place : next;
}
