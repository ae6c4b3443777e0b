"""Checkpoints that are damaged or made to do harm end as one sentence, before memory is taken or code is run."""

from __future__ import annotations

import json
import os
import shutil
import struct

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

import choqolate as cq
from choqolate.errors import ChoqolateError

pytestmark = pytest.mark.hostile("checkpoints")

IMAGE = Image.fromarray(np.arange(40 * 30 * 3, dtype=np.uint8).reshape(30, 40, 3))


def set_json(name, *keys, to):
    """Change one value deep inside of a JSON file; the text of ``to`` may be anything."""

    def change(folder):
        document = json.loads((folder / name).read_text())
        inner = document
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = "VALUE"
        (folder / name).write_text(json.dumps(document).replace('"VALUE"', to))

    return change


def write(name, content):
    def change(folder):
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    return change


def weights(change):
    def rewrite(folder):
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})

    return rewrite


def shards(weight_map):
    """An index in place of the one file of weights, which becomes the shard ``one.safetensors``."""

    def change(folder):
        os.rename(folder / "model.safetensors", folder / "one.safetensors")
        shutil.copy(folder / "one.safetensors", folder.parent / "outside.safetensors")
        names = list(load_file(folder / "one.safetensors"))
        index = {"metadata": {}, "weight_map": weight_map(names)}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))

    return change


def cut(folder):
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[:-100])


def header(length, text=b"{}"):
    return write("model.safetensors", struct.pack("<Q", length) + text + b"\0" * 200_000)


def declare(shape):
    """A tensor that the header says to be larger than the file."""
    entry = {"logit_scale": {"dtype": "F32", "shape": shape, "data_offsets": [0, 4]}}
    text = json.dumps(entry).encode()
    return header(len(text), text)


def pipe(name):
    def change(folder):
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return change


