"""Folders of encoders, as a stranger could have made them."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest
from hypothesis import strategies as st
from PIL import Image

import choqolate as cq
from tests.tiny import write_clip
from tests.trust.fuzzing import fuzz
from tests.trust.mutations import (
    Change,
    byte_changes,
    changed_bytes,
    changed_json,
    changed_tensors,
    json_changes,
    json_text,
    tensor_header,
)

IMAGE = Image.fromarray(np.arange(40 * 30 * 3, dtype=np.uint8).reshape(30, 40, 3))

pytestmark = pytest.mark.trust


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A tiny CLIP whose weights are a shard that an index names."""
    folder = write_clip(tmp_path_factory.mktemp("checkpoint") / "clip")
    os.rename(folder / "model.safetensors", folder / "one.safetensors")
    names = set(tensor_header((folder / "one.safetensors").read_bytes())) - {"__metadata__"}
    weights = dict.fromkeys(sorted(names), "one.safetensors")
    index = {"metadata": {"total_size": 1}, "weight_map": weights}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def use_checkpoint(folder):
    backbone = cq.load_backbone(folder, device="cpu")
    images, texts = backbone.encode_images([IMAGE, IMAGE]), backbone.encode_texts(["sea", "long bill"])
    assert images.shape == texts.shape == (2, backbone.dim)
    assert np.isfinite(images).all()
    assert np.isfinite(texts).all()
    assert backbone.describe().as_dict()


def test_a_changed_checkpoint(checkpoint, tmp_path):
    documents = {path.name: json.loads(path.read_bytes()) for path in sorted(checkpoint.glob("*.json"))}
    folder = tmp_path / "clip"

    def use(found):
        name, changes, flips = found
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(checkpoint, folder)
        (folder / name).write_bytes(changed_bytes(json_text(changed_json(documents[name], changes)).encode(), flips))
        use_checkpoint(folder)

    def made(name):
        return st.tuples(st.just(name), json_changes(documents[name]), st.just([]) | st.just([]) | byte_changes(2))

    often = ["config.json", "preprocessor_config.json", "model.safetensors.index.json"]
    names = st.sampled_from([name for name in often if name in documents]) | st.sampled_from(sorted(documents))
    kind = [Change(("text_config", "model_type"), "replace", [])]
    examples = [("config.json", [], []), ("config.json", kind, [])]
    fuzz("checkpoint", names.flatmap(made), use, examples=examples)


def test_changed_weights(checkpoint, tmp_path):
    content = (checkpoint / "one.safetensors").read_bytes()
    folder = tmp_path / "clip"
    shutil.copytree(checkpoint, folder)

    def use(found):
        header, numbers = found
        (folder / "one.safetensors").write_bytes(changed_tensors(content, header, numbers))
        use_checkpoint(folder)

    made = st.tuples(json_changes(tensor_header(content)), st.just([]) | byte_changes(how=["overwrite"]))
    fuzz("checkpoint: weights", made | st.tuples(st.just([]), byte_changes()), use, examples=[([], [])], tries=20)
