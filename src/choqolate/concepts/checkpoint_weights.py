"""Weights of a checkpoint into memory: what they need is known before it is taken, and nothing is made up."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from choqolate._util.memory import check_memory, is_lack_of_memory
from choqolate._util.text import as_size, listed
from choqolate.errors import ChoqolateError

if TYPE_CHECKING:
    import torch

_AGAIN = "Download all files of the checkpoint again"
_NUMBERS = ("F64", "F32", "F16", "BF16")
_UNUSED = ("logit_scale", "logit_bias", "position_ids")  # of the loss; and what is counted again


@contextmanager
def naming_failures(what: str) -> Iterator[None]:
    """Turn whatever the packages below raise on damaged files into one sentence.

    Args:
        what: that fails, such as ``"the tokenizer in models/clip cannot be loaded"``.
    """
    try:
        yield
    except (ChoqolateError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # each format has errors of its own, and those of Rust are no exceptions
        reason = " ".join(str(error).split()) or type(error).__name__
        if is_lack_of_memory(error) or "Tried to allocate" in reason:  # the latter of GPUs
            raise ChoqolateError(
                f"{what}: there is not enough memory. Choose smaller batches or another encoder."
            ) from (error)
        reason = reason if len(reason) <= 300 else f"{reason[:297]}..."
        raise ChoqolateError(f"{what} ({reason}). {_AGAIN}.") from error


def load_model(model_class: Any, folder: Path, files: Sequence[Path]) -> Any:
    """The model of a checkpoint, with all its weights and with no others.

    Args:
        model_class: of transformers.
        folder: of the checkpoint.
        files: that hold the weights.

    Raises:
        ChoqolateError: if the files are damaged, do not hold what the configuration says, or do not fit into memory.
    """
    with naming_failures(f"the weights in {folder} cannot be loaded"):
        config = model_class.config_class.from_pretrained(folder, local_files_only=True)
        _check_size(config, folder, files)
        _check_types(files)
        model, report = model_class.from_pretrained(
            folder,
            config=config,
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # it would speak of this option; they are refused below
        )
    missing = {name for name in report["missing_keys"] if name.rpartition(".")[2] not in _UNUSED}
    others = {name if isinstance(name, str) else name[0] for name in report["mismatched_keys"]}
    if missing or others:  # they would be random numbers
        lack = "lack" if missing else "have another shape of"
        raise ChoqolateError(f"The weights in {folder} {lack} {listed(sorted(missing or others), 2)}. {_AGAIN}.")
    return model


def _check_size(config: Any, folder: Path, files: Sequence[Path]) -> None:
    """The files must be as large as the configuration says, and fit into memory.

    Raises:
        ChoqolateError: before memory is taken.
    """
    wanted, there = 4 * _n_numbers(config), sum(file.stat().st_size for file in files)
    if wanted > 4 * there:  # there is no format with less than a byte for a number
        raise ChoqolateError(
            f"The configuration in {folder} describes an encoder of {as_size(wanted)}, but its weights have "
            f"{as_size(there)} only. {_AGAIN}."
        )
    check_memory(f"The encoder in {folder}", wanted, "Choose a smaller one, or a machine with more memory.")


def _n_numbers(config: Any) -> int:
    """How many weights an encoder has, without the few vectors beside its matrices."""
    vision, text = config.vision_config, config.text_config
    patches, patch = (
        math.prod(size) if isinstance(size, list | tuple) else size**2
        for size in (vision.image_size, vision.patch_size)
    )
    rows = patches // patch + 3 * patch + text.vocab_size + text.max_position_embeddings
    return int(
        rows * min(vision.hidden_size, text.hidden_size)
        + sum(
            tower.num_hidden_layers * tower.hidden_size * (4 * tower.hidden_size + 2 * tower.intermediate_size)
            for tower in (vision, text)
        )
    )


def _check_types(files: Sequence[Path]) -> None:
    """Weights are floating point numbers; others would be rounded or mean something else."""
    from safetensors import safe_open

    for file in files:
        if file.suffix != ".safetensors":
            continue
        with safe_open(file, "pt") as weights:
            types = {name: weights.get_slice(name).get_dtype() for name in weights.keys()}  # noqa: SIM118
        others = [f"{name} ({kind})" for name, kind in types.items() if kind not in _NUMBERS]
        others = [name for name in others if "position_ids" not in name]
        if others:
            raise ChoqolateError(
                f"Expected floating point weights in {file}, but got {listed(others, 2)}. Choose weights that are not "
                "quantized."
            )


def check_tokens(tokens: torch.Tensor, text_config: Any, folder: Path) -> None:
    """The tokenizer must be the one that the weights were trained with.

    Args:
        tokens: numbers of the tokens of texts ``(B, L)``.
        text_config: of the weights.
        folder: of the checkpoint.

    Raises:
        ChoqolateError: if there are tokens without weights, or a text has no end, where CLIP reads its vector.
    """
    end: Any = getattr(text_config, "eos_token_id", None)
    fits = False
    if tokens.numel() and 0 <= int(tokens.min()) and int(tokens.max()) < text_config.vocab_size:
        kind = type(text_config).model_type  # of what was built; the file may say anything
        by_end = kind.startswith("clip") and isinstance(end, int) and end != 2  # the oldest have 2
        fits = not by_end or bool(tokens.eq(end).any(1).all())
    if not fits:
        raise ChoqolateError(f"The tokenizer in {folder} does not belong to the weights beside it. {_AGAIN}.")
