const PREFIX = "choqolate-studio";
const MOST = 20;

/**
 * Keeps an audit in the browser while it goes on. Each tab has its own, so that two do not overwrite each other; a new
 * tab can continue an audit that was left.
 */
export class Keeper {
  /** What was kept for another state of the model, or for other rows, would mean something else here. */
  constructor({ model, rows }, place = storage("localStorage"), tab = storage("sessionStorage")) {
    this.prefix = `${PREFIX}/${model.state}/${rows.fingerprint}/`;
    this.place = place;
    this.tab = tab;
    this.id = tab?.getItem(this.prefix) ?? newId();
    tab?.setItem(this.prefix, this.id);
    window.addEventListener("storage", (event) => {
      if (event.key === this.prefix + this.id && event.newValue) this.take(newId());
    });
  }

  /** What this tab kept before it was loaded again, or null. */
  load() {
    return this.read(this.prefix + this.id);
  }

  save(content) {
    try {
      this.place?.setItem(this.prefix + this.id, JSON.stringify({ ...content, saved: new Date().toISOString() }));
      return true;
    } catch {
      return false;
    }
  }

  /** Audits of this model that other tabs left, the latest first: [{id, saved, commits}]. */
  others() {
    const found = this.keys()
      .filter((key) => key !== this.prefix + this.id)
      .map((key) => ({ id: key.slice(this.prefix.length), ...this.read(key) }))
      .filter((one) => one.history?.commits?.length)
      .sort((a, b) => (a.saved < b.saved ? 1 : -1));
    for (const old of found.slice(MOST)) this.place.removeItem(this.prefix + old.id);
    return found.slice(0, MOST);
  }

  /** A copy of another tab's audit becomes this tab's own. */
  continueFrom(id) {
    return this.read(this.prefix + id);
  }

  /** Who makes the edits, as told with the latest commit. */
  get author() {
    return this.place?.getItem(`${PREFIX}-author`) ?? "";
  }

  set author(name) {
    try {
      this.place?.setItem(`${PREFIX}-author`, name);
    } catch {
      // a name that is not kept is asked for again
    }
  }

  take(id) {
    this.id = id;
    this.tab?.setItem(this.prefix, id);
  }

  keys() {
    if (!this.place) return [];
    return Array.from({ length: this.place.length }, (_, k) => this.place.key(k)).filter((key) => key.startsWith(this.prefix));
  }

  read(key) {
    try {
      const content = JSON.parse(this.place?.getItem(key) ?? "null");
      return content && typeof content === "object" ? content : null;
    } catch {
      return null;
    }
  }
}

function newId() {
  return Math.random().toString(36).slice(2, 10);
}

/** A storage of the browser; null where it is forbidden. */
function storage(name) {
  try {
    const place = window[name];
    place.getItem(PREFIX);
    return place;
  } catch {
    return null;
  }
}
