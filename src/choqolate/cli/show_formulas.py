"""Formulas and simplifications on the terminal."""

from __future__ import annotations

from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from choqolate._util.text import counted
from choqolate.analysis.interval_text import share_text
from choqolate.cli.terminal import cut, plain_table
from choqolate.estimators.classifier import ChoqolateClassifier
from choqolate.explain.formulas import Formula
from choqolate.metrics import Proportion
from choqolate.network.certificate import Certificate
from choqolate.network.simplification import Simplification

SHORT = 4  # terms of a formula beside the table of nodes
MOST_NODES = 12  # with a formula, where it is not all that is asked for
MOST_ROWS = 20  # of a table with a row for each node


def show_formulas(console: Console, model: ChoqolateClassifier, folder: Path | None = None) -> None:
    """Print the heaviest terms of each node; of many nodes the first ones if there is a folder to name."""
    formulas = model.formulas(SHORT)
    shown = len(formulas) if folder is None else min(MOST_NODES, len(formulas))
    console.print()
    for formula in formulas[:shown]:
        console.print(Text(_wrapped(formula, console.width, SHORT)), soft_wrap=True)
    if shown < len(formulas):
        said = f"{shown} of {len(formulas):,} shown; choqolate explain {cut(folder)} shows all"
        console.print(Text(said, style="dim"), soft_wrap=True)


def show_simplification(console: Console, model: ChoqolateClassifier, found: Simplification) -> None:
    """The formulas that are left, what each node dropped, and the bound."""
    for formula in model.formulas(max_terms=None)[:MOST_NODES]:
        console.print(Text(_wrapped(formula, console.width)), soft_wrap=True)
    n_nodes = len(found.terms)
    if n_nodes > MOST_NODES:
        said = f"{MOST_NODES} of {n_nodes:,} shown; print(model.formulas()) in Python shows all"
        console.print(Text(said, style="dim"))
    one_layer = model.one_layer_
    table = plain_table("class" if one_layer else "node", "terms before", "after", "weight dropped")
    heads = model.node_names_ if one_layer else range(n_nodes)
    rows = list(zip(heads, found.terms_before, found.terms, found.mass_dropped, strict=True))
    shown = rows if n_nodes <= MOST_ROWS else sorted(rows, key=lambda row: -row[3])[:MOST_ROWS]
    for head, before, after, dropped in shown:
        table.add_row(Text(cut(head)), f"{before:,}", f"{after:,}", f"{dropped:.2%}")
    console.print("", table)
    if len(shown) < n_nodes:
        console.print(Text(f"{len(shown)} of {n_nodes:,} shown, those that dropped the most weight first", style="dim"))
    if found.class_mass_dropped.any():
        terms = f"at most {found.class_terms.max():,} terms (before: {found.class_terms_before.max():,})"
        said = f"second layer: {terms}, up to {found.class_mass_dropped.max():.2%} of the weight dropped"
        console.print(Text(said), soft_wrap=True)
    console.print(Text(f"No class score moves by more than {found.bound.max():.4f} on any image."), soft_wrap=True)


def show_certificate(console: Console, proof: Certificate) -> None:
    """How many rows provably keep their predicted class, and how many actually do."""
    certified, same = (Proportion(int(mask.sum()), proof.rows) for mask in (proof.certified, proof.unchanged))
    keep = "keeps its" if proof.rows == 1 else "keep their"
    of = counted(proof.rows, "row")
    said = f"{certified.hits:,} of {of} provably {keep} predicted class: {share_text(certified)}.\n"
    said += f"In fact, {same.hits:,} {'keeps' if same.hits == 1 else 'keep'} it: {share_text(same)}."
    console.print("", Text(said), soft_wrap=True, sep="\n")


def _wrapped(formula: Formula, width: int, most: int | None = None) -> str:
    """All terms, in lines of at most the width that begin with a sign."""
    head = f"{cut(formula.subject)} ="
    lines = [head]
    for part in formula.parts(most, show=cut):
        if cell_len(lines[-1]) + 1 + cell_len(part) > width and lines[-1].strip():
            lines.append(" " * cell_len(head))
        lines[-1] += f" {part}"
    return "\n".join(lines)
