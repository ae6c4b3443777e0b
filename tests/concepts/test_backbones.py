from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

import choqolate as cq
from choqolate.concepts.backbones import DEFAULT_BACKBONE, TransformersBackbone, load_backbone
from choqolate.concepts.openclip import transform_of
from tests.cli.test_data_commands import choqolate
from tests.concepts.image_files import draw, flag
from tests.tiny import DIM, SIGLIP_LENGTH, tiny_clip_config, write_clip

TEXTS = ["sea", "a photo of sea", "long bill", "webbed feet, a forest"]


def by_hand(folder, images, texts):
    """Unit vectors with transformers alone."""
    kind = transformers.AutoConfig.from_pretrained(folder).model_type
    name = "CLIPImageProcessor" if kind == "clip" else "SiglipImageProcessor"
    processor = getattr(transformers, f"{name}Pil", None) or getattr(transformers, name)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    padding = {"padding": True} if kind == "clip" else {"padding": "max_length", "max_length": SIGLIP_LENGTH}
    with torch.no_grad():
        images = model.get_image_features(**processor.from_pretrained(folder)(images, return_tensors="pt"))
        tokens = tokenizer(texts, return_tensors="pt", **padding)
        if kind != "clip":
            tokens = {"input_ids": tokens["input_ids"]}
        words = model.get_text_features(**tokens)
    vectors = [getattr(output, "pooler_output", output) for output in (images, words)]
    return [(v / v.norm(dim=1, keepdim=True)).numpy() for v in vectors]


@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_vectors_are_those_of_transformers(kind, request):
    folder = request.getfixturevalue(f"{kind}_folder")
    images = [draw(seed, (20 + 7 * seed, 61 - 3 * seed)) for seed in range(6)] + [flag()]
    vectors, texts = by_hand(folder, images, TEXTS)
    backbone = load_backbone(folder)
    np.testing.assert_allclose(backbone.encode_images(images), vectors, atol=2e-6)
    np.testing.assert_allclose(backbone.encode_texts(TEXTS), texts, atol=2e-6)
    assert vectors.std(0).max() > 0.01  # different images have different vectors
    assert backbone.dim == vectors.shape[1] == DIM
    assert backbone.encode_texts([]).shape == (0, DIM)


def test_the_identity_names_the_weights(tmp_path, clip_folder):
    first = load_backbone(clip_folder)
    moved = shutil.copytree(clip_folder, tmp_path / "moved")
    assert load_backbone(moved).identity == first.identity
    other = load_backbone(write_clip(tmp_path / "other", seed=1))
    assert other.identity != first.identity
    config = json.loads((moved / "config.json").read_text())
    (moved / "config.json").write_text(json.dumps(config | {"transformers_version": "9.9"}))
    assert load_backbone(moved).identity == first.identity
    processor = json.loads((moved / "preprocessor_config.json").read_text())
    (moved / "preprocessor_config.json").write_text(json.dumps(processor | {"resample": 2}))
    assert load_backbone(moved).identity != first.identity


def test_weights_are_loaded_when_they_are_needed(clip_folder):
    script = (
        "import sys\n"
        "from choqolate.concepts.backbones import load_backbone\n"
        f"load_backbone({str(clip_folder)!r}).identity\n"
        "assert not {'torch', 'transformers'} & sys.modules.keys(), 'loaded'\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_older_ways_to_write_the_preprocessing_are_understood(tmp_path, clip_folder):
    folder = shutil.copytree(clip_folder, tmp_path / "old")
    expected = load_backbone(folder).transform
    file = folder / "preprocessor_config.json"
    settings = json.loads(file.read_text())
    file.write_text(json.dumps({"size": 30, "crop_size": 30, "do_center_crop": True, "feature_extractor_type": "x"}))
    assert load_backbone(folder).transform == expected
    file.unlink()
    (folder / "processor_config.json").write_text(json.dumps({"image_processor": settings}))
    assert load_backbone(folder).transform == expected


def test_half_precision_is_close(clip_folder):
    images = [draw(seed) for seed in range(4)]
    full = load_backbone(clip_folder)
    half = load_backbone(clip_folder, precision="bfloat16")
    assert (full.precision, half.precision) == ("float32", "bfloat16")
    assert half.identity == full.identity
    similar = (full.encode_images(images) * half.encode_images(images)).sum(1)
    assert similar.min() > 0.99
    assert half.encode_images(images).dtype == np.float32


def offline(script: str, hub: Path) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own, without network, with the hub's files below a folder."""
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(hub)}
    return subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)


