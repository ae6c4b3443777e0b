from __future__ import annotations

import os
import time
from concurrent.futures import Future

import pytest

import choqolate as cq
from choqolate.concepts.blocks import Block, BlockEncoder
from choqolate.concepts.embedding_folder import EmbeddingFolder
from choqolate.concepts.encoder_pool import EncoderLost, encode_in_pool
from choqolate.concepts.mini_backbone import MiniBackbone
from choqolate.concepts.preprocessing import ImageTransform
from tests.concepts.image_files import draw

CRASHING = (13, 7)


class InThisProcess:
    """One encoder that is lost where a process of its own would be, and replaced by the next."""

    depth = 1

    def __init__(self, encoder: BlockEncoder, crashing: set[str], always: bool) -> None:
        self.encoder, self.crashing, self.always = encoder, crashing, always
        self.n_lost = 0

    def ready(self):
        return [self]

    def replace(self, encoder):
        self.n_lost += 1

    def identify(self, files):
        return self._answer(lambda: self.encoder.identify(files))

    def encode(self, files, careful):
        lost = self.crashing.intersection(files) and (self.always or not careful)
        return self._answer(EncoderLost if lost else lambda: self.encoder.encode(files, careful))

    def _answer(self, function):
        future: Future = Future()
        result = function()
        future.set_exception(result) if isinstance(result, Exception) else future.set_result(result)
        return future


@pytest.fixture
def blocks(tmp_path):
    """Three blocks of three images; the fifth image crashes its decoder."""
    paths = [str(tmp_path / f"{index}.png") for index in range(9)]
    for index, path in enumerate(paths):
        draw(index, CRASHING if index == 4 else (9, 9)).save(path)
    return [Block(number, list(range(3)), paths[3 * number : 3 * number + 3]) for number in range(3)]


@pytest.fixture
def encoder(tmp_path):
    backbone, this_process = MiniBackbone(device="cpu"), os.getpid()

    class Fragile(ImageTransform):  # local: other processes get it by value, and do not import this module
        """Ends the process that decodes an image of a certain size, as a fault in a decoder does."""

        def __call__(self, image):
            if image.size == CRASHING:
                if os.getpid() == this_process:
                    raise RuntimeError("decoded beside the encoder")
                os.kill(os.getpid(), 9)
            return ImageTransform.__call__(self, image)

    backbone.transform = Fragile(**vars(backbone.transform))
    EmbeddingFolder.create(tmp_path / "vectors", backbone)
    encoder = BlockEncoder(backbone, tmp_path / "vectors", 2, time.time_ns(), 1, 0)
    encoder.load()
    return encoder


def test_an_image_that_crashes_its_decoder_is_found_and_the_others_are_encoded(blocks, encoder):
    encoders = InThisProcess(encoder, {blocks[1].files[1]}, always=False)
    outcomes = {block.number: outcome for block, outcome in encode_in_pool(blocks, encoders, set())}
    assert sorted(outcomes) == [0, 1, 2]
    assert encoders.n_lost == 1
    errors = [item.error for number in range(3) for item in outcomes[number].files]
    assert [index for index, error in enumerate(errors) if error] == [4]
    assert "crashed" in errors[4]
    assert sum(len(outcome.encoded) for outcome in outcomes.values()) == 8


def test_a_block_that_brings_down_every_encoder_ends_the_run(blocks, encoder):
    encoders = InThisProcess(encoder, {blocks[1].files[1]}, always=True)
    with pytest.raises(cq.ChoqolateError, match=r"3\.png on were given to 4 processes, and each of them ended"):
        list(encode_in_pool(blocks, encoders, set()))
    assert encoders.n_lost == 4
