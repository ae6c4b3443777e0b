"""Checkpoints on disk: where they are, what their weights are called, how they want their images."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from choqolate.concepts.preprocessing import ImageTransform
from choqolate.errors import ChoqolateError

MODEL_CLASSES = {"clip": "CLIPModel", "siglip": "SiglipModel"}
"""The model types that can be loaded, and the class of transformers that does it."""

_DESCRIPTION = ["*.json", "*.txt", "*.model"]
_TOKENIZER = ("tokenizer.json", "vocab.json", "merges.txt", "spiece.model", "tokenizer.model", "vocab.txt")
_NO_MATTER = {"_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version"}
_CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
_CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
_CLIP_IMAGES = dict(
    size={"shortest_edge": 224}, do_center_crop=True, crop_size=224, image_mean=_CLIP_MEAN, image_std=_CLIP_STD
)
_SIGLIP_IMAGES = dict(size={"height": 224, "width": 224}, image_mean=(0.5,) * 3, image_std=(0.5,) * 3)


@dataclass(frozen=True)
class Checkpoint:
    """A folder with weights, their configuration and a tokenizer, as transformers writes it."""

    name: str
    folder: Path
    config: dict[str, Any]
    transform: ImageTransform
    identity: str

    @property
    def is_siglip(self) -> bool:
        """SigLIP differs from CLIP in how texts are padded."""
        return str(self.config["model_type"]).startswith("siglip")

    @property
    def dim(self) -> int:
        """Length of an embedding."""
        if self.is_siglip:  # it has no projection
            return int((self.config.get("vision_config") or {}).get("hidden_size") or 768)
        return int(self.config.get("projection_dim") or 512)

    @property
    def context_length(self) -> int:
        """Tokens that a text may have."""
        text = self.config.get("text_config") or {}
        return int(text.get("max_position_embeddings") or (64 if self.is_siglip else 77))


def find_checkpoint(name: str) -> Checkpoint:
    """The checkpoint of a folder or hub name; downloaded if it is not here yet."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        return _read(str(folder.resolve()), folder.resolve())
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name) or name.startswith((".", "~")):
        raise ChoqolateError(
            "expected a folder with a CLIP or SigLIP checkpoint, a hub name such as openai/clip-vit-base-patch32, or "
            f"mini, got {name!r}: there is no such folder"
        )
    return _read(name, _download(name))


def _read(name: str, folder: Path) -> Checkpoint:
    config = _json(folder / "config.json")
    if config is None:
        raise ChoqolateError(f"expected a checkpoint with config.json in {folder}, found none: check the path")
    kind = config.get("model_type")
    if kind not in MODEL_CLASSES or not all(
        isinstance(config.get(f"{one}_config"), dict) for one in ("vision", "text")
    ):
        raise ChoqolateError(
            f"Expected a CLIP or SigLIP checkpoint in {folder}, found model_type {kind!r}. Supported types are "
            f"{' and '.join(MODEL_CLASSES)}."
        )
    _refuse_code(folder)
    weights = weight_files(folder)
    if not weights:
        raise ChoqolateError(f"expected weights (model.safetensors) in {folder}, found none: download all files")
    transform = _transform(folder, config)
    words = [folder / file for file in _TOKENIZER if (folder / file).exists()]
    parts = [_essential(config), astuple(transform), *map(_file_digest, [*weights, *words])]
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    return Checkpoint(name, folder, config, transform, f"{config['model_type']}-{digest[:24]}")


def _refuse_code(folder: Path) -> None:
    """A checkpoint is data: one that brings Python code of its own would run it with the user's rights."""
    for name in ("config.json", "tokenizer_config.json", "preprocessor_config.json", "processor_config.json"):
        if "auto_map" in (_json(folder / name) or {}):
            raise ChoqolateError(
                f"{folder / name} asks to run Python code that comes with the checkpoint (auto_map), and code from a "
                "checkpoint is never run. Choose a CLIP or SigLIP checkpoint without code of its own."
            )


