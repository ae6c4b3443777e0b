"""A folder of embeddings: vectors of images and of texts by content, and notes on which file holds what."""

from __future__ import annotations

import glob
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from choqolate._util.files import check_new_folder, check_regular, write_bytes
from choqolate._util.json_files import CHECKSUM, json_bytes, parse_json, read_json
from choqolate._util.leftovers import remove_leftovers
from choqolate._util.sealed_parquet import read_sealed, write_sealed
from choqolate._util.text import printable
from choqolate.concepts.backbones import Backbone
from choqolate.concepts.claims import remove_abandoned
from choqolate.concepts.preprocessing import NO_STATE, FileState, Unreadable, file_state
from choqolate.concepts.vector_store import DIGEST, VectorStore, check_columns
from choqolate.data.manifest import Manifest
from choqolate.data.provenance import BackboneRecord
from choqolate.datasets.image_search import EMBEDDINGS as DESCRIPTION
from choqolate.errors import ChoqolateError

FORMAT, FORMAT_VERSION = "choqolate-embeddings", 1
FILES, ROWS = "files.parquet", "rows.parquet"
_FILE_KINDS = {"path": pa.string()} | dict.fromkeys(FileState._fields, pa.int64())
_ROW_KINDS = dict.fromkeys(("path", "label", "split", "group"), pa.string()) | {"digest": DIGEST}
_LONGEST = 1 << 20  # of a vector


Seen = dict[tuple[str, FileState], bytes]  # which content a file had in which state


