import { button, h, replace } from "../app/dom.js";
import { foldablePanel, isWide } from "./fold.js";

/** Where an image of the reader's own can be dropped, if the server can score it: {element, update()}. */
export function dropZone(app) {
  const state = { busy: false };
  const input = h("input", { type: "file", accept: "image/*", hidden: true, onchange: () => {
    score(input.files[0]);
    input.value = "";
  } });
  const score = async (file) => {
    if (!file || state.busy) return;
    state.busy = true;
    panel.update();
    await app.scoreImage(file);
    state.busy = false;
    panel.update();
  };
  const able = Boolean(app.document.server?.score);
  const panel = foldablePanel("Your own image", {
    open: able && isWide(),
    content: (body) => replace(body, content(app, state, input)),
  });
  if (able) acceptDrops(panel.element, score);
  return panel;
}

function content(app, state, input) {
  const reason = refusal(app.document.server);
  if (reason) return h("p", { class: "note" }, reason);
  if (state.busy) return h("p", { role: "status" }, "Scoring the image…");
  return [
    h("div", { class: "drop" }, h("p", {}, "Drop an image here, or"),
      button("Choose a file", () => input.click(), { "data-key": "choose-file" }), input),
    app.dropped && h("p", { class: "row" }, button(`Show ${app.dropped.name}`,
      () => app.go({ image: "dropped", why: null, against: null }), { class: "button link name" })),
    h("p", { class: "note" }, "The server scores the image with the model's own encoder and does not store it."),
  ];
}

function refusal(server) {
  const command = h("code", {}, "choqolate studio");
  if (!server) return ["To score your own images, open the model with a server: ", command, "."];
  return server.score ? null : server.why_not_score ?? "This server cannot score images.";
}

function acceptDrops(element, score) {
  element.addEventListener("dragover", (event) => {
    event.preventDefault();
    element.classList.add("dragging");
  });
  element.addEventListener("dragleave", () => element.classList.remove("dragging"));
  element.addEventListener("drop", (event) => {
    event.preventDefault();
    element.classList.remove("dragging");
    score(event.dataTransfer.files[0]);
  });
}
