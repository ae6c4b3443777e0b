"""Where scores and models come from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def section(provenance: Any, name: str) -> dict[str, Any]:
    """A part of a provenance, which anyone may have written; empty if it is not there or something else."""
    found = provenance.get(name) if isinstance(provenance, dict) else None
    return found if isinstance(found, dict) else {}


def texts(part: Mapping[str, Any], name: str) -> list[str]:
    """A list of texts in a part of a provenance; empty if it is not there or something else."""
    found = part.get(name)
    return [item for item in found if isinstance(item, str)] if isinstance(found, list | tuple) else []
