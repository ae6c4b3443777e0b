"""A Ray cluster of two nodes on this machine, one of which is killed at a moment of the test's choice."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psutil


@contextmanager
def two_nodes() -> Iterator[Any]:
    """A cluster to join at ``cluster.address``, with one CPU slot on each node; the second is ``cluster.second``."""
    before = dict(os.environ)
    # the address is that of a cluster that asks for no token, as one behind a firewall may be
    os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    from ray.cluster_utils import Cluster

    logging.getLogger("ray").setLevel(logging.ERROR)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        cluster.second = cluster.add_node(num_cpus=1)
        yield cluster
    finally:
        started = psutil.Process().children(recursive=True)
        cluster.shutdown()
        os.environ.clear()
        os.environ |= before
        _, alive = psutil.wait_procs([one for one in started if _of_ray(one)], timeout=30)
        assert not alive, "processes of Ray are left"


def _of_ray(process: psutil.Process) -> bool:
    try:
        return "ray" in " ".join(process.cmdline())
    except psutil.Error:
        return False


@contextmanager
def node_killed_when(cluster: Any, condition: Callable[[], bool]) -> Iterator[list[float]]:
    """Kill the second node as soon as something is true; yields a list that then holds the moment."""
    killed: list[float] = []
    stopped = threading.Event()

    def watch() -> None:
        while not condition():
            if stopped.wait(0.01):
                return
        cluster.second.kill_raylet(check_alive=False)
        killed.append(time.monotonic())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield killed
    finally:
        stopped.set()
        watcher.join()
