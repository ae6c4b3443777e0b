"""What a stranger could make of a valid file: JSON, Parquet, safetensors, CSV and bytes, changed in a few places."""

from __future__ import annotations

import copy
import io
import json
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from choqolate._util.json_files import CHECKSUM, with_checksum


class Raw(NamedTuple):
    """A value as it stands in a file, which Python need not be able to hold."""

    text: str


class Twice(NamedTuple):
    """A value that its object has two times, under one name."""

    value: Any


NUMBERS = [0, -1, 1, 2, 7, 0.5, -0.0, 1e-300, 5e-324, 1e300, -1e300, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 2**64]
RAW = [Raw(text) for text in ("1e999", "-1e999", "NaN", "Infinity", "9" * 400, "[" * 900 + "]" * 900, "[" * 60_000)]
RAW += [Raw('{"a":' * 300 + "1" + "}" * 300), Raw("tru"), Raw(""), Raw('"\\ud800"'), Raw('"\t"'), Raw("0x10")]
TEXTS = ["", " ", "\x00", "a\nb", "\x1b[31m", "\ud800", "\u202e", "x" * 20_000, "=1+1", "../..", "/", "nan", "1", "{}"]
TEXTS += ["F32", "I32", "F64", "I64", "BF16", "BOOL", "C64"]
TEXTS += ["<f8", ">i2", "O", "V8", "U", "M8[ns]", "<U100000000", "not sea", "rescale", "remove", "float64", "auto"]
KEYS = ["", "__class__", "self", "kind", "edit", "note", "nodes", "format", "x" * 500, "\ud800", "a\x00b"]

values = st.one_of(
    st.sampled_from([None, True, False, [], {}, [[]], [None], {"": None}, [1, "a"], [[1.0, 2.0], [3.0]], {"0": 1}]),
    st.sampled_from(NUMBERS),
    st.sampled_from(TEXTS),
    st.sampled_from(RAW),
    st.integers(-(2**65), 2**65),
    st.floats(allow_nan=True),
    st.text(max_size=8),
    st.lists(st.sampled_from([0, -1, 1.5, "a", None, True, [0], {}]), max_size=4),
)

# ---------------------------------------------------------------------- JSON

Path = tuple[str | int, ...]
HOW = ("replace", "delete", "insert", "twice", "wrap", "append", "rename", "reverse")
NEAR = (0, -1, 0.5, 2, 1e30, 1e-30, -1e30, 1.5)


class Change(NamedTuple):
    """One change of a JSON document."""

    path: Path
    how: str
    value: Any = None


def paths_in(document: Any, before: Path = ()) -> Iterator[Path]:
    """The places of a document, the root too."""
    yield before
    if isinstance(document, dict | list):
        items: Any = document.items() if isinstance(document, dict) else enumerate(document)
        for key, value in items:
            yield from paths_in(value, (*before, key))


def json_changes(document: Any, most: int = 3) -> st.SearchStrategy[list[Change]]:
    """One change or some, each at any place."""
    places = list(paths_in(document))
    tops = [place for place in places if len(place) <= 2]  # lists of numbers have most of the places
    place = st.one_of(st.sampled_from(tops), st.sampled_from(places))
    texts = sorted({text for place in places if isinstance(text := _at(document, place), str)} | {"auto"})
    any_change = st.builds(Change, place, st.one_of(st.just("replace"), st.sampled_from(HOW)), values)
    near = st.builds(Change, place, st.just("near"), st.sampled_from(NEAR))
    other = st.builds(Change, place, st.just("near"), st.sampled_from(texts))
    one = st.one_of(any_change, near, other)
    return st.lists(one, min_size=1, max_size=1) | st.lists(one, min_size=1, max_size=most)


def changed_json(document: Any, changes: Sequence[Change]) -> Any:
    """A document with changes; those whose place is gone are left out."""
    top = [copy.deepcopy(document)]
    for path, how, value in changes:
        parent: Any = top
        place: Any = 0
        for key in path:
            parent, place = parent[place], key
            if not _has(parent, key):
                break
        else:
            _change(parent, place, how, value)
    return top[0]


