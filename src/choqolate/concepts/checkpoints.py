"""Checkpoints on disk: where they are, what their weights are called, how they want their images."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from choqolate._util.files import check_regular
from choqolate.concepts.checkpoint_settings import (
    CONFIG,
    PROCESSOR,
    PROCESSORS,
    TOKENIZER,
    TOWERS,
    check_config,
    image_transform,
    read_settings,
    refuse_code,
)
from choqolate.concepts.preprocessing import ImageTransform
from choqolate.errors import ChoqolateError

MODEL_CLASSES = {"clip": "CLIPModel", "siglip": "SiglipModel"}
"""The model types that can be loaded, and the class of transformers that does it."""

_DESCRIPTION = ["*.json", "*.txt", "*.model"]
_TEXT_FILES = ("tokenizer.json", "vocab.json", "merges.txt", "spiece.model", "tokenizer.model", "vocab.txt")
_NO_MATTER = {"_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version"}


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
    for file in folder.iterdir():  # transformers opens more of them than we do
        check_regular(file, "the files of a checkpoint")
    config = read_settings(folder / CONFIG)
    if config is None:
        raise ChoqolateError(f"expected a checkpoint with config.json in {folder}, found none: check the path")
    kind = config.get("model_type")
    if (
        not isinstance(kind, str)
        or kind not in MODEL_CLASSES
        or not all(isinstance(config.get(tower), dict) for tower in TOWERS)
    ):
        raise ChoqolateError(
            f"Expected a CLIP or SigLIP checkpoint in {folder}, found model_type {kind!r}. Supported types are "
            f"{' and '.join(MODEL_CLASSES)}."
        )
    check_config(config, folder / CONFIG)
    for settings in (PROCESSOR, PROCESSORS, TOKENIZER):
        refuse_code(read_settings(folder / settings) or {}, folder / settings)
    weights = weight_files(folder)
    if not weights:
        raise ChoqolateError(f"expected weights (model.safetensors) in {folder}, found none: download all files")
    transform = image_transform(folder, config)
    words = [folder / file for file in _TEXT_FILES if (folder / file).is_file()]
    parts = [_essential(config), astuple(transform), *map(_file_digest, [*weights, *words])]
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    return Checkpoint(name, folder, config, transform, f"{config['model_type']}-{digest[:24]}")


def weight_files(folder: Path) -> list[Path]:
    """The files that hold the weights; none if some of them are missing, as after a download that was cut short."""
    for single in ("model.safetensors", "pytorch_model.bin"):
        index = folder / f"{single}.index.json"
        names = [single] if (folder / single).is_file() else _shards(index, Path(single).suffix)
        if names and all((folder / name).is_file() for name in names):
            return [folder / name for name in names]
    return []


def _shards(index: Path, suffix: str) -> list[str]:
    """The files that an index names, which are in its folder and of one type."""
    settings = read_settings(index)
    if settings is None:
        return []
    named = settings.get("weight_map")
    names: set[str] = set()
    for name in named.values() if isinstance(named, dict) else [None]:
        if not isinstance(name, str) or not re.fullmatch(r"[\w.-]+", name) or not name.endswith(suffix):
            raise ChoqolateError(
                f"Expected weight_map in {index} to name {suffix} files beside it, but got {str(name)[:60]!r}. "
                "Download the checkpoint again."
            )
        names.add(name)
    return sorted(names)


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
