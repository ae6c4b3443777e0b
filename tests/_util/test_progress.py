from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import time

import pytest

from choqolate._util import progress
from choqolate._util.progress import epoch_bar, item_bar


@pytest.fixture
def impatient(monkeypatch):
    """Lines after a moment of silence instead of half a minute."""
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.02)


def wait_for_line(capsys, pattern: str) -> None:
    """Wait until a line is said that matches a pattern as a whole."""
    lines: list[str] = []
    deadline = time.monotonic() + 20
    while not any(re.fullmatch(pattern, line) for line in lines):
        assert time.monotonic() < deadline, lines
        time.sleep(0.005)
        lines += capsys.readouterr().err.splitlines()


@pytest.mark.usefixtures("impatient")
def test_a_line_says_how_many_items_are_done_and_the_time_left_where_there_is_no_terminal(capsys):
    with item_bar(20_000, "embedding", enabled=True, items="images") as advance:
        wait_for_line(capsys, "embedding: 0 of 20,000 images")
        advance(1_024)
        wait_for_line(capsys, r"embedding: 1,024 of 20,000 images, \d+ (s|min) left")
        wait_for_line(capsys, "embedding: 1,024 of 20,000 images")  # nothing more is done: there is no telling


@pytest.mark.usefixtures("impatient")
def test_a_line_shows_epochs_with_the_loss_and_one_long_step_with_its_time(capsys):
    with epoch_bar(100, "training", enabled=True) as report:
        report(0.25, None)
        wait_for_line(capsys, r"training: 0 of 100 epochs(, \d+ s left)?")
        report(12, 0.5)
        wait_for_line(capsys, r"training: 12 of 100 epochs, loss 0\.5000(, \d+ s left)?")
    with item_bar(1, "fingerprint of the table", enabled=True):
        wait_for_line(capsys, r"fingerprint of the table: \d+ s so far")


@pytest.mark.usefixtures("impatient")
def test_short_steps_that_follow_each_other_or_lie_in_each_other_are_not_silent_for_ever(capsys):
    with item_bar(10**6, "training controls", enabled=True) as advance:
        lines = []
        for _ in range(1_000):
            with epoch_bar(1_000, "training", enabled=True):
                time.sleep(0.002)
            advance(1)
            lines += capsys.readouterr().err.splitlines()
            if len(lines) >= 2:
                break
    assert len(lines) >= 2


def test_nothing_is_said_of_short_work_or_without_being_asked(capsys, monkeypatch):
    monkeypatch.setattr(progress, "LINE_SECONDS", 30.0)
    with item_bar(10, "embedding", enabled=True) as advance, epoch_bar(3, "training", enabled=True) as report:
        advance(10)
        report(3, 0.1)
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.001)
    with item_bar(10, "embedding", enabled=False) as advance, epoch_bar(3, "training", enabled=False) as report:
        advance(10)
        assert report is None
        time.sleep(0.02)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_shows_a_bar_with_the_time_left_and_no_lines():
    code = """
import time
from choqolate._util import progress
progress.LINE_SECONDS = 0.01
with progress.item_bar(4, "embedding", enabled=True, items="images") as advance:
    for _ in range(4):
        time.sleep(0.05)
        advance(1)
"""
    main, terminal = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    subprocess.run([sys.executable, "-c", code], stderr=terminal, check=True, timeout=60, env=environment)
    os.close(terminal)
    shown = b""
    try:
        while chunk := os.read(main, 65_536):
            shown += chunk
    except OSError:  # all is read
        pass
    os.close(main)
    assert b"embedding" in shown
    assert b"/4" in shown
    assert b"of 4 images" not in shown
