import { decimal } from "../app/format.js";

/** A number with its sign, "+0.012"; zero has none. */
export function signed(value, digits = 3) {
  const text = decimal(value, digits);
  if (Number(text.replace("−", "-")) === 0) return decimal(0, digits);
  return value > 0 ? `+${text}` : text;
}

/** Decimals that show three figures of the largest of some numbers: 2 to 5. */
export function digitsFor(values) {
  let largest = 0;
  for (const value of values) largest = Math.max(largest, Math.abs(value));
  if (!(largest > 0)) return 2;
  return Math.min(5, Math.max(2, 2 - Math.floor(Math.log10(largest))));
}

/** Places on a track in percent, for a range that holds all values: {place(value), zero}. */
export function trackScale(values) {
  const low = Math.min(...values);
  const high = Math.max(...values);
  const width = high - low || 1;
  const place = (value) => (100 * (value - low)) / width;
  return { place, zero: place(0) };
}