DEEP = "[" * 100_000 + "]" * 100_000
CONFIG, IMAGES, TEXTS = "config.json", "preprocessor_config.json", "tokenizer_config.json"
HOSTILE = {
    "config: deep": write(CONFIG, DEEP),
    "config: a list": write(CONFIG, "[]"),
    "config: bytes": write(CONFIG, b"\xff\xfe{}"),
    "config: empty": write(CONFIG, ""),
    "config: a pipe": pipe(CONFIG),
    "config: model_type is a list": set_json(CONFIG, "model_type", to='["clip"]'),
    "config: model_type is an object": set_json(CONFIG, "model_type", to="{}"),
    "config: vision_config is a list": set_json(CONFIG, "vision_config", to="[1]"),
    "config: projection_dim is text": set_json(CONFIG, "projection_dim", to='"sixteen"'),
    "config: projection_dim is infinite": set_json(CONFIG, "projection_dim", to="1e999"),
    "config: projection_dim is negative": set_json(CONFIG, "projection_dim", to="-16"),
    "config: projection_dim is enormous": set_json(CONFIG, "projection_dim", to="1" + "0" * 4000),
    "config: projection_dim is another": set_json(CONFIG, "projection_dim", to="32"),
    "config: projection_dim is a truth": set_json(CONFIG, "projection_dim", to="true"),
    "config: hidden_size is 0": set_json(CONFIG, "vision_config", "hidden_size", to="0"),
    "config: hidden_size is negative": set_json(CONFIG, "text_config", "hidden_size", to="-24"),
    "config: hidden_size is text": set_json(CONFIG, "vision_config", "hidden_size", to='"24"'),
    "config: hidden_size is an object": set_json(CONFIG, "vision_config", "hidden_size", to='{"a": [1]}'),
    "config: hidden_size is terabytes": set_json(CONFIG, "vision_config", "hidden_size", to="1000000000000"),
    "config: hidden_size is not divisible": set_json(CONFIG, "vision_config", "hidden_size", to="25"),
    "config: vocab_size is terabytes": set_json(CONFIG, "text_config", "vocab_size", to="100000000000"),
    "config: a billion layers": set_json(CONFIG, "text_config", "num_hidden_layers", to="1000000000"),
    "config: one more layer": set_json(CONFIG, "text_config", "num_hidden_layers", to="3"),
    "config: many layers of one": lambda folder: [
        set_json(CONFIG, "text_config", name, to=to)(folder)
        for name, to in {"hidden_size": "1", "intermediate_size": "1", "num_hidden_layers": "20000"}.items()
    ],
    "config: no heads": set_json(CONFIG, "text_config", "num_attention_heads", to="0"),
    "config: images of one channel": set_json(CONFIG, "vision_config", "num_channels", to="1"),
    "config: patch_size is 0": set_json(CONFIG, "vision_config", "patch_size", to="0"),
    "config: image_size is enormous": set_json(CONFIG, "vision_config", "image_size", to="1000000000"),
    "config: image_size is a list": set_json(CONFIG, "vision_config", "image_size", to="[30, 30, 30]"),
    "config: positions are none": set_json(CONFIG, "text_config", "max_position_embeddings", to='"many"'),
    "config: an unknown activation": set_json(CONFIG, "text_config", "hidden_act", to='"os.system"'),
    "config: a strange dtype": set_json(CONFIG, "dtype", to='"system"'),
    "config: an attention from the hub": set_json(CONFIG, "attn_implementation", to='"someone/kernel"'),
    "config: an attention inside": set_json(CONFIG, "vision_config", "_attn_implementation", to='"some/kernel"'),
    "config: code inside": set_json(CONFIG, "vision_config", "auto_map", to='{"AutoModel": "evil.Model"}'),
    "config: quantized": set_json(CONFIG, "quantization_config", to='{"quant_method": "bitsandbytes"}'),
    "images: deep": write(IMAGES, DEEP),
    "images: text": write(IMAGES, '"text"'),
    "images: crop of a billion": set_json(IMAGES, "crop_size", to="1000000000"),
    "images: crop of another size": set_json(IMAGES, "crop_size", to="20"),
    "images: crop is a list": set_json(IMAGES, "crop_size", to="[30, 30]"),
    "images: crop is an object of text": set_json(IMAGES, "crop_size", to='{"height": "a", "width": "b"}'),
    "images: crop lacks the width": set_json(IMAGES, "crop_size", to='{"height": 30}'),
    "images: crop is negative": set_json(IMAGES, "crop_size", to="-30"),
    "images: size is text": set_json(IMAGES, "size", to='"large"'),
    "images: size is true": set_json(IMAGES, "size", to="true"),
    "images: size is a list": set_json(IMAGES, "size", to="[30]"),
    "images: size is a billion": set_json(IMAGES, "size", to='{"shortest_edge": 1000000000}'),
    "images: size is 0": set_json(IMAGES, "size", to='{"shortest_edge": 0}'),
    "images: size is empty": set_json(IMAGES, "size", to="{}"),
    "images: mean of two": set_json(IMAGES, "image_mean", to="[0.5, 0.5]"),
    "images: mean is a number": set_json(IMAGES, "image_mean", to="0.5"),
    "images: mean is text": set_json(IMAGES, "image_mean", to='["a", "b", "c"]'),
    "images: mean is a word of three": set_json(IMAGES, "image_mean", to='"abc"'),
    "images: mean is infinite": set_json(IMAGES, "image_mean", to="[1e999, 0, 0]"),
    "images: mean is NaN": set_json(IMAGES, "image_mean", to="[NaN, 0, 0]"),
    "images: mean beyond floats": set_json(IMAGES, "image_mean", to="[1" + "0" * 400 + ", 0, 0]"),
    "images: std is 0": set_json(IMAGES, "image_std", to="[0.0, 0.5, 0.5]"),
    "images: std is negative": set_json(IMAGES, "image_std", to="[-0.5, 0.5, 0.5]"),
    "images: std is tiny": set_json(IMAGES, "image_std", to="[1e-300, 0.5, 0.5]"),
    "images: resample of 99": set_json(IMAGES, "resample", to="99"),
    "images: resample is text": set_json(IMAGES, "resample", to='"bicubic"'),
    "images: factor is text": set_json(IMAGES, "rescale_factor", to='"tiny"'),
    "images: factor is 0": set_json(IMAGES, "rescale_factor", to="0"),
    "weights: cut": cut,
    "weights: fewer than a byte for each": write("model.safetensors", b"\0" * 1000),
    "weights: empty": write("model.safetensors", b""),
    "weights: text": write("model.safetensors", "weights"),
    "weights: a pickle": write("model.safetensors", b"\x80\x04cos\nsystem\n."),
    "weights: a pipe": pipe("model.safetensors"),
    "weights: header of 2^63 bytes": header(1 << 63),
    "weights: header beyond the file": header(1 << 20),
    "weights: header is deep": header(len(DEEP), DEEP.encode()),
    "weights: header is a list": header(2, b"[]"),
    "weights: a tensor beyond the file": declare([1 << 40]),
    "weights: sizes that overflow": declare([1 << 40, 1 << 40]),
    "weights: negative sizes": declare([-1]),
    "weights: one is missing": weights(lambda t: t.pop("visual_projection.weight")),
    "weights: another shape": weights(lambda t: t.update({"visual_projection.weight": torch.zeros(3, 3)})),
    "weights: whole numbers": weights(lambda t: t.update({k: v.round().to(torch.int8) for k, v in t.items()})),
    "weights: not finite": weights(lambda t: t["visual_projection.weight"].fill_(torch.nan)),
    "weights: none": weights(lambda t: t.clear()),
    "index: no map": shards(lambda names: None),
    "index: a list": shards(lambda names: names),
    "index: numbers": shards(lambda names: dict.fromkeys(names, 7)),
    "index: objects": shards(lambda names: {name: {"file": "one.safetensors"} for name in names}),
    "index: text": shards(lambda names: "one.safetensors"),
    "index: a file that is missing": shards(lambda names: dict.fromkeys(names, "two.safetensors")),
    "index: outside": shards(lambda names: dict.fromkeys(names, "../outside.safetensors")),
    "index: absolute": shards(lambda names: dict.fromkeys(names, "/etc/passwd")),
    "index: another type": shards(lambda names: dict.fromkeys(names, CONFIG)),
    "index: NUL": shards(lambda names: dict.fromkeys(names, "one\0.safetensors")),
    "texts: deep": write(TEXTS, DEEP),
    "texts: a list": write(TEXTS, "[]"),
    "texts: class is a number": set_json(TEXTS, "tokenizer_class", to="7"),
    "texts: a pipe": pipe("tokenizer.json"),
    "texts: other pipe": pipe("special_tokens_map.json"),
    "texts: tokenizer is deep": write("tokenizer.json", DEEP),
    "texts: tokenizer is cut": write("tokenizer.json", '{"version": "1.0", "model": {"type": "BPE"'),
    "texts: tokenizer is empty": write("tokenizer.json", "{}"),
    "texts: another end": set_json(CONFIG, "text_config", "eos_token_id", to="7"),
    "texts: tokens beyond the weights": set_json("tokenizer.json", "model", "vocab", "sea</w>", to="1000000"),
}


def encode(folder):
    backbone = cq.load_backbone(folder)
    return backbone.encode_images([IMAGE]), backbone.encode_texts(["sea"])


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_checkpoint_is_one_sentence(tmp_path, clip_folder, kind):
    folder = shutil.copytree(clip_folder, tmp_path / "clip")
    HOSTILE[kind](folder)

    with pytest.raises(ChoqolateError) as error:
        encode(folder)

    message = str(error.value)
    assert "clip" in message
    assert "\n" not in message
    assert len(message) < 600


def test_a_tokenizer_without_limit_is_no_damage(tmp_path, clip_folder):
    folder = shutil.copytree(clip_folder, tmp_path / "clip")
    set_json(TEXTS, "model_max_length", to="1000000000000000019884624838656")(folder)  # as many on the hub have it
    for ours, theirs in zip(encode(folder), encode(clip_folder), strict=True):
        np.testing.assert_array_equal(ours, theirs)
