"""The studio as one file: how large it is, what it says, and what it opens as."""

from __future__ import annotations

import base64
import json
import re

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load

from choqolate.errors import ChoqolateError, ChoqolateWarning
from choqolate.studio import export_studio
from choqolate.studio.thumbnails import SIDES
from tests.reports import bird_table, small_model
from tests.studio.small_page import write_page


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return write_page(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Three hundred rows with images that do not compress well; one cannot be read."""
    folder = tmp_path_factory.mktemp("images")
    table, rng = bird_table(folder), np.random.default_rng(0)
    for path in table.paths:
        pixels = rng.integers(0, 255, (45, 60, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize((180, 135)).save(folder / path, compress_level=1)
    (folder / table.paths[7]).write_text("no image")
    return table


@pytest.fixture(scope="module")
def model(table):
    return small_model(table)


def contents(file):
    """The images, the document and the arrays in a file."""
    html = file.read_text(encoding="utf-8")
    found = dict(re.findall(r'id="(studio-\w+)"[^>]*>([^<]*)</script>', html))
    blob = base64.b64decode(found["studio-data"])
    header = json.loads(blob[8 : 8 + int.from_bytes(blob[:8], "little")])
    return json.loads(found["studio-images"]), json.loads(header["__metadata__"]["studio"]), load(blob)


def test_a_file_holds_rows_and_thumbnails(model, table, page, tmp_path):
    target = tmp_path / "new" / "audit.html"
    written = export_studio(model, table, target, page=page, title="birds")
    images, document, arrays = contents(target)
    assert (written.path, written.size) == (target, target.stat().st_size)
    assert (written.rows, written.total, written.images, written.unreadable) == (300, 300, 299, 1)
    assert (written.side, written.chosen) == (160, document["rows"]["chosen"])
    assert document["title"] == "birds"
    (unread,) = [row for row, image in enumerate(images) if image is None]
    assert arrays["rows.number"][unread] == 7
    assert arrays["rows.has_image"].tolist() == [int(image is not None) for image in images]
    assert [path.name for path in target.parent.iterdir()] == ["audit.html"]
    first = target.read_bytes()
    export_studio(model, table, target, page=page, title="birds")
    assert target.read_bytes() == first  # the same on every machine and every day


def test_thumbnails_become_smaller_before_rows_are_left_out(model, table, page, tmp_path):
    sizes = [export_studio(model, table, tmp_path / "a.html", page=page).size]
    for share in (0.8, 0.6):
        limit = int(share * sizes[0])
        written = export_studio(model, table, tmp_path / "a.html", page=page, most_bytes=limit)
        assert written.size <= limit
        assert (written.rows, written.side < SIDES[0]) == (300, True)
        sizes.append(written.size)
    written = export_studio(model, table, tmp_path / "a.html", page=page, most_bytes=500_000)
    assert 0.85 * 500_000 < written.size <= 500_000
    assert 20 < written.rows < 300
    assert written.side == 96
    assert "Fewer than 300 rows, so that the file stays under 0.5 MB." in written.chosen
    images, document, arrays = contents(tmp_path / "a.html")
    assert len(images) == document["rows"]["loaded"] == len(arrays["rows.z"]) == written.rows
    assert set(arrays["rows.group"]) == {0, 1, 2, 3}


def test_a_model_that_is_too_large_for_a_file_is_refused(model, table, page, tmp_path):
    with pytest.raises(ChoqolateError, match=r"fits into a file of 0\.01 MB but it takes"):
        export_studio(model, table, tmp_path / "a.html", page=page, most_bytes=10_000)
    assert not list(tmp_path.iterdir())


def test_what_is_no_page_is_not_written_over(model, table, page, tmp_path):
    (tmp_path / "scores.parquet").write_text("precious")
    for name, message in (("scores.parquet", "ends in .html"), ("folder.html", "is a folder")):
        (tmp_path / "folder.html").mkdir(exist_ok=True)
        with pytest.raises(ChoqolateError, match=message):
            export_studio(model, table, tmp_path / name, page=page)
    assert (tmp_path / "scores.parquet").read_text() == "precious"


def test_images_that_are_not_found_are_reported(model, table, page, tmp_path):
    lost = table.with_columns(paths=[f"lost/{row}.png" for row in range(300)])
    with pytest.warns(ChoqolateWarning, match="300 of 300 images were not found"):
        written = export_studio(model, lost, tmp_path / "a.html", page=page)
    assert (written.images, written.unreadable) == (0, 0)
    assert not any(contents(tmp_path / "a.html")[0])
