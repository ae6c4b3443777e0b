"""A model card: what a model was trained on, how good it is and for whom, what it computes, and what was edited."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from choqolate._util.files import check_output, write_bytes
from choqolate._util.markup import markdown, pipes
from choqolate._util.numbers import decimal
from choqolate._util.text import capital, counted, printable
from choqolate.analysis.comparison import compare_evaluations
from choqolate.analysis.evaluation import Evaluation, evaluate
from choqolate.analysis.failing_slices import find_failing_slices
from choqolate.analysis.few_concepts import few_concepts_text
from choqolate.analysis.interval_text import calibration_error_text, judged_text, share_text
from choqolate.data.rows import class_index
from choqolate.errors import ChoqolateError, ChoqolateWarning
from choqolate.explain import explain_model, leading
from choqolate.explain.model_protocols import check_choquet_model
from choqolate.report.model_origin import commands, facts, words

if TYPE_CHECKING:
    from choqolate.data.scores import ConceptScores
    from choqolate.estimators.classifier import ChoqolateClassifier
    from choqolate.metrics import Proportion

MOST_NODES = 64
MOST_TERMS = 6  # of a formula
MOST_ROWS = 30  # of a table with a row for each class or group
MOST_QUESTIONS = 5
MOST_CLASSES = 3  # that a node contributes to


def write_card(
    model: ChoqolateClassifier,
    table: ConceptScores | None,
    path: str | os.PathLike[str],
    *,
    name: str = "model",
) -> Path:
    """Write the card of a model as Markdown, see :func:`model_card`.

    Args:
        model: a fitted classifier.
        table: scores to measure it on.
        path: of the card, which ends in ``.md``.
        name: what to call the model.

    Returns:
        The path of the card.

    Raises:
        ChoqolateError: if the path does not end in ``.md``, or the table lacks concepts of the model.
    """
    target = Path(path)
    check_card(target)
    write_bytes(target, model_card(model, table, name=name).encode())
    return target


def check_card(path: Path) -> None:
    """Raise an error early if a card cannot be written to this path."""
    if path.suffix.lower() not in (".md", ".markdown"):
        raise ChoqolateError(f"Expected a file that ends in .md but got {path}. A model card is Markdown.")
    check_output(path)


def model_card(model: ChoqolateClassifier, table: ConceptScores | None = None, *, name: str = "model") -> str:
    """Describe a model as Markdown: training data, numbers with intervals, formulas, and the history of edits.

    Args:
        model: a fitted classifier.
        table: scores with labels to measure it on, its held-out rows. Without them the card has the numbers that
            ``choqolate fit`` noted in the model, if it did.
        name: what to call the model.

    >>> from sklearn.datasets import load_wine
    >>> from choqolate import ChoqolateClassifier
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> card = model_card(ChoqolateClassifier(n_nodes=4, epochs=20).fit(X, y), name="wines")
    >>> print(card[:120])
    # Model card: wines
    <BLANKLINE>
    A CHOQOLATE model that distinguishes 3 classes (0, 1, 2) using 13 concepts through 4 nodes...
    """
    check_choquet_model(model, "to write a model card")
    if table is not None and table.labels is None:
        message = "The scores have no labels, so the model is not measured on them for its card."
        warnings.warn(message, ChoqolateWarning, stacklevel=2)
    parts = [
        _head(model, name),
        _training(model),
        _numbers(model, table),
        _questions(model, table),
        _nodes(model),
        _edits(model, table),
        _again(model),
    ]
    return printable("\n\n".join("\n".join(lines) for lines in parts if lines)) + "\n"


def _head(model: ChoqolateClassifier, name: str) -> list[str]:
    names = list(class_index(model.classes_))
    classes = ", ".join(markdown(one) for one in names[:5]) + (", …" if len(names) > 5 else "")
    nodes = "" if model.one_layer_ else f" through {counted(model.network_.n_nodes, 'node')}"
    number, concepts = counted(len(names), "class", "classes"), counted(len(model.concepts_), "concept")
    edits = model.network_.edits_in_force
    edited = f" It was edited after training ({counted(len(edits), 'edit')} in force)." if edits else ""
    return [
        f"# Model card: {markdown(name)}",
        "",
        f"A CHOQOLATE model that distinguishes {number} ({classes}) using {concepts}{nodes}.{edited}",
    ]


def _training(model: ChoqolateClassifier) -> list[str]:
    left_out = ("this page made with",)
    rows = [(capital(term), text) for term, text in facts(model) if term not in left_out]
    return ["## Training", "", *(f"- {markdown(term)}: {markdown(text)}" for term, text in rows)]


def _numbers(model: ChoqolateClassifier, table: ConceptScores | None) -> list[str]:
    if table is not None and table.labels is not None:
        result, when = evaluate(model, table), ""
    elif model.measured_ is not None:
        result = Evaluation.from_dict(model.measured_)
        when = " after training, before the edits" if model.network_.is_edited else " after training"
    else:
        return ["## Numbers", "", "Not measured. Pass scores with labels (`--scores`) to measure the model."]
    shares = {"accuracy": result.overall}
    if result.majority is not None:
        shares[f"always “{result.majority_class}”, the most frequent class"] = result.majority
    if (worst := result.worst_measurable_group) is not None:
        shares[f"worst group, “{worst[0]}”"] = worst[1]
    lines = [
        "## Numbers",
        "",
        f"Measured{when} on {markdown(result.chosen)}. In parentheses: 95% intervals.",
        "",
        *_shares("", shares),
    ]
    qualities = {
        "Attribution Gini": result.attribution_gini,
        "interaction mass": result.interaction_mass,
        "Node Coherence": result.node_coherence,
    }
    said = [f"{name} {decimal(value, 3)}" for name, value in qualities.items()]
    said.append(f"expected calibration error {calibration_error_text(result)}")
    lines += ["", f"{', '.join(said)}, concepts per class {decimal(result.concepts_per_class, 1)}."]
    few, accuracies = few_concepts_text(result.nec_accuracy, result.rows)
    lines += ["", f"{capital(few)}: {accuracies}."] if few else []
    lines += ["", "### Classes", "", *_shares("class", result.by_class)]
    if result.by_group:
        lines += ["", "### Groups", "", *_shares("group", result.by_group)]
    return lines


def _shares(head: str, shares: Mapping[str, Proportion]) -> list[str]:
    """A table of shares; of many, those that are lowest."""
    names = list(shares)
    if len(names) > MOST_ROWS:
        names = sorted(names, key=lambda name: shares[name].value)[:MOST_ROWS]
    rows = [[head, "images", "right"]]
    rows += [[markdown(name), f"{shares[name].rows:,}", share_text(shares[name])] for name in names]
    rest = ["", f"The lowest of {len(shares):,}."] if len(names) < len(shares) else []
    return [*pipes(rows, 1), *rest]


def _questions(model: ChoqolateClassifier, table: ConceptScores | None) -> list[str]:
    """Where the model fails, as questions."""
    if table is None or table.labels is None:
        return []
    found = find_failing_slices(model, table)
    questions = [f"{place}. {markdown(one.question)}" for place, one in enumerate(found.suspects[:MOST_QUESTIONS], 1)]
    return [
        "## Where it fails",
        "",
        f"On {found.chosen}: {markdown(found.verdict())}",
        *([""] if questions else []),
        *questions,
    ]


def _nodes(model: ChoqolateClassifier) -> list[str]:
    """Nodes as formulas, with their contributions to the classes."""
    explanation, formulas = explain_model(model, most=0), model.formulas(MOST_TERMS)
    lines = ["## Classes as formulas" if model.one_layer_ else "## Nodes as formulas", ""]
    lines += ["Inputs are concept scores, scaled to [0, 1] by the range of the training images.", ""]
    for node, formula in enumerate(formulas[:MOST_NODES]):
        most_for = leading(explanation.classes, explanation.class_attributions[:, node], MOST_CLASSES)
        to = "" if model.one_layer_ else f" → {', '.join(f'{markdown(one)} {value:.3f}' for one, value in most_for)}"
        lines.append(f"- {markdown(str(formula))}{to}")
    if len(formulas) > MOST_NODES:
        lines += ["", f"The first {MOST_NODES} of {len(formulas):,}."]
    if not model.one_layer_:
        lines += ["", "After the arrow: Shapley values of the node in the classes to which it contributes most."]
    return lines


def _edits(model: ChoqolateClassifier, table: ConceptScores | None) -> list[str]:
    """The history of edits: what, who, when, why, and the effect of each."""
    edits = model.network_.edits
    if not edits:
        return ["## Edits", "", "None. The model is as trained."]
    rows = [["edit", "who", "when", "why", "reviewed", "effect on accuracy"]]
    for edit, effect in zip(edits, _effects(model, table), strict=True):
        note = edit.note
        when = "" if note is None or note.time is None else note.time[:16].replace("T", " ")
        who, why = ("", "") if note is None else (note.author or "", note.reason or "")
        reviewed = "yes" if note is not None and note.reviewed else ""
        rows.append([markdown(cell) for cell in (capital(str(edit)), who, when, why, reviewed, effect)])
    return ["## Edits", "", *pipes(rows, len(rows[0]))]


def _effects(model: ChoqolateClassifier, table: ConceptScores | None) -> Iterable[str]:
    """What each edit changed on held-out rows, relative to the model before it."""
    if table is None or table.labels is None:
        return ["not measured"] * len(model.network_.edits)
    states = [model]
    while states[-1].network_.edits:
        states.append(states[-1].undo())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChoqolateWarning)  # the evaluation of the model itself has said it
        results = [evaluate(state, table, concept_counts=()) for state in reversed(states)]
    return [judged_text(compare_evaluations(before, after).overall) for before, after in pairwise(results)]


def _again(model: ChoqolateClassifier) -> list[str]:
    """The commands, and the files that they read."""
    lines = commands(model)
    files = {name: content for name, content in words(model).items() if any(name in line for line in lines)}
    parts = ["## How to train it again", "", *_code(lines)]
    for name, content in files.items():
        parts += ["", f"`{name}`:", "", *_code(content)]
    return parts


def _code(lines: Sequence[str]) -> list[str]:
    """A block of code; a name with backticks does not end it."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence, *lines, fence]
