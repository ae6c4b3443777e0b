/** The numbers from 0 to n - 1. */
export function range(n) {
  return Array.from({ length: n }, (_, index) => index);
}
