import { button, download, h, replace } from "../app/dom.js";
import { counted, moment, percent } from "../app/format.js";
import { pythonCode, shellCommands } from "../app/commands.js";
import { selectionCsv } from "../app/csv.js";
import { editsDocument, readEditsDocument } from "../engine/edits.js";

/** The view Export: what leaves the page. */
export function createExportView(app) {
  const left = h("div", { class: "stack" });
  const right = h("div", { class: "stack" });
  const answer = h("div", { class: "stack", "aria-live": "polite" });
  const opener = h("input", { type: "file", accept: ".json,application/json", id: "open-edits", class: "visually-hidden",
    onchange: (event) => openFile(app, event.target) });
  const element = h("div", { class: "columns export-view" }, left, right);
  const update = () => {
    replace(left, readiness(app), files(app, opener), app.api && server(app, answer));
    replace(right, commands(app), selected(app));
  };
  return { element, update };
}

/** What has to be done before saving: [done, text, where]. */
function steps(app) {
  const open = app.history.unreviewed.length;
  const edited = app.history.path().length > 0;
  return [
    [edited && !app.draft.length, app.draft.length ? "Commit or discard the draft" : edited ? "The edits are committed" : "Commit an edit", "overview"],
    [edited && !open, open ? `Review ${counted(open, "commit")}` : edited ? "All commits are reviewed" : "Review the commits", "history"],
    [app.finalChecked, finalText(app), "overview"],
  ];
}

function finalText(app) {
  if (!app.coveredRows.length) return "No rows are kept for a final check";
  if (!app.finalChecked) return `Final check on ${app.document.rows.covered} (advised)`;
  const last = app.history.finalChecks.at(-1);
  const later = app.history.differsFrom(last) ? "; the edits have changed since" : "";
  return `Final check: ${moment(last.time)}${later}`;
}

function readiness(app) {
  return h("section", { class: "panel", "aria-label": "Before you save" }, h("h2", {}, "Before you save"),
    h("ul", { class: "steps" }, steps(app).map(([done, text, view]) => h("li", { class: done ? "done" : "" },
      h("span", { "aria-hidden": "true" }, done ? "✓" : "○"), h("span", { class: "visually-hidden" }, done ? "Done: " : "To do: "),
      done ? text : button(text, () => app.go({ view }), { class: "button link" })))));
}

function files(app, opener) {
  const edits = app.history.editsAt();
  const open = app.history.unreviewed.length;
  return h("section", { class: "panel", "aria-label": "Edits file" }, h("h2", {}, "Edits file"),
    h("p", {}, edits.length ? `${counted(edits.length, "edit")} with author, time and reason, as JSON. ` : "There are no edits yet. ",
      "choqolate apply puts them into the model."),
    open > 0 && h("p", { class: "note" }, `${counted(open, "commit is", "commits are")} not reviewed. The file says so.`),
    app.draft.length > 0 && h("p", { class: "note warn-text" }, "The draft is not in the file. Commit it first."),
    h("div", { class: "row gap-above" },
      button("Download edits.json", () => downloadEdits(app), { class: "button primary", disabled: !edits.length }),
      button("Open an edits file", () => opener.click()), opener,
      button("Copy a link to this state", () => copyLink(app))));
}

function downloadEdits(app) {
  const content = editsDocument(app.document, app.history.editsAt());
  if (app.history.finalChecks.length) content.studio = { final_checks: app.history.finalChecks.map(({ time }) => time) };
  download("edits.json", `${JSON.stringify(content, null, 2)}\n`, "application/json");
  app.say("edits.json is downloaded.");
}

async function openFile(app, input) {
  const file = input.files[0];
  input.value = "";
  if (!file) return;
  try {
    const edits = readEditsDocument(app.document, JSON.parse(await file.text()));
    if (app.takeEdits(edits)) app.say(`${counted(edits.length, "edit")} of ${file.name} ${edits.length === 1 ? "is" : "are"} in the history.`);
  } catch (error) {
    const reason = error instanceof SyntaxError ? "It is not valid JSON." : error.message;
    app.say(`${file.name} cannot be opened. ${reason}`, "warn");
  }
}

