from __future__ import annotations

import dataclasses
import json
import shutil

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

import choqolate as cq
from choqolate.concepts.score_images import score_images_to_file
from choqolate.datasets import DATASETS
from tests.concepts.image_files import write_album
from tests.concepts.test_embedding import Counting
from tests.tiny import SIGLIP_LENGTH, write_clip

TEMPLATES = ("{}", "a photo of {}", "a photo of a {}.")
WORDS = cq.Vocabulary.parse(["sea | ocean | long sea", "webbed feet", "long bill | bill"], spurious=["forest | feet"])


def by_hand(folder, files, concepts):
    """Scores with transformers alone; ``concepts`` holds all prompts of each."""
    siglip = transformers.AutoConfig.from_pretrained(folder).model_type == "siglip"
    name = "SiglipImageProcessor" if siglip else "CLIPImageProcessor"
    processor = getattr(transformers, f"{name}Pil", None) or getattr(transformers, name)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)

    def unit(output):
        vectors = getattr(output, "pooler_output", output).double()
        return vectors / vectors.norm(dim=-1, keepdim=True)

    columns = []
    with torch.no_grad():
        pixels = processor.from_pretrained(folder)([Image.open(file) for file in files], return_tensors="pt")
        images = unit(model.get_image_features(**pixels))
        for prompts in concepts:
            texts = []
            for prompt in prompts:  # one at a time: nothing is padded for the sake of another
                tokens = tokenizer([prompt], return_tensors="pt", **_padding(siglip))
                texts.append(unit(model.get_text_features(input_ids=tokens["input_ids"])))
            mean = torch.cat(texts).mean(dim=0)
            columns.append(images @ (mean / mean.norm()))
    return torch.stack(columns, dim=1).numpy()


def _padding(siglip):
    return {"padding": "max_length", "max_length": SIGLIP_LENGTH} if siglip else {}


@pytest.fixture(scope="module")
def backbone(clip_folder):
    return cq.load_backbone(clip_folder)


@pytest.fixture(scope="module")
def album(tmp_path_factory):
    """Forty images that no test changes."""
    folder = tmp_path_factory.mktemp("scoring") / "album"
    return cq.Manifest(folder, write_album(folder, 40))


@pytest.fixture(scope="module")
def encoded_album(album, backbone, tmp_path_factory):
    """Their embeddings, in a folder that tests copy before they add to it."""
    folder = tmp_path_factory.mktemp("scoring") / "vectors"
    cq.embed(album, backbone, folder, workers=0)
    return folder


@pytest.fixture
def vectors(encoded_album, tmp_path):
    return cq.Embeddings.load(shutil.copytree(encoded_album, tmp_path / "vectors"))


@pytest.mark.parametrize("templates", [("{}",), TEMPLATES])
@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_scores_are_those_of_transformers(kind, templates, request, tmp_path, album):
    folder = request.getfixturevalue(f"{kind}_folder")
    encoder = cq.load_backbone(folder)
    some = album.take(np.arange(12))
    words = dataclasses.replace(WORDS, templates=templates)
    table = cq.score(cq.embed(some, encoder, tmp_path / "vectors", workers=0), words, encoder)
    prompts = [[template.replace("{}", word) for word in group for template in templates] for group in words.synonyms]
    expected = by_hand(folder, some.files(), prompts)
    assert table.concepts == ("sea", "webbed feet", "long bill", "forest")
    assert table.scores.shape == (12, 4)
    np.testing.assert_allclose(table.scores, expected, atol=1e-5)
    assert expected.std(axis=0).min() > 0.01  # far more than the tolerance: images differ,
    assert np.abs(np.diff(expected, axis=1)).mean(axis=0).min() > 0.01  # and so do concepts
    assert np.abs(table.scores).max() <= 1 + 1e-6


def test_templates_and_synonyms_change_the_scores(vectors, backbone):
    plain = cq.score(vectors, cq.Vocabulary.parse(["sea", "forest"]), backbone).scores
    synonym = cq.score(vectors, cq.Vocabulary.parse(["sea | ocean", "forest"]), backbone).scores
    template = cq.score(vectors, cq.Vocabulary.parse(["sea", "forest"], templates=TEMPLATES), backbone).scores
    np.testing.assert_array_equal(synonym[:, 1], plain[:, 1])
    assert np.abs(synonym[:, 0] - plain[:, 0]).max() > 0.01
    assert np.abs(template - plain).max(axis=0).min() > 0.01


