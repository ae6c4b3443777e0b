"""The controls of a model, as a section of its report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from choqolate.analysis.control_text import accuracy_text, control_lines

if TYPE_CHECKING:
    from choqolate.analysis.controls import Controls
    from choqolate.analysis.leakage import Leakage

MOST_CONCEPTS = 20  # removed ones with a row each


def control_section(controls: Controls | None) -> dict[str, Any] | None:
    """Rows of the tables, what random concepts were drawn from, and the sentences; ``None`` without controls."""
    if controls is None:
        return None
    return {
        "rows": [
            {
                "name": row.name,
                "accuracy": accuracy_text(row).replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}"),
                "gini": row.attribution_gini,
                "coherence": row.node_coherence,
                "concepts": row.concepts_per_class,
            }
            for row in controls.rows
        ],
        "majority": controls.majority,
        "sources": [(row.name, row.source) for row in controls.rows if row.source is not None],
        "runs": max(len(row.evaluations) for row in controls.rows),
        "images": controls.n_images,
        "chosen": controls.chosen,
        "lines": control_lines(controls),
        "leakage": None if controls.leakage is None else _leakage(controls.leakage),
    }


def _leakage(leakage: Leakage) -> dict[str, Any]:
    """The sentences, and for each removed concept what the probe finds and how closely class scores follow it."""
    before, after = leakage.before.per_concept, leakage.after.per_concept
    names = sorted(leakage.concepts, key=lambda name: -after[name])[:MOST_CONCEPTS]
    return {
        "lines": leakage.lines(),
        "rows": [(name, leakage.probe[name], before[name], after[name]) for name in names],
        "n_concepts": len(leakage.concepts),
    }
