"""What the JSON files of a checkpoint say, checked before anything is built from it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from choqolate._util.files import check_regular
from choqolate._util.json_files import parse_json
from choqolate.concepts.preprocessing import ImageTransform
from choqolate.errors import ChoqolateError

CONFIG, PROCESSOR, PROCESSORS, TOKENIZER = (
    "config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "tokenizer_config.json",
)
TOWERS = ("vision_config", "text_config")

_LARGEST_FILE = 1 << 26
_LARGEST_SIDE = 4096  # of an image in pixels; a longer one is resized to a hundred times as much memory
_LARGEST_COUNT = 10_000_000
_COUNTS = dict.fromkeys(("hidden_size", "intermediate_size", "vocab_size", "max_position_embeddings"), _LARGEST_COUNT)
_COUNTS |= {"projection_dim": _LARGEST_COUNT, "projection_size": _LARGEST_COUNT, "num_channels": 3}
_COUNTS |= {"image_size": _LARGEST_SIDE, "patch_size": _LARGEST_SIDE}
_COUNTS |= {"num_hidden_layers": 1000, "num_attention_heads": 1000}  # each is an object of its own
_N_FILTERS = 6  # that Pillow has, numbered from 0
_CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
_CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
_CLIP_IMAGES = dict(
    size={"shortest_edge": 224}, do_center_crop=True, crop_size=224, image_mean=_CLIP_MEAN, image_std=_CLIP_STD
)
_SIGLIP_IMAGES = dict(size={"height": 224, "width": 224}, image_mean=(0.5,) * 3, image_std=(0.5,) * 3)


def read_settings(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file of a checkpoint; ``None`` if there is no such file.

    Raises:
        ChoqolateError: if it cannot be read, or holds something else.
    """
    check_regular(path, "settings of a checkpoint")
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise ChoqolateError(f"{path} is larger than {_LARGEST_FILE >> 20} MB. Download it again.")
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ChoqolateError(f"{path} cannot be read: {error.strerror}. Check its permissions.") from None
    try:  # tokenizers have 10 ** 30 where there is no limit
        settings = parse_json(content, str(path), large_numbers=path.name == TOKENIZER)
    except ChoqolateError as error:
        raise ChoqolateError(f"{error} Download it again.") from None
    if not isinstance(settings, dict):
        raise ChoqolateError(f"Expected an object with settings in {path}, but it holds none. Download it again.")
    return settings


def check_config(config: dict[str, Any], path: Path) -> None:
    """Refuse a configuration with sizes that no encoder has, or that asks for code or quantized weights.

    Args:
        config: of a CLIP or SigLIP.
        path: of the file.
    """
    for part in (config, *(config[tower] for tower in TOWERS)):
        for name, largest in _COUNTS.items():
            found = part.get(name)
            each = found if isinstance(found, list) and len(found) == 2 else [found]
            if found is not None and not all(_is_count(value, largest) for value in each):
                raise ChoqolateError(
                    f"Expected {name} in {path} to be a whole number from 1 to {largest:,}, but it is "
                    f"{_shown(found)}. Download the checkpoint again."
                )
    refuse_code(config, path)
    for name, value in _entries(config):
        if "attn_implementation" in name and isinstance(value, str) and "/" in value:
            raise ChoqolateError(
                f"{path} asks to run code from {_shown(value)} ({name}), and code that a checkpoint names is never "
                "run. Remove this entry."
            )
        if name == "quantization_config" and value:
            raise ChoqolateError(f"{path} describes quantized weights, which are not supported. Choose other weights.")


def refuse_code(settings: dict[str, Any], path: Path) -> None:
    """A checkpoint is data: one that brings Python code of its own would run it with the user's rights."""
    if any(name == "auto_map" for name, _ in _entries(settings)):
        raise ChoqolateError(
            f"{path} asks to run Python code that comes with the checkpoint (auto_map), and code from a checkpoint is "
            "never run. Choose a CLIP or SigLIP checkpoint without code of its own."
        )


def _entries(settings: Any) -> Iterator[tuple[str, Any]]:
    """All names in a document, at any depth, with their values."""
    if isinstance(settings, dict):
        yield from settings.items()
    for inner in settings.values() if isinstance(settings, dict) else settings:
        if isinstance(inner, dict | list):
            yield from _entries(inner)


