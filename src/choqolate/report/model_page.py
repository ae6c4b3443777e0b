"""The report of a model: all that is known of it, on one page."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from choqolate import metrics
from choqolate._util.files import check_output, write_bytes
from choqolate._util.text import counted
from choqolate.analysis.evaluation import Evaluation
from choqolate.analysis.few_concepts import few_concepts_rows
from choqolate.analysis.interval_text import calibration_error_text, judged_text, share_text, small_groups_text
from choqolate.analysis.suspects import Suspects
from choqolate.concepts.new_images import score_for_model
from choqolate.data.rows import class_index
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError
from choqolate.estimators.calibration import calibration_text
from choqolate.explain import ModelChange, explain_change
from choqolate.explain.model_protocols import check_choquet_model
from choqolate.explain.redundancy import EXACT_UP_TO
from choqolate.metrics import Proportion
from choqolate.network.edits import Remove
from choqolate.network.removal_report import Removal, factor_text
from choqolate.report import data_uri, render, share
from choqolate.report.control_section import control_section
from choqolate.report.drawings import MOST_WORDS, correlation_png
from choqolate.report.model_origin import commands, facts, words
from choqolate.report.node_section import node_cards, node_shares
from choqolate.report.page_data import View
from choqolate.report.suspect_cards import suspects_section

if TYPE_CHECKING:
    from choqolate.analysis.controls import Controls
    from choqolate.concepts.backbones import Backbone
    from choqolate.estimators.classifier import ChoqolateClassifier

WEAKEST = 0.001  # change of a Shapley value that is shown
MOST_ROWS = 20  # of a table with a row for each class or group
MOST_NAMES = 12  # of concepts that were removed together


def write_report(
    model: ChoqolateClassifier,
    table: ConceptScores | None,
    path: str | os.PathLike[str],
    *,
    images: ConceptScores | Sequence[str | os.PathLike[str]] = (),
    root: str | os.PathLike[str] | None = None,
    backbone: Backbone | str | None = None,
    title: str = "A model explained",
    names: tuple[str, str] = ("model", "scores.parquet"),
    suspects: Suspects | None = None,
    controls: Controls | None = None,
    verbose: bool = False,
) -> Path:
    """Write a page that explains a model; it needs nothing but itself.

    Args:
        model: a fitted classifier.
        table: scores to measure it on; without labels, or without a table, what needs them is left out.
        path: of the page, which ends in ``.html``.
        images: image files to explain, from their pixels; they need not be in the table. Or what
            :func:`choqolate.score_for_model` made of them.
        root: the folder that the table's paths start from, if the images have moved.
        backbone: the encoder for ``images``, if it has moved.
        title: of the page.
        names: of the model and of the scores, in the commands that the page proposes.
        suspects: what :func:`choqolate.find_suspects` found, if it was asked already.
        controls: what :func:`choqolate.run_controls` measured, for a section of its own.
        verbose: show progress on stderr.

    Returns:
        The path of the page.

    Raises:
        ChoqolateError: if the table lacks concepts of the model, an image cannot be read, or the path does not end in
            ``.html``.
    """
    target = Path(path)
    check_choquet_model(model, "to write a report")
    check_page(target)
    view = View(model, table, root, verbose, suspects)
    if not isinstance(images, ConceptScores):
        images = score_for_model(model, images, backbone=backbone) if len(images) else images
    own = view.examples_of_files(images) if isinstance(images, ConceptScores) else []
    write_bytes(target, _page(view, own, title, names, controls).encode())
    return target


def check_page(path: Path) -> None:
    """Find out before the work that a page cannot be written, or would be taken for something else."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise ChoqolateError(f"Expected the name of a page that ends in .html, but got {path}. Choose such a name.")
    check_output(path)


def _temperature(model: ChoqolateClassifier) -> str:
    said = "" if model.calibration_ is None else f", {calibration_text(model)},"
    return f"{model.probability_temperature_:.4g}{said}"


