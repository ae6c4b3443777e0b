"""From a big word list to the concepts for a data set, with a reason for every word that is dropped."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from choqolate._util.checks import as_names, check_choice, check_number, check_seed
from choqolate._util.files import check_output, write_bytes
from choqolate._util.progress import item_bar
from choqolate._util.spreadsheet import as_cell
from choqolate._util.text import counted
from choqolate.concepts.backbones import DEFAULT_BACKBONE, Backbone, load_backbone
from choqolate.concepts.embedding import Embeddings, embed
from choqolate.concepts.image_lists import lists_images
from choqolate.concepts.scoring import concept_vectors, encode_prompts
from choqolate.concepts.vocabulary import TEMPLATES, Vocabulary, concept_key
from choqolate.concepts.word_evidence import (
    ClassRows,
    WordEvidence,
    evidence_from_images,
    evidence_from_scores,
    training_rows,
)
from choqolate.concepts.word_lists import WordList
from choqolate.concepts.word_steps import REASONS, Dropped, Remaining
from choqolate.data.image_list import read_csv
from choqolate.data.rows import Rows
from choqolate.data.scores import ConceptScores
from choqolate.datasets import read_source
from choqolate.errors import ChoqolateError

WAYS = ("medoids", "relevance")


@dataclass(frozen=True, eq=False, repr=False)
class VocabularyChoice:
    """The words that were kept, and what became of the others.

    Attributes:
        vocabulary: the words that were kept, in the order of the lists.
        dropped: the other words, in the order of the steps.
        sources: one line per word list, see :func:`~choqolate.concepts.word_lists.read_words`.
        notes: what was measured on which rows, and which steps were left out.
    """

    vocabulary: Vocabulary
    dropped: tuple[Dropped, ...]
    sources: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def counts(self) -> dict[str, int]:
        """Number of words that each step dropped, without steps that dropped none."""
        found = {reason: sum(word.reason == reason for word in self.dropped) for reason in REASONS}
        return {reason: count for reason, count in found.items() if count}

    def lines(self, most: int = 5) -> list[str]:
        """A report for a terminal, with ``most`` examples per step."""
        report = [*self.sources, *self.notes]
        for reason, count in self.counts().items():
            words = [word for word in self.dropped if word.reason == reason]
            report.append(f"dropped {count:,} that {REASONS[reason]}:")
            report += [f"  {word.word!r} {word.detail}" for word in words[:most]]
            if count > most:
                report.append(f"  and {count - most:,} more")
        total = len(self.vocabulary) + len(self.dropped)
        report.append(f"kept {len(self.vocabulary):,} of {counted(total, 'word')}")
        return report

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the words that were kept as text: one concept per line, its synonyms after ``|``."""
        check_output(Path(path))
        lines = [" | ".join(words) for words in self.vocabulary.synonyms]
        write_bytes(Path(path), ("\n".join(lines) + "\n").encode())

    def save_report(self, path: str | os.PathLike[str]) -> None:
        """Write a CSV file with the words that were dropped: word, reason, detail and other word or class."""
        check_output(Path(path))
        cells = io.StringIO(newline="")
        writer = csv.writer(cells)
        writer.writerow(Dropped._fields)
        writer.writerows(map(as_cell, row) for row in self.dropped)
        write_bytes(Path(path), cells.getvalue().encode())

    def __repr__(self) -> str:
        return f"VocabularyChoice({counted(len(self.vocabulary), 'concept')}, {len(self.dropped):,} dropped)"