def test_without_network_and_weights_one_sentence_says_what_to_do(tmp_path):
    done = offline("from choqolate.concepts.backbones import load_backbone; load_backbone()", tmp_path)
    message = done.stderr.strip().splitlines()[-1]
    assert f"the weights of {DEFAULT_BACKBONE} are not on this machine" in message
    assert "--backbone mini" in message
    assert f"hf download {DEFAULT_BACKBONE}" in message


def test_a_checkpoint_in_the_hub_cache_is_found_without_network(tmp_path, clip_folder):
    repository = tmp_path / "hub" / "models--tiny--clip"
    shutil.copytree(clip_folder, repository / "snapshots" / ("0" * 40))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40)
    script = "from choqolate.concepts.backbones import load_backbone; print(load_backbone('tiny/clip').identity)"
    done = offline(script, tmp_path)
    assert done.stdout.strip() == load_backbone(clip_folder).identity, done.stderr


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "config.json").unlink(), r"config\.json"),
        (lambda folder: (folder / "config.json").write_text("{"), "not valid JSON"),
        (lambda folder: (folder / "config.json").write_text('{"model_type": "bert"}'), "model_type 'bert'"),
        (lambda folder: (folder / "model.safetensors").unlink(), r"expected weights \(model\.safetensors\)"),
        (lambda folder: (folder / "preprocessor_config.json").unlink(), "preprocessor_config"),
    ],
)
def test_an_incomplete_checkpoint_is_an_error_that_names_what_is_missing(tmp_path, clip_folder, change, message):
    folder = shutil.copytree(clip_folder, tmp_path / "broken")
    change(folder)
    with pytest.raises(cq.ChoqolateError, match=message):
        load_backbone(folder)


