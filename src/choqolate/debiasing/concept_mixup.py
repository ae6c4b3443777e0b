"""Mixing training images with images of spurious concepts, so that these say less about the class."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from choqolate.concepts.new_images import ImageScorer, find_images, read_image
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError

OWN_SHARE = 0.75  # of an image in its mixture
N_EXAMPLES = 20  # images that stand for a concept
_PARTNERS_KEPT = 8


class Mixed(NamedTuple):
    """Which rows were mixed with which, and what came of it.

    Attributes:
        rows: the mixed rows ``(m,)``.
        partners: the row whose image each was mixed with ``(m,)``.
        scores: raw scores of the mixtures ``(m, M)``.
    """

    rows: np.ndarray
    partners: np.ndarray
    scores: np.ndarray


def mixing_probabilities(weights: np.ndarray) -> np.ndarray:
    r"""How likely each row is mixed: :math:`((w_\mathrm{max} - w_i) / w_\mathrm{max})^2`, by its permutation weight.

    >>> mixing_probabilities(np.array([10.0, 5.0, 0.0])).tolist()
    [0.0, 0.25, 1.0]
    """
    heaviest = weights.max()
    probabilities: np.ndarray = ((heaviest - weights) / heaviest) ** 2
    return probabilities


def mix_with_concepts(
    rows: ConceptScores,
    weights: np.ndarray,
    concept_shares: np.ndarray,
    scorer: ImageScorer,
    root: str | os.PathLike[str] | None = None,
    *,
    random_state: int = 0,
) -> Mixed:
    r"""Mix images with images of spurious concepts, pixel by pixel, and score the mixtures.

    Row i is mixed with probability :math:`((w_\mathrm{max} - w_i) / w_\mathrm{max})^2`. Its partner is an image of a
    concept, drawn from the 20 rows that score highest for it. A mixture has 75% of the row's own pixels and 25% of the
    partner's, as the encoder takes them: resized and cropped.

    Args:
        rows: scores of the concepts of the scorer, in its order, with paths.
        weights: of the rows ``(n,)``.
        concept_shares: how often each concept is drawn ``(M,)``, zero for those that are not spurious.
        scorer: the encoder of the scores, and the vectors of their concepts.
        root: the folder to which the paths are relative; by default where the images were when they were scored.
        random_state: seed of all draws.

    Raises:
        ChoqolateError: if an image is missing or cannot be read.
    """
    files = training_images(rows, root)
    rng = np.random.default_rng(random_state)
    chosen = np.flatnonzero(rng.random(len(rows)) < mixing_probabilities(weights))
    concepts = rng.choice(len(concept_shares), len(chosen), p=concept_shares / concept_shares.sum())
    examples = np.argsort(-rows.scores, axis=0, kind="stable")[:N_EXAMPLES]  # (examples, M)
    partners = examples[rng.integers(len(examples), size=len(chosen)), concepts]
    order = np.argsort(partners, kind="stable")  # one partner after the other, so that each is read once
    chosen, partners = chosen[order], partners[order]
    parts = [scorer.encoder.encode_pixels(batch) for batch in _mixtures(files, chosen, partners, scorer)]
    vectors = np.concatenate([np.empty((0, scorer.encoder.dim), np.float32), *parts])
    return Mixed(chosen, partners, scorer.compare(vectors))


def training_images(rows: ConceptScores, root: str | os.PathLike[str] | None = None) -> list[Path]:
    """The image file of every row.

    Raises:
        ChoqolateError: if one is missing.
    """
    found = find_images(rows, root)
    files = [file for file in found if file is not None]
    if len(files) < len(found):
        raise ChoqolateError(
            f"Expected the image files of all {len(found):,} training rows, but {len(found) - len(files):,} are "
            "missing. Give the folder to which the paths of the table are relative."
        )
    return files


def _mixtures(
    files: Sequence[Path], chosen: np.ndarray, partners: np.ndarray, scorer: ImageScorer
) -> Iterator[np.ndarray]:
    """Pixels ``(B, H, W, 3)`` of the mixtures, batch by batch."""
    transform, step = scorer.encoder.transform, scorer.encoder.batch_size

    @lru_cache(_PARTNERS_KEPT)
    def pixels(row: int) -> np.ndarray:
        return transform(read_image(files[row])).astype(np.float32)

    for start in range(0, len(chosen), step):
        pairs = zip(chosen[start : start + step].tolist(), partners[start : start + step].tolist(), strict=True)
        mixed = [OWN_SHARE * pixels(own) + (1 - OWN_SHARE) * pixels(partner) for own, partner in pairs]
        yield np.stack(mixed).round().astype(np.uint8)