function server(app, answer) {
  const ready = steps(app).slice(0, 2).every(([done]) => done);
  const work = (address, then, as) => async () => {
    replace(answer, h("p", { class: "note" }, "Python recomputes…"));
    try {
      then(await app.api.post(address, editsDocument(app.document, app.history.editsAt()), { as }));
    } catch (error) {
      replace(answer, h("p", { class: "message warn" }, error.message));
    }
  };
  const take = (name, type) => (content) => {
    download(name, content, type);
    replace(answer, h("p", { class: "message" }, `${name} is downloaded.`));
  };
  const save = work("api/model", (told) => replace(answer, savedText(told)), "json");
  return h("section", { class: "panel", "aria-label": "Edited model" }, h("h2", {}, "Edited model"),
    h("p", {}, "Python applies the edits to the original model and is the authority on all numbers."),
    serverNotes(app, ready).map((text) => h("p", { class: "note" }, text)),
    h("div", { class: "row gap-above" },
      button("Save the model", save, { class: "button primary", disabled: !ready || !app.document.server.save, id: "save-model" }),
      button("Download the model (.zip)", work("api/model.zip", take("model.zip", "application/zip"), "blob"), { disabled: !ready }),
      button("Download the report", work("api/report", take("report.html", "text/html"), "blob"), { disabled: !showsReport(app) })),
    answer);
}

/** The report has the numbers of the covered rows. */
function showsReport(app) {
  return app.history.head !== null && (app.finalChecked || !app.coveredRows.length);
}

function serverNotes(app, ready) {
  return [
    !ready && "Saving asks for committed and reviewed edits: see above.",
    !app.document.server.save && "The server's folder for edited models cannot be written to.",
    app.history.head !== null && !showsReport(app) && "The report shows the covered rows: it comes after the final check.",
  ].filter(Boolean);
}

/** Where the server saved the model, and its numbers. */
function savedText({ folder, audit, warnings }) {
  const found = audit && [["accuracy", audit.all], ["worst group", audit.worst_group]].filter(([, one]) => one);
  return h("div", { class: "message" }, h("p", {}, "The model is saved in ", h("code", { class: "name" }, folder), "."),
    found && h("p", {}, `On all ${counted(audit.all.rows, "row")} that edits are judged on, Python finds `,
      `${found.map(([name, one]) => `${name} ${percent(one.accuracy)}`).join(", ")}.`),
    warnings.map((text) => h("p", { class: "warn-text" }, text)));
}

function commands(app) {
  const edits = app.history.editsAt();
  const block = (title, text) => h("div", {}, h("div", { class: "panel-head" }, h("h3", {}, title),
    button("Copy", () => copyText(app, text, title), { class: "button small", "aria-label": `Copy: ${title}` })), h("pre", { tabindex: "0", "aria-label": title }, text));
  return h("section", { class: "panel stack", "aria-label": "The same without the page" }, h("h2", {}, "The same without the page"),
    edits.length ? [block("Shell, with edits.json", shellCommands(app.document.names, edits)), block("Python", pythonCode(app.document.names, edits))]
      : h("p", { class: "note" }, "Commands appear here once something is committed."));
}

function selected(app) {
  const rows = app.selection ?? app.visibleRows;
  return h("section", { class: "panel", "aria-label": "Images as a table" }, h("h2", {}, "Images as a table"),
    h("p", {}, app.selection ? `The ${counted(rows.length, "selected image")}` : `All ${counted(rows.length, "image")}${app.finalChecked || !app.coveredRows.length ? "" : " that are not covered"}`,
      ", with truth, predictions and margins."),
    h("div", { class: "row gap-above" }, button("Download images.csv", () => download("images.csv", selectionCsv(app), "text/csv")),
      button("Choose images", () => app.go({ view: "images" }))));
}

async function copyLink(app) {
  await copyText(app, location.href, app.isLinkWhole ? "The link" : "A link without the edits, which are too many for one,");
}

async function copyText(app, text, what) {
  try {
    await navigator.clipboard.writeText(text);
    app.say(`${what} is copied.`);
  } catch {
    app.say("The browser does not let the page copy. Select the text and copy it.", "warn");
  }
}
