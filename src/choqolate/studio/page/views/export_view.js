import { button, download, h, replace } from "../app/dom.js";
import { counted, interval, moment, percent } from "../app/format.js";
import { pythonCode, shellCommands } from "../app/commands.js";
import { selectionCsv } from "../app/csv.js";
import { textWithChecksum } from "../engine/checksum.js";
import { editsDocument, readEditsFile } from "../engine/edits.js";
import { TOO_FEW, wilson } from "../engine/metrics.js";

/** The view Export: what leaves the page. */
export function createExportView(app) {
  const left = h("div", { class: "stack" });
  const right = h("div", { class: "stack" });
  const answer = h("div", { class: "stack", "aria-live": "polite" });
  const opener = h("input", { type: "file", accept: ".json,application/json", id: "open-edits", hidden: true,
    onchange: (event) => openFile(app, event.target) });
  const element = h("div", { class: "columns export-view" }, left, right);
  const update = () => {
    replace(left, readiness(app), files(app, opener), app.api && server(app, answer));
    replace(right, commands(app), selected(app));
  };
  return { element, update };
}

/** What has to be done before saving: [done, text, view, other keys of the route]. */
function steps(app) {
  const open = app.history.unreviewed.length;
  const edited = app.history.path().length > 0;
  return [
    [edited && !app.draft.length, app.draft.length ? "Commit or discard the draft" : edited ? "All edits are committed" : "Commit an edit", "concept"],
    [edited && !open, open ? `Review ${counted(open, "commit")}` : edited ? "All commits are reviewed" : "Review the commits", "history"],
    [app.finalChecked || !app.coveredRows.length, finalText(app), "overview", { rows: "covered" }],
  ];
}

function finalText(app) {
  if (!app.coveredRows.length) return "This table has no rows for a final check";
  if (!app.finalChecked) return `Final check on ${app.document.rows.covered} (recommended)`;
  const last = app.history.finalChecks.at(-1);
  const later = app.history.differsFrom(last) ? "; edited since" : "";
  return `Final check: ${moment(last.time)}${later}`;
}

function readiness(app) {
  return h("section", { class: "panel", "aria-label": "Before you save" }, h("h2", {}, "Before you save"),
    h("ul", { class: "steps" }, steps(app).map(([done, text, view, where]) => h("li", { class: done ? "done" : "" },
      h("span", { "aria-hidden": "true" }, done ? "✓" : "○"), h("span", { class: "visually-hidden" }, done ? "Done: " : "To do: "),
      done ? text : button(text, () => app.go({ view, ...where }), { class: "button link", "data-key": `step-${text}` })))));
}

function files(app, opener) {
  const edits = app.history.editsAt();
  const open = app.history.unreviewed.length;
  return h("section", { class: "panel", "aria-label": "Edits file" }, h("h2", {}, "Edits file"),
    h("p", {}, edits.length ? `${counted(edits.length, "edit")} with author, time and reason, as JSON. Apply the file to the model with ` 
      : "Nothing is committed yet. Committed edits go into a JSON file that can be applied to the model with ",
    h("code", {}, "choqolate apply"), "."),
    open > 0 && h("p", { class: "note" }, `${counted(open, "commit is", "commits are")} marked as not reviewed.`),
    app.draft.length > 0 && h("p", { class: "note warn-text" }, "The draft is not included. Commit it first."),
    h("div", { class: "row gap-above" },
      button("Download edits.json", () => downloadEdits(app), { class: "button primary", disabled: !edits.length, "data-key": "download-edits" }),
      button("Open an edits file", () => opener.click(), { "data-key": "open-file" }), opener,
      button("Copy a link", () => copyLink(app),
        { "data-key": "copy-link", title: "A link to this view with these edits" })));
}

function downloadEdits(app) {
  const content = editsDocument(app.document, app.history.editsAt());
  if (app.history.finalChecks.length) content.studio = { final_checks: app.history.finalChecks.map(({ time }) => time) };
  download("edits.json", textWithChecksum(content), "application/json");
  app.say("Downloaded edits.json.");
}

async function openFile(app, input) {
  const file = input.files[0];
  input.value = "";
  if (!file) return;
  try {
    const edits = readEditsFile(app.document, await file.text());
    if (app.takeEdits(edits)) app.say(`Added ${counted(edits.length, "edit")} from ${file.name} to the history.`);
  } catch (error) {
    const reason = error instanceof SyntaxError ? "It is not valid JSON." : error.message;
    app.say(`${file.name} cannot be opened. ${reason}`, "warn");
  }
}

