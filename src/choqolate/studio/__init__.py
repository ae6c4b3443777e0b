"""The studio: audit a model in the browser, take concepts out, see who is affected, keep the history.

Names are imported when they are first used: a file of the studio needs no server, and a server loads its own packages.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from choqolate.studio.app_server import create_app
    from choqolate.studio.bundle import build_bundle
    from choqolate.studio.launch import serve_studio
    from choqolate.studio.notebook import show_studio
    from choqolate.studio.studio_file import export_studio

_HOME = {
    "build_bundle": "choqolate.studio.bundle",
    "create_app": "choqolate.studio.app_server",
    "export_studio": "choqolate.studio.studio_file",
    "serve_studio": "choqolate.studio.launch",
    "show_studio": "choqolate.studio.notebook",
}

__all__ = ["build_bundle", "create_app", "export_studio", "serve_studio", "show_studio"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'choqolate.studio' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
