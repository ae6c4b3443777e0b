// Factored integrals by sorting: with P and Q the running sums of p and q over the inputs in descending order,
//   sum_{j,l} p_j q_l min(u_j, u_l) = sum_k P_k Q_k (u_(k) - u_(k+1)),
// in time linear in the inputs. A maximum is the sum less the minimum.

/** Inputs of one row from the largest to the smallest. */
export function sortedInputs(columns, i) {
  const values = Float64Array.from(columns, (column) => column[i]);
  const order = Uint16Array.from(columns.keys());
  return order.sort((j, l) => values[l] - values[j]);
}

/** Weights of the inputs in the linear part of a node, the sums of the maxima included. */
export function linearWeights(weights, n) {
  const { capacity, factor, extra } = weights;
  const start = n * capacity.nInputs;
  const out = Float64Array.from({ length: capacity.nInputs }, (_, j) => {
    return extra[start + j] + factor[start + j] * capacity.single(n, j);
  });
  for (const { onMax, p, q } of products(weights, n)) {
    const [onP, onQ] = [p, q].map((part) => part.reduce((sum, value) => sum + value, 0));
    for (let j = 0; j < out.length; j++) out[j] += onMax * (p[j] * onQ + q[j] * onP);
  }
  return out;
}

/** Add the expected minima of a node, less those of its maxima, on the rows from `start` to `stop`. */
export function addExpectedMinima(weights, n, sheet, columns, out, start, stop) {
  const { capacity, frozen } = weights;
  const I = capacity.nInputs;
  const terms = products(weights, n).filter(({ onMin, onMax }) => onMin !== onMax);
  const isFrozen = frozen.subarray(n * I, (n + 1) * I).some(Boolean);
  const own = columns.slice(0, I);
  const values = new Float64Array(I + 1);
  for (let i = start; i < stop; i++) {
    const order = isFrozen ? sortedInputs(own, i) : sheet.order(i);
    for (let k = 0; k < I; k++) values[k] = own[order[k]][i];
    for (const { onMin, onMax, p, q } of terms) out[i] += (onMin - onMax) * expectedMinimum(order, values, p, q);
  }
}

function expectedMinimum(order, values, p, q) {
  let [onP, onQ, sum] = [0, 0, 0];
  for (let k = 0; k < order.length; k++) {
    onP += p[order[k]];
    onQ += q[order[k]];
    sum += onP * onQ * (values[k] - values[k + 1]);
  }
  return sum;
}

/** The products of a node after its factors: mixture weights and what is left of p and q. */
function products({ capacity, factor }, n) {
  return Array.from({ length: capacity.rank }, (_, r) => ({
    onMin: capacity.mixture(n, 1 + r),
    onMax: capacity.mixture(n, 1 + capacity.rank + r),
    p: capacity.left(n, r, factor, capacity.p),
    q: capacity.left(n, r, factor, capacity.q),
  }));
}
