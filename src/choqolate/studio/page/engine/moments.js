// Means, correlations and the residual meter: how well some concepts still tell another one, from sums over rows alone.

const FOLDS = 5;
const RIDGE = 1e-3; // penalty, relative to the number of training rows times the mean variance of the concepts in use
const CHANCE = 0.05;

/** Moments of the scaled scores of the concepts on some rows. */
export class Moments {
  #grams = null;
  #kernel = null;

  constructor(network, rows, rowIndexes) {
    this.concepts = network.concepts;
    const { n, M } = { n: rowIndexes.length, M: rows.M };
    Object.assign(this, { n, M });
    this.means = new Float64Array(M);
    for (const i of rowIndexes) for (let j = 0; j < M; j++) this.means[j] += rows.z[i * M + j] / n;
    this.centered = new Float64Array(n * M); // row by row
    rowIndexes.forEach((i, place) => {
      for (let j = 0; j < M; j++) this.centered[place * M + j] = rows.z[i * M + j] - this.means[j];
    });
    this.squares = new Float64Array(M);
    this.centered.forEach((value, at) => (this.squares[at % M] += value * value));
  }

  /** Mean of a concept. */
  mean(j) {
    return this.means[j];
  }

  /** Correlation of two concepts; 0 if one of them is constant. */
  correlation(j, l) {
    const { n, M, centered } = this;
    let sum = 0;
    for (let i = 0; i < n; i++) sum += centered[i * M + j] * centered[i * M + l];
    const scale = Math.sqrt(this.squares[j] * this.squares[l]);
    return this.#isConstant(j) || this.#isConstant(l) ? 0 : sum / scale;
  }

