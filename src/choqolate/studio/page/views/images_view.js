import { h } from "../app/dom.js";
import { confusionPanel } from "../parts/confusion_panel.js";
import { dropZone } from "../parts/drop_zone.js";
import { filterBar } from "../parts/filter_bar.js";
import { imageGrid } from "../parts/image_grid.js";
import { distinguishingPanel, slicePanel } from "../parts/slice_panel.js";
import { oneImagePanel } from "./one_image.js";

/** The view Images: filters, a grid, the selection as a slice, and one image. */
export function createImagesView(app) {
  const filters = filterBar(app);
  const grid = imageGrid(app);
  const sides = [slicePanel(app), confusionPanel(app), distinguishingPanel(app), dropZone(app)];
  const image = oneImagePanel(app, () => grid.rows);
  const side = h("div", { class: "stack images-side" }, sides.map((panel) => panel.element));
  const element = h("div", { class: "images-view" }, filters.element, side, grid.element, image.element);
  let shown = null;

  const update = () => {
    filters.update();
    grid.update();
    element.classList.toggle("with-image", Boolean(app.route.image));
    if (!app.route.image) for (const panel of sides) panel.update();
    image.update();
    if (shown !== null) follow(app, grid, image, shown);
    shown = app.route.image ?? "";
  };
  document.addEventListener("keydown", (event) => {
    const busy = event.defaultPrevented || event.target.closest("dialog, input, textarea, select");
    if (event.key !== "Escape" || busy || !element.isConnected || !app.route.image) return;
    app.go({ image: null, why: null, against: null });
  });
  return { element, update };
}

/** Move the focus into an image that was opened, and back to its tile when it is closed. */
function follow(app, grid, image, before) {
  const now = app.route.image ?? "";
  if (now && !before) image.focus();
  if (!now && before && document.activeElement !== document.getElementById("main")) grid.focusOn(Number(before));
}
