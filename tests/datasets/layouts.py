"""Small copies of the published data sets, in their layouts."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF"


def touch(root: Path, names: Iterable[str], content: bytes = b"") -> Path:
    """Files with their folders."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode())
    return file


def make_cub(folder: Path, n_classes: int = 12, n_images: int = 60) -> list[tuple[str, str, str]]:
    """An index whose four files stand in four different orders; (path, label, split) of each image by its number."""
    draw = random.Random(0)
    kinds = [f"{number:03d}.Grey_kind_{number}" for number in range(1, n_classes + 1)]
    images = list(range(1, n_images + 1))
    kind_of = {image: draw.randrange(n_classes) + 1 for image in images}
    train = {image: draw.randrange(2) for image in images}
    path_of = {image: f"{kinds[kind_of[image] - 1]}/bird_{n_images - image}.jpg" for image in images}

    def shuffled(pairs: dict[int, object]) -> str:
        lines = [f"{number} {value}\n" for number, value in pairs.items()]
        draw.shuffle(lines)
        return "".join(lines)

    write(folder / "classes.txt", shuffled(dict(enumerate(kinds, 1))))
    write(folder / "images.txt", "".join(f"{image} {path_of[image]}\n" for image in images))
    write(folder / "image_class_labels.txt", shuffled(dict(kind_of)))
    write(folder / "train_test_split.txt", shuffled(dict(train)))
    return [
        (f"images/{path_of[image]}", f"Grey kind {kind_of[image]}", "train" if train[image] else "test")
        for image in images
    ]


WATERBIRDS_HEADER = "img_id,img_filename,y,split,place,place_filename\n"


def make_waterbirds(folder: Path, rows: Iterable[tuple[str, int, int, int]]) -> None:
    """Rows are (path, y, split, place)."""
    cells = [f"{number},{path},{y},{split},{place},x.jpg\n" for number, (path, y, split, place) in enumerate(rows, 1)]
    write(folder / "metadata.csv", WATERBIRDS_HEADER + "".join(cells))


ATTRIBUTES = ["Bald", "Blond_Hair", "Eyeglasses", "Male", "Young"]
Face = tuple[str, bool, bool, int]


def faces(counts: dict[str, tuple[int, int, int, int]]) -> list[Face]:
    """(name, blond, male, split) for counts of (dark female, dark male, blond female, blond male) in each split."""
    found: list[Face] = []
    for split, name in enumerate(("train", "val", "test")):
        for group, count in enumerate(counts.get(name, ())):
            found += [(f"{len(found) + i + 1:06d}.jpg", group >= 2, group % 2 == 1, split) for i in range(count)]
    return found


def _signs(face: Face) -> list[int]:
    _, blond, male, _ = face
    return [-1, 1 if blond else -1, -1, 1 if male else -1, 1]


def celeba_attributes(rows: Iterable[Face], end: str = "\r\n") -> str:
    """As the authors write it: a count, the names and a space, values set in columns."""
    rows = list(rows)
    head = f"{len(rows)}{end}{' '.join(ATTRIBUTES)} {end}"
    return head + "".join(f"{face[0]} {' '.join(f'{sign:2d}' for sign in _signs(face))}{end}" for face in rows)


def celeba_partition(rows: Iterable[Face]) -> str:
    return "".join(f"{name} {split}\n" for name, _, _, split in rows)


def make_celeba(folder: Path, rows: Iterable[Face]) -> Path:
    rows = list(rows)
    write(folder / "list_attr_celeba.txt", celeba_attributes(rows))
    write(folder / "list_eval_partition.txt", celeba_partition(rows))
    (folder / "img_align_celeba").mkdir()
    return folder


def make_celeba_of_kaggle(folder: Path, rows: Iterable[Face]) -> Path:
    rows = list(rows)
    lines = [",".join([face[0], *map(str, _signs(face))]) for face in rows]
    write(folder / "list_attr_celeba.csv", "\n".join([",".join(["image_id", *ATTRIBUTES]), *lines, ""]))
    lines = [f"{name},{split}" for name, _, _, split in rows]
    write(folder / "list_eval_partition.csv", "\n".join(["image_id,partition", *lines, ""]))
    (folder / "img_align_celeba/img_align_celeba").mkdir(parents=True)
    return folder
