import { button, h, replace } from "../app/dom.js";
import { changeText, counted, editText, interval, moment, percent, pText } from "../app/format.js";
import { measureAll, pairedChange, TOO_FEW } from "../engine/metrics.js";
import { commitComparison } from "../parts/commit_comparison.js";

/** The view History: every commit with its note and numbers, and any two beside each other. */
export function createHistoryView(app) {
  const list = h("ol", { class: "commits", "aria-label": "Commits" });
  const head = h("div", { class: "panel-head" });
  const before = h("div", {});
  const comparison = commitComparison(app);
  const element = h("div", { class: "columns history-view" },
    h("section", { class: "panel", "aria-label": "Commits" }, head, before, list),
    comparison.element);
  const update = () => {
    const n = app.history.commits.length;
    replace(head, h("h2", {}, "History"), h("span", { class: "note" }, n ? summary(app) : ""));
    replace(before, earlierEdits(app));
    replace(list, entry(app, null), entries(app),
      !n && h("li", { class: "note no-commits" }, "No commits yet. Remove or reweight a concept, then commit the draft with a reason."));
    comparison.update();
  };
  return { element, update };
}

function summary(app) {
  const open = app.history.unreviewed.length;
  return open ? `${counted(open, "commit")} to review` : "All commits are reviewed";
}

/** Edits that the model came with. */
function earlierEdits(app) {
  const { locked, edits } = app.document.model;
  if (!locked.length && !edits.length) return null;
  return h("div", { class: "message" }, h("p", {}, "The model was already edited when you opened it:"),
    h("ul", { class: "bullets" }, [...locked, ...edits.map(editText)].map((text) => h("li", { class: "name" }, text))));
}

function entries(app) {
  const checks = app.history.finalChecks.map((check) => ({ place: check.before - 0.5, check }));
  const commits = app.history.commits.map((commit) => ({ place: commit.id, commit }));
  const all = [...commits, ...checks].sort((a, b) => a.place - b.place); // as they came: times may be of other clocks
  return all.map(({ commit, check }) => (commit ? entry(app, commit) : finalCheck(check)));
}

function finalCheck({ time, at, altered }) {
  const commit = at === null ? "the original model" : `commit ${at}`;
  const where = altered ? `${commit} and edits that were deleted since` : commit;
  return h("li", { class: "commit check" }, h("span", { class: "commit-mark", "aria-hidden": "true" }, "◆"),
    h("div", {}, h("p", {}, h("strong", {}, "Final check"), ` of ${where}`),
      h("p", { class: "note" }, `The covered rows were shown on ${moment(time)}. Edits after this may be influenced by them.`)));
}

function entry(app, commit) {
  const id = commit?.id ?? null;
  const current = app.history.head === id;
  const onPath = commit && app.history.path().includes(commit);
  const state = app.network.state(app.history.editsAt(id));
  return h("li", { class: `commit ${current ? "current" : ""} ${commit && !onPath ? "aside" : ""}`, "data-commit": id ?? "opened",
    "aria-current": current ? "step" : null },
  h("span", { class: "commit-mark", "aria-hidden": "true" }, commit ? id : "○"),
  h("div", { class: "commit-body" },
    commit ? commitText(app, commit) : h("p", {}, h("strong", {}, "Original model")),
    numbers(app, state, commit),
    h("div", { class: "row" },
      commit && reviewedBox(app, commit),
      current ? h("span", { class: "badge" }, "Checked out") : button("Check out", () => app.checkOut(id),
        { class: "button small", "data-key": `out-${id}`, "aria-label": `Check out ${commit ? `commit ${id}` : "the original model"}` }),
      commit && button("Delete", () => app.deleteCommit(id), { class: "button small danger", "data-key": `delete-${id}`,
        "aria-label": `Delete commit ${id}` }))));
}

function commitText(app, commit) {
  const previous = app.history.commits[app.history.commits.indexOf(commit) - 1]?.id ?? null;
  const branch = commit.parent !== previous;
  return [
    h("p", {}, commit.edits.map((edit, k) => [k > 0 && "; ", h("strong", { class: "name" }, editText(edit))])),
    commit.note.reason && h("p", { class: "name" }, `“${commit.note.reason}”`),
    h("p", { class: "note name" }, [`Commit ${commit.id}`, commit.note.author, moment(commit.note.time),
      branch && `after ${commit.parent === null ? "the original model" : `commit ${commit.parent}`}`].filter(Boolean).join(" · ")),
  ];
}

function reviewedBox(app, commit) {
  return h("label", { class: "field" }, h("input", { type: "checkbox", checked: Boolean(commit.note.reviewed), "data-key": `review-${commit.id}`,
    "aria-label": `Commit ${commit.id} is reviewed`, onchange: (event) => app.review(commit.id, event.target.checked) }), "Reviewed");
}

function numbers(app, state, commit) {
  const measured = measureAll(app.network, app.rows, state, app.auditRows);
  if (!measured.all.n) return null;
  if (measured.all.n < TOO_FEW) return h("p", { class: "row commit-numbers" }, `too few to tell (${counted(measured.all.n, "image")})`);
  const part = (label, { accuracy, low, high }) => h("span", {}, `${label} ${percent(accuracy)} (${interval(low, high)})`);
  return h("p", { class: "row commit-numbers" }, part("accuracy", measured.all), commit && h("span", {}, changeOf(app, state, commit)),
    measured.worstGroup && part("worst group", measured.worstGroup));
}

/** What a commit changed on the audit rows, with its interval and test. */
function changeOf(app, state, { parent }) {
  const before = app.network.state(app.history.editsAt(parent)).predicted;
  const change = pairedChange(app.rows, before, state.predicted, app.auditRows);
  return change.gained + change.lost ? `${changeText(change)}, ${pText(change.p)}` : changeText(change);
}