def test_only_new_texts_are_encoded(vectors, backbone):
    counting = Counting(backbone)
    first = cq.score(vectors, cq.Vocabulary.parse(["sea | ocean", "forest"]), counting)
    assert counting.texts == 3
    second = cq.score(vectors, cq.Vocabulary.parse(["forest", "ocean", "long bill", "sea"]), counting)
    assert counting.texts == 4
    np.testing.assert_array_equal(second.scores[:, 0], first.scores[:, 1])
    again = cq.Embeddings.load(vectors.folder.path)
    cq.score(again, cq.Vocabulary.parse(["long bill", "sea"]), counting)
    assert counting.texts == 4
    cq.score(again, cq.Vocabulary.parse(["long bill", "sea"], templates=["{}", "a {}"]), counting)
    assert counting.texts == 6
    assert counting.images == 0


def test_known_texts_are_not_mixed_up(vectors, backbone):
    """Vectors come from several shards, and in another order than they were asked for."""
    names = ["sea", "forest", "long bill", "webbed feet"]
    alone = {name: cq.score(vectors, cq.Vocabulary.parse([name]), backbone).scores[:, 0] for name in names[::2]}
    together = cq.score(vectors, cq.Vocabulary.parse(names), backbone).scores
    turned = cq.score(vectors, cq.Vocabulary.parse(names[::-1]), backbone).scores
    np.testing.assert_allclose(turned[:, ::-1], together, atol=1e-6)
    for name, column in alone.items():
        np.testing.assert_allclose(together[:, names.index(name)], column, atol=1e-6)


def test_known_words_need_no_weights(tmp_path, clip_folder, album):
    checkpoint = shutil.copytree(clip_folder, tmp_path / "checkpoint")
    words = cq.Vocabulary.parse(["sea | ocean", "forest"])
    encoder = cq.load_backbone(checkpoint)
    before = cq.score(cq.embed(album, encoder, tmp_path / "vectors", workers=0), words, encoder)
    unused = cq.load_backbone(checkpoint)
    checkpoint.rename(tmp_path / "away")
    for given in (None, unused):
        after = cq.score(cq.Embeddings.load(tmp_path / "vectors"), words, given)
        np.testing.assert_array_equal(after.scores, before.scores)
    new = cq.Vocabulary.parse(["sea", "webbed feet"])
    with pytest.raises(cq.ChoqolateError, match=r"checkpoint'?: there is no such folder"):
        cq.score(cq.Embeddings.load(tmp_path / "vectors"), new)
    with pytest.raises(cq.ChoqolateError, match=r"in .*checkpoint cannot be loaded"):
        cq.score(cq.Embeddings.load(tmp_path / "vectors"), new, unused)
    (tmp_path / "away").rename(checkpoint)
    assert cq.score(cq.Embeddings.load(tmp_path / "vectors"), new).concepts == ("sea", "webbed feet")


def test_a_checkpoint_that_was_replaced_is_noticed(tmp_path, clip_folder, album):
    checkpoint = shutil.copytree(clip_folder, tmp_path / "checkpoint")
    encoder = cq.load_backbone(checkpoint)
    cq.embed(album.take(np.arange(3)), encoder, tmp_path / "vectors", workers=0)
    shutil.rmtree(checkpoint)
    write_clip(checkpoint, seed=7)
    with pytest.raises(cq.ChoqolateError, match="holds vectors of"):
        cq.score(cq.Embeddings.load(tmp_path / "vectors"), WORDS)


def test_the_backbone_must_be_the_one_of_the_images(tmp_path, vectors, backbone, siglip_folder):
    siglip = cq.load_backbone(siglip_folder)
    assert siglip.dim == backbone.dim  # the product could be computed, and would mean nothing
    other = cq.load_backbone(write_clip(tmp_path / "other", seed=3))
    for wrong in (siglip, other):
        with pytest.raises(cq.ChoqolateError, match=r"holds vectors of .*clip.*, not of "):
            cq.score(vectors, WORDS, wrong)
    cq.score(vectors, WORDS, backbone)
    with pytest.raises(cq.ChoqolateError, match="holds vectors of"):
        cq.score(vectors, WORDS, other)  # also when every text is known


def test_texts_that_are_too_long_are_not_cut(vectors, backbone):
    with pytest.raises(cq.ChoqolateError, match=r"at most 77 tokens.* 'sea sea"):
        cq.score(vectors, cq.Vocabulary.parse(["forest", "sea " * 80]), backbone)
    assert cq.score(vectors, cq.Vocabulary.parse(["forest"]), backbone).scores.shape == (40, 1)