  /** The correlation that the best of all pairs of independent concepts exceeds in 5 of 100 tables, as in Python. */
  get chance() {
    const varying = this.squares.reduce((count, _, j) => count + !this.#isConstant(j), 0);
    if (varying < 2) return 0;
    if (this.n <= 3) return 1;
    return Math.tanh(Math.sqrt(2 * Math.log((varying * (varying - 1)) / (4 * CHANCE))) / Math.sqrt(this.n - 3));
  }

  /** The concepts that a concept is correlated with most, either way. */
  siblings(j, most = 5) {
    const others = this.concepts.map((name, index) => ({ index, name, correlation: this.correlation(j, index) }));
    return others
      .filter(({ index, correlation }) => index !== j && correlation !== 0)
      .sort((one, other) => Math.abs(other.correlation) - Math.abs(one.correlation))
      .slice(0, most);
  }

  /**
   * Residual meter: the share of the variance of each target that ridge regression on the concepts in use (without the
   * targets) predicts on rows that it has not seen: R2 over five folds (a row's place modulo five), at least 0.
   */
  residual(targets, used) {
    const steps = this.residualSteps(targets, used);
    let step = steps.next();
    while (!step.done) step = steps.next();
    return step.value;
  }

  /** The same in small steps, so that the page can go on in between; yields the share that is done. */
  *residualSteps(targets, used) {
    const left = new Set(targets);
    const inputs = used.filter((j) => !left.has(j) && !this.#isConstant(j));
    const errors = new Float64Array(targets.length);
    const manyInputs = this.M > this.n;
    if (manyInputs) yield* this.#kernelSteps();
    else if (!this.#grams) yield* this.#gramSteps();
    const products = manyInputs && inputs.length ? yield* this.#productSteps(inputs) : null;
    for (let fold = 0; fold < FOLDS && inputs.length; fold++) {
      const fit = yield* manyInputs ? this.#rowFitSteps(fold, products, inputs.length) : this.#fitSteps(fold, inputs);
      for (let k = 0; k < targets.length; k++) {
        errors[k] += fit(targets[k]);
        yield (fold + 1) / FOLDS;
      }
    }
    return targets.map((index, k) => {
      const known = inputs.length > 0 && this.n >= 2 * FOLDS && !this.#isConstant(index);
      return { index, r2: known ? Math.max(0, 1 - errors[k] / this.squares[index]) : 0 };
    });
  }

  #isConstant(j) {
    return this.squares[j] <= 1e-12 * this.n;
  }

  /** Squared error on the rows of a fold of regressions on the other rows, as a function of the target. */
  *#fitSteps(fold, inputs) {
    const [all, held] = [this.#grams[FOLDS], this.#grams[fold]];
    const n = all.n - held.n;
    const mean = (j) => (all.sums[j] - held.sums[j]) / n;
    const about = (j, l) => all.at(j, l) - held.at(j, l) - n * mean(j) * mean(l); // about the training means
    const U = inputs.length;
    const matrix = new Float64Array(U * U);
    for (let k = 0; k < U; k++) {
      for (let m = 0; m <= k; m++) matrix[k * U + m] = about(inputs[k], inputs[m]);
      yield fold / FOLDS;
    }
    const penalty = RIDGE * inputs.reduce((sum, _, k) => sum + matrix[k * U + k], 0) / U;
    for (let k = 0; k < U; k++) matrix[k * U + k] += penalty;
    for (const _ of factorSteps(matrix, U)) yield fold / FOLDS;
    return (target) => {
      const slopes = solve(matrix, U, Float64Array.from(inputs, (j) => about(j, target)));
      return squaredError(held, [target, ...inputs], [1, ...slopes.map((slope) => -slope)], mean);
    };
  }

  /**
   * What #fitSteps gives, from the products of rows (n*n) instead of those of concepts: with K these products about the
   * training means, a ridge regression predicts k (K + penalty)^-1 y.
   */
  *#rowFitSteps(fold, products, nInputs) {
    const { n, M, centered } = this;
    const train = Array.from({ length: n }, (_, i) => i).filter((i) => i % FOLDS !== fold);
    const held = Array.from({ length: n }, (_, i) => i).filter((i) => i % FOLDS === fold);
    const size = train.length;
    const means = Float64Array.from({ length: n }, (_, i) => train.reduce((sum, m) => sum + products[i * n + m], 0) / size);
    const mean = train.reduce((sum, i) => sum + means[i], 0) / size;
    const about = (i, m) => products[i * n + m] - means[i] - means[m] + mean;
    const matrix = new Float64Array(size * size);
    for (let k = 0; k < size; k++) {
      for (let m = 0; m <= k; m++) matrix[k * size + m] = about(train[k], train[m]);
      yield fold / FOLDS;
    }
    const penalty = RIDGE * train.reduce((sum, _, k) => sum + matrix[k * size + k], 0) / nInputs;
    for (let k = 0; k < size; k++) matrix[k * size + k] += penalty;
    for (const _ of factorSteps(matrix, size)) yield fold / FOLDS;
    return (target) => {
      const value = (i) => centered[i * M + target];
      const average = train.reduce((sum, i) => sum + value(i), 0) / size;
      const weights = solve(matrix, size, Float64Array.from(train, (i) => value(i) - average));
      return held.reduce((error, i) => {
        const predicted = train.reduce((sum, m, k) => sum + weights[k] * about(i, m), 0);
        return error + (value(i) - average - predicted) ** 2;
      }, 0);
    };
  }

  /** Products of all rows over some concepts (n*n): those over all concepts, less the others. */
  *#productSteps(inputs) {
    const { n, M, centered } = this;
    const products = this.#kernel.slice();
    const kept = new Set(inputs);
    for (let j = 0; j < M; j++) {
      if (kept.has(j)) continue;
      for (let i = 0; i < n; i++) {
        for (let m = 0; m < n; m++) products[i * n + m] -= centered[i * M + j] * centered[m * M + j];
      }
      yield 0;
    }
    return products;
  }

  /** Compute the products of all rows over all concepts. */
  *#kernelSteps() {
    if (this.#kernel) return;
    const { n, M, centered } = this;
    const kernel = new Float64Array(n * n);
    for (let i = 0; i < n; i++) {
      for (let m = 0; m <= i; m++) {
        let sum = 0;
        for (let j = 0, at = i * M, other = m * M; j < M; j++, at++, other++) sum += centered[at] * centered[other];
        kernel[i * n + m] = kernel[m * n + i] = sum;
      }
      yield 0;
    }
    this.#kernel = kernel;
  }