def _at(document: Any, path: Path) -> Any:
    for key in path:
        document = document[key]
    return document


def _has(parent: Any, key: str | int) -> bool:
    if type(parent) is dict:
        return key in parent
    return type(parent) is list and isinstance(key, int) and key < len(parent)


def _change(parent: Any, key: Any, how: str, value: Any) -> None:
    old, value = parent[key], copy.deepcopy(value)
    if how == "delete":
        del parent[key]
        if type(parent) is list and not parent:
            parent.append(None)  # the root stays
    elif how == "near":
        parent[key] = _near(old, value)
    elif how == "twice":
        parent[key] = Twice(old) if type(parent) is dict else [old, old]
    elif how == "wrap":
        parent[key] = [old]
    elif how == "append" and type(old) is list:
        old.append(old[-1] if old else value)
    elif how == "insert" and type(old) is dict:
        old[value if isinstance(value, str) else KEYS[len(str(value)) % len(KEYS)]] = value
    elif how == "insert" and type(old) is list:
        old.insert(0, value)
    elif how == "rename" and type(parent) is dict:
        parent[value if isinstance(value, str) else "renamed"] = parent.pop(key)
    elif how == "reverse" and type(old) is list:
        old.reverse()
    else:
        parent[key] = value


def _near(old: Any, value: Any) -> Any:
    """A value of the same kind as another one."""
    number = isinstance(value, int | float)
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return old + int(value) if number and abs(value) <= 2 else -old
    if isinstance(old, float):
        return old * value if number else -old
    if isinstance(old, str):
        return f"{old} " if number else value
    if type(old) is list and old:
        return [old[1:], old[:-1], [*old, old[0]], old[::-1], old[:1] * len(old)][len(str(value)) % 5]
    if type(old) is dict and old:
        return dict(list(old.items())[1:])
    return value


def json_text(value: Any) -> str:
    """Write JSON, and what only looks like it; all that is not ASCII is escaped."""
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, Twice):
        return json_text(value.value)
    if isinstance(value, dict):
        pairs = []
        for key, inner in value.items():
            pairs += [f"{json.dumps(key)}: {json_text(inner)}"] * (2 if isinstance(inner, Twice) else 1)
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(json_text, value)) + "]"
    return json.dumps(value)


def sealed_json(document: Any) -> bytes:
    """Write JSON whose checksum, if it has one, is right."""
    if isinstance(document, dict) and isinstance(document.get(CHECKSUM), str):
        document = document | {CHECKSUM: ""}
    return with_checksum(json_text(document)).encode()


# ---------------------------------------------------------------------- bytes


def byte_changes(
    most: int = 4, how: Sequence[str] = ("overwrite", "insert", "remove", "cut", "repeat")
) -> st.SearchStrategy[list[tuple[float, str, bytes]]]:
    """Bytes that are overwritten, inserted, removed or cut off, at a share of the length."""
    some = st.one_of(
        st.binary(min_size=1, max_size=6), st.sampled_from([b"\0" * 9, b"\xff" * 4, b'"', b"\n", b"{", b"1e9"])
    )
    return st.lists(st.tuples(st.floats(0, 1), st.sampled_from(how), some), min_size=1, max_size=most)


def changed_bytes(content: bytes, changes: Sequence[tuple[float, str, bytes]]) -> bytes:
    """Content with changes."""
    for share, how, some in changes:
        at = int(share * len(content))
        if how == "cut":
            content = content[:at]
        elif how == "remove":
            content = content[:at] + content[at + len(some) :]
        elif how == "repeat":
            content = content[:at] + content[max(0, at - 40) : at] * 2 + content[at:]
        else:
            content = content[:at] + some + content[at + (len(some) if how == "overwrite" else 0) :]
    return content


# ---------------------------------------------------------------------- text tables

CELLS = [
    "0.5",
    "1",
    "-2e-3",
    "gull",
    "test",
    "",
    " ",
    "nan",
    "inf",
    "-1e308",
    "1e999",
    "0,5",
    "=1+1",
    '"',
    '""',
    "a\tb",
    "\x00",
    "\x1b[2J",
    "\ufeff",
    "9" * 400,
]
CELLS += [
    "/etc/passwd",
    "../x",
    ".",
    "x" * 200_000,
    "path",
    "label",
    "None",
    "train",
    "\u202e",
    "a;b",
    "\r",
    "\n",
    "\u2028",
]


