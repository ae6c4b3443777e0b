import { button, h, replace } from "./dom.js";
import { counted, moment } from "./format.js";
import { Keeper } from "./keeping.js";
import { Api } from "./serving.js";
import { createShell } from "./shell.js";
import { Studio } from "./store.js";
import { thumbnailSource } from "./thumbnail_source.js";
import { parseBundle } from "../engine/bundle.js";
import { checksum } from "../engine/checksum.js";
import { Network } from "../engine/network.js";
import { RowTable } from "../engine/row_table.js";

const place = document.getElementById("app");

async function start() {
  const inside = document.getElementById("studio-data");
  const api = inside ? null : new Api();
  const content = parseBundle(inside ? decode(textOf(inside)) : await api.bytes("api/bundle"));
  const rows = new RowTable(content.document, content.arrays);
  const network = new Network(content.document, content.arrays, rows);
  const told = h("p", { class: "boot", role: "status" }, `Computing ${counted(rows.n, "row")}…`);
  replace(place, told);
  await network.prepare((done) => {
    told.textContent = `Computing ${counted(rows.n, "row")}… ${Math.round(100 * done)}%`;
  });
  const stored = document.getElementById("studio-images");
  const images = thumbnailSource(rows, stored && JSON.parse(textOf(stored)));
  const keeper = new Keeper(content.document);
  const app = new Studio({ document: content.document, network, rows, images, api, keeper });
  createShell(app, place);
  if (!app.resume()) offerToContinue(app);
  window.studio = app; // for the console, and for measuring
  document.documentElement.dataset.ready = "yes";
}

/** Audits of this model that were left in another tab can be continued. */
function offerToContinue(app) {
  const left = app.keeper.others()[0];
  if (!left) return;
  const commits = left.history.commits.length;
  const banner = h("div", { class: "banner", role: "region", "aria-label": "Earlier audit" },
    h("p", {}, `You have an earlier audit of this model: ${counted(commits, "commit")}, last changed ${moment(left.saved)}.`),
    button("Continue it", () => {
      banner.remove();
      const kept = app.keeper.continueFrom(left.id);
      if (kept) app.takeUp(kept);
    }, { class: "button primary" }),
    button("Start fresh", () => banner.remove()));
  place.querySelector(".strip").before(banner);
  app.onFirstEdit = () => banner.remove(); // to continue another audit would be to lose this one
}

/** The text of a part of the file, if it is as it was written. */
function textOf(part) {
  const { textContent, dataset } = part;
  if (dataset.checksum === checksum(textContent)) return textContent;
  throw new Error("The data of this page are damaged: their checksum does not match. Export it again.");
}

function decode(text) {
  const binary = atob(text.trim());
  const bytes = new Uint8Array(binary.length);
  for (let k = 0; k < binary.length; k += 1) bytes[k] = binary.charCodeAt(k);
  return bytes.buffer;
}

start().catch((error) => {
  console.error(error);
  replace(place, h("div", { class: "boot", role: "alert" }, h("h1", {}, "The studio cannot open this model"), h("p", {}, error.message)));
});