  /** Compute sums and products of the centered scores over the rows of each fold and, after these, over all rows. */
  *#gramSteps() {
    const grams = Array.from({ length: FOLDS + 1 }, () => new Gram(this.M));
    for (let i = 0; i < this.n; i++) {
      grams[i % FOLDS].add(this.centered.subarray(i * this.M, (i + 1) * this.M));
      yield 0;
    }
    for (const part of grams.slice(0, FOLDS)) {
      grams[FOLDS].addAll(part);
      yield 0;
    }
    this.#grams = grams;
  }
}

/** Number of rows, their sums, and the sums of their products (the lower triangle). */
class Gram {
  constructor(M) {
    Object.assign(this, { M, n: 0, sums: new Float64Array(M), products: new Float64Array(M * M) });
  }

  add(row) {
    const { M, sums, products } = this;
    this.n += 1;
    for (let j = 0; j < M; j++) {
      const value = row[j];
      sums[j] += value;
      for (let l = 0, at = j * M; l <= j; l++, at++) products[at] += value * row[l];
    }
  }

  addAll(other) {
    this.n += other.n;
    other.sums.forEach((value, j) => (this.sums[j] += value));
    other.products.forEach((value, at) => (this.products[at] += value));
  }

  at(j, l) {
    return j < l ? this.products[l * this.M + j] : this.products[j * this.M + l];
  }
}

/** Sum over the rows of a Gram matrix of (sum_k weight_k (x_k - mean_k))^2. */
function squaredError(gram, columns, weights, mean) {
  const shift = columns.reduce((sum, j, k) => sum + weights[k] * mean(j), 0);
  let error = gram.n * shift * shift;
  columns.forEach((j, k) => {
    error -= 2 * shift * weights[k] * gram.sums[j];
    for (let m = 0; m < k; m++) error += 2 * weights[k] * weights[m] * gram.at(j, columns[m]);
    error += weights[k] * weights[k] * gram.at(j, j);
  });
  return error;
}

/** Cholesky factor of a symmetric matrix, in place of its lower triangle, row by row. */
function* factorSteps(matrix, size) {
  for (let k = 0; k < size; k++) {
    yield k;
    for (let m = 0; m <= k; m++) {
      let sum = matrix[k * size + m];
      for (let c = 0; c < m; c++) sum -= matrix[k * size + c] * matrix[m * size + c];
      matrix[k * size + m] = k === m ? Math.sqrt(sum) : sum / matrix[m * size + m];
    }
  }
}

/** Solve for a right-hand side, given the Cholesky factor. */
function solve(factor, size, right) {
  const x = right.slice();
  for (let k = 0; k < size; k++) {
    for (let m = 0; m < k; m++) x[k] -= factor[k * size + m] * x[m];
    x[k] /= factor[k * size + k];
  }
  for (let k = size - 1; k >= 0; k--) {
    for (let m = k + 1; m < size; m++) x[k] -= factor[m * size + k] * x[m];
    x[k] /= factor[k * size + k];
  }
  return x;
}

/** Concepts whose means differ most between selected rows and others, by the difference over the pooled deviation. */
export function distinguishing(network, rows, selected, others, most = 10) {
  const [one, other] = [selected, others].map((some) => new Moments(network, rows, some));
  const freedom = Math.max(one.n + other.n - 2, 1);
  const found = network.concepts.map((name, index) => {
    const difference = one.mean(index) - other.mean(index);
    const deviation = Math.sqrt((one.squares[index] + other.squares[index]) / freedom);
    return { index, name, difference, effect: deviation > 1e-9 ? difference / deviation : 0 };
  });
  return found.sort((x, y) => Math.abs(y.effect) - Math.abs(x.effect)).slice(0, most);
}
