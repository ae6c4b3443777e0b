/** A text as Python and JSON write it. */
function quoted(text) {
  return JSON.stringify(text);
}

/** A text as a POSIX shell takes it. */
function shellWord(text) {
  return /^[\w@%+=:,./-]+$/.test(text) && !text.startsWith("-") ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** Shell commands that do in a terminal what the page does: from the edits file to the edited model and its report. */
export function shellCommands(names, edits) {
  const [model, scores] = [names.model, names.scores].map(shellWord);
  const edited = shellWord(`${names.model}-edited`);
  const again = edits.some((edit) => edit.edit === "recalibrate") ? ` --recalibrate ${scores}` : "";
  return [
    `choqolate apply ${model} edits.json -o ${edited} --scores ${scores}${again}`,
    `choqolate explain ${edited} --scores ${scores} -o report.html`,
  ].join("\n");
}

/** Python code that makes the same edits one by one. */
export function pythonCode(names, edits) {
  const lines = ["import choqolate as cq", "", `clf = cq.load(${quoted(names.model)})`];
  if (edits.some((edit) => edit.edit === "recalibrate")) {
    lines.push(`train = cq.ConceptScores.load(${quoted(names.scores)}).part("train")`);
  }
  lines.push(...edits.map(call), `clf.save(${quoted(`${names.model}-edited`)})`);
  return lines.join("\n");
}

function call(edit) {
  const options = [];
  if (edit.nodes) options.push(`nodes=[${edit.nodes.join(", ")}]`);
  if (edit.mode && edit.mode !== "rescale") options.push(`mode=${quoted(edit.mode)}`);
  if (edit.note?.reason) options.push(`note=${quoted(edit.note.reason)}`);
  const rest = options.map((option) => `, ${option}`).join("");
  if (edit.edit === "remove") return `clf = clf.remove_concepts([${edit.concepts.map(quoted).join(", ")}]${rest})`;
  if (edit.edit === "recalibrate") return `clf = clf.recalibrate(train${rest})`;
  if (edit.edit === "restore" && edit.concepts === null) return `clf = clf.restore(${rest.slice(2)})`;
  if (edit.edit === "restore") return `clf = clf.restore([${edit.concepts.map(quoted).join(", ")}]${rest})`;
  const factors = Object.entries(edit.factors).map(([name, factor]) => `${quoted(name)}: ${factor}`);
  return `clf = clf.reweight_concepts({${factors.join(", ")}}${rest})`;
}
