"""Small images: their size, what cannot be read, and how large they may be."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from choqolate.studio.thumbnails import SIDES, cached_thumbnail, choose_side, make_thumbnails, thumbnail_bytes


def noisy(path, size=(200, 150), seed=0, grain=4, **options):
    """An image with spots of so many pixels; small ones do not compress well."""
    pixels = np.random.default_rng(seed).integers(0, 255, (size[1] // grain, size[0] // grain, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize(size).save(path, **options)
    return path


def opened(content):
    return Image.open(io.BytesIO(content))


def test_a_thumbnail_is_a_small_upright_jpeg(tmp_path):
    image = opened(thumbnail_bytes(noisy(tmp_path / "a.png"), 96))
    assert (image.format, image.size) == ("JPEG", (96, 72))
    turned = Image.Exif()
    turned[0x0112] = 6  # turn to the right
    assert opened(thumbnail_bytes(noisy(tmp_path / "b.jpg", exif=turned), 96)).size == (72, 96)
    assert opened(thumbnail_bytes(noisy(tmp_path / "c.png", (40, 30)), 96)).size == (40, 30)


def test_a_large_jpeg_looks_the_same_though_fewer_pixels_are_decoded(tmp_path):
    file = noisy(tmp_path / "large.jpg", (2400, 1800), grain=300, quality=95)
    whole = Image.open(file).convert("RGB")
    whole.thumbnail((160, 160))
    small = opened(thumbnail_bytes(file, 160))
    assert small.size == whole.size == (160, 120)
    assert np.abs(np.asarray(small, float) - np.asarray(whole, float)).max() < 12


def test_what_cannot_be_read_is_left_out_and_the_order_is_kept(tmp_path):
    (tmp_path / "text.jpg").write_text("no image")
    files = [noisy(tmp_path / f"{k}.png", (200 + 40 * k, 200)) for k in range(6)]
    given = [*files[:3], None, tmp_path / "text.jpg", tmp_path / "missing.jpg", *files[3:]]
    made = make_thumbnails(given, 96)
    assert [one is None for one in made] == [False] * 3 + [True] * 3 + [False] * 3
    assert [opened(one).size for one in made if one] == [opened(thumbnail_bytes(file, 96)).size for file in files]
    assert make_thumbnails([], 96) == []


def test_the_side_is_the_largest_there_is_room_for(tmp_path):
    files = [noisy(tmp_path / f"{k}.png", seed=k, compress_level=1) for k in range(12)]
    needed = {side: sum(len(thumbnail_bytes(file, side)) for file in files) for side in SIDES}
    assert list(needed.values()) == sorted(needed.values(), reverse=True)
    for side in SIDES:
        assert choose_side([*files, None], 1.05 * needed[side]) == side
    assert choose_side(files, 0) == SIDES[-1] == 96
    assert choose_side([], 0) == choose_side([None], 0) == SIDES[0] == 160
    assert choose_side(files, 1e9, sides=(112, 96)) == 112


def test_a_server_makes_a_thumbnail_once(tmp_path):
    file = noisy(tmp_path / "a.png")
    first = cached_thumbnail(file, 96)
    file.unlink()
    assert cached_thumbnail(file, 96) is first
    assert cached_thumbnail.cache_info().maxsize == pytest.approx(4096)