@pytest.fixture
def described(tmp_path, album, backbone):
    """Rows with everything that can be known of them; one of the images cannot be read."""
    folder = tmp_path / "described"
    names = write_album(folder, 6)
    shutil.copy(folder / names[0], folder / "copy.png")
    (folder / names[3]).write_bytes(b"no image")
    manifest = cq.Manifest(
        folder,
        [*names, "copy.png"],
        labels=["gull", "wren", "gull", "wren", None, "gull", "wren"],
        split=["train", "test", "val", "train", "train", None, "test"],
        groups=["at sea", "in a wood", None, "at sea", "in a wood", "at sea", "at sea"],
        classes=("wren", "gull", "auk"),
        source="waterbirds",
    )
    return cq.embed(manifest, backbone, tmp_path / "described vectors", workers=0)


def test_what_is_known_of_the_images_arrives_in_the_table(tmp_path, described, backbone, clip_folder):
    words = dataclasses.replace(WORDS, templates=TEMPLATES)
    for embeddings in (described, cq.Embeddings.load(tmp_path / "described vectors")):
        table = cq.score(embeddings, words, backbone)
        assert table.paths.tolist() == ["0000.png", "0001.png", "0002.png", "0004.png", "0005.png", "copy.png"]
        assert table.labels.tolist() == ["gull", "wren", "gull", None, "gull", "wren"]
        assert table.split.tolist() == ["train", "test", "val", "train", None, "test"]
        assert table.groups.tolist() == ["at sea", "in a wood", None, "in a wood", "at sea", "at sea"]
        assert table.classes == ("wren", "gull", "auk")
        assert table.concepts == words.concepts
        assert table.spurious == ("forest",)
        found = table.provenance
        assert found.backbone == backbone.describe()
        assert found.backbone.name == str(clip_folder.resolve())
        assert cq.Vocabulary.from_record(found.vocabulary) == words
        assert (found.source, found.root) == ("waterbirds", str(tmp_path / "described"))
        json.dumps(found.as_dict())


def test_rows_stand_by_their_images(described, backbone):
    """An image that could not be read shifts nothing, and copies of an image have equal scores."""
    table = cq.score(described, WORDS, backbone)
    for row, path in enumerate(described.manifest.files()):
        with Image.open(path) as image:
            vector = backbone.encode_images([image.convert("RGB")])
        expected = vector @ WORDS.combine(lambda prompt: backbone.encode_texts([prompt])[0]).T
        np.testing.assert_allclose(table.scores[[row]], expected, atol=1e-5)
    np.testing.assert_array_equal(table.scores[0], table.scores[-1])
    assert len(np.unique(table.scores, axis=0)) == 5


def test_the_table_survives_its_file(tmp_path, described, backbone):
    table = cq.score(described, WORDS, backbone)
    table.save(tmp_path / "scores.parquet")
    back = cq.ConceptScores.load(tmp_path / "scores.parquet")
    np.testing.assert_array_equal(back.scores, table.scores)
    assert back.scores.dtype == table.scores.dtype == np.float32
    for name in ("labels", "split", "groups", "paths"):
        assert getattr(back, name).tolist() == getattr(table, name).tolist(), name
    for name in ("concepts", "classes", "spurious", "provenance", "fingerprint"):
        assert getattr(back, name) == getattr(table, name), name


def test_lost_vectors_are_an_error_that_says_what_to_do(vectors, backbone):
    shutil.rmtree(vectors.folder.path / "images")
    with pytest.raises(cq.ChoqolateError, match=r"40 of 40 vectors are not in .*: run the embedding again"):
        cq.score(vectors, WORDS, backbone)


def test_lost_texts_are_encoded_again(vectors, backbone):
    before = cq.score(vectors, WORDS, backbone).scores
    shutil.rmtree(vectors.folder.path / "texts")
    np.testing.assert_array_equal(cq.score(vectors, WORDS, backbone).scores, before)


