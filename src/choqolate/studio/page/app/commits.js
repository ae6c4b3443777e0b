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
    const finalChecks = this.finalChecks.map((check) => ({ ...check, at: moved(check.at) }));
    return new CommitTree({ ...this.toJSON(), commits, head: moved(this.head), forward: [], finalChecks });
  }

  review(id, reviewed) {
    this.find(id).note.reviewed = reviewed;
  }

  /** Commits on the way to the head that nobody has reviewed. */
  get unreviewed() {
    return this.path().filter((commit) => !commit.note.reviewed);
  }

  /** Note that the covered rows were looked at. */
  checkFinally() {
    this.finalChecks.push({ time: now(), at: this.head });
  }
}

/** The current time in ISO 8601, in seconds. */
export function now() {
  return new Date().toISOString().replace(/\.\d+Z$/, "+00:00");
}
