// Minimization of a smooth convex function by L-BFGS.

const MEMORY = 8; // steps that stand for the curvature
const ITERATIONS = 30;
const SMALLEST = 1e-9; // gradient at which nothing is left to gain
const ARMIJO = 1e-4;

/** The point at which a function, given as x -> {value, gradient}, is smallest, from a start. */
export function minimize(objective, start) {
  let x = start;
  let here = objective(x);
  const steps = [];
  for (let iteration = 0; iteration < ITERATIONS; iteration++) {
    if (here.gradient.every((slope) => Math.abs(slope) < SMALLEST)) break;
    const direction = descent(here.gradient, steps);
    const next = lineSearch(objective, x, here, direction);
    if (!next) break;
    const [s, y] = [difference(next.x, x), difference(next.there.gradient, here.gradient)];
    if (dot(s, y) > 0) steps.push({ s, y });
    if (steps.length > MEMORY) steps.shift();
    [x, here] = [next.x, next.there];
  }
  return x;
}

/** The direction of descent that the latest steps suggest (the two-loop recursion). */
function descent(gradient, steps) {
  const q = gradient.map((slope) => -slope);
  const parts = [];
  for (const { s, y } of [...steps].reverse()) {
    const part = dot(s, q) / dot(s, y);
    parts.push(part);
    add(q, y, -part);
  }
  const last = steps.at(-1);
  const scale = last ? dot(last.s, last.y) / dot(last.y, last.y) : 1;
  for (let k = 0; k < q.length; k++) q[k] *= scale;
  for (const { s, y } of steps) add(q, s, parts.pop() - dot(y, q) / dot(s, y));
  return q;
}

/** The first point on the way that is clearly lower; null if there is none. */
function lineSearch(objective, x, here, direction) {
  const slope = dot(here.gradient, direction);
  for (let length = 1; length > 1e-12; length /= 2) {
    const there = x.map((value, k) => value + length * direction[k]);
    const found = objective(there);
    if (found.value <= here.value + ARMIJO * length * slope) return { x: there, there: found };
  }
  return null;
}

function add(target, values, factor) {
  for (let k = 0; k < target.length; k++) target[k] += factor * values[k];
}

function difference(one, other) {
  return one.map((value, k) => value - other[k]);
}

function dot(one, other) {
  let sum = 0;
  for (let k = 0; k < one.length; k++) sum += one[k] * other[k];
  return sum;
}