function server(app, answer) {
  const ready = steps(app).slice(0, 2).every(([done]) => done);
  const work = (address, then, as) => async () => {
    replace(answer, h("p", { class: "note" }, "Python is recomputing…"));
    try {
      then(await app.api.post(address, editsDocument(app.document, app.history.editsAt()), { as }));
    } catch (error) {
      replace(answer, h("p", { class: "message warn" }, error.message));
    }
  };
  const take = (name, type) => (content) => {
    download(name, content, type);
    replace(answer, h("p", { class: "message" }, `Downloaded ${name}.`));
  };
  const save = work("api/model", (told) => replace(answer, savedText(told)), "json");
  return h("section", { class: "panel", "aria-label": "Edited model" }, h("h2", {}, "Edited model"),
    h("p", {}, "Python applies the committed edits to the original model and recomputes all numbers."),
    serverNotes(app, ready).map((text) => h("p", { class: "note" }, text)),
    h("div", { class: "row gap-above" },
      button("Save the model", save, { class: "button primary", disabled: !ready || !app.document.server.save, id: "save-model" }),
      button("Download the model (.zip)", work("api/model.zip", take("model.zip", "application/zip"), "blob"),
        { disabled: !ready, "data-key": "download-model" }),
      button("Download the report", work("api/report", take("report.html", "text/html"), "blob"),
        { disabled: !showsReport(app), "data-key": "download-report" })),
    answer);
}

/** The report has the numbers of the covered rows. */
function showsReport(app) {
  return app.history.head !== null && (app.finalChecked || !app.coveredRows.length);
}

function serverNotes(app, ready) {
  return [
    !ready && "To save, commit all edits and review every commit.",
    !app.document.server.save && "The server cannot write to its folder for edited models.",
    app.history.head !== null && !showsReport(app) && "The report includes the covered rows, so it is available after the final check.",
  ].filter(Boolean);
}

/** Where the server saved the model, and its numbers. */
function savedText({ folder, audit, warnings }) {
  const found = audit && [["accuracy", audit.all], ["worst group", audit.worst_group]].filter(([, one]) => one);
  return h("div", { class: "message" }, h("p", {}, "The model is saved in ", h("code", { class: "name" }, folder), "."),
    found && h("p", {}, `On all ${counted(audit.all.rows, "audit row")}, Python finds `,
      `${found.map(([name, one]) => `${name} ${shareText(one)}`).join(", ")}.`),
    warnings.map((text) => h("p", { class: "warn-text" }, text)));
}

function shareText({ accuracy, hits, rows }) {
  return rows < TOO_FEW ? `too few to tell (${counted(rows, "image")})` : `${percent(accuracy)} (${interval(...wilson(hits, rows))})`;
}

function commands(app) {
  const edits = app.history.editsAt();
  const block = (title, text) => h("div", {}, h("div", { class: "panel-head" }, h("h3", {}, title),
    button("Copy", () => copyText(app, text, title), { class: "button small", "aria-label": `Copy: ${title}`, "data-key": `copy-${title}` })), h("pre", { tabindex: "0", "aria-label": title }, text));
  return h("section", { class: "panel stack", "aria-label": "Commands" }, h("h2", {}, "Commands"),
    edits.length ? [block("Shell (uses edits.json)", shellCommands(app.document.names, edits)), block("Python", pythonCode(app.document.names, edits))]
      : h("p", { class: "note" }, "Shell commands and Python code for your edits appear here after the first commit."));
}

function selected(app) {
  const rows = app.selection ?? app.visibleRows;
  return h("section", { class: "panel", "aria-label": "Image table" }, h("h2", {}, "Image table"),
    h("p", {}, app.selection ? `The ${counted(rows.length, "selected image")}` : `All ${counted(rows.length, "visible image")}`,
      ", with class, predictions and margin, as CSV."),
    h("div", { class: "row gap-above" }, button("Download images.csv", () => download("images.csv", selectionCsv(app), "text/csv"), { "data-key": "download-csv" }),
      button("Select images", () => app.go({ view: "images" }))));
}

async function copyLink(app) {
  await copyText(app, location.href, app.isLinkWhole ? "Link" : "Link without the edits (there are too many for a link)");
}

async function copyText(app, text, what) {
  try {
    await navigator.clipboard.writeText(text);
    app.say(`${what} copied.`);
  } catch {
    app.say("The browser blocks copying. Select the text and copy it yourself.", "warn");
  }
}
