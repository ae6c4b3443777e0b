"""The data that experiments run on: a table of scores each, ready on the disk."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Unpack

from choqolate._util.checks import find_concepts
from choqolate._util.files import write_bytes
from choqolate._util.json_files import parse_json
from choqolate._util.text import listed
from choqolate.analysis.control_tables import control_table
from choqolate.concepts.backbones import DEFAULT_BACKBONE, load_backbone
from choqolate.concepts.embedding import Embeddings
from choqolate.concepts.new_images import find_images
from choqolate.concepts.score_images import dataset_vocabulary, score_images
from choqolate.data.column_roles import ColumnNames
from choqolate.data.scores import ConceptScores
from choqolate.datasets import DATASETS, find_dataset
from choqolate.datasets.birds import BIRDS, N_IMAGES, render_birds
from choqolate.datasets.coco import PSEUDO_LABELS
from choqolate.debiasing.orthogonal import embedded_rows
from choqolate.errors import ChoqolateError

QUICK_IMAGES = 1_500
MARK = "source.json"


@dataclass(frozen=True)
class Source:
    """A table of scores, and what belongs to it.

    Attributes:
        name: the data set's short name, or that of the file.
        title: its name as people write it.
        scores: the file.
        fingerprint: of all that the file says, see :func:`fingerprint`.
        embeddings: folder with the vectors of the images, for what needs them.
        others: file with scores of the same images for other names, for controls.
        spurious: concepts known to be spurious; by default those that the table marks.
        subjects: what spurious words are paired with in prompts; by default the classes.
        n_classes: only the first so many classes.
        core_only: without the spurious concepts.
        in_paper: whether the paper's numbers may stand beside ours.
        images: the folder that the paths of the scores start from, for what mixes images.
        columns: names of columns of the scores, as pairs of what :meth:`ConceptScores.load` takes by name.
    """

    name: str
    title: str
    scores: Path
    fingerprint: str
    embeddings: Path | None = None
    spurious: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    n_classes: int | None = None
    core_only: bool = False
    in_paper: bool = False
    others: Path | None = None
    images: Path | None = None
    columns: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        for name in ("scores", "embeddings", "others", "images"):  # workers may have another working directory
            path = getattr(self, name)
            object.__setattr__(self, name, None if path is None else path.absolute())

    def config(self) -> dict[str, Any]:
        """What tells results on this source from those on others."""
        said: dict[str, Any] = {"name": self.name, "fingerprint": self.fingerprint[:16]}
        if self.n_classes is not None:
            said["n_classes"] = self.n_classes
        if self.spurious:
            said["spurious"] = sorted(self.spurious)
        if self.core_only:
            said["core_only"] = True
        return said

    @property
    def labels_from(self) -> str | None:
        """What the labels are, if they are not annotations: pseudo-labels, and of which classifier."""
        return _load(self.scores, self.fingerprint, self.columns).provenance.labels_from

    def load(self) -> ConceptScores:
        """The labelled rows, with a split."""
        table = _load(self.scores, self.fingerprint, self.columns)
        if self.spurious:
            find_concepts(self.spurious, table.concepts, known="the scores have")
            table = replace(table, spurious=self.spurious)
        if self.n_classes is not None:
            table = first_classes(table, self.n_classes)
        if self.core_only:
            table = table.select([name for name in table.concepts if name not in set(table.spurious)])
        self._check_parts(table)
        return table

    def _check_parts(self, table: ConceptScores) -> None:
        """Find out before the work that there is nothing to train or test on, or a class only to test on."""
        train, test = (table.rows.part(part) for part in ("train", "test"))
        untrained = set(table.labels[test | (table.split == "val")]) - set(table.labels[train])
        if untrained:
            raise ChoqolateError(
                f"Expected training rows of every class, but {self.scores} has none of {listed(sorted(untrained))}, "
                "only rows for validation or testing. Change the column split, or drop these rows."
            )


def fingerprint(table: ConceptScores) -> str:
    """Of all in a table that results depend on: scores and labels, but also split, groups, classes, spurious words."""
    columns = [None if part is None else part.tolist() for part in (table.split, table.groups)]
    return _hash([table.fingerprint, *columns, table.classes, table.spurious])


def _hash(said: Any) -> str:
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


@lru_cache(maxsize=4)
def _load(path: Path, expected: str, columns: tuple[tuple[str, str], ...]) -> ConceptScores:
    table = ConceptScores.load(path, **dict(columns))
    if fingerprint(table) != expected:
        raise ChoqolateError(f"Expected the scores in {path} to stay as they were, but they have changed. Run again.")
    return table.with_split().labelled()


def first_classes(table: ConceptScores, n_classes: int) -> ConceptScores:
    """The rows of the first so many classes, in the data set's order.

    >>> table = ConceptScores([[0.1], [0.2], [0.3]], ["crest"], labels=["wren", "gull", "jay"], split=["train"] * 3)
    >>> first_classes(table, 2).classes
    ('gull', 'jay')
    """
    kept = table.classes[:n_classes]
    if len(kept) < n_classes:
        raise ChoqolateError(f"Expected at least {n_classes} classes, but the table has {len(table.classes)}.")
    assert table.labels is not None
    rows = [label in set(kept) for label in table.labels.tolist()]
    return table.with_columns(classes=()).take(rows).with_columns(classes=kept)


def table_source(
    path: Path,
    *,
    spurious: tuple[str, ...] = (),
    embeddings: Path | None = None,
    others: Path | None = None,
    images: Path | None = None,
    name: str | None = None,
    **columns: Unpack[ColumnNames],
) -> Source:
    """A user's own table of scores; columns are named as for :meth:`ConceptScores.load`.

    Raises:
        ChoqolateError: if the table has no labels, no rows to train or to test on, a class without training rows, or
            lacks a spurious concept; or if none of its images is in the given folder, or some are not embedded.
    """
    table = ConceptScores.load(path, **columns)
    if not len(table):
        raise ChoqolateError(f"Expected rows in {path}, but it has none.")
    if images is not None:
        find_images(table, images)
    title = name or path.stem
    source = Source(title, title, path, fingerprint(table), embeddings, spurious, others=others, images=images)
    source = replace(source, columns=tuple((key, str(name)) for key, name in columns.items() if name is not None))
    rows, vectors = source.load(), load_embeddings(source)  # before the work, not after
    if vectors is not None:
        embedded_rows(rows, vectors)
    return _marked(source)


def birds_source(folder: Path, n_images: int = N_IMAGES, *, verbose: bool = True) -> Source:
    """The embedded data set: drawn, encoded and scored, once for each folder and number of images."""
    place = folder / "birds"
    words = dataset_vocabulary(BIRDS.name)
    wanted = {
        "images": n_images,
        "backbone": load_backbone("mini").identity,
        "words": _hash(words.as_record().as_dict()),
    }

    def make() -> ConceptScores:
        rows = render_birds(place / "images", n_images, verbose=verbose)
        options: dict[str, Any] = {"embeddings": place / "embeddings", "verbose": verbose}
        return score_images(rows, words, backbone="mini", device="cpu", **options)

    source = _prepared(place, BIRDS.name, BIRDS.title, wanted, make)
    return replace(source, embeddings=place / "embeddings", subjects=BIRDS.core, images=place / "images")


def copy_source(name: str, root: Path, folder: Path, backbone: str | None = None, *, verbose: bool = True) -> Source:
    """A published data set, from a copy under ``root``: encoded and scored with the paper's words, once.

    Raises:
        ChoqolateError: if there is no copy, or it lacks files; the message says what was expected.
    """
    dataset, place = find_dataset(name), folder / name
    rows = dataset.read(root, **(_label_file(name, root, place, backbone) if "labels" in dataset.options else {}))
    words = dataset_vocabulary(name)
    parts = (rows.paths, rows.labels, rows.split, rows.groups)
    known = _hash([*(None if part is None else part.tolist() for part in parts), rows.classes])
    wanted = {"rows": known, "backbone": backbone or DEFAULT_BACKBONE, "words": _hash(words.as_record().as_dict())}
    wanted |= {"labels_from": rows.labels_from} if rows.labels_from else {}

    def make() -> ConceptScores:
        return score_images(rows, words, backbone=backbone, embeddings=place / "embeddings", verbose=verbose)

    source = _prepared(place, name, dataset.title, wanted, make)
    source.load()
    return _marked(replace(source, embeddings=place / "embeddings", in_paper=True, images=rows.root))


def _marked(source: Source) -> Source:
    """The source with a title that says so if its labels are predictions: it stands in every table and figure."""
    predicted = (source.labels_from or "").startswith(PSEUDO_LABELS)
    return replace(source, title=f"{source.title} (pseudo-labels)") if predicted else source


def _label_file(name: str, root: Path, place: Path, backbone: str | None) -> dict[str, Path]:
    """COCO's location classes are in a file of their own, or follow from the predicted places in another."""
    files = {"labels": root / f"{name}.csv", "places": root / f"{name}.places.csv"}
    found = {option: file for option, file in files.items() if file.exists()}
    if len(found) == 1:
        return found
    expected = f"Expected {files['labels']} with the columns image and class or {files['places']} with image and place"
    if found:
        raise ChoqolateError(f"{expected}, but both exist. Remove or rename one.")
    encoder = ["--backbone", backbone] if backbone else []
    command = ["choqolate", "places", root, "-o", files["places"], "--embeddings", place / "embeddings", *encoder]
    raise ChoqolateError(
        f"{expected}, but neither exists. {find_dataset(name).title} itself has no such classes. To predict places: "
        f"{shlex.join(map(str, command))}"
    )


