import gc
import os
import signal

import pytest
import torch
from hypothesis import HealthCheck, settings

from choqolate._util import progress
from tests.trust.ledger import note

# Sizes, not seconds, are what these tests are about: a slow machine is no failure.
settings.register_profile("tests", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")

progress.LINE_SECONDS = 1e6  # what is printed does not depend on how fast the machine is

# A shell starts what it runs in the background with Ctrl-C ignored, and processes of the tests would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Begin with what takes longest, so that the processes end together."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    for item in items:
        item.user_properties += [("hostile", mark.args[0]) for mark in item.iter_markers("hostile")]


def pytest_runtest_logreport(report):
    """Count what was tried with hostile inputs, for the table of ``make trust``."""
    what = dict(report.user_properties).get("hostile")
    in_charge = "PYTEST_XDIST_WORKER" not in os.environ  # reports of workers come here too
    if in_charge and what is not None and report.when == "call" and not report.skipped:
        note("hostile inputs", what, 1, crashed=int(report.failed))


def pytest_collection_finish():
    """Keep the garbage collector off the packages that stay until the end: one look at all of them takes a second."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def one_thread():
    """As many as a process on a cluster has: sums of floats depend on how they are split."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def two_threads():
    """More than a worker process has, in PyTorch and in the libraries behind numpy and scipy."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(2):
        before = torch.get_num_threads()
        torch.set_num_threads(2)
        yield
        torch.set_num_threads(before)
