from __future__ import annotations

import pytest

from choqolate.concepts.image_lists import lists_images
from choqolate.concepts.vocabulary_choice import open_source
from choqolate.errors import ChoqolateError


def test_csv_files_of_scores_and_of_images_are_told_apart(tmp_path):
    (tmp_path / "a.png").touch()
    told = []

    def listing(text):
        (tmp_path / "table.csv").write_text(text)
        told.clear()
        return lists_images(tmp_path / "table.csv", told.append)

    assert listing("path,label\na.png,gull\n")
    assert not listing("label,sea\ngull,0.2\n")
    assert told == []
    assert listing("Image;label;width\na.png;gull;640\nb.png;wren;480\n")
    assert told == [f"{tmp_path / 'table.csv'} is read as a list of images, without its columns 'width'"]
    assert listing("path,label,by\na.png,gull,Ann\n")
    assert not listing("path,label,sea\na.png,gull,0.21\n")  # scores beside their images
    assert told == [f"{tmp_path / 'table.csv'} is read as a table of scores of 1 concept"]
    assert not listing("path,label,sea,wood\nelsewhere.png,gull,0.21,O.3\n")
    with pytest.raises(ChoqolateError, match=r"column 'wood' has 'O\.3' in line 2"):
        open_source(tmp_path / "table.csv")
