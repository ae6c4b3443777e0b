from __future__ import annotations

import os
import sys
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from choqolate.concepts.preprocessing import (
    MAX_PIXELS,
    FileState,
    ImageTransform,
    Unreadable,
    decode,
    file_state,
    prepare,
    read_content,
    settled,
)
from choqolate.concepts.workers import preparing
from tests.concepts.image_files import bad_files, draw, encoded, flag, odd_files, png_header
from tests.peak_memory import peaks_of

NOTHING = frozenset().__contains__
CLIP = ImageTransform(
    size=30,
    crop=(30, 30),
    mean=(0.48145466, 0.4578275, 0.40821073),
    std=(0.26862954, 0.26130258, 0.27577711),
)
SIGLIP = ImageTransform(size=(32, 32), crop=None, mean=(0.5,) * 3, std=(0.5,) * 3)
sizes = st.tuples(st.integers(1, 90), st.integers(1, 90))


def processed(transform: ImageTransform, image: Image.Image) -> np.ndarray:
    """What the image processors of transformers make of an image."""
    import transformers

    name, settings = ("CLIPImageProcessor", {"size": {"shortest_edge": 30}, "crop_size": 30})
    if transform is SIGLIP:
        name, settings = ("SiglipImageProcessor", {"size": {"height": 32, "width": 32}})
    processor = (getattr(transformers, f"{name}Pil", None) or getattr(transformers, name))(**settings)
    return processor(image, return_tensors="np", input_data_format="channels_last")["pixel_values"][0]


def normalised(transform: ImageTransform, image: Image.Image) -> np.ndarray:
    pixels, levels = transform(image), transform.levels()
    return np.stack([levels[channel][pixels[..., channel]] for channel in range(3)])


@given(sizes, st.integers(0, 99), st.sampled_from([CLIP, SIGLIP]))
def test_preprocessing_is_that_of_transformers_bit_for_bit(size, seed, transform):
    image = draw(seed, size)
    np.testing.assert_array_equal(normalised(transform, image), processed(transform, image))


def test_a_crop_larger_than_the_image_is_filled_up_as_in_transformers():
    import transformers

    name = "CLIPImageProcessorPil" if hasattr(transformers, "CLIPImageProcessorPil") else "CLIPImageProcessor"
    processor = getattr(transformers, name)(size={"shortest_edge": 20}, crop_size={"height": 33, "width": 24})
    transform = ImageTransform(size=20, crop=(33, 24), mean=CLIP.mean, std=CLIP.std)
    for size in ((20, 20), (41, 20), (17, 29), (60, 55)):
        image = draw(3, size)
        expected = processor(image, return_tensors="np")["pixel_values"][0]
        np.testing.assert_array_equal(normalised(transform, image), expected)


def test_odd_margins_are_cut_as_in_torchvision_on_request():
    wide = Image.fromarray(np.arange(7, dtype=np.uint8)[None].repeat(4, 0)).convert("RGB")
    for free, left in ((3, 2), (1, 0)):  # round(1.5) = 2, round(0.5) = 0
        transform = ImageTransform((4, 4 + free), (4, 4), (0,) * 3, (1,) * 3, resample=0, round_half=True)
        assert transform(wide.crop((0, 0, 4 + free, 4)))[0, 0, 0] == left


def test_a_very_long_image_is_not_blown_up():
    pixels = CLIP(draw(1, (60_000, 2)))
    assert pixels.shape == (30, 30, 3)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_images_are_upright(orientation):
    turns = {
        2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_90, 7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }  # fmt: skip
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = flag() if orientation == 1 else flag().transpose(turns[orientation])
    image = decode(encoded(stored, "PNG", exif=exif))
    np.testing.assert_array_equal(np.asarray(image), np.asarray(flag()))


def test_transparency_is_shown_on_white():
    image = flag().convert("RGBA")
    image.putalpha(Image.new("L", image.size, 0))
    assert np.asarray(decode(encoded(image, "PNG"))).min() == 255
    half = Image.new("RGBA", (2, 2), (0, 0, 0, 128))
    assert abs(int(np.asarray(decode(encoded(half, "PNG")))[0, 0, 0]) - 127) <= 1
    keyed = decode(encoded(Image.new("RGB", (4, 4), (10, 20, 30)), "PNG", transparency=(10, 20, 30)))
    assert np.asarray(keyed).min() == 255


def test_sixteen_bits_keep_their_brightness():
    levels = np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)
    for kind in ("PNG", "TIFF"):
        image = np.asarray(decode(encoded(Image.fromarray(levels), kind)))
        np.testing.assert_allclose(image[..., 0], levels / 257, atol=0.51)
    dark = np.full((4, 4), 200, dtype=np.uint16)  # dark, though it would fit into eight bits
    assert np.asarray(decode(encoded(Image.fromarray(dark), "PNG"))).max() == 1


@pytest.mark.parametrize(
    ("values", "expected"),
    [([0.0, 0.5, 1.0], [0, 128, 255]), ([0.0, 100.0, 255.0], [0, 100, 255]), ([-3.0, np.nan, 3.0], [0, 128, 255])],
)
def test_floating_point_levels_are_read_by_their_range(values, expected):
    image = Image.fromarray(np.array([values], dtype=np.float32))
    np.testing.assert_allclose(np.asarray(decode(encoded(image, "TIFF")))[0, :, 0], expected, atol=1)


