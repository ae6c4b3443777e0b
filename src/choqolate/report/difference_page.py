"""Two models on one page: node by node, and image by image where they disagree."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from choqolate._util.files import write_bytes
from choqolate._util.progress import item_bar
from choqolate._util.text import counted
from choqolate.analysis.interval_text import judged_text, share_text
from choqolate.analysis.model_difference import Disagreements, ModelDifference, NodeMatch, compare_models
from choqolate.concepts.new_images import find_images
from choqolate.estimators.table_inputs import inputs
from choqolate.explain import ModelExplanation, explain_image, explain_model
from choqolate.report import render
from choqolate.report.drawings import MOST_WORDS, word_cloud_svg
from choqolate.report.image_cards import image_card, in_turn, set_scale, shown_path, waterfalls_of
from choqolate.report.model_page import check_page

if TYPE_CHECKING:
    from choqolate.data.scores import ConceptScores
    from choqolate.estimators.classifier import ChoqolateClassifier

MOST_IMAGES = 8
MOST_NODES = 32
MOST_CHANGES = 6  # concepts of a node that have more or less weight
MOST_TRANSITIONS = 10
MOST_GROUPS = 20
MOST_SETS = 100_000  # of concepts, tried for what would change a prediction


def write_difference(
    first: ChoqolateClassifier,
    second: ChoqolateClassifier,
    table: ConceptScores | None,
    path: str | os.PathLike[str],
    *,
    names: tuple[str, str] = ("first", "second"),
    root: str | os.PathLike[str] | None = None,
    difference: ModelDifference | None = None,
    verbose: bool = False,
) -> Path:
    """Write a self-contained HTML page that shows two models side by side.

    Args:
        first, second: fitted classifiers with the same classes.
        table: scores of all their concepts, to find the images on which they disagree; ``None`` for the nodes alone.
        path: of the page, which ends in ``.html``.
        names: what to call the models.
        root: the folder that the table's paths start from, if the images have moved.
        difference: what :func:`~choqolate.analysis.model_difference.compare_models` found, if it was asked already.
        verbose: show progress on stderr.

    Returns:
        The path of the page.

    Raises:
        ChoqolateError: if the classes differ, the table lacks concepts, or the path does not end in ``.html``.
    """
    target = Path(path)
    check_page(target)
    found = compare_models(first, second, table) if difference is None else difference
    disagreements = found.disagreements
    page = render(
        "difference.html",
        title=f"{names[0]} and {names[1]}, side by side",
        names=names,
        summary=_summary(found, names),
        one_layer=first.one_layer_,
        nodes=_nodes(found),
        n_nodes=len(found.matches),
        only=[(names[0], found.only_first), (names[1], found.only_second)],
        numbers=None if disagreements is None else _numbers(disagreements),
        images=[] if disagreements is None else _images(found, disagreements, names, root, verbose),
        temperatures=[f"{model.temperature_:g}" for model in (first, second)],
    )
    write_bytes(target, page.encode())
    return target


def _summary(found: ModelDifference, names: tuple[str, str]) -> list[str]:
    """How alike they are and which one is better, in whole sentences."""
    same = sum(match.same for match in found.matches)
    what = "classes" if found.first.one_layer_ else "nodes"
    sentences = [f"{same} of {len(found.matches)} {what} are the same in both (cosine of at least 0.8)."]
    if (rows := found.disagreements) is not None:
        sentences.append(f"Same prediction ({counted(len(rows.rows), 'image')}): {share_text(rows.agreement)}.")
        if rows.change is not None:
            sentences.append(f"Accuracy from {names[0]} to {names[1]}: {judged_text(rows.change)}.")
    return sentences


def _numbers(rows: Disagreements) -> dict[str, Any]:
    transitions = [(first, second, count) for (first, second), count in rows.transitions.items()]
    return {
        "rows": len(rows.rows),
        "chosen": rows.chosen,
        "agreement": rows.agreement,
        "right": rows.right,
        "change": rows.change,
        "groups": list(rows.groups.items())[:MOST_GROUPS],
        "transitions": transitions[:MOST_TRANSITIONS],
        "n_transitions": len(transitions),
    }


def _nodes(found: ModelDifference) -> list[dict[str, Any]]:
    """Partners side by side, the least alike first."""
    explained = [explain_model(model, most=0) for model in (found.first, found.second)]
    ordered = sorted(found.matches, key=lambda match: match.similarity)[:MOST_NODES]
    return [
        {
            "sides": [_side(explained[0], match.first), _side(explained[1], match.second)],
            "similarity": match.similarity,
            "same": match.same,
            "paired": match.first is not None and match.second is not None,
            "more": _moved(match, +1),
            "less": _moved(match, -1),
        }
        for match in ordered
    ]


def _moved(match: NodeMatch, sign: int) -> list[tuple[str, float]]:
    return [(name, change) for name, change in match.changes if change * sign > 0][:MOST_CHANGES]


def _side(explanation: ModelExplanation, node: int | None) -> dict[str, Any] | None:
    if node is None:
        return None
    words = explanation.leading(node, MOST_WORDS)
    return {"node": node, "name": explanation.nodes[node], "cloud": word_cloud_svg(words, title=f"node {node}")}


def _images(
    found: ModelDifference,
    rows: Disagreements,
    names: tuple[str, str],
    root: str | os.PathLike[str] | None,
    verbose: bool,
) -> list[dict[str, Any]]:
    """Images on which the models disagree, of each pair of predictions in turn, with the reasons of both."""
    pairs = [f"{one}\n{other}" for one, other in zip(rows.first, rows.second, strict=True)]
    chosen = in_turn(rows.where, pairs)[:MOST_IMAGES]
    files = find_images(rows.rows.take(chosen), root) if chosen else []
    shown: list[dict[str, Any]] = []
    with item_bar(len(chosen), "explaining", items="images", enabled=verbose) as advance:
        for row, file in zip(chosen, files, strict=True):
            one = rows.rows.take([row])
            truth, group, path = (None if c is None else c[0] for c in (one.labels, one.groups, one.paths))
            name = f"row {row}" if path is None else shown_path(str(path))
            cards = [
                image_card(
                    explain_image(model, inputs(model, one), truth=truth, trained=model, most_sets=MOST_SETS),
                    name=name,
                    file=file if model is found.first else None,
                    group=group,
                )
                for model in (found.first, found.second)
            ]
            shown.append({"cards": cards, "names": names, "truth": truth})
            advance(1)
    set_scale([fall for image in shown for card in image["cards"] for fall in waterfalls_of(card)])
    return shown
