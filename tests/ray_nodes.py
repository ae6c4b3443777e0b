"""A Ray cluster of two nodes on this machine, one of which is killed at a moment of the test's choice."""

from __future__ import annotations

import logging
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from choqolate._util.ray_cluster import read_environment


@contextmanager
def two_nodes() -> Iterator[Any]:
    """A cluster to join at ``cluster.address``, with one CPU slot on each node; the second is ``cluster.second``."""
    before = dict(os.environ)
    # a cluster that asks for no token, as one behind a firewall may be
    os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    read_environment()
    from ray._common.utils import get_ray_address_file
    from ray.cluster_utils import Cluster

    os.makedirs(os.path.dirname(get_ray_address_file(None)), exist_ok=True)
    logging.getLogger("ray").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="cq-", ignore_cleanup_errors=True) as folder:
        cluster = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False, "temp_dir": folder}
        )
        try:
            cluster.second = cluster.add_node(num_cpus=1)
            yield cluster
        finally:
            started = [one for one in psutil.Process().children(recursive=True) if _of_ray(one)]
            cluster.shutdown()
            os.environ.clear()
            os.environ |= before
            read_environment()
            _, alive = psutil.wait_procs(started, timeout=30)
            assert not alive, "processes of Ray are left"


def _of_ray(process: psutil.Process) -> bool:
    try:
        return "ray" in " ".join(process.cmdline())
    except psutil.Error:
        return False


@contextmanager
def node_killed_when(cluster: Any, condition: Callable[[], bool], sign: Path) -> Iterator[None]:
    """Kill all processes of the second node as soon as something is true, and write an empty file then."""
    stopped = threading.Event()

    def watch() -> None:
        while not condition():
            if stopped.wait(0.01):
                return
        raylet = psutil.Process(cluster.second.all_processes["raylet"][0].process.pid)
        workers = raylet.children(recursive=True)
        cluster.second.kill_raylet(check_alive=False)
        for worker in workers:  # which would outlive it for a while, unlike those of a machine without power
            with suppress(psutil.NoSuchProcess):
                worker.kill()
        sign.touch()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        stopped.set()
        watcher.join()
