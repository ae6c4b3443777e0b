"""Predictions for a table of scores or for images, which are scored like the training images."""

from __future__ import annotations

import csv
import os
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from choqolate._util.files import check_output, check_regular, replacing, same_file
from choqolate._util.progress import item_bar
from choqolate._util.spreadsheet import as_cell
from choqolate._util.text import counted, listed, printable
from choqolate.analysis.evaluation import held_out
from choqolate.analysis.row_doubts import warn_of_another_source, warn_of_training_rows
from choqolate.concepts.embedding import Embeddings
from choqolate.concepts.new_images import score_source_for_model
from choqolate.data.manifest import Manifest
from choqolate.data.rows import COLUMN_NAMES
from choqolate.data.score_file import ScoreFile, open_scores
from choqolate.data.scores import ConceptScores
from choqolate.datasets import read_source
from choqolate.datasets.image_search import IMAGE_ENDINGS
from choqolate.errors import ChoqolateError, ChoqolateWarning
from choqolate.estimators.calibration import Abstention, abstain_by
from choqolate.estimators.predictions import FLAGS
from choqolate.estimators.table_inputs import select_inputs
from choqolate.explain.model_protocols import check_choquet_model

if TYPE_CHECKING:
    import pandas as pd

    from choqolate.concepts.backbones import Backbone
    from choqolate.estimators.classifier import ChoqolateClassifier

_NAMES = ("path", "label", "predicted", "runner_up")  # columns that are not measured
ENDINGS = (".csv", ".parquet")
UNREADABLE = "the image cannot be read"
Place = str | os.PathLike[str]


@dataclass(frozen=True, repr=False)
class Predictions:
    """Predictions of a model for some rows.

    Attributes:
        table: one row per image, see :meth:`~choqolate.ChoqolateClassifier.predict_table`; for images also ``problem``,
            why one could not be read.
        abstention: when the model abstains, and what is expected of it then; ``None`` if it never does.
        model: the model that predicted, with the new calibration if one was requested.
    """

    table: pd.DataFrame
    abstention: Abstention | None
    model: ChoqolateClassifier

    def __len__(self) -> int:
        return len(self.table)

    def __repr__(self) -> str:
        flagged = f"{int(self.table['look'].sum()):,} flagged for review"
        return f"Predictions({counted(len(self), 'row')}, {flagged if self.checked else 'flags are not available'})"

    @property
    def checked(self) -> bool:
        """Whether rows were compared with the training images; without that, no flag means nothing."""
        return self.model.reference_ is not None

    def class_counts(self) -> dict[str, int]:
        """Number of rows for which each class of the model was predicted."""
        found = Counter(str(label) for label in self.table["predicted"].dropna())
        return {str(label): found[str(label)] for label in self.model.classes_.tolist()}

    def look_counts(self) -> dict[str, int]:
        """Number of rows flagged for each reason; a row may have several."""
        counts = {said: int(self.table[flag].fillna(value=False).sum()) for flag, said in FLAGS.items()}
        counts[UNREADABLE] = int(self.table["problem"].notna().sum()) if "problem" in self.table else 0
        return {said: count for said, count in counts.items() if count}

    def save(self, path: Place) -> None:
        """Write the table to a ``.csv`` or ``.parquet`` file, in one step."""
        target = Path(path)
        check_predictions_file(target)
        with replacing(target) as temporary:
            if target.suffix.lower() == ".csv":
                _as_cells(_with_short_numbers(self.table)).to_csv(temporary, index=False)
            else:
                self.table.to_parquet(temporary, index=False)


def _with_short_numbers(table: pd.DataFrame) -> pd.DataFrame:
    """Measured numbers as text with six digits; labels, which may be numbers too, as they are."""
    measured = table.drop(columns=[name for name in _NAMES if name in table]).select_dtypes("floating")
    return table.assign(**{name: measured[name].map("{:.6g}".format, na_action="ignore") for name in measured})


def _as_cells(table: pd.DataFrame) -> pd.DataFrame:
    """The same with text that no spreadsheet takes for a formula."""
    texts = table.select_dtypes(exclude=["number", "bool"])
    return table.assign(**{name: [as_cell(c) if isinstance(c, str) else c for c in texts[name]] for name in texts})


