/** The state of the page that stands in its address: {view, concept, image, ...}, all text. */
export function readRoute() {
  return Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
}

/** The address of a route; what is empty is left out. */
export function routeAddress(route) {
  const kept = Object.entries(route).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return `#${new URLSearchParams(kept.map(([key, value]) => [key, String(value)]))}`;
}

/** Put a route into the address, as a new step for the back button or in place of the current one. */
export function writeRoute(route, { step }) {
  const address = routeAddress(route);
  if (address === location.hash) return;
  if (step) location.hash = address;
  else location.replace(address);
}
