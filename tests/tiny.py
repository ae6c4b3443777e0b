"""Real checkpoints in the format of transformers, tiny and with random weights, written to a folder."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from transformers import (
    CLIPConfig,
    CLIPModel,
    CLIPTokenizer,
    SiglipConfig,
    SiglipModel,
    SiglipTokenizer,
)

CLIP_SIZE, SIGLIP_SIZE, SIGLIP_LENGTH, DIM = 30, 32, 48, 16


def write_clip(folder: Path, *, seed: int = 0, config: CLIPConfig | None = None) -> Path:
    """A CLIP with vocabulary files, merges, preprocessing and all; tiny, or as a config says."""
    folder.mkdir(parents=True)
    _write_clip_tokenizer(folder)
    config = tiny_clip_config() if config is None else config
    config.text_config.bos_token_id, config.text_config.eos_token_id, config.text_config.pad_token_id = 0, 1, 1
    torch.manual_seed(seed)
    _save(_spread(CLIPModel(config)), folder)
    size = config.vision_config.image_size
    _image_processor("CLIPImageProcessor")(size={"shortest_edge": size}, crop_size=size).save_pretrained(folder)
    return folder


def tiny_clip_config() -> CLIPConfig:
    """Two layers of width 24 in each tower."""
    shared = {"hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    return CLIPConfig(
        text_config={**shared, "vocab_size": len(_clip_vocabulary()), "bos_token_id": 0, "eos_token_id": 1},
        vision_config={**shared, "image_size": CLIP_SIZE, "patch_size": 10},
        projection_dim=DIM,
    )


def write_siglip(folder: Path, *, seed: int = 0) -> Path:
    """A SigLIP: a fixed size instead of a crop, texts padded to the full length."""
    folder.mkdir(parents=True)
    n_words = _write_sentencepiece(folder)
    shared = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = SiglipConfig(
        text_config={
            **shared,
            "vocab_size": n_words,
            "max_position_embeddings": SIGLIP_LENGTH,
            "projection_size": 16,
            "bos_token_id": 1,
            "eos_token_id": 1,
        },
        vision_config={**shared, "image_size": SIGLIP_SIZE, "patch_size": 8},
    )
    torch.manual_seed(seed)
    _save(_spread(SiglipModel(config)), folder)
    size = {"height": SIGLIP_SIZE, "width": SIGLIP_SIZE}
    _image_processor("SiglipImageProcessor")(size=size).save_pretrained(folder)
    return folder


def _write_sentencepiece(folder: Path) -> int:
    """A sentencepiece model trained on a handful of words, as published SigLIP checkpoints have one."""
    import sentencepiece

    corpus = ["a photo of the sea", "a forest", "webbed feet", "a long bill", "green grass and a lake", "wing bars"]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus * 20),
        model_prefix=str(folder / "spiece"),
        vocab_size=60,
        hard_vocab_limit=False,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        minloglevel=2,
    )
    (folder / "spiece.vocab").unlink()
    tokenizer = SiglipTokenizer(str(folder / "spiece.model"), model_max_length=SIGLIP_LENGTH)
    tokenizer.save_pretrained(folder)
    return len(tokenizer)


def _spread(model: torch.nn.Module) -> torch.nn.Module:
    """Weights large enough for different images to get clearly different vectors."""
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    return model


def _save(model: torch.nn.Module, folder: Path) -> None:
    from transformers.utils import logging

    logging.disable_progress_bar()
    try:
        model.save_pretrained(folder)
    finally:
        logging.enable_progress_bar()


def _image_processor(name: str):
    import transformers

    return getattr(transformers, f"{name}Pil", None) or getattr(transformers, name)  # transformers 5, then 4


def _clip_vocabulary() -> list[str]:
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    letters = list(bytes_to_unicode().values())
    return ["<|startoftext|>", "<|endoftext|>", *letters, *(letter + "</w>" for letter in letters), "se", "sea</w>"]


def _write_clip_tokenizer(folder: Path) -> None:
    vocabulary = {token: index for index, token in enumerate(_clip_vocabulary())}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\ns e\nse a</w>\n")
    tokenizer = CLIPTokenizer.from_pretrained(folder, model_max_length=77)
    tokenizer.save_pretrained(folder)
