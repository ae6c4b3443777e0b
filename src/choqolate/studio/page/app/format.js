import { TOO_FEW } from "../engine/metrics.js";

const NOTHING = "–";

/** "84.2%" */
export function percent(value, digits = 1) {
  return Number.isFinite(value) ? `${(100 * value).toFixed(digits)}%` : NOTHING;
}

/** A share in percent: "4.2%"; of a small one the first two digits, "0.0021%", down to "<0.0001%". */
export function share(value) {
  if (!(value > 0 && value < 0.0005)) return percent(value);
  return value < 1e-6 ? "<0.0001%" : percent(value, Math.min(4, 1 - Math.floor(Math.log10(100 * value))));
}

/** "+2.1" points, with a real minus sign; "0.0" without one. */
export function points(value, digits = 1) {
  if (!Number.isFinite(value)) return NOTHING;
  const text = Math.abs(100 * value).toFixed(digits);
  if (Number(text) === 0) return text;
  return `${value < 0 ? "−" : "+"}${text}`;
}

/** "80.1 to 87.6": an interval in percent. */
export function interval(low, high, digits = 1) {
  if (!Number.isFinite(low) || !Number.isFinite(high)) return NOTHING;
  return `${(100 * low).toFixed(digits)} to ${(100 * high).toFixed(digits)}`;
}

/** "−4.2 to +20.2": the interval of a change, in points. */
export function pointRange(low, high) {
  return Number.isFinite(low) && Number.isFinite(high) ? `${points(low)} to ${points(high)}` : NOTHING;
}

/** "+8.3 points (−4.2 to +20.2)" of what the engine tells of a change on the same rows. */
export function changeText({ n, gained, lost, change, low, high }) {
  if (n < TOO_FEW) return `too few to tell (${counted(n, "image")})`;
  return gained + lost ? `${points(change)} points (${pointRange(low, high)})` : "no change";
}

/** "6,000" */
export function count(value) {
  return Number.isFinite(value) ? value.toLocaleString("en-US") : NOTHING;
}

/** "1 image", "2 images" */
export function counted(value, noun, plural = `${noun}s`) {
  return `${count(value)} ${value === 1 ? noun : plural}`;
}

/** A number with so many decimals, with a real minus sign. */
export function decimal(value, digits = 3) {
  return Number.isFinite(value) ? value.toFixed(digits).replace("-", "−") : NOTHING;
}

/** "p = 0.03", "p < 0.001" */
export function pText(p) {
  return p < 0.001 ? "p < 0.001" : `p = ${p.toFixed(p < 0.01 ? 3 : 2)}`;
}

/** "sea", "sea and river", "sea, river and 3 more" */
export function listed(names, most = 4) {
  if (names.length <= 1) return names.join("");
  if (names.length > most) return `${names.slice(0, most).join(", ")} and ${names.length - most} more`;
  return `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

/** The same text with a capital at its start. */
export function sentenceStart(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** "Nov 18, 14:05": a time in ISO 8601, as the reader's clock shows it. */
export function moment(iso) {
  const date = new Date(iso ?? Number.NaN);
  if (Number.isNaN(date.getTime())) return iso ?? "";
  return date.toLocaleString("en-US", { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hour12: false });
}

/** An edit in words: "Remove sea and river in node 3". */
export function editText(edit) {
  const where = edit.nodes ? ` in ${edit.nodes.length === 1 ? "node" : "nodes"} ${edit.nodes.join(", ")}` : "";
  if (edit.edit === "remove") return `Remove ${listed(edit.concepts, 6)}${where}${edit.mode === "rescale" ? "" : ` (${edit.mode})`}`;
  if (edit.edit === "reweight") {
    return `Reweight ${listed(Object.entries(edit.factors).map(([name, factor]) => `${name} × ${shortFactor(factor)}`), 6)}${where}`;
  }
  if (edit.edit === "recalibrate") return `Recalibrate the classes${edit.rows ? ` on ${counted(edit.rows, "row")}` : ""}`;
  if (edit.edit === "simplify") return "Simplify the nodes";
  return edit.concepts ? `Restore ${listed(edit.concepts, 6)}` : "Restore everything";
}

/** A factor without needless digits. */
export function shortFactor(factor) {
  return String(Number(factor.toPrecision(3)));
}
