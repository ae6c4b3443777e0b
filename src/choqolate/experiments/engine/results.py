"""Results: a file of one JSON line per run, which several processes may add to and which survives being cut off."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from numbers import Real
from pathlib import Path
from typing import IO, Any, NamedTuple

from choqolate._util.checks import check_number, check_seed
from choqolate._util.files import check_output, check_regular, naming_disk_errors, sync_folder
from choqolate._util.json_files import CHECKSUM, is_unchanged, parse_json, with_checksum
from choqolate._util.text import listed
from choqolate.errors import ChoqolateError

Damage = tuple[int, str]
"""A line's number, from 1, and why it cannot be read."""


@dataclass(frozen=True)
class Run:
    """What one run was, and what came of it.

    All parts are brought to the form in which a file gives them back: tuples become lists, keys text.

    Attributes:
        config: what was run, anything JSON can hold; 1 and 1.0 are two configurations.
        seed: of the run.
        metrics: what was measured; NaN, infinity and ``None`` all mean undefined: NaN here, null in the file.
        seconds: that the batch of seeds took.
        shared: how many seeds shared those seconds.
        versions: of the packages.
        chosen: hyperparameters that were chosen on validation rows.

    >>> run = Run({"data": "cub", "method": "pcbm"}, 0, {"accuracy": 0.5, "coherence": math.nan}, 2.5, shared=5)
    >>> run.to_json()
    '{"checksum": "crc32 ...", "config": {"data": "cub", "method": "pcbm"}, "seed": 0, ..."coherence": null}, ...}'
    >>> Run.from_json(run.to_json()) == run
    True
    """

    config: dict[str, Any]
    seed: int
    metrics: dict[str, float | None]
    seconds: float
    shared: int = 1
    versions: dict[str, Any] = field(default_factory=dict)
    chosen: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_number("seconds", self.seconds, minimum=0)
        check_number("shared", self.shared, minimum=1, whole=True)
        form: dict[str, Any] = {
            "config": _plain("config", self.config),
            "seed": check_seed(self.seed),
            "metrics": _metrics(self.metrics),
        }
        form |= {"seconds": float(self.seconds), "shared": int(self.shared)}
        form |= {"versions": _plain("versions", self.versions), "chosen": _plain("chosen", self.chosen)}
        for name, value in form.items():
            object.__setattr__(self, name, value)

    @property
    def key(self) -> str:
        """What the run is known by."""
        return self.key_of(self.config, self.seed)

    @staticmethod
    def key_of(config: Mapping[str, Any], seed: int) -> str:
        """The key of a run that need not be there: the same for the same configuration and seed, on every machine.

        >>> Run.key_of({"data": "cub", "nodes": (4, 8)}, 0) == Run.key_of({"nodes": [4, 8], "data": "cub"}, 0)
        True
        """
        canonical = json.dumps([_plain("config", config), check_seed(seed)], sort_keys=True)
        return hashlib.sha256(canonical.encode()).hexdigest()[:24]

    def to_json(self) -> str:
        """One line, without its end, that begins with its checksum."""
        document = {CHECKSUM: ""} | asdict(self)
        document["metrics"] = {name: value if _is_finite(value) else None for name, value in self.metrics.items()}
        return with_checksum(json.dumps(document, allow_nan=False))

    @classmethod
    def from_json(cls, line: str) -> Run:
        """The run of a line.

        Raises:
            ChoqolateError: if it is not JSON, was changed, misses fields or has something else in them. Other fields
                are ignored; lines of earlier versions have no checksum.
        """
        document = parse_json(line, "it")
        if not isinstance(document, dict):
            raise ChoqolateError(f"expected an object, got {type(document).__name__}")
        if is_unchanged(line.encode(errors="replace"), document) is False:
            raise ChoqolateError("its checksum does not match")
        names = [part.name for part in fields(cls)]
        missing = [name for name in names if name not in document]
        if missing:
            raise ChoqolateError(f"without {listed(missing, most=len(names))}")
        return cls(**{name: document[name] for name in names})


class Read(NamedTuple):
    """What a file of results holds.

    Attributes:
        runs: one for each configuration and seed, the later line where there are several.
        damaged: number and reason of each line that was skipped.
    """

    runs: list[Run]
    damaged: list[Damage]

    def trouble(self, path: str | os.PathLike[str]) -> str:
        """One line for people on what was skipped of a file; empty if nothing was.

        >>> Read([], [(7, "without 'seed'"), (9, "not JSON"), (12, "not JSON")]).trouble("out/results.jsonl")
        "results.jsonl: line 7 skipped (without 'seed'); 2 more"
        """
        if not self.damaged:
            return ""
        (number, reason), more = self.damaged[0], len(self.damaged) - 1
        return f"{Path(path).name}: line {number} skipped ({reason})" + (f"; {more} more" if more else "")