def choose_vocabulary(
    words: WordList | Vocabulary | Iterable[str],
    source: ConceptScores | Embeddings | None = None,
    *,
    keep: int | None = None,
    by: str = "medoids",
    classes: Iterable[str] = (),
    keep_class_phrases: bool = False,
    max_words: int | None = None,
    class_at: float = 0.6,
    similar_at: float = 0.8,
    correlated_at: float = 0.95,
    min_spread: float = 0.05,
    templates: Sequence[str] = TEMPLATES,
    backbone: Backbone | None = None,
    seed: int = 0,
    verbose: bool = False,
) -> VocabularyChoice:
    """Choose concepts for a data set from a big word list. Only training rows are looked at.

    The steps, each on what the steps before it left:

    1. Merge spellings of one word, and drop words without a letter or with too many words.
    2. Drop words that name a class, contain its name or are the last part of it; with embeddings also words whose text
       vector is close to that of a class.
    3. Drop plurals and other forms of an earlier word; with embeddings also words whose text vector is close to that of
       an earlier one.
    4. With images, drop words whose scores hardly vary, or are correlated with those of an earlier word.
    5. Keep ``keep`` words.

    Args:
        words: the words, see :func:`~choqolate.concepts.word_lists.read_words`; those to prefer come first.
        source: scores or embeddings of images; without them, steps that need them are left out.
        keep: number of words to keep; by default all that are left.
        by: ``"medoids"`` keeps the most central word of each cluster of words with correlated scores; it needs no
            labels. ``"relevance"`` keeps words whose scores tell the classes apart and do not repeat each other.
        classes: names of classes, besides those of the source and of lists that are written for classes.
        keep_class_phrases: keep words that contain the name of a class (``"dog collar"``) or are part of it.
        max_words: drop concepts of more words than this.
        class_at: cosine from which a word is too close to a class. Cosines of texts are taken after the mean of all
            words is subtracted, so that 0 is the similarity of unrelated words.
        similar_at: cosine from which two words mean the same.
        correlated_at: correlation of scores from which two words measure the same.
        min_spread: standard deviation of scores, as a share of the median over words, below which a word is dropped.
        templates: prompts for text vectors, as in :class:`~choqolate.Vocabulary`.
        backbone: the encoder of the embeddings, loaded by name if it is not given and a text is new.
        seed: for the start of the clusters.
        verbose: show progress on stderr.

    Raises:
        ChoqolateError: if no word is left, or ``keep`` needs images or labels that are not there.

    >>> choice = choose_vocabulary(["whiskers", "Whisker", "cat", "cat food", "wheel"], classes=["cats", "cars"])
    >>> choice.vocabulary.concepts
    ('whiskers', 'wheel')
    >>> [(word.word, word.reason) for word in choice.dropped]
    [('cat', 'class'), ('cat food', 'class'), ('Whisker', 'duplicate')]
    """
    check_choice("by", by, WAYS)
    check_seed(seed)
    for name, value in (("keep", keep), ("max_words", max_words)):
        if value is not None:
            check_number(name, value, minimum=1, whole=True)
    for name, bound in (("class_at", class_at), ("similar_at", similar_at), ("correlated_at", correlated_at)):
        check_number(name, bound, minimum=0, strict=True)
    check_number("min_spread", min_spread, minimum=0)
    rows = None if source is None else source.rows if isinstance(source, ConceptScores) else source.manifest.rows
    if keep is not None:
        _check_evidence(rows, keep, by)
    listed_words = WordList.of(words)
    labels = () if rows is None else rows.classes
    names = tuple(dict.fromkeys((*as_names(classes, "classes"), *labels, *listed_words.classes)))
    left = Remaining(listed_words)
    left.drop_unusable(max_words)
    left.drop_class_names(names, keep_class_phrases)
    left.drop_inflections()
    if source is not None:
        if isinstance(source, ConceptScores):
            evidence = _from_scores(left, source, seed)
        else:
            texts, class_texts = _text_vectors(source, left.vocabulary(templates), names, backbone, verbose)
            texts = texts[left.drop_near_classes(texts, names, class_texts, class_at)]
            texts = texts[left.drop_similar(texts, similar_at, verbose)]
            evidence = _from_embeddings(source, left, texts, verbose)
        evidence = evidence.take(left.drop_constant(evidence.spread, min_spread))
        evidence = evidence.take(left.drop_correlated(evidence.directions, correlated_at, verbose))
        if keep is not None and keep < len(left):
            left.choose(evidence, keep, by, seed)
    return VocabularyChoice(left.vocabulary(templates), tuple(left.dropped), listed_words.sources, tuple(left.notes))


def _check_evidence(rows: Rows | None, keep: int, by: str) -> None:
    """Find out before the work that there is nothing to choose words by."""
    if rows is None:
        raise ChoqolateError(
            f"Expected images to choose {keep:,} words by, got none. Pass scores or embeddings, or leave out keep."
        )
    if by != "relevance":
        return
    if rows.labels is None:
        raise ChoqolateError('Expected labels to choose words by relevance, got none. Pass labels, or by="medoids".')
    if _class_rows(rows, training_rows(rows)) is None:
        raise ChoqolateError(
            "Expected training rows of at least two classes to choose words by relevance, got fewer. Label more "
            'images, or pass by="medoids".'
        )


