from __future__ import annotations

from collections import Counter

import pytest

from choqolate.datasets import read_dataset
from choqolate.errors import ChoqolateError
from tests.datasets.layouts import WATERBIRDS_HEADER, make_waterbirds, write

ROWS = [
    ("001.Albatross/a 1.jpg", 1, 2, 1),
    ("001.Albatross/b.jpg", 1, 0, 0),
    ("002.Crow/a.jpg", 0, 1, 0),
    ("002.Crow/b.jpg", 0, 0, 1),
    ("002.Crow/c.jpg", 0, 0, 0),
]


@pytest.mark.parametrize("given", ["waterbird_complete95_forest2water2", "."])
def test_rows(tmp_path, given):
    make_waterbirds(tmp_path / "waterbird_complete95_forest2water2", ROWS)
    write(tmp_path / "other/metadata.csv", "id,label\n1,x\n")  # other data sets have one too
    (tmp_path / "binary").mkdir()
    (tmp_path / "binary/metadata.csv").write_bytes(b"\xff\xfe\x00")
    rows = read_dataset("waterbirds", tmp_path / given)
    assert rows.paths.tolist() == [row[0] for row in ROWS]
    assert rows.labels.tolist() == ["waterbird", "waterbird", "landbird", "landbird", "landbird"]
    assert rows.split.tolist() == ["test", "train", "val", "train", "train"]
    assert Counter(rows.groups.tolist()) == {
        "waterbird on water": 1,
        "waterbird on land": 1,
        "landbird on land": 2,
        "landbird on water": 1,
    }
    assert rows.classes == ("landbird", "waterbird")
    assert rows.root == tmp_path / "waterbird_complete95_forest2water2"
    assert rows.source == "waterbirds"


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("2,a.jpg,2,0,0,x", "expected y 0, 1 in .*metadata.csv, got '2' in line 3"),
        ("2,a.jpg,0,3,0,x", "expected split 0, 1, 2 .*got '3' in line 3"),
        ("2,a.jpg,0,0,,x", "expected place 0, 1 .*got '' in line 3"),
        ("2,a.jpg,0,0", "expected 6 cells .*line 3 has 4"),
    ],
)
def test_cells_that_do_not_fit(tmp_path, cells, message):
    write(tmp_path / "metadata.csv", f"{WATERBIRDS_HEADER}1,z.jpg,1,1,1,x\n{cells}\n")
    with pytest.raises(ChoqolateError, match=message):
        read_dataset("waterbirds", tmp_path)