def check_predictions_file(path: Path, *inputs: Path | None) -> None:
    """Raise an error early if predictions cannot be written to a file.

    Args:
        path: of the file.
        *inputs: what is read; it must not be overwritten.
    """
    if path.suffix.lower() not in ENDINGS:
        raise ChoqolateError(f"Expected a file that ends in .csv or .parquet, but got {path}. Change its name.")
    for file in inputs:
        if file is not None and same_file(path, file):
            raise ChoqolateError(f"Expected a new file for predictions, but {path} is an input. Choose another name.")
    check_output(path)


def predict_source(
    model: ChoqolateClassifier,
    source: ConceptScores | ScoreFile | Manifest | Embeddings | Place,
    *,
    abstain: float | None = None,
    calibrate: ConceptScores | Place | None = None,
    backbone: Backbone | Place | None = None,
    embeddings: Place | None = None,
    workers: int | None = None,
    verbose: bool = False,
) -> Predictions:
    """Predict with reasons and flags for a table of scores, or for images.

    Images are encoded and scored as those of the training were. Their embeddings are cached: run it again to continue
    after a stop. An image that cannot be read keeps its row, which says why.

    Args:
        model: a fitted classifier; for images, one that knows its encoder and prompts.
        source: scores (a table, or a ``.parquet`` or ``.csv`` file with a column for each concept), or images: a
            folder, an image file, a CSV list of images, a folder of embeddings, or a manifest or embeddings in memory.
            A Parquet file that would fill a third of the available memory is read block by block.
        abstain: wanted accuracy, see :meth:`~choqolate.ChoqolateClassifier.predict_table`.
        calibrate: scores with labels to calibrate on first, for these predictions only: rows for validation, else rows
            that the model was not trained on.
        backbone: the encoder of the model, if it is in another place than it was.
        embeddings: folder to keep the vectors of images in; by default a cache that all runs with this encoder share.
        workers: processes that decode images.
        verbose: show progress on stderr.

    Raises:
        ChoqolateError: if the source is none of these, or the model cannot score or abstain.

    >>> scores = np.random.default_rng(0).random((60, 3))
    >>> table = ConceptScores(scores, ["sea", "oak", "crest"], labels=np.where(scores[:, 0] > 0.5, "duck", "owl"))
    >>> from choqolate.estimators.table_training import fit_scores
    >>> found = predict_source(fit_scores(table, n_nodes=2, epochs=20, calibrate=False), table)
    >>> found.table["reason_1"].value_counts().index[0], len(found)
    ('sea', 60)
    """
    check_choquet_model(model, "to predict with")
    if calibrate is not None:
        model = calibrated_on(model, calibrate)
    rule = None if abstain is None else abstain_by(model, abstain)  # before the work
    given = _resolve(model, source)
    if isinstance(given, ConceptScores | ScoreFile):
        _check_no_images(backbone=backbone, embeddings=embeddings, workers=workers)
        warn_of_another_source(model, given)
        if isinstance(given, ScoreFile):
            return Predictions(_predict_blocks(model, given, abstain, verbose=verbose), rule, model)
        return Predictions(model.predict_table(given, abstain=abstain, verbose=verbose), rule, model)
    manifests: list[Manifest] = []
    encoded: list[Embeddings] = []
    scores = score_source_for_model(
        model,
        given,
        backbone=backbone,
        embeddings=embeddings,
        workers=workers,
        on_read=manifests.append,
        on_embedded=encoded.append,
        verbose=verbose,
    )
    problems = {printable(failure.path): failure.reason for failure in encoded[0].failures}
    predicted = model.predict_table(scores, abstain=abstain, verbose=verbose)
    return Predictions(_with_problems(predicted, manifests[0], problems), rule, model)