def paper_sources(
    names: Sequence[str],
    root: Path,
    folder: Path,
    backbone: str | None = None,
    *,
    tell: Callable[[str], None] = lambda _: None,
    verbose: bool = True,
) -> tuple[dict[str, Source], dict[str, str]]:
    """What there is of some data sets in a folder, as scores (``NAME.parquet``) or as copies; and why others are not.

    Score tables with other names are data sets of the user's own.

    Args:
        names: of the data sets.
        root: the folder with the copies or the scores.
        folder: for embeddings and scores that are made.
        backbone: the encoder; by default the paper's.
        tell: called with a sentence on each step.
        verbose: show progress on stderr.

    Raises:
        ChoqolateError: if there is no such folder.
    """
    if not root.is_dir():
        raise ChoqolateError(f"Expected a folder with the data sets, but {root} does not exist.")
    sources: dict[str, Source] = {}
    absent: dict[str, str] = {}
    for name in names:
        scored = root / f"{name}.parquet"
        try:
            if scored.exists():
                sources[name] = _scored_source(name, scored)
            else:
                tell(f"looking for {find_dataset(name).title} in {root}")
                sources[name] = copy_source(name, root, folder, backbone, verbose=verbose)
        except ChoqolateError as error:
            absent[name] = str(error)
    for path in sorted(root.glob("*.parquet")):
        if path.stem not in DATASETS:
            tell(f"including {path.name} as a data set of your own")
            try:
                sources[path.stem] = table_source(path)
            except ChoqolateError as error:
                absent[path.stem] = f"{path.name}: {error}"
    return sources, absent


