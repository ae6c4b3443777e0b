"""Warnings that are ignored in overlapping threads are heard again afterwards."""

from __future__ import annotations

import threading
import warnings

import pytest

from choqolate._util.ignored_warnings import ignored_warnings


def test_filters_are_as_before_when_blocks_overlap():
    """The first block ends before the second: with catch_warnings the second would restore what the first had set."""
    before = list(warnings.filters)
    inside, leave = threading.Event(), threading.Event()

    def ignore_for_a_while():
        with ignored_warnings():
            inside.set()
            leave.wait(10)
            warnings.warn("unheard", stacklevel=1)

    other = threading.Thread(target=ignore_for_a_while)
    with ignored_warnings():
        other.start()
        assert inside.wait(10)
        warnings.warn("unheard", stacklevel=1)
    leave.set()
    other.join()
    assert list(warnings.filters) == before
    with pytest.warns(UserWarning, match="heard"):
        warnings.warn("heard", stacklevel=1)


def test_filters_are_as_before_after_an_error():
    before = list(warnings.filters)
    with pytest.raises(ZeroDivisionError), ignored_warnings():
        _ = 1 / 0
    assert list(warnings.filters) == before
