"""Images that are easy to tell apart, and files that are hard to read."""

from __future__ import annotations

import os
import struct
import zlib
from functools import cache
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw


def draw(seed: int, size: tuple[int, int] = (40, 32)) -> Image.Image:
    """A small colourful image, another one for each seed."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (3, 4, 3), dtype=np.uint8))
    return coarse.resize(size, Image.Resampling.BILINEAR)


def flag(size: tuple[int, int] = (48, 32)) -> Image.Image:
    """Red on the left, blue on the right, a green bar at the top."""
    image = Image.new("RGB", size, (200, 30, 30))
    draw = ImageDraw.Draw(image)
    draw.rectangle((size[0] // 2, 0, size[0], size[1]), fill=(30, 30, 200))
    draw.rectangle((0, 0, size[0], size[1] // 4), fill=(30, 180, 30))
    return image


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    """An image as the bytes of a file."""
    buffer = BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def png_header(width: int, height: int) -> bytes:
    """A PNG that claims a size and ends there."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def write_album(folder: Path, n: int, first: int = 0) -> list[str]:
    """``n`` different images, counted from ``first``; returns their names."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"{index:04}.png" for index in range(first, first + n)]
    for index, name in enumerate(names, start=first):
        (folder / name).write_bytes(encoded(draw(index), "PNG", compress_level=1))
    return names


def age(folder: Path, seconds: float = 3600) -> None:
    """Wait until the files of a folder are old enough for their times to be trusted."""
    for path in folder.rglob("*"):
        if path.is_file():
            found = path.stat()
            os.utime(path, ns=(found.st_atime_ns, int(found.st_mtime_ns - seconds * 1e9)))


@cache
def odd_files() -> dict[str, bytes]:
    """A hundred files that hold an image in an unusual way, by name."""
    files: dict[str, bytes] = {}
    kinds = {
        "jpg": "JPEG", "png": "PNG", "gif": "GIF", "bmp": "BMP", "tif": "TIFF", "webp": "WEBP", "ppm": "PPM",
        "tga": "TGA", "jp2": "JPEG2000", "ico": "ICO", "avif": "AVIF",
    }  # fmt: skip
    for ending, kind in kinds.items():
        files[f"plain.{ending}"] = encoded(draw(1), kind)
    for mode in ("1", "L", "LA", "P", "RGBA", "I;16"):
        files[f"mode {mode.replace(';', '_')}.png"] = encoded(_as_mode(draw(2), mode), "PNG")
    for mode in ("1", "L", "P", "RGB", "RGBA", "CMYK", "LAB", "F", "I", "I;16"):
        files[f"mode {mode.replace(';', '_')}.tiff"] = encoded(_as_mode(draw(3), mode), "TIFF")
    for mode in ("L", "CMYK"):
        files[f"mode {mode}.jpg"] = encoded(draw(4).convert(mode), "JPEG")
    files["palette with a transparent colour.gif"] = encoded(draw(5).convert("P"), "GIF", transparency=3)
    files["palette with transparency.png"] = encoded(draw(5).convert("P"), "PNG", transparency=bytes(range(16)))
    frames = [draw(seed) for seed in (6, 7, 8)]
    for ending, kind in (("gif", "GIF"), ("webp", "WEBP"), ("png", "PNG"), ("tiff", "TIFF")):
        files[f"animated.{ending}"] = encoded(frames[0], kind, save_all=True, append_images=frames[1:])
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        files[f"orientation {orientation}.jpg"] = encoded(draw(9), "JPEG", exif=exif)
    files["orientation 99.jpg"] = encoded(draw(9), "JPEG", exif=_exif(99))
    files["damaged exif.jpg"] = encoded(draw(9), "JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\xff\xff\xff\xff\xff")
    files["progressive.jpg"] = encoded(draw(10), "JPEG", progressive=True)
    files["trailing bytes.jpg"] = encoded(draw(11), "JPEG") + b"\0" * 4096
    files["a JPEG called.png"] = encoded(draw(12), "JPEG")
    files["a PNG called.jpg"] = encoded(draw(12), "PNG")
    files["no ending"] = encoded(draw(13), "JPEG")
    files["wrong ending.txt"] = encoded(draw(13), "PNG")
    files["CAPITALS.JPEG"] = encoded(draw(14), "JPEG")
    for index, name in enumerate(
        ["ä ö ü.jpg", "写真.png", "🦆.png", "a'quote\".png", "line\nbreak.png", "$HOME.png", "-o.png", "%20.png",
         "semi;colon.png", "x" * 240 + ".png", "back\\slash.png", "#hash.png", "a,comma.png", "trailing space .png"]
    ):  # fmt: skip
        files[name] = encoded(draw(20 + index), "PNG")
    for width, height in ((1, 1), (1, 300), (300, 1), (3, 2), (2000, 4), (4, 2000), (31, 29), (15000, 1)):
        files[f"size {width} x {height}.png"] = encoded(draw(40, (width, height)), "PNG")
    for index in range(100 - len(files)):
        files[f"copy {index}.png"] = encoded(draw(100 + index % 20), "PNG")
    assert len(files) == 100
    return files


@cache
def bad_files() -> dict[str, bytes]:
    """A hundred files called images that hold none, by name."""
    files = {
        "empty.jpg": b"",
        "bomb.png": png_header(60_000, 60_000),
        "wide bomb.png": png_header(2_000_000_000, 2),
        "text.jpg": b"this is a letter, not an image\n" * 40,
        "html.png": b"<!DOCTYPE html><title>404</title>",
        "nul.gif": b"\0" * 2048,
        "postscript.png": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(x) run\n",
    }
    rng = np.random.default_rng(0)
    whole = {
        "jpg": encoded(draw(50, (200, 150)), "JPEG"),
        "png": encoded(draw(51, (200, 150)), "PNG"),
        "gif": encoded(draw(52, (200, 150)), "GIF"),
        "webp": encoded(draw(53, (200, 150)), "WEBP"),
        "bmp": encoded(draw(54, (20, 15)), "BMP"),
    }
    for ending, content in whole.items():
        for share in (0.02, 0.1, 0.3, 0.5, 0.7, 0.8):
            files[f"truncated {share}.{ending}"] = content[: int(len(content) * share)]
    for index in range(100 - len(files)):
        files[f"noise {index}.jpg"] = rng.bytes(500 + index)
    assert len(files) == 100
    return files


def _exif(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


def _as_mode(image: Image.Image, mode: str) -> Image.Image:
    if mode in ("I", "I;16"):
        grey = np.asarray(image.convert("L")).astype(np.uint16) * 257
        return Image.fromarray(grey if mode == "I;16" else grey.astype(np.int32))
    if mode == "F":
        return Image.fromarray(np.asarray(image.convert("L")).astype(np.float32) / 255)
    if mode == "LAB":
        from PIL import ImageCms

        profiles = ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB")
        lab = ImageCms.profileToProfile(image, *profiles, outputMode="LAB")
        assert lab is not None
        return lab
    if mode in ("RGBA", "LA"):
        image = image.convert("RGBA")
        image.putalpha(image.convert("L"))
        return image.convert(mode)
    return image.convert(mode)
