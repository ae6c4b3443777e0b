"""A page of a few lines with all allowed forms of imports and exports, in place of the studio's own."""

from __future__ import annotations

from pathlib import Path

INDEX = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<link rel="icon" href="data:,">
<title>small</title>
<link rel="stylesheet" href="style.css">
<link rel="stylesheet" href="views/more.css">
</head>
<body>
<div id="app"></div>
<script type="module" src="app/main.js"></script>
</body>
</html>
"""
FILES = {
    "style.css": "h1 { color: rgb(1, 2, 3); }\n",
    "views/more.css": "p { color: rgb(4, 5, 6); }\n",
    "app/main.js": """import { h } from "./dom.js";
import {
  read as readData,
  Counter,
} from "../engine/reading.js";

const { document: told, images, shapes } = readData();
const counter = new Counter();
for (const image of images) if (image) counter.add();
const place = document.getElementById("app");
place.append(h("h1", told.title), h("p", told.rows.chosen), h("output", String(counter.count)));
for (const image of images.slice(0, 3)) {
  if (image) place.append(Object.assign(h("img", ""), { src: `data:image/jpeg;base64,${image}` }));
}
window.told = told;
window.shapes = shapes;
document.documentElement.dataset.ready = "yes";
""",
    "app/dom.js": """/** An element with text; what follows `export` in a comment or a text is left alone. */
export const h = (tag, text) => Object.assign(document.createElement(tag), { textContent: text });
""",
    "engine/reading.js": """import { h } from "../app/dom.js";

/** Count things. */
export class Counter {
  count = 0;

  add() {
    this.count += 1;
  }
}

/** Numbers from zero. */
export function* numbers(most) {
  for (let k = 0; k < most; k += 1) yield k;
}

/** Wait for nothing. */
export async function wait() {
  await null;
}

/** What the file holds. */
export function read() {
  if (!h || [...numbers(3)].length !== 3) throw new Error("modules are out of order");
  const bytes = Uint8Array.from(atob(document.getElementById("studio-data").textContent), (c) => c.charCodeAt(0));
  const size = Number(new DataView(bytes.buffer).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + size)));
  const images = JSON.parse(document.getElementById("studio-images").textContent);
  return { document: JSON.parse(header.__metadata__.studio), images, shapes: header };
}
""",
}


def write_page(folder: Path, **changed: str) -> Path:
    """Write the small page to a folder; other files in place of some, or more of them, by path."""
    files = {"index.html": INDEX, **FILES, **changed}
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    return folder
