from __future__ import annotations

import pytest

from tests.tiny import write_clip, write_siglip


@pytest.fixture(scope="session")
def clip_folder(tmp_path_factory):
    return write_clip(tmp_path_factory.mktemp("backbones") / "clip")


@pytest.fixture(scope="session")
def siglip_folder(tmp_path_factory):
    return write_siglip(tmp_path_factory.mktemp("backbones") / "siglip")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """No test touches the user's cache."""
    monkeypatch.setenv("CHOQOLATE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