def csv_changes(most: int = 4) -> st.SearchStrategy[list[tuple[str, int, int, str]]]:
    """Changes of cells, rows, columns and of what stands between them: (how, row, column, text)."""
    how = [
        "cell",
        "cell",
        "cell",
        "header",
        "quoted",
        "drop row",
        "double row",
        "drop column",
        "double column",
        "longer",
    ]
    how += ["shorter", "separator", "line end", "encoding", "no header"]
    text = st.one_of(st.sampled_from(CELLS), st.text(max_size=6))
    row = st.tuples(st.sampled_from(how), st.integers(0, 9), st.integers(0, 9), text)
    return st.lists(row, min_size=1, max_size=1) | st.lists(row, min_size=1, max_size=most)


def changed_csv(grid: Sequence[Sequence[str]], changes: Sequence[tuple[str, int, int, str]]) -> bytes:
    """A table as CSV, its header first, with changes."""
    rows, separator, end, encoding = [list(row) for row in grid], ",", "\n", "utf-8"
    for how, row, column, text in changes:
        at = row % len(rows)
        cells = rows[at]
        place = column % len(cells) if cells else 0
        if how in ("cell", "quoted") and cells:
            cells[place] = text if how == "cell" else '"' + text.replace('"', '""') + '"'
        elif how == "header" and rows[0]:
            rows[0][column % len(rows[0])] = text
        elif how == "drop row" and len(rows) > 1:
            del rows[at]
        elif how == "double row":
            rows.insert(at, list(cells))
        elif how == "drop column":
            rows = [line[:column] + line[column + 1 :] for line in rows]
        elif how == "double column":
            rows = [line + line[column : column + 1] for line in rows]
        elif how == "longer":
            cells.append(text)
        elif how == "shorter" and cells:
            cells.pop()
        elif how == "separator":
            separator = (";", "\t", "|", ",,", " ,")[row % 5]
        elif how == "line end":
            end = ("\r\n", "\r", "\n\n", "\u2028", "")[row % 5]
        elif how == "encoding":
            encoding = ("utf-8-sig", "utf-16", "latin-1", "utf-32", "cp1252")[row % 5]
        elif how == "no header" and len(rows) > 1:
            del rows[0]
    text = end.join(separator.join(line) for line in rows) + end
    return text.encode(encoding, "replace" if encoding in ("latin-1", "cp1252") else "surrogatepass")


# ---------------------------------------------------------------------- Parquet

