// The rows of the score table that are loaded: scaled scores, labels, splits, groups, roles and weights.

const COLUMNS = ["z", "label", "split", "group", "role", "stratum", "number", "has_image"];
const FIELD_OF = { has_image: "hasImage" };

/** The loaded rows; `append` adds those that the server sends later. */
export class RowTable {
  constructor(document, arrays) {
    this.strata = document.rows.strata;
    this.M = document.model.concepts.length;
    this.paths = [];
    this.n = 0;
    this.#add(arrays, document.rows.paths ?? []);
  }

  /** Add rows at the end; values that are shown until then keep their places. */
  append(arrays, paths = []) {
    this.#add(arrays, paths);
  }

  /** Scaled score of one row for one concept. */
  score(i, j) {
    return this.z[i * this.M + j];
  }

  /** Scaled scores of one row, in double precision. */
  scores(i) {
    return Float64Array.from(this.z.subarray(i * this.M, (i + 1) * this.M));
  }

  #add(arrays, paths) {
    for (const column of COLUMNS) {
      const field = FIELD_OF[column] ?? column;
      const { data } = arrays.get(`rows.${column}`);
      this[field] = joined(this[field], column === "z" ? asScores(data) : data);
    }
    this.n = this.label.length;
    this.paths = this.paths.concat(paths);
    this.weight = this.#weights();
  }

  /** Rows of the whole table that each loaded row stands for: the total of its stratum over those loaded of it. */
  #weights() {
    const loaded = new Float64Array(this.strata.length);
    for (const stratum of this.stratum) if (stratum >= 0) loaded[stratum] += 1;
    return Float64Array.from(this.stratum, (s) => (s >= 0 ? this.strata[s].total / loaded[s] : 1));
  }
}

/** Scores of many concepts are stored in 16 bits. */
function asScores(data) {
  return data instanceof Uint16Array ? Float32Array.from(data, (step) => step / 65535) : data;
}

function joined(first, second) {
  if (!first) return second;
  const both = new first.constructor(first.length + second.length);
  both.set(first);
  both.set(second, first.length);
  return both;
}
