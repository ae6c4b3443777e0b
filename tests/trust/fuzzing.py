"""Give a parser what a stranger could have made: it takes it, or says in a sentence why not."""

from __future__ import annotations

import resource
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis.strategies import SearchStrategy

from choqolate.errors import ChoqolateError
from tests.trust.ledger import note, scaled

MEMORY = 3 << 30  # bytes beyond what the process has
PATIENCE = 20  # seconds for one file, on a busy machine


class Hung(BaseException):
    """A parser did not come to an end."""


def fuzz(
    parser: str,
    made: SearchStrategy[Any],
    use: Callable[[Any], object],
    *,
    examples: Iterable[Any],
    tries: int = 40,
) -> None:
    """Call a function with what a strategy makes; it may raise a :class:`ChoqolateError` and nothing else.

    Args:
        parser: its name in the ledger.
        made: what is given to the function.
        use: reads it, and does something with what it read.
        examples: given first: what was found earlier, and at least one that is valid.
        tries: how many to make, ten times as many with ``make trust``.
    """
    loaded, sentences = 0, []

    def attempt(one: Any) -> None:
        nonlocal loaded
        with _bounded(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                use(one)
                loaded += 1
            except ChoqolateError as error:
                sentences.append(str(error))

    limits = settings(
        max_examples=scaled(tries),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        report_multiple_bugs=False,
    )
    attempts = given(one=made)(attempt)
    for found in examples:
        attempts = example(one=found)(attempts)
    start = time.perf_counter()
    limits(attempts)()
    note("fuzzing", parser, loaded + len(sentences), seconds=time.perf_counter() - start)
    assert loaded, "everything was refused: nothing behind the first check was tried"
    assert sentences, "nothing was refused"
    assert all(sentences), "an error without a word"


@contextmanager
def _bounded() -> Iterator[None]:
    """Stop what takes too long, and let no memory be taken that is not there."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    most = size + MEMORY if before[1] == resource.RLIM_INFINITY else min(size + MEMORY, before[1])
    resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    handler = signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)


def _stop(number: int, frame: object) -> None:
    raise Hung(f"more than {PATIENCE} seconds")