def weight_files(folder: Path) -> list[Path]:
    """The files that hold the weights; none if some of them are missing, as after a download that was cut short."""
    for single in ("model.safetensors", "pytorch_model.bin"):
        index = _json(folder / f"{single}.index.json")
        names = [single] if index is None else sorted(set((index.get("weight_map") or {}).values()))
        if names and all((folder / name).is_file() for name in names):
            return [folder / name for name in names]
    return []


def _transform(folder: Path, config: dict[str, Any]) -> ImageTransform:
    """How images are prepared, from the file that the image processor reads."""
    processor = _json(folder / "preprocessor_config.json")
    if processor is None:
        processor = (_json(folder / "processor_config.json") or {}).get("image_processor")
    if processor is None:
        raise ChoqolateError(f"expected preprocessor_config.json in {folder}, found none: download all files")
    usual = _SIGLIP_IMAGES if str(config["model_type"]).startswith("siglip") else _CLIP_IMAGES
    wanted = {**usual, **{key: value for key, value in processor.items() if value is not None}}
    unknown = [key for key in ("do_pad", "do_image_splitting", "max_num_patches") if wanted.get(key)]
    if unknown or not all(wanted.get(key, True) for key in ("do_resize", "do_rescale", "do_normalize")):
        raise ChoqolateError(f"images are prepared for {folder} in a way that is not supported ({unknown or wanted})")
    transform = ImageTransform(
        size=_side(wanted["size"]),
        crop=_box(wanted["crop_size"]) if wanted.get("do_center_crop") else None,
        mean=_channels(wanted["image_mean"]),
        std=_channels(wanted["image_std"]),
        resample=int(wanted.get("resample", 3)),
        scale=float(wanted.get("rescale_factor", 1 / 255)),
    )
    if transform.crop is None and isinstance(transform.size, int):
        raise ChoqolateError(f"images of {folder} would have different shapes: expected a crop or a fixed size")
    return transform


def _side(size: Any) -> int | tuple[int, int]:
    if isinstance(size, dict) and "shortest_edge" not in size:
        return _box(size)
    return int(size["shortest_edge"] if isinstance(size, dict) else size)


def _box(size: Any) -> tuple[int, int]:
    return (int(size["height"]), int(size["width"])) if isinstance(size, dict) else (int(size), int(size))


def _channels(values: Any) -> tuple[float, float, float]:
    red, green, blue = (float(value) for value in values)
    return red, green, blue


def _essential(config: Any) -> Any:
    """The configuration without what does not change the numbers."""
    if isinstance(config, dict):
        return {key: _essential(value) for key, value in config.items() if key not in _NO_MATTER}
    return config


def _file_digest(path: Path) -> str:
    stored = path.resolve().name
    if re.fullmatch(r"[0-9a-f]{64}", stored):  # the hub's cache names large files by their SHA-256
        return stored
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _json(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ChoqolateError(f"{path} cannot be read ({error}): download it again") from error
    if not isinstance(content, dict):
        raise ChoqolateError(f"{path} is no configuration: download it again")
    return content


def _download(name: str) -> Path:
    """The files of a hub name: from the cache if they are there, else from the network."""
    for local in (True, False):
        folder = _snapshot(name, _DESCRIPTION, local)
        if folder is None:
            continue
        for patterns in (["model.safetensors", "model-*.safetensors"], ["pytorch_model.bin", "pytorch_model-*.bin"]):
            folder = _snapshot(name, [*_DESCRIPTION, *patterns], local) or folder
            if weight_files(folder):
                return folder
    raise ChoqolateError(
        f"the weights of {name} are not on this machine and cannot be downloaded now: where there is a network run "
        f"`hf download {name} --local-dir FOLDER`, bring FOLDER here and pass it as the backbone; to try things out on "
        "drawn birds, --backbone mini and `choqolate demo` need no download"
    )


def _snapshot(name: str, patterns: list[str], local: bool) -> Path | None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    try:
        return Path(snapshot_download(name, allow_patterns=patterns, local_files_only=local))
    except GatedRepoError as error:
        raise ChoqolateError(f"{name} asks for a login: run `hf auth login` first") from error
    except RepositoryNotFoundError as error:
        raise ChoqolateError(f"there is no {name} on the hub: check the spelling") from error
    except Exception:  # no network speaks through many different errors
        return None
