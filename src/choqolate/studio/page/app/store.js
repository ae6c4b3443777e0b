import { readRoute, routeAddress, writeRoute } from "./address.js";
import { CommitTree } from "./commits.js";
import { listed } from "./format.js";
import { restoredNames, withFactors, withRemoval, withoutConcepts } from "./draft.js";
import { ROLES, hasSelection, selectedRows } from "./selection.js";
import { parseBundle } from "../engine/bundle.js";
import { allInForce } from "../engine/edit_checks.js";
import { affected, plainEdit } from "../engine/edits.js";
import { EditError } from "../engine/network.js";
import { recalibration } from "../engine/recalibration.js";

const LONGEST_LINK = 6000;
const ROWS_AT_ONCE = 1000;

/** Everything that the page knows: the model, the rows, the history, the draft, and where the reader is. */
export class Studio {
  constructor({ document, network, rows, images, api, keeper }) {
    Object.assign(this, { document, network, rows, images, api, keeper });
    this.history = new CommitTree();
    this.clearDraft();
    this.dropped = null;
    this.route = { view: "overview", ...readRoute() };
    this.onChange = () => {};
    this.onSay = () => {};
    this.onFirstEdit = () => {};
    this.fromLink = this.route.edits ?? "";
    this.refreshRows();
    this.compute();
  }

  // ------------------------------------------------------------------ rows

  /** Sort the rows by their role, after some were loaded. */
  refreshRows() {
    const all = Int32Array.from({ length: this.rows.n }, (_, row) => row);
    const ofRole = (role) => all.filter((row) => this.rows.role[row] === role);
    this.trainRows = ofRole(ROLES.train);
    this.auditRows = ofRole(ROLES.audit);
    this.coveredRows = ofRole(ROLES.covered);
    this.allRows = all;
    this.uncoveredRows = all.filter((row) => this.rows.role[row] !== ROLES.covered);
    this.calibrationRows = this.rowsToCalibrateOn();
  }

  /** As Python: training rows, without a split all; covered ones stay out of it here. */
  rowsToCalibrateOn() {
    const train = this.document.rows.splits.indexOf("train");
    const training = this.uncoveredRows.filter((row) => train >= 0 && this.rows.split[row] === train);
    return training.length ? training : this.uncoveredRows;
  }

  /** How many rows of the table the server can still send. */
  get rowsLeft() {
    return this.api ? Math.max(0, this.document.rows.total - this.rows.n) : 0;
  }

  /** Load more rows of the table from the server. */
  async loadRows(count = Math.min(ROWS_AT_ONCE, this.rowsLeft)) {
    try {
      const { document, arrays } = parseBundle(await this.api.bytes(`api/rows?start=${this.rows.n}&count=${count}`));
      this.rows.append(arrays, document?.paths ?? []);
      await this.network.extend();
    } catch (error) {
      this.say(error.message, "warn");
      return;
    }
    this.refreshRows();
    this.changed();
  }

  /** Score an image with the model's own backbone; it is shown as one image. */
  async scoreImage(file) {
    try {
      const answer = await this.api.post("api/score", file, { type: file.type || "application/octet-stream" });
      this.dropped = { ...answer, key: `dropped-${Date.now()}`, name: file.name, scores: Float64Array.from(answer.scores) };
      this.go({ view: "images", image: "dropped", why: null, against: null });
    } catch (error) {
      this.say(error.message, "warn");
    }
  }

  get finalChecked() {
    return this.history.finalChecks.length > 0;
  }

  /** Rows that may be seen: without the covered ones until the final check. */
  get visibleRows() {
    return this.finalChecked ? this.allRows : this.uncoveredRows;
  }

  /** Rows of the numbers: those of the audit or, if the route says so, training or covered rows. */
  get numberRows() {
    if (this.route.rows === "train") return this.trainRows;
    if (this.route.rows === "covered" && this.finalChecked) return this.coveredRows;
    return this.auditRows;
  }

  /** The rows that the filters choose, or null without filters. */
  get selection() {
    if (!hasSelection(this.route)) return null;
    this.selected ??= selectedRows(this);
    return this.selected;
  }

  // ------------------------------------------------------------------ states

  compute() {
    const edits = this.history.editsAt();
    this.states = {
      original: this.network.state([]),
      committed: this.network.state(edits),
      now: this.network.state([...edits, ...this.draft]),
    };
    this.selected = null;
  }

  /** Show what has changed, keep it, and put it into the address; not yet while a slider moves (live). */
  changed({ live = false } = {}) {
    this.compute();
    if (this.draft.length || this.history.commits.length) this.onFirstEdit();
    if (!live) {
      this.keep();
      this.putIntoAddress();
    }
    this.onChange();
  }