def test_cmyk_and_grey_look_like_the_original():
    for mode in ("CMYK", "L"):
        image = decode(encoded(flag().convert(mode), "TIFF"))
        np.testing.assert_allclose(np.asarray(image), np.asarray(flag().convert(mode).convert("RGB")), atol=1)


@pytest.mark.parametrize(("kind", "loss"), [("GIF", 40), ("PNG", 0), ("WEBP", 0), ("TIFF", 0)])
def test_of_an_animation_the_first_frame_is_taken(kind, loss):
    options = {"lossless": True} if kind == "WEBP" else {}
    content = encoded(draw(1), kind, save_all=True, append_images=[draw(2), draw(3)], **options)
    np.testing.assert_allclose(np.asarray(decode(content)).astype(int), np.asarray(draw(1)), atol=loss)


@pytest.mark.hostile("images")
@pytest.mark.parametrize("name", bad_files())
def test_bad_files_are_named_with_a_reason(name):
    content = bad_files()[name]
    with pytest.raises(Unreadable, match=r"\w"):
        decode(content)


def test_a_bomb_is_refused_before_it_is_decoded():
    side = int(MAX_PIXELS**0.5) + 1
    with pytest.raises(Unreadable, match="pixels"):
        decode(png_header(side, side))


@pytest.mark.parametrize("name", odd_files())
def test_odd_files_are_read(name):
    image = decode(odd_files()[name])
    assert image.mode == "RGB"
    assert CLIP(image).shape == (30, 30, 3)


def test_only_files_are_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "folder.jpg").mkdir()
    (tmp_path / "nowhere.jpg").symlink_to(tmp_path / "gone")
    (tmp_path / "loop.jpg").symlink_to(tmp_path / "loop.jpg")
    for name, reason in {
        "pipe": "not a file",
        "folder": "not a file",
        "nowhere": "no such file",
        "loop": "levels",
    }.items():
        with pytest.raises(Unreadable, match=reason):
            file_state(str(tmp_path / f"{name}.jpg"))
    with pytest.raises(Unreadable, match="null byte"):
        file_state("a\0b")


def test_a_file_larger_than_any_image_is_not_read(tmp_path):
    with open(tmp_path / "huge.jpg", "wb") as file:
        file.truncate(2 << 30)  # takes no space on the disk
    with pytest.raises(Unreadable, match="2,147,483,648 bytes"):
        read_content(str(tmp_path / "huge.jpg"))


def test_times_are_trusted_when_a_change_would_show_in_them():
    now = 10**18
    assert settled(FileState(1, now - 3 * 10**9, now - 3 * 10**9, 1), now)
    assert not settled(FileState(1, now - 10**9, now - 3 * 10**9, 1), now)
    assert not settled(FileState(1, now - 3 * 10**9, now + 10**9, 1), now)


def test_workers_give_the_same_in_the_same_order(tmp_path):
    paths = []
    for index, content in enumerate([*odd_files().values(), *bad_files().values()]):
        paths.append(str(tmp_path / f"{index}.jpg"))
        (tmp_path / f"{index}.jpg").write_bytes(content)
    known = {prepare([paths[4]], CLIP, NOTHING)[0].digest}
    with preparing(paths, CLIP, known, workers=0, ahead=64) as prepared:
        alone = list(prepared)
    with preparing(paths, CLIP, known, workers=2, ahead=20) as prepared:
        together = list(prepared)
    assert [item._replace(pixels=None) for item in alone] == [item._replace(pixels=None) for item in together]
    for one, other in zip(alone, together, strict=True):
        assert (one.pixels is None) == (other.pixels is None)
        np.testing.assert_array_equal(one.pixels, other.pixels)
    assert alone[4].pixels is None
    assert alone[4].digest in known
    assert sum(bool(item.error) for item in alone) == 100


def test_a_file_that_brings_down_its_process_is_named_and_the_others_are_read(tmp_path):
    paths = [str(tmp_path / f"{index}.png") for index in range(40)]
    for index, path in enumerate(paths):
        draw(index, (13, 7) if index in (5, 22) else (9, 9)).save(path)

    def fragile(image):
        if image.size == (13, 7):
            os.kill(os.getpid(), 9)
        return np.asarray(image)

    with preparing(paths, fragile, frozenset(), workers=2, ahead=8) as prepared:
        items = list(prepared)
    crashed = [index for index, item in enumerate(items) if "crashed" in item.error]
    assert crashed == [5, 22]
    for index in set(range(40)) - {5, 22}:
        np.testing.assert_array_equal(items[index].pixels, np.asarray(draw(index, (9, 9))))


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of a process from /proc")
def test_a_large_image_of_sixteen_bits_takes_little_memory(tmp_path):
    Image.fromarray(np.zeros((6000, 6000), dtype=np.uint16)).save(tmp_path / "deep.png")
    script = """
        import sys
        from choqolate.concepts.preprocessing import decode
        content = open(sys.argv[1], "rb").read()
        print_peak()
        decode(content)
        print_peak()
    """
    before, after = peaks_of(script, tmp_path / "deep.png")
    assert after - before < 36_000 * 12  # 36 million pixels; as floating point it was 29 bytes each


def test_an_image_in_memory_is_like_one_on_disk():
    content = encoded(flag(), "PNG")
    np.testing.assert_array_equal(np.asarray(decode(content)), np.asarray(Image.open(BytesIO(content)).convert("RGB")))
