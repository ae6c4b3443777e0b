"""What is worth knowing about a table of scores before a model is trained on it."""

from __future__ import annotations

from collections.abc import Iterator

from choqolate._util.text import counted, listed
from choqolate.concepts.embedding import Embeddings
from choqolate.data.scores import ConceptScores


def notes_on_scores(table: ConceptScores, embeddings: Embeddings) -> Iterator[str]:
    """Say what may mislead: rows outside of the split, copies across it, and concepts that name a class.

    Args:
        table: scores of images.
        embeddings: of the same images, in the same order.
    """
    yield from _split_notes(table, embeddings)
    classes = {label.lower() for label in table.classes}
    answers = [name for name in table.concepts if name.lower() in classes]
    if answers:
        yield f"words that name a class are the answer itself, better score without: {', '.join(answers)}"


def _split_notes(table: ConceptScores, embeddings: Embeddings) -> Iterator[str]:
    if table.split is None:
        return
    outside = sum(part is None for part in table.split)
    if outside:
        yield f"{counted(outside, 'image')} without a split: neither for training nor for testing"
    if table.labels is not None:
        untested = [name for name in table.classes if name not in set(table.labels[table.split == "test"])]
        if untested and len(untested) < len(table.classes):
            yield f"no image for testing of {listed(untested)}"
    rows = list(zip(embeddings.digests, table.split, strict=True))
    trained = {digest for digest, part in rows if part == "train"}
    twice = sum(part != "train" and digest in trained for digest, part in rows)
    if twice:
        yield f"{counted(twice, 'image')} for testing with exactly the content of one for training"
