"""Crafted files whose checksums are right, as somebody would make them who knows the format."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from choqolate._util.json_files import json_bytes


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Write a document whose old checksum, if it has one, is out of date."""
    path.write_bytes(json_bytes(document | {"checksum": ""}, indent=2))


def change_json(path: Path, **changes: Any) -> None:
    """Change entries of a document."""
    write_json(path, json.loads(path.read_bytes()) | changes)


def change_numbers(folder: Path, numbers: bytes) -> None:
    """Put other numbers into the folder of a model."""
    (folder / "model.safetensors").write_bytes(numbers)
    change_json(folder / "config.json", sha256=hashlib.sha256(numbers).hexdigest())
