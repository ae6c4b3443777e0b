"""Parquet files with checksums of all their parts, so that no damage goes unnoticed.

Parquet has checksums of the content of its pages only: neither of the header of a page nor of the footer, which says
what the columns are and where they begin. A sealed file has them too. Its seal stands between the last column chunk and
the footer, where readers do not look, so that every other program reads the file as before::

    column chunks | CRC-32 of each column chunk | CRC-32 of the footer, sizes, mark | footer | its length | PAR1
                   `--------------------------- seal ---------------------------'

A file without a seal, such as one that another program wrote, is read as it is.
"""

from __future__ import annotations

import os
import struct
import weakref
import zlib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from choqolate._util.files import check_regular, replacing

_MARK = b"CHOQSEAL"
_HEAD = struct.Struct("<IIII8s")  # checksums of the footer and of those of the chunks, row groups, columns, mark
_END = struct.Struct("<I4s")  # length of the footer, PAR1
_BUFFER = 1 << 18  # bytes of a chunk that are read at a time


def write_sealed(path: Path, table: pa.Table, **options: Any) -> None:
    """Write a table in one step, with a seal.

    Args:
        path: of the file.
        table: to be written.
        options: of :func:`pyarrow.parquet.write_table`.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "birds.parquet"
    >>> write_sealed(path, pa.table({"label": ["gull", "wren"]}))
    >>> read_sealed(path)["label"].to_pylist()
    ['gull', 'wren']
    """
    with replacing(path) as temporary:
        pq.write_table(table, temporary, write_page_checksum=True, **options)
        seal(temporary)


def read_sealed(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a table, or some of its columns, and compare all checksums on the way.

    Raises:
        pa.ArrowInvalid: if the file is damaged.
    """
    found = Seal(path)
    with pq.ParquetFile(path, page_checksum_verification=found.checksums is None) as file:
        for row_group in range(file.metadata.num_row_groups):
            found.check(file.metadata, row_group, columns)
        return file.read(columns=None if columns is None else list(columns))


def seal(path: Path) -> None:
    """Add a seal to a file that has just been written. If it is interrupted, the file is damaged."""
    metadata = pq.read_metadata(path)
    with open(path, "rb+") as file:
        size = file.seek(0, os.SEEK_END)
        start = _footer_start(file.fileno(), size)
        footer = os.pread(file.fileno(), size - start, start)
        buffer = bytearray(_BUFFER)
        checksums = [
            _checksum(file.fileno(), *_extent(metadata.row_group(group).column(column)), buffer)
            for group in range(metadata.num_row_groups)
            for column in range(metadata.num_columns)
        ]
        table = np.array(checksums, dtype="<u4").tobytes()
        file.seek(start)
        head = (zlib.crc32(footer), zlib.crc32(table), metadata.num_row_groups, metadata.num_columns, _MARK)
        file.write(table + _HEAD.pack(*head) + footer)


class Seal:
    """The checksums of a file, which may have none. The file stays open, whatever happens to its name.

    Args:
        path: of the file.

    Attributes:
        checksums: of each column chunk, ``(row groups, columns)``; ``None`` if there is no seal.

    Raises:
        pa.ArrowInvalid: if the footer or the seal is damaged.
    """

    def __init__(self, path: Path) -> None:
        check_regular(path, "a Parquet file")
        self._handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        weakref.finalize(self, os.close, self._handle)
        self.checksums: np.ndarray | None = None
        size = os.fstat(self._handle).st_size
        start = _footer_start(self._handle, size)
        if start < _HEAD.size:
            return
        head = os.pread(self._handle, _HEAD.size, start - _HEAD.size)
        of_footer, of_table, n_groups, n_columns, mark = _HEAD.unpack(head)
        if mark != _MARK:
            return
        length = 4 * n_groups * n_columns
        table = os.pread(self._handle, length, start - _HEAD.size - length) if length < start - _HEAD.size else b""
        footer = os.pread(self._handle, size - start, start)
        if zlib.crc32(footer) != of_footer or zlib.crc32(table) != of_table:
            raise pa.ArrowInvalid("the checksum of its footer does not match")
        self.checksums = np.frombuffer(table, dtype="<u4").reshape(n_groups, n_columns)

    def check(self, metadata: pq.FileMetaData, row_group: int, columns: Collection[str] | None = None) -> None:
        """Compare the checksums of the chunks of a row group.

        Args:
            metadata: of the file.
            row_group: its number.
            columns: names of those to check; by default all.

        Raises:
            pa.ArrowInvalid: if one does not match.
        """
        if self.checksums is None:
            return
        group, buffer = metadata.row_group(row_group), bytearray(_BUFFER)
        for number, expected in enumerate(self.checksums[row_group].tolist()):
            chunk = group.column(number)
            name = chunk.path_in_schema
            if columns is not None and name.partition(".")[0] not in columns:
                continue
            if _checksum(self._handle, *_extent(chunk), buffer) != expected:
                raise pa.ArrowInvalid(f"the checksum of {name!r} does not match")


def _footer_start(handle: int, size: int) -> int:
    """Where the footer begins; 0 if the file has none."""
    if size < _END.size:
        return 0
    length, magic = _END.unpack(os.pread(handle, _END.size, size - _END.size))
    return max(0, size - _END.size - length) if magic == b"PAR1" else 0


def _extent(chunk: pq.ColumnChunkMetaData) -> tuple[int, int]:
    """Where a column chunk begins, and how many bytes it has."""
    start = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset:
        start = min(start, chunk.dictionary_page_offset)
    return start, chunk.total_compressed_size


def _checksum(handle: int, start: int, length: int, buffer: bytearray) -> int:
    """The checksum of a part of a file, read in pieces that stay in the cache of the processor."""
    value, view = 0, memoryview(buffer)
    while length > 0:
        n_read = os.preadv(handle, [view[: min(length, len(buffer))]], start)
        if not n_read:
            return -1  # the file ends here
        value, start, length = zlib.crc32(view[:n_read], value), start + n_read, length - n_read
    return value
