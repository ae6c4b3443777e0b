from __future__ import annotations

import pytest

from choqolate.data.manifest import Manifest
from choqolate.datasets import CopyCheck, check_copy
from tests.datasets.layouts import touch


def test_a_complete_copy(tmp_path):
    touch(tmp_path, ["a.jpg", "sub/b.jpg"])
    found = check_copy(Manifest(tmp_path, ["a.jpg", "sub/b.jpg"]))
    assert found == CopyCheck(2, 0, ())
    assert found.complete
    assert str(found) == "all 2 images are there"


@pytest.mark.parametrize("limit", [0, 2, 10])
def test_what_is_missing(tmp_path, limit):
    touch(tmp_path, ["a.jpg", "folder.jpg/x"])
    (tmp_path / "link.jpg").symlink_to("nowhere")
    names = ["z.jpg", "a.jpg", "folder.jpg", "link.jpg", "nul\0.jpg", str(tmp_path / "a.jpg")]
    found = check_copy(Manifest(tmp_path, names), limit=limit)
    assert (found.n_rows, found.n_missing, found.complete) == (6, 4, False)
    assert found.missing == ("z.jpg", "folder.jpg", "link.jpg", "nul\0.jpg")[:limit]


def test_progress(tmp_path):
    calls = []
    check_copy(Manifest(tmp_path, [f"{i}.jpg" for i in range(2500)]), progress=lambda *done: calls.append(done))
    assert calls == [(1000, 2500), (2000, 2500), (2500, 2500)]