def _page(view: View, own: list[dict[str, Any]], title: str, names: tuple[str, str], controls: Controls | None) -> str:
    model, results = view.model, view.results
    shown = view.examples() if view.rows is not None else {"worst": [], "best": [], "changed": []}
    suspects = suspects_section(view, names)
    return render(
        "model.html",
        title=title,
        summary=_summary(view, suspects),
        own=own,
        shown=shown,
        labelled=view.measured is not None,
        temperature=_temperature(model),
        metrics=_metrics(results),
        nodes=node_cards(view),
        one_layer=model.one_layer_,
        stability=view.explanation.stability,
        absences=view.explanation.absence is not None,
        duplicates=[(pair, [view.explanation.nodes[n] for n in pair[:2]]) for pair in view.explanation.duplicates][:10],
        n_duplicates=len(view.explanation.duplicates),
        n_nodes=len(view.explanation.nodes),
        notes=view.notes,
        rows_called=view.rows_called,
        marked=bool(view.marked[0]),
        marked_as=view.marked[1],
        flows=node_shares(view),
        classes=_classes(view),
        groups=_groups(view),
        suspects=suspects,
        controls=control_section(controls),
        edits=_edits(view),
        redundancy=None if view.redundancy is None else view.redundancy.lines(),
        heatmap=None if view.redundancy is None else data_uri(correlation_png(view.redundancy), "image/png"),
        order=[] if view.redundancy is None else view.redundancy.ordered_concepts,
        n_concepts=len(model.concepts_),
        exact_up_to=EXACT_UP_TO,
        most_names=MOST_NAMES,
        most_words=MOST_WORDS,
        studio=shlex.join(["choqolate", "studio", names[0], "--scores", names[1]]),
        facts=facts(model),
        words=words(model),
        commands=commands(model),
    )


# ---------------------------------------------------------------------- sentences and tables


def _summary(view: View, suspects: dict[str, Any] | None) -> list[str]:
    """What it is, how good it is, and what to do about it, in whole sentences."""
    model = view.model
    nodes = "" if model.one_layer_ else f" through {counted(model.network_.n_nodes, 'node')}"
    names = list(class_index(model.classes_))
    n_removed = len(model.removal_.concepts) if model.removal_ else 0
    concepts = counted(len(model.concepts_), "concept")
    sentences = [
        f"The model tells {counted(len(names), 'class', 'classes')} apart ({_first(names, 5)}) by {concepts}{nodes}."
    ]
    if n_removed:
        sentences.append(
            f"{counted(n_removed, 'concept')} {'was' if n_removed == 1 else 'were'} removed after training."
        )
    result = view.measured
    if result is not None:
        sentences += _how_good(result)
    elif view.table is not None:
        sentences.append("The scores have no labels, so it could not be measured on them.")
    hopes = [one for one in suspects["together"] if one["compared"].worst_group[1].beyond_chance] if suspects else []
    if suspects is not None and suspects["helpful"] and hopes:
        sentences.append(_hope(hopes[0]))
        if suspects["peeked"]:
            sentences.append("These concepts were found on the same images, so the gain is optimistic.")
    elif suspects is not None and suspects["failing"]:
        sentences += [card["question"] for card in suspects["failing"]["cards"][:1]]
    half = [_needed(values) for values in np.abs(model.concept_attributions_)]
    low, high = min(half), max(half)
    number = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    what = "class" if model.one_layer_ else "node"
    sentences.append(f"Half of what a {what} reads comes from {number} concept{'s' if high > 1 else ''}.")
    return sentences


def _how_good(result: Evaluation) -> list[str]:
    """How often it is right, the worst group, and what cannot be told."""
    right = f"Accuracy ({result.chosen}, {counted(result.rows, 'image')}): {share_text(result.overall)}"
    if result.majority is not None and not result.majority.too_few:
        right += f"; always predicting “{result.majority_class}” would reach {share(result.majority.value)}"
    sentences = [f"{right}."]
    if (worst := result.worst_measurable_group) is not None:
        sentences.append(f"Accuracy of the worst group, “{worst[0]}”: {share_text(worst[1])}.")
    if result.small_groups:
        sentences.append(f"Groups with too few images to measure: {small_groups_text(result.small_groups)}.")
    return sentences


def _hope(outcome: dict[str, Any]) -> str:
    """What the first proposal of a removal would do."""
    concepts, (name, change) = outcome["concepts"], outcome["compared"].worst_group
    without_them = f"Without {counted(len(concepts), 'suspected concept')} ({_first(concepts, 4)})"
    return f"{without_them}, accuracy of the worst group, “{name}”: {judged_text(change)}."


def _first(names: Sequence[str], most: int) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def _needed(values: np.ndarray) -> int:
    """How many concepts have half of a node's attributions."""
    running = np.cumsum(np.sort(values)[::-1])
    return int(np.searchsorted(running, running[-1] / 2 - 1e-12)) + 1