class EmbeddingFolder:
    """Vectors of one backbone.

    ``embeddings.json`` names the backbone. ``images/`` and ``texts/`` hold the vectors in shards. ``files.parquet``
    says which file had which content, so that unchanged files need not be read again. ``rows.parquet`` holds the rows
    of the manifest that was embedded, so that scores need no images any more.
    """

    def __init__(self, path: Path, backbone: BackboneRecord) -> None:
        self.path, self.backbone = path, backbone
        self.images = VectorStore(path / "images", backbone.dim or 0, _FILE_KINDS)
        self.texts = VectorStore(path / "texts", backbone.dim or 0)

    @staticmethod
    def is_one(path: Path) -> bool:
        """Whether a folder holds embeddings."""
        return (path / DESCRIPTION).is_file()

    @classmethod
    def open(cls, path: Path) -> EmbeddingFolder:
        """A folder that is there.

        Raises:
            ChoqolateError: if it holds no embeddings, or those of a newer version.
        """
        try:
            file, what = path / DESCRIPTION, "a description of embeddings"
            description, _ = read_json(file, what, "restore it from a backup, or embed into another folder")
            if description["format"] != FORMAT:
                raise ChoqolateError(f"{path / DESCRIPTION} is not of choqolate: choose another folder")
            if description["format_version"] != FORMAT_VERSION:
                raise ChoqolateError(
                    f"{path} has format version {description['format_version']!r}, this choqolate reads version "
                    f"{FORMAT_VERSION}: upgrade choqolate, or embed the images again into another folder"
                )
            return cls(path, _read_backbone(description["backbone"]))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ChoqolateError(
                f"expected a folder with {DESCRIPTION} at {path}, found none: embed images first"
            ) from error
        except ChoqolateError:
            raise
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ChoqolateError(
                f"{path / DESCRIPTION} cannot be read ({error!r}): embed into another folder"
            ) from error

    @classmethod
    def create(cls, path: Path, backbone: Backbone) -> EmbeddingFolder:
        """A folder for a backbone: made if it is missing, checked if it is there."""
        if cls.is_one(path):
            folder = cls.open(path)
            folder.check(backbone)
        else:
            check_new_folder(path, "embeddings", _is_free)
            description = {
                "format": FORMAT,
                "format_version": FORMAT_VERSION,
                CHECKSUM: "",
                "backbone": backbone.describe().as_dict(),
            }
            write_bytes(path / DESCRIPTION, json_bytes(description, indent=2) + b"\n")
            folder = cls.open(path)
            folder.check(backbone)
        folder.backbone = backbone.describe()  # the same encoder may be in another place now
        for place in (path, folder.images.folder, folder.texts.folder):
            remove_leftovers(place)
        remove_abandoned(path)
        return folder

    def check(self, backbone: Backbone, *, precision: bool = True) -> None:
        """The vectors must come from the same weights, and those of the images have one precision."""
        ours, theirs = self.backbone, backbone.describe()
        if ours.identity != theirs.identity or (precision and ours.precision != theirs.precision):
            here, there = (f"{one.name} ({one.identity}, {one.precision})" for one in (ours, theirs))
            raise ChoqolateError(
                f"{self.path} holds vectors of {here}, not of {there}: choose another folder or that backbone"
            )

    def check_kept(self, digests: Iterable[bytes] = ()) -> None:
        """Find out whether the folder is still there, with the vectors of some images.

        Raises:
            ChoqolateError: if somebody has removed it, or some of its files, meanwhile.
        """
        if not self.is_one(self.path):
            raise ChoqolateError(
                f"{self.path} was removed while images were embedded into it. Run the embedding again, and leave its "
                "folder alone meanwhile."
            )
        wanted = set(digests)
        if wanted and (n_lost := len(wanted - self.images.digests())):
            raise ChoqolateError(
                f"{n_lost:,} of {len(wanted):,} vectors were removed from {self.path} while images were embedded into "
                "it. Run the embedding again, it adds what is missing."
            )

    def add_images(self, digests: list[bytes], vectors: np.ndarray, files: list[tuple[str, FileState]]) -> None:
        """Write a shard of image vectors, with the file that each came from.

        Raises:
            ChoqolateError: if the folder has been removed: a new one would lack what was written before.
        """
        self.check_kept()
        self.images.add(digests, vectors, _file_columns(files))

    def contents(self, passed: set[str] | None = None) -> tuple[set[bytes], Seen]:
        """What has a vector, and all that is noted on files, in the shards and beside them.

        Args:
            passed: what was looked at before: names of shards, and the state of the notes. Only what is new is read,
                and added.
        """
        passed = set() if passed is None else passed
        known: set[bytes] = set()
        seen: Seen = {}
        for table in self.images.shards(["digest", "path", *FileState._fields], passed=passed):
            known.update(table["digest"].to_pylist())
            if "path" in table.column_names:
                seen |= _as_seen(table)
        with suppress(Unreadable, OSError, pa.ArrowException, KeyError):  # without it files are read again
            state = file_state(str(self.path / FILES))
            if (notes := f"{FILES} {state}") not in passed:
                table = read_sealed(self.path / FILES)
                check_columns(table, {"digest": DIGEST} | _FILE_KINDS)
                seen |= _as_seen(table)
                passed.add(notes)
        return known, seen

    def note_files(self, fresh: Seen) -> None:
        """Note the content of files, beside what was noted before; of each file the newest state."""
        fresh = {(path, state): digest for (path, state), digest in fresh.items() if state != NO_STATE}
        if not fresh:
            return
        newest: dict[str, tuple[FileState, bytes]] = {}
        for (path, state), digest in (self.contents()[1] | fresh).items():
            if path not in newest or state.changed >= newest[path][0].changed:
                newest[path] = state, digest
        digests = pa.array([digest for _, digest in newest.values()], DIGEST)
        columns = _file_columns([(path, state) for path, (state, _) in newest.items()])
        write_sealed(self.path / FILES, pa.table({"digest": digests, **columns}), compression="zstd")

    def write_rows(self, manifest: Manifest, digests: list[bytes]) -> None:
        """Keep the rows of a manifest with the keys of their vectors."""
        n_rows = len(manifest)

        def column(values: Any) -> pa.Array:
            return pa.array([None] * n_rows if values is None else values.tolist(), pa.string())

        table = pa.table(
            {
                "path": pa.array(_distinct([printable(path) for path in manifest.paths]), pa.string()),
                "label": column(manifest.labels),
                "split": column(manifest.split),
                "group": column(manifest.groups),
                "digest": pa.array(digests, DIGEST),
            }
        )
        facts = {"root": os.path.abspath(manifest.root), "classes": manifest.classes, "source": manifest.source}
        facts |= {"labels_from": manifest.labels_from} if manifest.labels_from else {}
        table = table.replace_schema_metadata({"choqolate": json.dumps(facts)})
        write_sealed(self.path / ROWS, table, compression="zstd")

    def read_rows(self) -> tuple[Manifest, list[bytes]]:
        """The manifest that was embedded here last."""
        try:
            check_regular(self.path / ROWS, "rows of embeddings")
            table = read_sealed(self.path / ROWS)
            facts = parse_json(table.schema.metadata[b"choqolate"], f"the metadata of {self.path / ROWS}")
            check_columns(table, _ROW_KINDS, empty=("label", "split", "group"))
            columns = {name: table[name].to_pylist() for name in _ROW_KINDS}
            root, classes, source = Path(facts["root"]), tuple(facts["classes"]), str(facts["source"])
            labels_from = facts.get("labels_from")
        except FileNotFoundError as error:
            raise ChoqolateError(f"{self.path} is unfinished: run the embedding again to continue") from error
        except (OSError, pa.ArrowException, ValueError, KeyError, TypeError) as error:
            raise ChoqolateError(f"{self.path / ROWS} is damaged ({error}): run the embedding again") from error
        path, label, split, group, digests = columns.values()
        return Manifest(root, path, label, split, group, classes, source, labels_from=labels_from), digests


