"""Two models on one page: numbers, nodes and images are those that were found; it is looked at in a browser."""

from __future__ import annotations

import numpy as np
import pytest

from choqolate._util.text import counted
from choqolate.analysis.interval_text import judged_text, share_text
from choqolate.analysis.model_difference import compare_models
from choqolate.errors import ChoqolateError
from choqolate.report.difference_page import write_difference
from tests.browser import open_browser, visit
from tests.report.test_model_page import Page
from tests.reports import bird_table, nasty_table, small_model


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return bird_table(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module")
def models(table):
    model = small_model(table)
    return model, model.remove_concepts(["sea", "forest"], mode="impute")


def test_the_page_has_numbers_nodes_and_images(models, table, tmp_path):
    path = write_difference(*models, table, tmp_path / "page.html", names=("model", "edited"))
    page, found = Page(path.read_text()), compare_models(*models, table)
    rows, text = found.disagreements, page.text.replace("\N{NO-BREAK SPACE}", " ")
    numbers = {row[0]: row[1:] for row in page.tables["Numbers"]}
    assert ["".join(cell.split()) for cell in numbers["accuracy"]] == [
        "".join(share_text(share).split()) for share in rows.right
    ]
    assert numbers["correct where the other is wrong"] == [f"{rows.change.lost} images", f"{rows.change.gained} images"]
    assert judged_text(rows.change) in text
    assert share_text(rows.agreement) in text
    for name, change in rows.groups.items():
        assert f"{name} : {judged_text(change)}" in text
    assert len(page.words) == 2 * len(found.matches)
    for (one, other), count in rows.transitions.items():
        assert f"{one} → {other} on {counted(count, 'image')}" in text
    shown = [image for image in page.images if image.startswith("data:image/jpeg")]
    assert len(shown) == min(8, len(rows.where))
    assert table.part("test").paths[rows.where[0]] in text


def test_models_that_agree_say_so(models, table, tmp_path):
    page = Page(write_difference(models[0], models[0], table, tmp_path / "page.html").read_text())
    assert "The models agree on all images." in page.text
    assert "images" not in page.ids


def test_nodes_alone_need_no_scores(models, table, tmp_path):
    other = small_model(table, n_nodes=2, leave_out=["crest"])
    page = Page(write_difference(models[0], other, None, tmp_path / "page.html").read_text())
    assert "numbers" not in page.ids
    assert page.text.count("No partner: the other model has more nodes.") == 2
    assert "Only first has the concept crest ." in page.text


def test_odd_names_break_nothing(tmp_path):
    table = nasty_table().with_columns(paths=None)
    model = small_model(table)
    page = write_difference(
        model, model.remove_concepts(table.spurious), table, tmp_path / "p.html", names=("<b>", "&")
    )
    assert not {"script", "b", "iframe"} & set(Page(page.read_text()).tags)


@pytest.mark.parametrize("width", [360, 1280])
def test_it_fits_a_phone_and_a_screen(models, table, tmp_path, width):
    path = write_difference(*models, table, tmp_path / "page.html", names=("model", "edited"))
    with open_browser() as browser, visit(browser, path, width=width) as seen:
        assert seen.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert not seen.console
        tops = seen.page.evaluate(
            """() => [...document.querySelectorAll(".versus")].map(
                 one => [...one.children].map(part => part.getBoundingClientRect().top))"""
        )
        side_by_side = [abs(first - second) < 2 for _, first, second in tops]
        assert all(side_by_side) if width > 1000 else not any(side_by_side)


def test_a_page_is_called_html_and_classes_must_agree(models, table, tmp_path):
    with pytest.raises(ChoqolateError, match=r"ends in \.html"):
        write_difference(*models, table, tmp_path / "page.pdf")
    renamed = table.with_columns(labels=np.where(table.labels == "waterbird", "gull", "landbird"), classes=[])
    other = small_model(renamed)
    with pytest.raises(ChoqolateError, match="only one of them knows"):
        write_difference(models[0], other, table, tmp_path / "page.html")