class Results:
    """A file of runs.

    >>> import tempfile
    >>> results = Results(Path(tempfile.mkdtemp()) / "results.jsonl")
    >>> results.append([Run({"method": "pcbm"}, seed, {"accuracy": 0.5}, 1.0) for seed in (0, 1)])
    >>> [run.seed for run in results.read().runs]
    [0, 1]
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def append(self, runs: Iterable[Run]) -> None:
        """Add runs in one write that is on the disk when this returns. Half a line at the end gets an end of its own.

        Raises:
            ChoqolateError: if the file cannot be written to.
        """
        lines = "".join(run.to_json() + "\n" for run in runs).encode()
        if not lines:
            return
        check_output(self.path)
        try:
            with naming_disk_errors(self.path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with open(self.path, "ab+", buffering=0) as file:
                    _lock(file, exclusive=True)
                    _append(file, b"\n" + lines if _is_cut_off(file) else lines)
                sync_folder(self.path.parent)
        except OSError as error:
            raise ChoqolateError(
                f"expected to add results to {self.path}: {error.strerror}; make room or choose another file"
            ) from error

    def read(self) -> Read:
        """All runs that can be read, and which lines cannot. A file that is not there has none."""
        runs: dict[str, Run] = {}
        damaged: list[Damage] = []
        for number, line in enumerate(self._content().split(b"\n"), start=1):
            if not line.strip():
                continue
            try:
                run = Run.from_json(line.decode("utf-8", "replace"))
            except (ChoqolateError, OverflowError) as error:  # a whole number may be too large for anything
                damaged.append((number, str(error).removesuffix(".")))
            else:
                runs[run.key] = run
        return Read(list(runs.values()), damaged)

    def _content(self) -> bytes:
        check_regular(self.path, "results")
        try:
            with open(self.path, "rb") as file:
                _lock(file, exclusive=False)  # a line that another process is writing is not damaged
                return file.read()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise ChoqolateError(f"expected a file of results, cannot read {self.path}: {error.strerror}") from None


def _append(file: io.FileIO, content: bytes) -> None:
    """Add to a file, all or nothing, as long as nobody pulls the plug."""
    size = file.seek(0, os.SEEK_END)
    try:
        while content:
            content = content[file.write(content) :]
        os.fsync(file.fileno())
    except OSError:
        with suppress(OSError):
            file.truncate(size)
        raise


def _is_cut_off(file: IO[bytes]) -> bool:
    """Whether the last line has no end: whoever wrote it was killed."""
    if file.seek(0, os.SEEK_END) == 0:
        return False
    file.seek(-1, os.SEEK_END)
    return file.read(1) != b"\n"


def _lock(file: IO[bytes], *, exclusive: bool) -> None:
    """Hold the file until it is closed, where the system and its disk can."""
    if os.name != "posix":
        return
    import fcntl

    with suppress(OSError):  # some network disks have no locks
        fcntl.flock(file, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)


def _plain(name: str, value: Any) -> dict[str, Any]:
    """An object as JSON gives it back."""
    if not isinstance(value, Mapping):
        raise ChoqolateError(f"expected {name} to be a dictionary, got {value!r}")
    try:
        plain: dict[str, Any] = parse_json(json.dumps(dict(value), allow_nan=False), "it")
    except (TypeError, ValueError, RecursionError) as error:
        why = str(error).removesuffix(".")
        raise ChoqolateError(f"expected {name} to hold what JSON can, {why}: turn it into numbers or text") from None
    return plain


def _metrics(value: Any) -> dict[str, float]:
    """Numbers by name, whatever is not finite as NaN."""
    if not isinstance(value, Mapping):
        raise ChoqolateError(f"expected metrics to be a dictionary, got {value!r}")
    return {str(name): _number(str(name), number) for name, number in value.items()}


def _number(name: str, value: Any) -> float:
    fine = value is None or (isinstance(value, Real) and not isinstance(value, bool))
    if not fine:
        raise ChoqolateError(f"expected metric {name!r} to be a number or None, got {value!r}")
    return float(value) if _is_finite(value) else math.nan  # this very NaN, so that equal runs are equal


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
