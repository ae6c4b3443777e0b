"""Files as they are read: only regular ones."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from choqolate._util.files import check_regular, read_text
from choqolate.errors import ChoqolateError

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs named pipes")


def test_only_regular_files_are_read(tmp_path):
    (tmp_path / "words.txt").write_text("sea")
    (tmp_path / "link.txt").symlink_to("words.txt")
    assert read_text(tmp_path / "words.txt", "a word list") == "sea"
    assert read_text(tmp_path / "link.txt", "a word list") == "sea"
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(tmp_path / "socket"))
    for name, kind in {"pipe": "pipe", "link": "pipe", "socket": "socket", "/dev/zero": "device"}.items():
        with pytest.raises(ChoqolateError, match=f"Expected a word list .* is a {kind}. Save its content to a file"):
            read_text(tmp_path / name, "a word list")


@pytest.mark.parametrize("path", [".", "nowhere", "no\0name"])
def test_what_opens_with_an_error_is_left_to_its_reader(path):
    check_regular(Path(path), "a word list")