def _read_backbone(said: Mapping[str, Any]) -> BackboneRecord:
    """The encoder that a description names, all of it."""
    known = BackboneRecord.from_dict(said) if isinstance(said, Mapping) else BackboneRecord()
    complete = None not in (known.name, known.identity, known.precision) and 0 < (known.dim or 0) <= _LONGEST
    if known.other or not complete:
        raise ValueError(f"the backbone is {said}")
    return known


def _distinct(names: list[str]) -> list[str]:
    """Two names that are no UTF-8 may be spelled out alike; the row tells them apart."""
    counts = Counter(names)
    return [name if counts[name] == 1 else f"{name} (row {row})" for row, name in enumerate(names)]


def _is_free(path: Path) -> bool:
    """Whether a folder is in use for nothing else; another process may be making it ours at this moment."""
    return all(entry.name.startswith(".") for entry in path.iterdir()) or EmbeddingFolder.is_one(path)


def _file_columns(files: Sequence[tuple[str, FileState]]) -> dict[str, pa.Array]:
    columns = {"path": pa.array([path for path, _ in files], pa.string())}
    for index, name in enumerate(FileState._fields):
        columns[name] = pa.array([state[index] for _, state in files], pa.int64())
    return columns


def _as_seen(table: pa.Table) -> Seen:
    states = map(FileState, *(table[name].to_pylist() for name in FileState._fields))
    keys = zip(table["path"].to_pylist(), states, strict=True)
    return dict(zip(keys, table["digest"].to_pylist(), strict=True))


def cache_folder(backbone: Backbone) -> Path:
    """Where vectors go that are given no place: ``$CHOQOLATE_CACHE``, or choqolate in the user's cache folder.

    The folder is named by what the encoder is, not by what it is called; earlier versions put its name in front.
    """
    base = os.environ.get("CHOQOLATE_CACHE")
    home = Path(base) if base else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "choqolate"
    content = f"{backbone.identity}-{backbone.precision}"
    folder = home / "embeddings" / content
    earlier = sorted(folder.parent.glob(f"*-{glob.escape(content)}"))
    return next((path for path in (folder, *earlier) if EmbeddingFolder.is_one(path)), folder)
