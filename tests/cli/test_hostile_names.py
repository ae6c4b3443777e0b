"""Names that a stranger chose: no terminal obeys them, and no page, table or spreadsheet does."""

from __future__ import annotations

import csv
import json
from html.parser import HTMLParser

import numpy as np
import pytest

import choqolate as cq
from tests.cli.test_data_commands import choqolate

pytestmark = pytest.mark.hostile("names shown and written")

ESCAPES = "\x1b[31m\x1b]0;title\x07\x9b2J\u202e\u2066[red]:smile:\r\n\t\x7f\u2028"
MARKUP = '</script><script>alert(1)</script>"><img onerror=alert(1)> `x` | \\input{/etc/passwd}'
FORMULA = "=cmd|' /C calc'!A0"
CONCEPTS = [f"sea{ESCAPES}", MARKUP, FORMULA, "+1", "@SUM(A1)", "plain"]
CLASSES = [f"gull{ESCAPES}", "=HYPERLINK(1)"]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("hostile"), CONCEPTS, CLASSES, ESCAPES + MARKUP)


@pytest.fixture(scope="module")
def harmless(tmp_path_factory):
    concepts = ["sea", "forest", "lake", "grass", "sand", "plain"]
    return write_model(tmp_path_factory.mktemp("harmless"), concepts, ["gull", "wren"], "group")


def write_model(folder, concepts, classes, group):
    random = np.random.default_rng(0)
    labels = np.arange(120) % 2
    scores = random.random((120, 6)) + labels[:, None] * np.linspace(0.5, 0, 6)
    table = cq.ConceptScores(
        scores,
        concepts,
        labels=[classes[label] for label in labels],
        groups=[f"{group}{row % 3}" for row in range(120)],
        paths=[f"={group}{row}.png" for row in range(120)],
        split=["train" if row < 80 else "test" for row in range(120)],
    )
    table.save(folder / "scores.parquet")
    done = choqolate("fit", folder / "scores.parquet", "-o", folder / "model", "--nodes", "2", "--epochs", "3")
    assert done.code == 0, done.err
    return folder


def is_safe(text):
    return all(character.isprintable() or character == "\n" for character in text)


@pytest.mark.parametrize(
    "command",
    [
        "eval model scores.parquet",
        "eval model scores.parquet --json",
        "explain model",
        "explain model --scores scores.parquet -o report.html",
        "explain model --against model --scores scores.parquet -o difference.html",
        "studio model --scores scores.parquet --export studio.html --title FORMULA",
        "card model",
        "card model --scores scores.parquet",
        "drift model scores.parquet scores.parquet",
        "drift model scores.parquet scores.parquet --json",
        "predict model scores.parquet -o p.csv",
        "remove model FORMULA -o removed",
        "remove model ESCAPES -o removed",
        "remove model unknownESCAPES -o removed",
        "simplify model -o simple --terms 2 --reason ESCAPES --author ESCAPES",
        "eval ESCAPES scores.parquet",
        "eval model ESCAPES.parquet",
        "embed ESCAPES -o embeddings",
        "score ESCAPES --concepts ESCAPES -o ESCAPES.parquet",
        "vocabulary ESCAPES -o words.txt",
        "compare ESCAPES.parquet -o results",
    ],
)
def test_no_terminal_obeys_a_name(hostile, monkeypatch, command):
    monkeypatch.chdir(hostile)
    words = [word.replace("FORMULA", FORMULA).replace("ESCAPES", CONCEPTS[0]) for word in command.split()]
    done = choqolate(*words)
    assert done.code in (0, 2), done.err
    assert is_safe(done.out), repr(done.out)
    assert is_safe(done.err), repr(done.err)
    assert "Traceback" not in done.err
    assert "Usage" not in done.err
    if "--json" in command:
        assert json.loads(done.out)


def formulas(path):
    """Cells of a CSV file that a spreadsheet would compute."""
    with open(path, newline="", encoding="utf-8") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert len(cells) > 10
    return [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r")) and not is_number(cell)]


def is_number(cell):
    try:
        float(cell)
    except ValueError:
        return False
    return True


def test_no_spreadsheet_computes_a_name(hostile, tmp_path):
    assert (
        choqolate("predict", hostile / "model", hostile / "scores.parquet", "-o", tmp_path / "predicted.csv").code == 0
    )
    assert formulas(tmp_path / "predicted.csv") == []

    table = cq.ConceptScores.load(hostile / "scores.parquet").select(CONCEPTS[1:4])
    table.save(tmp_path / "scores.csv")
    assert formulas(tmp_path / "scores.csv") == []
    again = cq.ConceptScores.load(tmp_path / "scores.csv")
    assert again.concepts == table.concepts
    assert again.paths.tolist() == table.paths.tolist()
    assert again.labels.tolist() == table.labels.tolist()


def test_files_that_cannot_be_read_are_listed_for_a_spreadsheet_too(tmp_path):
    images = tmp_path / "images"
    images.mkdir()
    for row in range(9):
        (images / f"={row}+1.png").write_bytes(b"no image")
    done = choqolate("embed", images, "-o", tmp_path / "embeddings", "--backbone", "mini")
    assert done.code == 2
    assert formulas(tmp_path / "embeddings.quarantine.csv") == []


class Elements(HTMLParser):
    """Which elements a page has, and which attributes they have."""

    def __init__(self, page):
        super().__init__()
        self.scripts, self.handlers, self.images = 0, [], 0
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.scripts += tag == "script"
        self.images += tag == "img"
        self.handlers += [name for name, _ in attributes if name.startswith("on")]


@pytest.mark.parametrize(
    "command",
    [
        ("explain", "model", "--scores", "scores.parquet", "-o", "page.html"),
        ("explain", "model", "--against", "other", "--scores", "scores.parquet", "-o", "page.html"),
        ("studio", "model", "--scores", "scores.parquet", "--title", MARKUP, "--export", "page.html"),
    ],
)
def test_no_page_takes_a_name_for_markup(hostile, harmless, monkeypatch, command):
    pages = []
    for name, folder in (("hostile", hostile), ("harmless", harmless)):
        monkeypatch.chdir(folder)
        if not (folder / "other").exists():
            assert choqolate("remove", "model", "plain", "-o", "other", "--reason", MARKUP).code == 0
        said = [word.replace(MARKUP, "title") if name == "harmless" else word for word in command]
        done = choqolate(*said)
        assert done.code == 0, done.err
        pages.append(Elements((folder / "page.html").read_text()))
    ours, theirs = pages
    assert (ours.scripts, ours.handlers, ours.images) == (theirs.scripts, theirs.handlers, theirs.images)