  keep() {
    const fine = this.keeper.save({ history: this.history.toJSON(), draft: this.draft });
    if (!fine && !this.toldOfKeeping) {
      this.toldOfKeeping = true;
      this.say("The browser cannot store your audit. Download the edits file before you close the page.", "warn");
    }
  }

  putIntoAddress() {
    const edits = [...this.history.editsAt(), ...this.draft].map(({ note, ...edit }) => edit);
    const text = edits.length ? JSON.stringify(edits) : "";
    this.route.edits = text.length <= LONGEST_LINK ? text : "";
    writeRoute(this.route, { step: false });
  }

  say(text, kind = "info") {
    this.onSay(text, kind);
  }

  // ------------------------------------------------------------------ where the reader is

  /** Go somewhere: keys of the route that change; null clears one. */
  go(change, { step = true } = {}) {
    this.route = Object.fromEntries(Object.entries({ ...this.route, ...change }).filter(([, value]) => value));
    this.route.view ??= "overview";
    this.selected = null;
    writeRoute(this.route, { step });
    this.onChange();
  }

  /** Follow the address, after the back button. */
  follow() {
    if (location.hash === routeAddress(this.route)) return;
    const { edits, ...route } = readRoute();
    this.route = { view: "overview", ...route, ...(this.route.edits ? { edits: this.route.edits } : {}) };
    this.selected = null;
    writeRoute(this.route, { step: false }); // the edits are those of now, not of then
    this.onChange();
  }

  /** Whether the address holds all edits; many of them would make it too long. */
  get isLinkWhole() {
    return Boolean(this.route.edits) || !(this.history.editsAt().length + this.draft.length);
  }

  // ------------------------------------------------------------------ edits

  /**
   * Try another draft; one that cannot be is refused with a sentence. Returns whether it is taken.
   *
   * amend: it takes the place of the latest one, so that undo goes back before both; live: see changed.
   */
  tryDraft(draft, { amend = false, live = false } = {}) {
    const before = this.draft;
    try {
      this.network.state([...this.history.editsAt(), ...draft]);
    } catch (error) {
      if (!(error instanceof EditError)) throw error;
      this.say(error.message, "warn");
      this.onChange();
      return false;
    }
    this.undoneDrafts = [];
    if (!amend) this.earlierDrafts = [...this.earlierDrafts, before].slice(-100);
    this.draft = draft;
    this.changed({ live });
    return true;
  }

  remove(names, { nodes = null, mode = "rescale" } = {}) {
    const gone = this.goneNames(nodes);
    const left = names.filter((name) => !gone.has(name));
    if (left.length) return this.tryDraft(withRemoval(this.draft, left, nodes, mode));
    this.say(`${listed(names)} ${names.length === 1 ? "is" : "are"} already removed.`);
    return false;
  }

  /** Concepts that commits removed from the given nodes (without nodes, from all), and that the draft does not restore. */
  goneNames(nodes = null) {
    const { network, states } = this;
    const some = nodes ?? Array.from({ length: network.nNodes }, (_, n) => n);
    const back = restoredNames(this.draft, network.concepts);
    return new Set(network.concepts.filter((name, place) =>
      !back.has(name) && some.every((n) => states.committed.gone[n * network.I + place])));
  }

  reweight(factors, { nodes = null, amend = false, live = false } = {}) {
    return this.tryDraft(withFactors(this.draft, factors, nodes), { amend, live });
  }

  /** Bring concepts back: from the draft if they are in it, else by an edit that restores them. */
  restore(names) {
    const draft = withoutConcepts(this.draft, names);
    const { model } = this.network;
    const left = new Set([...affected(allInForce(model, [...this.history.editsAt(), ...draft])), ...model.locked_concepts]);
    const back = names.filter((name) => left.has(name));
    if (back.length) return this.tryDraft([...draft, { edit: "restore", concepts: back }]);
    const tried = new Set(affected(this.draft));
    if (names.some((name) => tried.has(name))) return this.tryDraft(draft);
    this.say(`${listed(names)} ${names.length === 1 ? "is" : "are"} neither removed nor reweighted.`);
    return false;
  }

  /** Shift the classes so that predictions are as frequent as the training labels. */
  recalibrate() {
    const draft = this.draft.filter((edit) => edit.edit !== "recalibrate");
    try {
      const state = this.network.state([...this.history.editsAt(), ...draft]);
      return this.tryDraft([...draft, recalibration(this.network, state, this.calibrationRows)]);
    } catch (error) {
      if (!(error instanceof EditError)) throw error;
      this.say(error.message, "warn");
      return false;
    }
  }

  dropFromDraft(index) {
    return this.tryDraft(this.draft.filter((_, place) => place !== index));
  }

