import { s } from "../app/dom.js";

const HEIGHT = 16;
const WIDTH = 120;

/** A drawing of an accuracy: a bar for its interval, a dot for now, a tick for the original. For the eye only. */
export function intervalBar({ low, high, now, original }, start) {
  const x = (value) => WIDTH * Math.min(1, Math.max(0, (value - start) / (1 - start)));
  const middle = HEIGHT / 2;
  if (!Number.isFinite(now)) return null;
  return s("svg", { class: "interval-bar", viewBox: `-5 0 ${WIDTH + 10} ${HEIGHT}`, "aria-hidden": "true" },
    s("line", { class: "axis-line", x1: 0, x2: WIDTH, y1: middle, y2: middle }),
    s("rect", { class: "range", x: x(low), width: Math.max(1, x(high) - x(low)), y: middle - 3.5, height: 7, rx: 2 }),
    s("line", { class: "before", x1: x(original), x2: x(original), y1: 1, y2: HEIGHT - 1 }),
    s("circle", { class: "now", cx: x(now), cy: middle, r: 3.5 }));
}