def _scored_source(name: str, path: Path) -> Source:
    """Scores of a published data set; which words are spurious is known of it, if the file does not say."""
    dataset, source = find_dataset(name), table_source(path, name=name)
    table = source.load()
    known = () if table.spurious else tuple(word for word in dataset.spurious if word in table.concepts)
    return _marked(replace(source, title=dataset.title, spurious=known, in_paper=True))


def _prepared(place: Path, name: str, title: str, wanted: dict[str, Any], make: Callable[[], ConceptScores]) -> Source:
    """The source in a folder if it was made there in the same way, else made again."""
    scores, mark = place / "scores.parquet", place / MARK
    known = _read_mark(mark)
    if known is not None and known.get("wanted") == wanted and scores.exists():
        return Source(name, title, scores, str(known["fingerprint"]))
    table = make()
    table.save(scores)
    said = {"made_by": "choqolate reproduce", "wanted": wanted, "fingerprint": fingerprint(table)}
    write_bytes(mark, json.dumps(said, indent=2).encode() + b"\n")
    return Source(name, title, scores, fingerprint(table))


def _read_mark(mark: Path) -> dict[str, Any] | None:
    try:
        known = parse_json(mark.read_bytes(), str(mark))
    except (OSError, ValueError):
        return None
    return known if isinstance(known, dict) and "fingerprint" in known else None


def load_control(source: Source, kind: str, draw: int) -> ConceptScores:
    """The rows of a source with concepts that mean nothing to the task.

    Raises:
        ChoqolateError: if something is lacking for it.
    """
    others = None if source.others is None else ConceptScores.load(source.others)
    return control_table(source.load(), kind, seed=draw, others=others, embeddings=load_embeddings(source))


@lru_cache(maxsize=16)
def control_problem(source: Source, kind: str) -> str | None:
    """Why there can be no such control on a source, or ``None``."""
    try:
        load_control(source, kind, 0)
    except ChoqolateError as error:
        return str(error)
    return None


def load_embeddings(source: Source) -> Embeddings | None:
    """The vectors of a source's images, if it has them."""
    return None if source.embeddings is None else Embeddings.load(source.embeddings)
