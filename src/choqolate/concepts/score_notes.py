"""What is worth knowing about a table of scores before a model is trained on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from choqolate._util.text import counted, listed
from choqolate.concepts.embedding import Embeddings
from choqolate.data.rows import Rows


def notes_on_scores(rows: Rows, concepts: Sequence[str], embeddings: Embeddings) -> Iterator[str]:
    """Say what may mislead: rows outside of the split, copies across it, and concepts that name a class.

    Args:
        rows: of a table of scores.
        concepts: that the images were scored for.
        embeddings: of the same images, in the same order.
    """
    yield from _split_notes(rows, embeddings)
    classes = {label.lower() for label in rows.classes}
    answers = [name for name in concepts if name.lower() in classes]
    if answers:
        yield f"concepts that name a class give the answer away; score without them: {listed(answers)}"


def _split_notes(rows: Rows, embeddings: Embeddings) -> Iterator[str]:
    if rows.split is None:
        return
    outside = sum(part is None for part in rows.split)
    if outside:
        yield f"{counted(outside, 'image')} without a split: neither for training nor for testing"
    if rows.labels is not None:
        tested = set(rows.labels[rows.split == "test"])
        untested = [name for name in rows.classes if name not in tested]
        if untested and len(untested) < len(rows.classes):
            yield f"no image for testing of {listed(untested)}"
    images = list(zip(embeddings.digests, rows.split, strict=True))
    trained = {digest for digest, part in images if part == "train"}
    twice = sum(part != "train" and digest in trained for digest, part in images)
    if twice:
        yield f"{counted(twice, 'image')} for testing with exactly the content of one for training"