def test_the_range_of_the_scores_is_that_of_the_training_rows(tmp_path, album, vectors, backbone):
    words = cq.Vocabulary.parse(["sea", "forest", "long bill"])
    raw = cq.score(vectors, words, backbone).scores
    extreme = np.zeros(len(album), dtype=bool)
    extreme[np.concatenate([raw.argmin(axis=0), raw.argmax(axis=0)])] = True
    extreme[:8] = True
    rows = dataclasses.replace(
        album,
        labels=np.array(["gull", "wren"])[np.arange(len(album)) % 2],
        split=np.where(extreme, "test", "train"),
        classes=("gull", "wren"),
    )
    table = cq.score(cq.embed(rows, backbone, vectors.folder.path, workers=0), words, backbone)
    np.testing.assert_array_equal(table.scores, raw)
    model = cq.fit_scores(table, n_nodes=2, epochs=3)
    train, test = table.part("train"), table.part("test")
    assert (test.scores.min(axis=0) < train.scores.min(axis=0)).all()
    assert (test.scores.max(axis=0) > train.scores.max(axis=0)).all()
    model.save(tmp_path / "model")
    for found in (model, cq.load(tmp_path / "model")):
        np.testing.assert_array_equal(found.score_min_, train.scores.min(axis=0))
        np.testing.assert_array_equal(found.score_max_, train.scores.max(axis=0))
        # what lies beyond the range counts as its end
        inside = test.scores.clip(found.score_min_.astype(np.float32), found.score_max_.astype(np.float32))
        ends = dataclasses.replace(test, scores=inside).frame
        np.testing.assert_allclose(found.predict_proba(test.frame), found.predict_proba(ends), atol=1e-6)
        np.testing.assert_allclose(found.predict_proba(test.frame), model.predict_proba(test.frame), atol=1e-6)


def test_images_for_testing_do_not_change_the_model(album, vectors, backbone):
    words = cq.Vocabulary.parse(["sea", "forest", "long bill"])
    rows = dataclasses.replace(
        album,
        labels=np.array(["gull", "wren"])[np.arange(len(album)) % 2],
        split=np.where(np.arange(len(album)) < 28, "train", "test"),
        classes=("gull", "wren"),
    )
    table = cq.score(cq.embed(rows, backbone, vectors.folder.path, workers=0), words, backbone)
    whole = cq.fit_scores(table, n_nodes=2, epochs=3)
    alone = cq.fit_scores(table.part("train"), n_nodes=2, epochs=3)
    np.testing.assert_array_equal(whole.score_max_, alone.score_max_)
    np.testing.assert_array_equal(whole.predict_proba(table.frame), alone.predict_proba(table.frame))


def test_images_are_scored_in_one_call(tmp_path, clip_folder, monkeypatch):
    monkeypatch.setenv("CHOQOLATE_CACHE", str(tmp_path / "cache"))
    names = write_album(tmp_path / "album" / "gull", 6) + write_album(tmp_path / "album" / "wren", 6)
    (tmp_path / "album" / "wren" / "letter.png").write_text("no image")
    words = cq.Vocabulary.parse(["sea | ocean", "forest"], templates=TEMPLATES)
    seen = []
    table = cq.score_images(
        tmp_path / "album",
        words,
        backbone=str(clip_folder),
        embeddings=tmp_path / "vectors",
        quarantine=tmp_path / "bad.csv",
        workers=0,
        on_embedded=seen.append,
    )
    encoder = cq.load_backbone(clip_folder)
    by_hand = cq.score(cq.embed(tmp_path / "album", encoder, tmp_path / "other", workers=0), words, encoder)
    np.testing.assert_array_equal(table.scores, by_hand.scores)
    assert (len(table), table.classes) == (len(names), ("gull", "wren"))
    assert set(table.split) == {"train", "test"}
    assert [failure.path for failure in seen[0].failures] == ["wren/letter.png"]
    assert (tmp_path / "bad.csv").read_text().startswith("path,reason\nwren/letter.png,")
    again = cq.score_images(tmp_path / "vectors", ["sea", "long bill"], quarantine=tmp_path / "bad.csv")
    np.testing.assert_array_equal(again.paths, table.paths)
    assert again.concepts == ("sea", "long bill")
    assert not (tmp_path / "bad.csv").exists()


def test_what_cannot_be_scored_is_said_before_images_are_encoded(tmp_path, clip_folder, monkeypatch):
    monkeypatch.setenv("CHOQOLATE_CACHE", str(tmp_path / "cache"))
    write_album(tmp_path / "album", 2)
    options = {"backbone": str(clip_folder), "embeddings": tmp_path / "vectors", "workers": 0}
    with pytest.raises(cq.ChoqolateError, match="Expected the concepts to score for"):
        cq.score_images(tmp_path / "album", **options)
    with pytest.raises(cq.ChoqolateError, match="at most 77 tokens"):
        cq.score_images(tmp_path / "album", ["sea", "x y z " * 40], **options)
    with pytest.raises(cq.ChoqolateError, match="the name of a data set with options"):
        cq.score_images(tmp_path / "album", ["sea"], options={"n_classes": 5}, **options)
    for name, concepts, message in (
        ("scores.txt", ["sea"], "ends in .parquet or .csv"),
        ("scores.csv", ["sea", "label"], "'label' would be read as something else"),
    ):
        with pytest.raises(cq.ChoqolateError, match=message):
            score_images_to_file(tmp_path / name, tmp_path / "album", concepts, **options)
    with pytest.raises(TypeError, match=r"^score_images_to_file\(\) got an unexpected keyword argument 'batchsize'"):
        score_images_to_file(tmp_path / "scores.csv", tmp_path / "album", ["sea"], batchsize=2, **options)
    assert not list((tmp_path / "vectors").glob("images/*"))
    (tmp_path / "album" / "bad.png").write_text("no image")
    with pytest.warns(cq.ChoqolateWarning, match="1 image could not be read, the first is bad.png"):
        table = cq.score_images(tmp_path / "album", ["sea", "forest"], **options)
    assert len(table) == 2


