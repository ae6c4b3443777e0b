/** The draft: edits that are tried and not yet committed. All functions return another list. */

/** Take concepts out; what the draft did to them before in the same nodes (without nodes, anywhere) is dropped. */
export function withRemoval(draft, names, nodes, mode) {
  const others = withoutConcepts(draft, names, nodes ?? undefined);
  const same = sinceRestore(others).find((edit) =>
    edit.edit === "remove" && edit.mode === mode && sameNodes(edit.nodes, nodes));
  if (!same) return [...others, { edit: "remove", concepts: [...new Set(names)], nodes, mode }];
  const merged = { ...same, concepts: [...new Set([...same.concepts, ...names])] };
  return others.map((edit) => (edit === same ? merged : edit));
}

/** Give concepts a factor in place of what the draft did to them in the same nodes; a factor of 1 is no edit. */
export function withFactors(draft, factors, nodes) {
  const others = withoutConcepts(draft, Object.keys(factors), nodes);
  const told = Object.fromEntries(Object.entries(factors).filter(([, factor]) => factor !== 1));
  if (!Object.keys(told).length) return others;
  const same = sinceRestore(others).find((edit) => edit.edit === "reweight" && sameNodes(edit.nodes, nodes));
  if (!same) return [...others, { edit: "reweight", factors: told, nodes }];
  return others.map((edit) => (edit === same ? { ...same, factors: { ...same.factors, ...told } } : edit));
}

/** Drop what a draft does to concepts: in the same nodes or, without nodes, anywhere. */
export function withoutConcepts(draft, names, nodes) {
  const gone = new Set(names);
  return draft.flatMap((edit) => {
    const touched = nodes === undefined || sameNodes(edit.nodes, nodes);
    if (edit.edit === "remove" && touched) {
      const concepts = edit.concepts.filter((name) => !gone.has(name));
      return concepts.length ? [{ ...edit, concepts }] : [];
    }
    if (edit.edit === "reweight" && touched) {
      const factors = Object.fromEntries(Object.entries(edit.factors).filter(([name]) => !gone.has(name)));
      return Object.keys(factors).length ? [{ ...edit, factors }] : [];
    }
    return [edit];
  });
}

/** Whether an edit brings a concept back. */
export function restores(edit, name) {
  return edit.edit === "restore" && (edit.concepts === null || edit.concepts.includes(name));
}

/** The names of all concepts that a draft brings back. */
export function restoredNames(draft, all) {
  return new Set(draft.flatMap((edit) => (edit.edit === "restore" ? edit.concepts ?? all : [])));
}

/** The factor that a draft gives a concept in the given nodes; 1 if none, 0 if it is removed. */
export function draftFactor(draft, name, nodes) {
  let factor = 1;
  for (const edit of draft) {
    if (!sameNodes(edit.nodes, nodes)) continue;
    if (edit.edit === "remove" && edit.concepts.includes(name)) factor = 0;
    if (edit.edit === "reweight" && Object.hasOwn(edit.factors, name)) factor *= edit.factors[name];
  }
  return factor;
}

/** Edits after the last restoration: it would take back what is added to those before it. */
function sinceRestore(draft) {
  return draft.slice(1 + draft.findLastIndex((edit) => edit.edit === "restore"));
}

function sameNodes(a, b) {
  return String(a ?? "") === String(b ?? "");
}
