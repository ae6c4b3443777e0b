"""Data-parallel training: processes that each read their lanes of the rows and add up their gradients.

Every process holds the whole network. After each step the gradients are summed over all processes with
``torch.distributed`` (gloo on CPUs, NCCL on CUDA devices), and all of them take the same step. So the result does not
depend on the number of processes, except for rounding.
"""

from __future__ import annotations

import math
import os
import socket
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, BrokenExecutor, Future, wait
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from choqolate._util.checks import check_number
from choqolate._util.processes import n_cores, serve
from choqolate._util.ray_cluster import check_engine, ray_session, reserved
from choqolate.errors import ChoqolateError
from choqolate.network.lanes import N_LANES

if TYPE_CHECKING:
    from choqolate.estimators.streamed_training import TrainedRuns, TrainingJob

    Report = Callable[[float, float | None], None]
    Tell = Callable[[str], None]

_POLL_SECONDS, _RAY_POLL_SECONDS = 0.2, 1.0
_GRACE_SECONDS = 5  # for the other processes to fail too: one of them knows the reason
_GET_INTERFACE_ADDRESS = 0x8915  # SIOCGIFADDR of Linux
_PATIENCE = timedelta(minutes=15)  # for a process that answers no more, while it runs on
_PROGRESS = struct.Struct("dd")  # epochs done, last loss


class WorkerLost(ChoqolateError):
    """A process stopped before the training was over."""


def _lost(n_workers: int) -> WorkerLost:
    return WorkerLost(
        f"Expected all {n_workers} workers to train to the end, but one of them was stopped, perhaps for lack of "
        "memory. Run it again, with fewer workers if that was so."
    )


class Workers(NamedTuple):
    """The processes that train together.

    Attributes:
        n: how many.
        engine: ``"local"`` on this machine, or ``"ray"`` as actors of a Ray cluster.
        address: of the cluster, ``"host:port"`` or ``"auto"``; by default Ray runs on this machine alone.
    """

    n: int = 1
    engine: str = "local"
    address: str | None = None

    def check(self) -> None:
        """Find mistakes before the work.

        Raises:
            ChoqolateError: if there is no such engine, or an address without Ray, or a number that is none.
        """
        check_number("workers", self.n, minimum=1, whole=True)
        check_engine(self.engine, self.address)

    @property
    def are_here(self) -> bool:
        """Whether this process does all the work."""
        return self.n == 1 and self.engine == "local"

    @property
    def n_lanes(self) -> int:
        """Number of lanes, the same for 1, 2, 4 and 8 processes: then they train on the same batches."""
        return self.n * math.ceil(N_LANES / self.n)

    def lanes_of(self, rank: int) -> range:
        """The lanes of one process."""
        each = self.n_lanes // self.n
        return range(rank * each, (rank + 1) * each)


class Progress:
    """How far the first process is: epochs done and the loss of the last one, NaN before that."""

    def __init__(self, done: float = 0.0, loss: float = math.nan) -> None:
        self.last = done, loss

    def update(self, done: float, loss: float | None) -> None:
        self.last = done, self.last[1] if loss is None else loss

    def tell(self, report: Report) -> None:
        done, loss = self.last
        report(done, None if math.isnan(loss) else loss)


def train_together(
    job: TrainingJob, workers: Workers, device: torch.device, report: Report | None, tell: Tell
) -> TrainedRuns:
    """Train by as many processes as wanted.

    Args:
        job: what to train.
        workers: the processes.
        device: where each of them trains.
        report: called with the epochs done and the loss of the last one.
        tell: called with a sentence before something slow.

    Raises:
        ChoqolateError: if a process stops before the end.
    """
    if workers.are_here:
        return job.run(device, n_lanes=workers.n_lanes, report=report)
    if workers.engine == "ray":
        return _train_on_ray(job, workers, device, report, tell)
    return _train_locally(job, workers, device, report)


# ---------------------------------------------------------------------- one of the processes