  discardDraft() {
    if (this.draft.length) this.tryDraft([]);
  }

  // ------------------------------------------------------------------ history

  commit({ author, reason }) {
    if (!this.draft.length) return;
    if (author) this.keeper.author = author;
    const commit = this.history.add(this.draft, { author, reason });
    this.clearDraft();
    this.changed();
    this.say(`Commit ${commit.id} saved to the history.`);
  }

  clearDraft() {
    this.draft = [];
    this.earlierDrafts = [];
    this.undoneDrafts = [];
  }

  get canUndo() {
    return this.earlierDrafts.length > 0 || this.draft.length > 0 || this.history.canUndo;
  }

  get canRedo() {
    return this.canRedoDraft || (!this.draft.length && this.history.canRedo);
  }

  /** Whether there is a draft to redo here: one that was undone before commits were comes after these. */
  get canRedoDraft() {
    return this.undoneDrafts.length > 0 && this.draftsAt === this.history.head;
  }

  undo() {
    if (this.earlierDrafts.length || this.draft.length) {
      this.undoneDrafts.push(this.draft);
      this.draft = this.earlierDrafts.pop() ?? [];
      this.draftsAt = this.history.head;
      this.say("Undid the last change to the draft.");
    } else if (this.history.canUndo) {
      this.say(`Undid commit ${this.history.head}.`);
      this.history.undo();
    } else return;
    this.changed();
  }

  redo() {
    if (this.canRedoDraft) {
      this.earlierDrafts.push(this.draft);
      this.draft = this.undoneDrafts.pop();
    } else if (!this.draft.length && this.history.canRedo) {
      this.history.redo();
      this.say(`Redid commit ${this.history.head}.`);
    } else return;
    this.changed();
  }

  /** Go to a commit; a draft would be lost on the way, so it must be committed or discarded first. */
  checkOut(id) {
    if (this.draft.length) {
      this.say("Commit or discard the draft first.", "warn");
      return;
    }
    this.history.checkOut(id);
    this.clearDraft();
    this.changed();
    this.say(id === null ? "Checked out the original model." : `Checked out commit ${id}.`);
  }

  /** Delete a commit, if what came after it can stand without it. */
  deleteCommit(id) {
    const history = this.history.without(id);
    const ends = history.commits.map((commit) => commit.id);
    try {
      for (const end of ends) this.network.state(history.editsAt(end));
      this.network.state([...history.editsAt(), ...this.draft]);
    } catch (error) {
      if (!(error instanceof EditError)) throw error;
      this.say(`Commit ${id} cannot be deleted because later edits depend on it. ${error.message}`, "warn");
      return;
    }
    this.history = history;
    this.earlierDrafts = [];
    this.undoneDrafts = [];
    this.changed();
    this.say(`Deleted commit ${id}.`);
  }

  review(id, reviewed) {
    this.history.review(id, reviewed);
    this.changed();
  }

  finalCheck() {
    this.history.checkFinally();
    this.changed();
    this.say("The covered rows are now visible. The final check is in the history.");
  }

  // ------------------------------------------------------------------ audits that were kept

  /** Take up what this tab kept, or what a link holds. */
  resume() {
    const kept = this.keeper.load();
    const { history, draft } = kept ?? {};
    if (history?.commits?.length || history?.finalChecks?.length || draft?.length) return this.takeUp(kept);
    if (!this.fromLink) return false;
    try {
      if (this.fromLink.length <= LONGEST_LINK) return this.takeUp({ draft: JSON.parse(this.fromLink) });
    } catch {
      // said below
    }
    this.say("The edits in this link are not valid.", "warn");
    return false;
  }

  /** Take up an audit that was kept, or edits of a link or a file; those that do not fit are refused. */
  takeUp({ history, draft }) {
    const before = { history: this.history, draft: this.draft };
    try {
      this.history = CommitTree.read(history);
      this.draft = Array.from(draft ?? [], (edit) => plainEdit(edit));
      for (const { id } of this.history.commits) this.network.check(this.history.editsAt(id));
      this.compute();
    } catch (error) {
      Object.assign(this, before);
      if (!(error instanceof EditError)) console.error(error); // the page goes on without them all the same
      this.say(`These edits do not fit this model. ${error.message}`, "warn");
      return false;
    }
    this.earlierDrafts = [];
    this.undoneDrafts = [];
    this.changed();
    return true;
  }

  /** Put the edits of a file into the history, one commit each; the draft stays on top of them. */
  takeEdits(edits) {
    const history = CommitTree.read(this.history.toJSON());
    for (const { note, ...edit } of edits) history.add([edit], {}).note = { reviewed: false, ...note };
    return this.takeUp({ history: history.toJSON(), draft: this.draft });
  }
}
