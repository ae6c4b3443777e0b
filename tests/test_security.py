"""What SECURITY.md and docs/reliability.md promise is held by tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("page", ["SECURITY.md", "docs/reliability.md"])
def test_every_promise_is_held_by_a_test_that_is_there(page):
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", (ROOT / page).read_text(encoding="utf-8"))
    assert len(named) >= 5
    for file, test in named:
        assert re.search(rf"^def {test}\b" if test else "", (ROOT / file).read_text(encoding="utf-8"), re.M), (
            file,
            test,
        )


def test_every_kind_of_input_has_a_promise_and_a_test():
    rows = [line for line in (ROOT / "SECURITY.md").read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    assert len(rows) > 10
    assert all("tests/" in row for row in rows[1:])