@contextmanager
def _group(store: Any, host: str, rank: int, workers: int, device: torch.device) -> Iterator[None]:
    """Join the other processes for the time of a block; they reach this one at the address ``host``."""
    import torch.distributed as distributed

    interface = _interface_of(host)
    if interface is not None:  # by default gloo takes that of the host's name, often the wrong one
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
    backend = "nccl" if device.type == "cuda" else "gloo"
    distributed.init_process_group(backend, store=store, rank=rank, world_size=workers, timeout=_PATIENCE)
    try:
        yield
    finally:
        distributed.destroy_process_group()


def _interface_of(address: str) -> str | None:
    """The name of the network interface that has an address; ``None`` where that cannot be found out."""
    if not sys.platform.startswith("linux"):
        return None
    import fcntl

    for _, name in socket.if_nameindex():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as query, suppress(OSError):
            answer = fcntl.ioctl(query, _GET_INTERFACE_ADDRESS, struct.pack("256s", name.encode()[:15]))
            if socket.inet_ntoa(answer[20:24]) == address:
                return name
    return None


def _add_up(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Sum tensors over all processes, in one message."""
    import torch.distributed as distributed

    flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
    try:
        distributed.all_reduce(flat)
    except RuntimeError as error:
        raise _lost(distributed.get_world_size()) from error
    parts = flat.split([tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]


def _take_part(
    job: TrainingJob, workers: Workers, rank: int, store: Any, host: str, device: torch.device, report: Report
) -> TrainedRuns | None:
    """Train the lanes of one process; the first one reports, and has the result, which is that of all."""
    with _group(store, host, rank, workers.n, device):
        own = workers.lanes_of(rank)
        outcome = job.run(device, lanes=own, n_lanes=workers.n_lanes, add_up=_add_up, report=None if rank else report)
    return None if rank else outcome


def _reason(errors: Sequence[BaseException], workers: Workers) -> BaseException:
    """What went wrong in the first place: processes that lose another one fail as well."""
    known = [error for error in errors if isinstance(error, ChoqolateError) and not isinstance(error, WorkerLost)]
    if known:
        return known[0]
    gone = any(isinstance(error, WorkerLost | BrokenExecutor) for error in errors)
    return _lost(workers.n) if gone else errors[0]


# ---------------------------------------------------------------------- on this machine


def _train_locally(job: TrainingJob, workers: Workers, device: torch.device, report: Report | None) -> TrainedRuns:
    from joblib.externals.loky.process_executor import ProcessPoolExecutor

    with tempfile.TemporaryDirectory(prefix="choqolate-") as folder:
        executor = ProcessPoolExecutor(workers.n, initializer=serve, initargs=(os.getpid(),), timeout=None)
        try:
            progress = Path(folder) / "progress"
            progress.write_bytes(_PROGRESS.pack(*Progress().last))
            running = [executor.submit(_work_locally, job, workers, rank, folder, device) for rank in range(workers.n)]
            return _outcome(running, workers, lambda: _read_progress(progress, report))
        finally:
            executor.shutdown(wait=True, kill_workers=True)


def _outcome(running: Sequence[Future[Any]], workers: Workers, look: Callable[[], None]) -> TrainedRuns:
    """Wait for all processes; the result of the first, or the error of any."""
    waiting: set[Future[Any]] = set(running)
    while waiting:
        done, waiting = wait(waiting, timeout=_POLL_SECONDS, return_when=FIRST_EXCEPTION)
        look()
        if any(future.exception() is not None for future in done):
            done, _ = wait(running, timeout=_GRACE_SECONDS)
            errors = [error for future in done if (error := future.exception()) is not None]
            raise _reason(errors, workers) from errors[0]
    outcome: TrainedRuns = running[0].result()
    return outcome


def _work_locally(
    job: TrainingJob, workers: Workers, rank: int, folder: str, device: torch.device
) -> TrainedRuns | None:
    import torch.distributed as distributed

    torch.set_num_threads(max(1, n_cores() // workers.n))
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", rank % torch.cuda.device_count())
    store = distributed.FileStore(str(Path(folder) / "store"), workers.n)
    with (Path(folder) / "progress").open("r+b", buffering=0) as progress:
        noted = Progress()

        def note(done: float, loss: float | None) -> None:
            noted.update(done, loss)
            progress.seek(0)
            progress.write(_PROGRESS.pack(*noted.last))

        return _take_part(job, workers, rank, store, "127.0.0.1", device, note)


def _read_progress(path: Path, report: Report | None) -> None:
    if report is not None:
        Progress(*_PROGRESS.unpack(path.read_bytes())).tell(report)


# ---------------------------------------------------------------------- on a Ray cluster


class _RayWorker:
    """One of the processes, as a Ray actor with two threads: one trains, the other answers."""

    def __init__(self) -> None:
        import ray

        self._host = ray.util.get_node_ip_address()
        self._progress = Progress()
        self._store: Any = None

    def open_store(self) -> tuple[str, int]:
        """Open the place where the processes meet, on the machine of the first; tell where it is."""
        import torch.distributed as distributed

        self._store = distributed.TCPStore(self._host, 0, is_master=True, wait_for_workers=False, timeout=_PATIENCE)
        return self._host, self._store.port

    def train(self, job: TrainingJob, workers: Workers, rank: int, where: tuple[str, int], device: Any) -> Any:
        import torch.distributed as distributed

        store = self._store or distributed.TCPStore(*where, is_master=False, timeout=_PATIENCE)
        return _take_part(job, workers, rank, store, self._host, device, self._progress.update)

    def progress(self) -> tuple[float, float]:
        return self._progress.last


def _train_on_ray(
    job: TrainingJob, workers: Workers, device: torch.device, report: Report | None, tell: Tell
) -> TrainedRuns:
    resources = {"CPU": 1} | ({"GPU": 1} if device.type == "cuda" else {})
    with ray_session(workers.address, n_cpus=workers.n, tell=tell) as ray:
        _check_room(ray, workers, device)
        with reserved(ray, workers.n, resources, tell) as place:
            options = {"num_cpus": 1, "num_gpus": resources.get("GPU", 0), "max_concurrency": 2}
            remote = ray.remote(**options, scheduling_strategy=place)(_RayWorker)
            actors = [remote.remote() for _ in range(workers.n)]
            try:
                return _outcome_on_ray(ray, actors, job, workers, device, report)
            except ray.exceptions.RayError as error:
                raise _lost(workers.n) from error
            finally:
                for actor in actors:
                    ray.kill(actor)


def _outcome_on_ray(
    ray: Any, actors: Sequence[Any], job: TrainingJob, workers: Workers, device: torch.device, report: Report | None
) -> TrainedRuns:
    """Let all actors train, and wait for them; the result of the first, or the error of any."""
    where, shared = ray.get(actors[0].open_store.remote(), timeout=_PATIENCE.total_seconds()), ray.put(job)
    running = [actor.train.remote(shared, workers, rank, where, device) for rank, actor in enumerate(actors)]
    waiting = running
    while waiting:
        done, waiting = ray.wait(waiting, timeout=_RAY_POLL_SECONDS)
        if any(_ray_error(ray, task) for task in done):
            done, _ = ray.wait(running, num_returns=workers.n, timeout=_GRACE_SECONDS)
            errors = [error for task in done if (error := _ray_error(ray, task)) is not None]
            raise _reason(errors, workers)
        if report is not None and waiting:
            Progress(*ray.get(actors[0].progress.remote())).tell(report)
    outcome: TrainedRuns = ray.get(running[0])
    return outcome


def _ray_error(ray: Any, task: Any) -> BaseException | None:
    """What a finished task of an actor failed with; ``None`` if it did not."""
    try:
        ray.get(task)
    except ray.exceptions.RayTaskError as error:
        cause: BaseException = error.cause
        return cause
    except ray.exceptions.RayError:
        return _lost(0)
    return None


def _check_room(ray: Any, workers: Workers, device: torch.device) -> None:
    """A cluster that is too small would let actors wait forever."""
    kind = "GPU" if device.type == "cuda" else "CPU"
    slots = int(ray.cluster_resources().get(kind, 0))
    if slots < workers.n:
        raise ChoqolateError(
            f"Expected a Ray cluster with {workers.n} {kind}s for as many workers, but it has {slots}. Ask for "
            "fewer workers, or start more nodes."
        )