TYPES: dict[str, Any] = {
    "int8": pa.int8(),
    "uint64": pa.uint64(),
    "half": pa.float16(),
    "double": pa.float64(),
    "float": pa.float32(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "large string": pa.large_string(),
    "binary": pa.binary(),
    "decimal": pa.decimal128(30, 3),
    "date": pa.date32(),
    "time": pa.timestamp("ns", tz="UTC"),
    "duration": pa.duration("ms"),
    "null": pa.null(),
    "list": pa.list_(pa.float32()),
    "large list": pa.large_list(pa.float64()),
    "list of text": pa.list_(pa.string()),
    "list of lists": pa.list_(pa.list_(pa.float32())),
    "pair": pa.list_(pa.float32(), 2),
    "struct": pa.struct([("element", pa.float32()), ("x", pa.string())]),
    "map": pa.map_(pa.string(), pa.float32()),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
}
FILLS: dict[str, Any] = {
    "list": [1.0, 2.0],
    "large list": [0.5] * 6,
    "list of text": ["a", "b"],
    "list of lists": [[1.0], [2.0, 3.0]],
    "pair": [1.0, None],
    "struct": {"element": 1.0, "x": "y"},
    "map": [("a", 1.0)],
    "date": 1,
    "time": 1,
    "duration": 1,
    "binary": b"\xff\xfe\0",
    "bool": True,
    "string": "\x1b[1m\x00 1.5",
    "large string": "x" * 5000,
    "dictionary": "train",
    "null": None,
}
PARQUET = ("type", "fill", "nulls", "drop", "rename", "double", "reorder", "no rows", "more rows", "rows", "metadata")


def parquet_changes(table: pa.Table, most: int = 3) -> st.SearchStrategy[list[tuple[str, int, Any]]]:
    """Changes of columns, types, rows and metadata: (how, column, with what)."""
    names = st.sampled_from(
        ["path", "label", "scores", "Path ", "y", "", "digest", "embedding", "sea", "x.y", "\x00", "0.5"]
    )
    found = {key.decode(): json.loads(value) for key, value in (table.schema.metadata or {}).items()}
    options: dict[str, st.SearchStrategy[Any]] = {
        "type": st.sampled_from(sorted(TYPES)),
        "fill": st.sampled_from(sorted(TYPES)),
        "nulls": st.integers(0, 3),
        "rename": names,
        "more rows": st.integers(0, 5),
        "rows": st.integers(0, 5),
        "metadata": st.tuples(*map(json_changes, found.values())) if found else st.none(),
    }
    how = st.sampled_from(PARQUET if found else PARQUET[:-1])
    change = how.flatmap(lambda name: st.tuples(st.just(name), st.integers(0, 9), options.get(name, st.none())))
    return st.lists(change, min_size=1, max_size=most)


def changed_parquet(table: pa.Table, changes: Sequence[tuple[str, int, Any]]) -> pa.Table:
    """A table with changes; those that Arrow cannot make are left out."""
    for how, number, value in changes:
        if table.num_columns:
            table = _changed_table(table, how, number % table.num_columns, value)
    return table


def _changed_table(table: pa.Table, how: str, at: int, value: Any) -> pa.Table:
    column, name = table.column(at), table.column_names[at]
    n_rows = table.num_rows
    if how == "drop":
        return table.remove_column(at)
    if how == "rename":
        return table.rename_columns([value if k == at else one for k, one in enumerate(table.column_names)])
    if how == "double":
        return table.append_column(name, column)
    if how == "reorder":
        return table.select(list(range(at, table.num_columns)) + list(range(at)))
    if how == "no rows":
        return table.slice(0, 0)
    if how == "more rows":
        return pa.concat_tables([table] * (value + 2))
    if how == "rows":
        return pa.concat_tables([table.slice(value), table.slice(0, 1), table.slice(value)])
    if how == "metadata":
        metadata = dict(table.schema.metadata or {})
        for (key, content), changes in zip(list(metadata.items()), value, strict=False):
            metadata[key] = json_text(changed_json(json.loads(content), changes)).encode()
        return table.replace_schema_metadata(metadata)
    if how == "nulls":
        values = [None if row % 4 == value else one for row, one in enumerate(column.to_pylist())]
        kind = column.type
    else:
        kind = TYPES[value]
        values = (
            column.to_pylist() if how == "type" else [FILLS.get(value, float("nan") if "o" in value else 1)] * n_rows
        )
    try:
        made = pa.array(values, kind, **({"from_pandas": False} if how == "fill" else {}))
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return table
    field = pa.field(name, made.type)
    return table.set_column(at, field, pa.chunked_array([made]))


def parquet_bytes(table: pa.Table) -> bytes:
    """A Parquet file without a seal; none if there is none of such a table."""
    content = io.BytesIO()
    pq.write_table(table, content, write_page_checksum=True, row_group_size=5)
    return content.getvalue()


# ---------------------------------------------------------------------- safetensors


def tensor_header(content: bytes) -> Any:
    """What a safetensors file says of its tensors."""
    return json.loads(content[8 : 8 + struct.unpack("<Q", content[:8])[0]])


def changed_tensors(content: bytes, changes: Sequence[Change], numbers: Sequence[tuple[float, str, bytes]]) -> bytes:
    """A safetensors file with another header, and other numbers after it."""
    length = struct.unpack("<Q", content[:8])[0]
    header = json_text(changed_json(json.loads(content[8 : 8 + length]), changes)).encode()
    return struct.pack("<Q", len(header)) + header + changed_bytes(content[8 + length :], numbers)