def _predict_blocks(
    model: ChoqolateClassifier, file: ScoreFile, abstain: float | None, *, verbose: bool
) -> pd.DataFrame:
    """The predictions for a file whose scores are read block by block; the predictions themselves are in memory."""
    import pandas as pd

    tables: list[pd.DataFrame] = []
    with warnings.catch_warnings(), item_bar(len(file), "predicting", items="rows", enabled=verbose) as advance:
        for block in select_inputs(model, file).blocks():
            tables.append(model.predict_table(block, abstain=abstain))
            warnings.simplefilter("ignore", ChoqolateWarning)  # the first block has said it
            advance(len(block))
    if not tables:
        raise ChoqolateError("Expected rows to predict, got none. Give at least one.")
    front = [name for name in ("path", "label") if any(name in table for table in tables)]
    rest = [name for name in tables[0] if name not in front]
    return pd.concat([table.reindex(columns=[*front, *rest]) for table in tables], ignore_index=True)


def calibrated_on(model: ChoqolateClassifier, table: ConceptScores | Place) -> ChoqolateClassifier:
    """A copy of a model, calibrated on a table's labelled rows for validation; without any, on held-out rows."""
    scores = table if isinstance(table, ConceptScores) else ConceptScores.load(Path(table))
    warn_of_another_source(model, scores)
    labelled = scores.labelled()
    if labelled.rows.has_part("val"):
        rows, chosen = labelled.part("val"), "val rows of the table"
    else:
        rows, chosen = held_out(model, scores)
    warn_of_training_rows(model, rows)
    return model.calibrate(rows, source=chosen)


def _resolve(model: ChoqolateClassifier, source: Any) -> ConceptScores | ScoreFile | Manifest | Embeddings:
    """Scores, or images, from whatever was given."""
    if isinstance(source, ConceptScores | ScoreFile | Manifest | Embeddings):
        return source
    path = Path(source)
    if not path.exists():
        raise ChoqolateError(f"Expected scores or images to predict for, but {path} does not exist. Check the path.")
    if path.is_dir():
        return Embeddings.load(path) if Embeddings.are_in(path) else read_source(path)
    check_regular(path, "scores or images")
    ending = path.suffix.lower()
    if ending == ".parquet" or (ending in (".csv", ".tsv") and _has_scores(path, model.concepts_)):
        return open_scores(path)
    if ending in (".csv", ".tsv"):
        return read_source(path)
    if ending in IMAGE_ENDINGS:
        return Manifest(path.parent, [path.name])
    raise ChoqolateError(
        f"Expected scores (.parquet, .csv), an image, a folder of images or a CSV list of images, but got {path}."
    )


def _has_scores(path: Path, concepts: list[str]) -> bool:
    """Whether the header of a CSV file names a concept of the model."""
    with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
        line = file.readline()
    taken = {name for names in COLUMN_NAMES.values() for name in names}
    wanted = {name for name in concepts if name.lower() not in taken}
    return any(wanted & set(next(csv.reader([line], delimiter=mark), [])) for mark in ",;\t")


def _check_no_images(**arguments: Any) -> None:
    given = [name for name, value in arguments.items() if value is not None]
    if given:
        raise ChoqolateError(
            f"Expected no {' or '.join(given)} because the source already contains scores. Leave out these arguments."
        )


def _with_problems(table: pd.DataFrame, manifest: Manifest, problems: dict[str, str]) -> pd.DataFrame:
    """One row for every image of a manifest, in its order, also for those that could not be read."""
    paths = [printable(path) for path in manifest.paths]
    if len(table) + len(problems) != len(paths):
        raise ChoqolateError(
            f"Expected one prediction or problem for each of {len(paths)} images, but got {len(table)} predictions and "
            f"{len(problems)} problems ({listed(list(problems))}). This is an internal error."
        )
    place = {path: row for row, path in enumerate(paths)}
    kept = table.astype({"predicted": object, "runner_up": object, "look": object})
    kept.index = [place[path] for path in table["path"]]
    whole = kept.reindex(range(len(paths)))
    whole["path"] = paths
    if manifest.labels is not None:
        whole["label"] = manifest.labels.tolist()
    failed = np.array([path in problems for path in paths], dtype=bool)
    for name in ("predicted", "runner_up"):
        whole.loc[failed, name] = None
    whole["look"] = whole["look"].where(~failed, other=True).astype(bool)
    whole.loc[failed, "why_look"] = UNREADABLE
    whole["problem"] = [problems.get(path) for path in paths]
    return whole
