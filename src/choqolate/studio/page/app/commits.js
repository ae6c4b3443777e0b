import { EditError } from "../engine/edit_error.js";
import { knownNote, plainEdit } from "../engine/edits.js";

/**
 * The history of an audit: commits with a parent, so that one can go back and take another way.
 *
 * A commit holds edits and a note {author, time, reason, reviewed}. The head is the commit that the model is at; null is
 * the model as it was opened.
 */
export class CommitTree {
  constructor(kept = {}) {
    this.commits = kept.commits ?? [];
    this.head = kept.head ?? null;
    this.forward = kept.forward ?? [];
    this.finalChecks = kept.finalChecks ?? [];
    this.next = kept.next ?? 1;
  }

  /** A history that the browser kept, where anything may have happened to it. Throws EditError if it is damaged. */
  static read(kept) {
    const { head = null, forward = [], finalChecks = [] } = kept ?? {};
    const commits = list(kept?.commits ?? []).map(readCommit);
    const ids = new Set(commits.map(({ id }) => id));
    const isKnown = (id) => id === null || ids.has(id);
    const fine = commits.every(({ parent }) => isKnown(parent)) && ids.size === commits.length && isKnown(head);
    if (!fine) throw new EditError(DAMAGED);
    const tree = new CommitTree({ commits, head, next: Math.max(Number(kept?.next) || 1, ...[...ids].map((id) => id + 1)) });
    tree.finalChecks = list(finalChecks).map((check) => readCheck(check, tree));
    tree.forward = list(forward);
    if (!tree.#leads(tree.forward)) tree.forward = [];
    return tree;
  }

  /** Whether commits to redo, the next one last, stand on each other and the first of them on the head. */
  #leads(forward) {
    return forward.every((id, place) => this.find(id)?.parent === (forward[place + 1] ?? this.head));
  }

  /** What is kept: plain data. */
  toJSON() {
    const { commits, head, forward, finalChecks, next } = this;
    return { commits, head, forward, finalChecks, next };
  }

  find(id) {
    return this.commits.find((commit) => commit.id === id) ?? null;
  }

  /** The commits from the first to the given one. */
  path(id = this.head) {
    const found = [];
    for (let commit = this.find(id); commit; commit = this.find(commit.parent)) found.unshift(commit);
    return found;
  }

  /** All edits up to a commit, each with the note of its commit. */
  editsAt(id = this.head) {
    return this.path(id).flatMap((commit) => commit.edits.map((edit) => ({ ...edit, note: { ...commit.note } })));
  }

  add(edits, { author, reason }) {
    const note = { author: author || undefined, time: now(), reason: reason || undefined, reviewed: false };
    const commit = { id: this.next++, parent: this.head, edits, note };
    this.commits.push(commit);
    this.head = commit.id;
    this.forward = [];
    return commit;
  }

  get canUndo() {
    return this.head !== null;
  }

  get canRedo() {
    return this.forward.length > 0;
  }

  undo() {
    if (!this.canUndo) return;
    this.forward.push(this.head);
    this.head = this.find(this.head).parent;
  }

  redo() {
    if (this.canRedo) this.head = this.forward.pop();
  }

  /** Go to a commit, or to the model as it was opened (null). */
  checkOut(id) {
    if (id !== null && !this.find(id)) return;
    this.head = id;
    this.forward = [];
  }

  /** Another tree without a commit: what came after it stands on what came before it. */
  without(id) {
    const gone = this.find(id);
    const commits = this.commits
      .filter((commit) => commit !== gone)
      .map((commit) => (commit.parent === id ? { ...commit, parent: gone.parent } : commit));
    const moved = (at) => (at === id ? gone.parent : at);
    const finalChecks = this.finalChecks.map((check) =>
      (this.path(check.at).includes(gone) ? { ...check, at: moved(check.at), altered: true } : check));
    return new CommitTree({ ...this.toJSON(), commits, head: moved(this.head), forward: [], finalChecks });
  }

  review(id, reviewed) {
    this.find(id).note.reviewed = reviewed;
  }

  /** Commits on the way to the head that nobody has reviewed. */
  get unreviewed() {
    return this.path().filter((commit) => !commit.note.reviewed);
  }

  /** Note that the covered rows were looked at: when, at which commit, and before which one. */
  checkFinally() {
    this.finalChecks.push({ time: now(), at: this.head, before: this.next, altered: false });
  }

  /** Whether the model has other edits now than at a final check, of which commits may have been deleted. */
  differsFrom(check) {
    return check.altered || check.at !== this.head;
  }
}

const DAMAGED = "The history is damaged.";

function list(value) {
  if (!Array.isArray(value)) throw new EditError(DAMAGED);
  return value;
}

/** A commit that was kept; its parent came before it, so that there are no circles. */
function readCommit(kept) {
  const { id, parent = null, edits, note } = kept ?? {};
  if (!Number.isSafeInteger(id) || !(parent === null || parent < id)) throw new EditError(DAMAGED);
  return { id, parent, edits: list(edits).map((edit) => plainEdit(edit)), note: { reviewed: false, ...knownNote(note) } };
}

/** A final check that was kept; it is never lost, whatever else is not known of it. */
function readCheck(kept, tree) {
  const { time, at = null, before, altered } = kept ?? {};
  const isKnown = at === null || tree.find(at) !== null;
  return { time: typeof time === "string" ? time : "", at: isKnown ? at : null,
    before: Number.isSafeInteger(before) ? before : tree.next, altered: Boolean(altered) || !isKnown };
}

/** The current time in ISO 8601, in seconds. */
function now() {
  return new Date().toISOString().replace(/\.\d+Z$/, "+00:00");
}