def test_an_encoder_may_be_given_as_a_path(tmp_path, clip_folder):
    write_album(tmp_path / "album", 2)
    table = cq.score_images(tmp_path / "album", ["sea"], backbone=clip_folder, workers=0)
    assert table.provenance.backbone.name == str(clip_folder)
    with pytest.raises(
        cq.ChoqolateError, match=r"^Expected the name of an encoder or the folder of its weights, got 3\.$"
    ):
        cq.score_images(tmp_path / "album", ["sea"], backbone=3)


def test_a_manifest_of_a_data_set_is_scored_for_its_concepts(tmp_path, clip_folder):
    names = write_album(tmp_path / "album", 2)
    rows = cq.Manifest(tmp_path / "album", names, source="waterbirds")
    table = cq.score_images(rows, backbone=clip_folder, embeddings=tmp_path / "vectors", workers=0)
    assert table.concepts == (*DATASETS["waterbirds"].core, *DATASETS["waterbirds"].spurious)
    assert cq.score_images(tmp_path / "vectors").concepts == table.concepts
    assert cq.score_images(tmp_path / "vectors", dataset="cub").concepts[0] == DATASETS["cub"].core[0]


def test_a_misspelt_data_set_is_found_before_its_concepts_are_missed(tmp_path):
    write_album(tmp_path / "album", 2)
    with pytest.raises(cq.ChoqolateError, match=r"got 'waterbird'\. Did you mean 'waterbirds'\?$"):
        cq.score_images(tmp_path / "album", dataset="waterbird")


def test_arguments_that_would_have_no_effect_are_refused(tmp_path, clip_folder):
    names = write_album(tmp_path / "album", 2)
    rows = cq.Manifest(tmp_path / "album", names)
    encoded = cq.embed(rows, cq.load_backbone(clip_folder), tmp_path / "vectors", workers=0)
    unused = {"embeddings": tmp_path / "other", "options": {"n_classes": 5}, "workers": 0, "batch_size": 2}
    for source in (encoded, tmp_path / "vectors"):
        for name, value in unused.items():
            with pytest.raises(cq.ChoqolateError, match=f"^Expected no {name} because the source is embeddings"):
                cq.score_images(source, ["sea"], **{name: value})
        with pytest.raises(cq.ChoqolateError, match="no embeddings or options or workers or batch_size because"):
            cq.score_images(source, ["sea"], **unused)
    with pytest.raises(cq.ChoqolateError, match=r"^Expected no options because the source is a manifest"):
        cq.score_images(rows, ["sea"], backbone=clip_folder, dataset="cub", options={"n_classes": 5})
    assert cq.score_images(encoded, ["sea"], options={}).concepts == ("sea",)


def test_scores_written_to_a_file_are_those_in_memory(tmp_path, clip_folder, monkeypatch):
    write_album(tmp_path / "album", 30)
    options = {"backbone": clip_folder, "embeddings": tmp_path / "vectors", "workers": 0}
    table = cq.score_images(tmp_path / "album", ["sea", "long bill", "forest"], **options)
    monkeypatch.setattr("choqolate.data.parquet_reader.BLOCK_BYTES", 4 * 3 * 2)
    monkeypatch.setattr("choqolate.data.parquet_reader.GROUP_BYTES", 1)
    file = score_images_to_file(tmp_path / "s.parquet", tmp_path / "album", ["sea", "long bill", "forest"], **options)
    assert file.row_groups == (16, 14)
    back = file.load()
    np.testing.assert_array_equal(back.scores, table.scores)
    for name in ("labels", "split", "groups", "paths"):
        ours, theirs = getattr(back, name), getattr(table, name)
        assert (ours is None) == (theirs is None)
        assert ours is None or ours.tolist() == theirs.tolist()
    assert (back.classes, back.provenance) == (table.classes, table.provenance)