@pytest.mark.parametrize(
    ("file", "entry"),
    [
        ("config.json", {"auto_map": {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}}),
        ("config.json", {"model_type": "evil", "auto_map": {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}}),
        ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["evil.Tokenizer", None]}}),
    ],
    ids=["model", "model of its own type", "tokenizer"],
)
def test_code_that_comes_with_a_checkpoint_is_never_run(tmp_path, monkeypatch, clip_folder, file, entry):
    folder, photos = shutil.copytree(clip_folder, tmp_path / "checkpoint"), tmp_path / "photos"
    (folder / "evil.py").write_text(f"import pathlib; pathlib.Path({str(tmp_path / 'ran')!r}).touch()\n")
    (folder / file).write_text(json.dumps(json.loads((folder / file).read_text()) | entry))
    photos.mkdir()
    flag().save(photos / "1.png")
    (tmp_path / "words.txt").write_text("sea\nforest\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO("yes\n" * 20))  # whatever may be asked
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    done = choqolate("score", photos, "--concepts", "words.txt", "-o", "s.parquet", "--backbone", folder)
    assert not (tmp_path / "ran").exists()
    assert done.code == 2
    assert re.search(r"never run|found model_type 'evil'", done.err), done.err


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_weights_and_words_are_loaded_without_code_even_if_it_appears_later(tmp_path, clip_folder, file):
    folder = shutil.copytree(clip_folder, tmp_path / "checkpoint")
    backbone = load_backbone(folder)
    (folder / "evil.py").write_text("raise SystemExit('code of the checkpoint ran')\n")
    entry = {"auto_map": {"AutoModel": "evil.Model", "AutoConfig": "evil.Config", "AutoTokenizer": ["evil.T", None]}}
    (folder / file).write_text(json.dumps(json.loads((folder / file).read_text()) | entry))
    np.testing.assert_array_equal(backbone.encode_texts(TEXTS), load_backbone(clip_folder).encode_texts(TEXTS))


def test_damaged_weights_are_an_error(tmp_path, clip_folder):
    folder = shutil.copytree(clip_folder, tmp_path / "broken")
    (folder / "model.safetensors").write_bytes(b"\0" * 200_000)
    with pytest.raises(cq.ChoqolateError, match="cannot be loaded"):
        load_backbone(folder).encode_texts(["sea"])


@pytest.mark.parametrize("name", ["no-such-folder", "./nowhere", "a/b/c", "", "../../x"])
def test_a_name_that_is_no_backbone(name):
    with pytest.raises(cq.ChoqolateError, match=r"no such folder|config"):
        load_backbone(name)


def test_a_text_that_would_be_cut_off_is_an_error(clip_folder):
    with pytest.raises(cq.ChoqolateError, match="at most 77 tokens"):
        load_backbone(clip_folder).encode_texts(["sea", "x y z " * 40])


def test_open_clip_is_optional(monkeypatch):
    monkeypatch.setitem(sys.modules, "open_clip", None)
    with pytest.raises(cq.ChoqolateError, match="pip install open_clip_torch"):
        load_backbone("open_clip:ViT-B-32/openai")
    with pytest.raises(cq.ChoqolateError, match="ARCHITECTURE/WEIGHTS"):
        load_backbone("open_clip:ViT-B-32")


def test_open_clip_says_how_it_wants_its_images():
    common = {"mean": (0.1, 0.2, 0.3), "std": (0.4, 0.5, 0.6), "interpolation": "bilinear"}
    shortest = transform_of({"size": (224, 224), "resize_mode": "shortest", **common})
    assert (shortest.size, shortest.crop, shortest.resample, shortest.round_half) == (224, (224, 224), 2, True)
    squash = transform_of({"size": 64, "resize_mode": "squash", **common})
    assert (squash.size, squash.crop, squash.mean) == ((64, 64), None, (0.1, 0.2, 0.3))
    with pytest.raises(cq.ChoqolateError, match="'longest'"):
        transform_of({"size": 64, "resize_mode": "longest", **common})


def test_unknown_precision_and_device(clip_folder):
    with pytest.raises(cq.ChoqolateError, match="precision"):
        load_backbone(clip_folder, precision="float8")
    with pytest.raises(cq.ChoqolateError, match="device"):
        _ = load_backbone(clip_folder, device="abacus").device
    assert isinstance(load_backbone(clip_folder), TransformersBackbone)


def test_a_checkpoint_of_which_a_part_is_missing_is_not_taken(tmp_path, clip_folder):
    folder = shutil.copytree(clip_folder, tmp_path / "sharded")
    whole = load_backbone(folder)
    transformers.AutoModel.from_pretrained(folder).save_pretrained(folder, max_shard_size="20KB")
    (folder / "model.safetensors").unlink(missing_ok=True)
    shards = sorted(folder.glob("model-*.safetensors"))
    assert len(shards) > 1
    images = [draw(1)]
    np.testing.assert_array_equal(load_backbone(folder).encode_images(images), whole.encode_images(images))
    shards[0].unlink()
    with pytest.raises(cq.ChoqolateError, match="expected weights"):
        load_backbone(folder)


def test_images_in_memory_of_any_kind(clip_folder):
    backbone = load_backbone(clip_folder)
    see_through = flag().convert("RGBA")
    see_through.putalpha(0)
    white = Image.new("RGB", see_through.size, "white")
    clear, expected = backbone.encode_images([see_through]), backbone.encode_images([white])
    np.testing.assert_array_equal(clear, expected)
    assert backbone.encode_images([flag().convert("L"), flag().convert("P")]).shape == (2, DIM)
    assert backbone.encode_images([]).shape == (0, DIM)


def test_the_length_of_a_vector_is_that_of_the_projection(tmp_path):
    config = tiny_clip_config()
    config.projection_dim = 512  # what transformers takes where a config says nothing
    folder = write_clip(tmp_path / "wide", config=config)
    written = json.loads((folder / "config.json").read_text())
    written.pop("projection_dim", None)
    (folder / "config.json").write_text(json.dumps(written))
    backbone = load_backbone(folder)
    assert backbone.dim == 512
    assert backbone.encode_images([flag()]).shape == backbone.encode_texts(["sea"]).shape == (1, 512)