def _metrics(results: dict[str, Evaluation]) -> dict[str, Any] | None:
    if not results:
        return None
    columns = list(results.values())
    shares: list[tuple[str, list[Proportion | None]]] = [("accuracy", [one.overall for one in columns])]
    first = columns[0].majority_class
    if first is not None:
        shares.append((f"always “{first}”, the most frequent class", [one.majority for one in columns]))
    if any(one.worst_group for one in columns):
        shares.append(("accuracy of the worst group", [one.worst_share for one in columns]))
    return {
        "names": list(results),
        "rows": [one.rows for one in columns],
        "shares": shares,
        "class_means": [_class_mean(one) for one in columns],
        "quality": [
            ("Attribution Gini", [one.attribution_gini for one in columns], 3),
            ("interaction mass", [one.interaction_mass for one in columns], 3),
            ("Node Coherence", [one.node_coherence for one in columns], 3),
            ("concepts per class", [one.concepts_per_class for one in columns], 1),
        ],
        "calibration": [calibration_error_text(one) for one in columns],
        "few": few_concepts_rows([(one.nec_accuracy, one.rows) for one in columns]),
        "chosen": columns[0].chosen,
    }


def _class_mean(result: Evaluation) -> tuple[float | None, tuple[float, float]]:
    """Mean accuracy of the classes with its interval; no mean of too few rows."""
    shares = list(result.by_class.values())
    mean = None if result.overall.too_few else float(np.mean([share.value for share in shares]))
    return mean, metrics.mean_interval(shares)


def _classes(view: View) -> dict[str, Any] | None:
    """Accuracy of the classes, the lowest first if there are many, and the most frequent mistakes."""
    result = view.measured
    if result is None:
        return None
    shares = result.by_class
    names = list(shares)
    if len(names) > MOST_ROWS:
        names = _lowest_first(shares)[:MOST_ROWS]
    return {
        "rows": [(name, shares[name]) for name in names],
        "n_classes": len(shares),
        "mistakes": result.mistakes[:10],
    }


def _groups(view: View) -> dict[str, Any] | None:
    result = view.measured
    if result is None or not result.group_accuracy:
        return None
    compared, shares = view.compared, result.by_group
    names = _lowest_first(shares)
    rows = [
        {
            "name": name,
            "now": shares[name],
            "before": None if compared is None else compared.before.by_group[name],
            "change": None if compared is None else compared.groups[name],
        }
        for name in names[:MOST_ROWS]
    ]
    return {"rows": rows, "n_groups": len(names)}


def _lowest_first(shares: Mapping[str, Proportion]) -> list[str]:
    """Names by their share; those with too few rows come last."""
    return sorted(shares, key=lambda name: (shares[name].too_few, shares[name].value))


def _edits(view: View) -> dict[str, Any] | None:
    """What edits since training changed: their history, what each node lost, and what it reads instead."""
    network, removal = view.model.network_, view.model.removal_
    if not network.edits:
        return None
    change = explain_change(view.trained, view.model)
    shifts = list(zip(class_index(view.model.classes_), change.class_shift.tolist(), strict=True))
    modes = dict.fromkeys(edit.mode for edit in network.edits_in_force if isinstance(edit, Remove))
    return {
        "concepts": removal.concepts if removal else (),
        "reweighted": {name: factor_text(*ends) for name, ends in removal.reweighted.items()} if removal else {},
        "history": [(str(edit), edit.note) for edit in network.edits],
        "compared": [] if view.compared is None else view.compared.lines(),
        "transitions": [(str(old), str(new), number) for (old, new), number in view.transitions.items()][:6],
        "rows": _changed_nodes(change, removal) if removal else [],
        "shifts": shifts if change.class_shift.any() else [],
        "modes": list(modes),
        "simplified": _simplified(view),
    }


def _simplified(view: View) -> dict[str, Any] | None:
    """What a simplification dropped, its bound, and for how many rows it is proved that the class stays."""
    found = view.model.simplification_
    if found is None:
        return None
    proof = None
    if view.rows is not None:
        with suppress(ChoqolateError):  # concepts were removed after it, so that it proves nothing about this model
            found_proof = view.model.certify(view.rows)
            masks = found_proof.certified, found_proof.unchanged
            proof = [Proportion(int(mask.sum()), found_proof.rows) for mask in masks]
    return {
        "terms": int(found.terms.max()),
        "before": int(found.terms_before.max()),
        "dropped": float(found.mass_dropped.max()),
        "bound": float(found.bound.max()),
        "proof": proof,
    }


def _changed_nodes(change: ModelChange, removal: Removal) -> list[dict[str, Any]]:
    return [
        {
            "node": node,
            "before": change.before.nodes[node],
            "after": change.after.nodes[node],
            "lost": max(float(removal.mass_lost[node]), 0.0),
            "kept": float(removal.mass_retained[node]),
            "losses": [pair for pair in change.losses(node, 3) if pair[1] <= -WEAKEST],
            "gains": [pair for pair in change.gains(node, 3) if pair[1] >= WEAKEST],
        }
        for node in range(len(change.before.nodes))
    ]