def image_transform(folder: Path, config: dict[str, Any]) -> ImageTransform:
    """How images are prepared, from the file that the image processor reads."""
    file = folder / PROCESSOR
    processor: Any = read_settings(file)
    if processor is None:
        file = folder / PROCESSORS
        processor = (read_settings(file) or {}).get("image_processor")
    if processor is None:
        raise ChoqolateError(f"expected {PROCESSOR} in {folder}, found none: download all files")
    if not isinstance(processor, dict):
        raise ChoqolateError(f"Expected settings for images in {file}, but there are none. Download it again.")
    usual = _SIGLIP_IMAGES if str(config["model_type"]).startswith("siglip") else _CLIP_IMAGES
    wanted = {**usual, **{key: value for key, value in processor.items() if value is not None}}
    unknown = [key for key in ("do_pad", "do_image_splitting", "max_num_patches") if wanted.get(key)]
    unknown += [f"no {key}" for key in ("do_resize", "do_rescale", "do_normalize") if not wanted.get(key, True)]
    if unknown:
        raise ChoqolateError(f"images are prepared for {folder} in a way that is not supported: {', '.join(unknown)}")
    transform = ImageTransform(
        size=_side(wanted["size"], "size", file),
        crop=_box(wanted["crop_size"], "crop_size", file) if wanted.get("do_center_crop") else None,
        mean=_channels(wanted["image_mean"], "image_mean", file),
        std=_channels(wanted["image_std"], "image_std", file),
        resample=_filter(wanted.get("resample", 3), file),
        scale=_number(wanted.get("rescale_factor", 1 / 255), "rescale_factor", file),
    )
    if transform.crop is None and isinstance(transform.size, int):
        raise ChoqolateError(f"images of {folder} would have different shapes: expected a crop or a fixed size")
    if not _keeps_levels_apart(transform):
        raise ChoqolateError(
            f"Expected image_mean, image_std and rescale_factor in {file} that bring levels to finite numbers, but got "
            f"{transform.mean}, {transform.std} and {transform.scale}. Download it again."
        )
    return transform


def _keeps_levels_apart(transform: ImageTransform) -> bool:
    """Whether black and white become two finite numbers, the brighter one the larger."""
    if not (transform.scale > 0 and min(transform.std) > 0):
        return False
    with np.errstate(all="ignore"):
        levels = transform.levels()
    return bool(np.isfinite(levels).all() and (levels[:, 0] < levels[:, -1]).all())


def _side(size: Any, name: str, file: Path) -> int | tuple[int, int]:
    if isinstance(size, dict) and "shortest_edge" not in size:
        return _box(size, name, file)
    return _pixels(size["shortest_edge"] if isinstance(size, dict) else size, size, name, file)


def _box(size: Any, name: str, file: Path) -> tuple[int, int]:
    height, width = (size.get("height"), size.get("width")) if isinstance(size, dict) else (size, size)
    return _pixels(height, size, name, file), _pixels(width, size, name, file)


def _pixels(value: Any, size: Any, name: str, file: Path) -> int:
    if not _is_count(value, _LARGEST_SIDE):
        raise ChoqolateError(
            f"Expected {name} in {file} to be from 1 to {_LARGEST_SIDE:,} pixels, as one number or as height and "
            f"width, but it is {_shown(size)}. Download it again."
        )
    return int(value)


def _is_count(value: Any, largest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= largest


def _channels(values: Any, name: str, file: Path) -> tuple[float, float, float]:
    if not isinstance(values, list | tuple) or len(values) != 3:
        raise ChoqolateError(
            f"Expected three numbers as {name} in {file}, but it is {_shown(values)}. Download it again."
        )
    red, green, blue = (_number(value, name, file) for value in values)
    return red, green, blue


def _number(value: Any, name: str, file: Path) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise ChoqolateError(
            f"Expected {name} in {file} to hold numbers, but there is {_shown(value)}. Download it again."
        )
    return float(value)


def _filter(value: Any, file: Path) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _N_FILTERS:
        raise ChoqolateError(
            f"Expected resample in {file} to be the number of a filter, 0 to {_N_FILTERS - 1}, but it is "
            f"{_shown(value)}. Download it again."
        )
    return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
