const LABEL = 24;
const GAP = 6;

/** Places of nodes, classes and ribbons so that no labels overlap; shares is a function (class, node) -> number. */
export function flowLayout(nodes, classes, share) {
  const unit = Math.min(88, Math.max(26, Math.round(300 / Math.max(1, classes.length))));
  const size = (r, n) => unit * Math.abs(share(r, n));
  const left = column(nodes, (n) => classes.reduce((sum, r) => sum + size(r, n), 0));
  const right = column(classes, (r) => nodes.reduce((sum, n) => sum + size(r, n), 0));
  const height = Math.max(left.height, right.height);
  for (const side of [left, right]) for (const item of side.items) item.y += (height - side.height) / 2;
  const used = { left: new Map(), right: new Map() };
  const ribbons = [];
  left.items.forEach((from) => right.items.forEach((to) => {
    const thickness = size(to.id, from.id);
    const start = from.y + (used.left.get(from.id) ?? 0);
    const end = to.y + (used.right.get(to.id) ?? 0);
    used.left.set(from.id, (used.left.get(from.id) ?? 0) + thickness);
    used.right.set(to.id, (used.right.get(to.id) ?? 0) + thickness);
    ribbons.push({ node: from.id, target: to.id, share: share(to.id, from.id), start, end, thickness });
  }));
  return { left: left.items, right: right.items, ribbons, height };
}

/** Bars one below the other, each with room for a label: {items: [{id, y, size, middle}], height}. */
function column(ids, sizeOf) {
  let top = 0;
  const items = ids.map((id) => {
    const size = sizeOf(id);
    const room = Math.max(size, LABEL);
    const y = top + (room - size) / 2;
    top += room + GAP;
    return { id, y, size };
  });
  return { items, height: Math.max(0, top - GAP) };
}

/** The outline of a ribbon in a box that is 100 wide. */
export function ribbonPath({ start, end, thickness }) {
  const f = (value) => value.toFixed(2);
  return `M0,${f(start)} C50,${f(start)} 50,${f(end)} 100,${f(end)} L100,${f(end + thickness)} `
    + `C50,${f(end + thickness)} 50,${f(start + thickness)} 0,${f(start + thickness)} Z`;
}