def _from_scores(left: Remaining, table: ConceptScores, seed: int) -> WordEvidence:
    """Evidence from a table; words that it has no column for are dropped."""
    columns: dict[str, int] = {}
    for number, name in enumerate(table.concepts):
        columns.setdefault(concept_key(name), number)
    places = [columns.get(concept_key(name)) for name in left.names]
    unscored = [number for number, place in enumerate(places) if place is None]
    left.drop("unscored", dict.fromkeys(unscored, ("is no concept of the table", "")))
    rows = _training(left, table.rows)
    wanted = np.array([place for place in places if place is not None], dtype=np.intp)
    return evidence_from_scores(table.scores[np.ix_(rows, wanted)], _class_rows(table.rows, rows), seed)


def _from_embeddings(source: Embeddings, left: Remaining, texts: np.ndarray, verbose: bool) -> WordEvidence:
    """Evidence from vectors of images, read in blocks."""
    rows = _training(left, source.manifest.rows)
    found = source.folder.images.find([source.digests[row] for row in rows])

    def blocks() -> Iterator[np.ndarray]:
        with item_bar(len(rows), "reading vectors of images", enabled=verbose) as advance:
            for block in found.blocks():
                yield block
                advance(len(block))

    return evidence_from_images(blocks(), texts, _class_rows(source.manifest.rows, rows))


def _class_rows(rows: Rows, chosen: np.ndarray) -> ClassRows | None:
    return ClassRows.of(None if rows.labels is None else rows.labels[chosen])


def _training(left: Remaining, rows: Rows) -> np.ndarray:
    chosen = training_rows(rows)
    if not len(chosen):
        raise ChoqolateError("Expected rows for training to choose words on, got none. Mark some as train.")
    kind = "training image" if len(chosen) < len(rows) else "image"
    left.notes.append(f"chosen on {counted(len(chosen), kind)} of {len(rows):,}")
    return chosen


def _text_vectors(
    source: Embeddings, words: Vocabulary, classes: Sequence[str], backbone: Backbone | None, verbose: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of words ``(M, d)`` and of classes ``(C, d)``; the encoder is loaded once, if a text is new."""
    if backbone is not None:
        source.folder.check(backbone, precision=False)
    parts = [words, *([Vocabulary(tuple(classes), templates=words.templates)] if classes else [])]
    encode_prompts(source.folder, [text for part in parts for text in part.prompts()], backbone, verbose=verbose)
    vectors = [concept_vectors(source.folder, part) for part in parts]
    return vectors[0], vectors[1] if classes else np.empty((0, vectors[0].shape[1]), np.float32)


def open_source(
    source: str | os.PathLike[str],
    *,
    manifest: str | os.PathLike[str] | None = None,
    backbone: Backbone | str | os.PathLike[str] | None = None,
    device: str = "auto",
    precision: str = "auto",
    workers: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
    verbose: bool = False,
) -> ConceptScores | Embeddings:
    """Open what words can be chosen on: a table of scores, a folder of embeddings, or images, which are encoded.

    A CSV file with paths and other columns is a list of images if there are files at these paths, unless the other
    cells are numbers from -1 to 1, as cosines are.

    Args:
        source: a table of scores (Parquet or CSV), a folder of embeddings, a folder of images, or a CSV file of them.
        manifest: a CSV file with labels, split and groups to join by path.
        backbone: the encoder of images, or its name or folder; by default that of the paper.
        device, precision: of an encoder that is given by name, see :func:`~choqolate.load_backbone`.
        workers: processes that decode images, see :func:`~choqolate.embed`.
        tell: called with a sentence on how a CSV file is read, if it could be read in two ways.
        verbose: show progress on stderr.

    Raises:
        ChoqolateError: if there is no such thing.
    """
    path = Path(source)
    rows = None if manifest is None else read_csv(manifest)
    if not path.is_dir() and path.suffix.lower() in (".parquet", ".csv") and not lists_images(path, tell):
        table = ConceptScores.load(path)
        return table if rows is None else table.join(rows)
    if Embeddings.are_in(path):
        encoded = Embeddings.load(path)
    else:
        images = read_source(path)
        encoder = backbone or DEFAULT_BACKBONE
        if not isinstance(encoder, Backbone):
            encoder = load_backbone(encoder, device=device, precision=precision)
        encoded = embed(images, encoder, workers=workers, verbose=verbose)
    return encoded if rows is None else replace(encoded, manifest=encoded.manifest.join(rows))
