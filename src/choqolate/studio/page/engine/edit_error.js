// What is said of an edit that is not possible.

/** An edit that is not possible; the message is a sentence for a person. */
export class EditError extends Error {}

/** Names as Python lists them: 'a', 'b' and 3 more. */
export function listed(names, most = 5) {
  const shown = names.slice(0, most).map(quoted).join(", ");
  return names.length <= most ? shown : `${shown} and ${names.length - most} more`;
}

/** A name in quotes, as Python writes it. */
export function quoted(name) {
  const escaped = String(name).replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll("\t", "\\t");
  if (escaped.includes("'") && !escaped.includes('"')) return `"${escaped}"`;
  return `'${escaped.replaceAll("'", "\\'")}'`;
}
