"""Data-parallel training: processes that each read their lanes of the rows and add up their gradients.

Every process holds the whole network. After each step the gradients are summed over all processes with
``torch.distributed`` (gloo on CPUs, NCCL on CUDA devices), and all of them take the same step. So the result does not
depend on the number of processes, except for rounding.
"""

from __future__ import annotations

import math
import os
import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from choqolate._util.checks import check_choice, check_number
from choqolate._util.processes import n_cores, serve
from choqolate._util.ray_cluster import ray_session
from choqolate.errors import ChoqolateError
from choqolate.network.lanes import N_LANES

if TYPE_CHECKING:
    from choqolate.estimators.streamed_training import Outcome, TrainingJob

    Report = Callable[[float, float | None], None]

ENGINES = ("local", "ray")
_POLL_SECONDS = 0.2
_PATIENCE = timedelta(minutes=15)  # for a process that answers no more, while it runs on
_PROGRESS = struct.Struct("dd")  # epochs done, last loss
_DIED = (
    "Expected all {} workers to train to the end, but one of them stopped: {} Run the command again, with fewer "
    "workers if memory was short."
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
        check_choice("engine", self.engine, ENGINES)
        if self.address is not None and self.engine != "ray":
            raise ChoqolateError(f"Expected engine='ray' with an address, but the engine is {self.engine!r}.")

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


def train_together(job: TrainingJob, workers: Workers, device: torch.device, report: Report | None) -> Outcome:
    """Train by as many processes as wanted.

    Raises:
        ChoqolateError: if a process stops before the end.
    """
    if workers.are_here:
        return job.run(device, n_lanes=workers.n_lanes, report=report)
    launch = _train_on_ray if workers.engine == "ray" else _train_locally
    return launch(job, workers, device, report)


# ---------------------------------------------------------------------- one of the processes


@contextmanager
def _group(store: Any, rank: int, workers: int, device: torch.device) -> Iterator[None]:
    """Join the other processes for the time of a block."""
    import torch.distributed as distributed

    backend = "nccl" if device.type == "cuda" else "gloo"
    distributed.init_process_group(backend, store=store, rank=rank, world_size=workers, timeout=_PATIENCE)
    try:
        yield
    finally:
        distributed.destroy_process_group()


def _add_up(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Sum tensors over all processes, in one message."""
    import torch.distributed as distributed

    flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
    distributed.all_reduce(flat)
    parts = flat.split([tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]


def _take_part(
    job: TrainingJob, workers: Workers, rank: int, store: Any, device: torch.device, report: Report | None
) -> Outcome | None:
    """Train the lanes of one process; the first one has the result, which is that of all."""
    with _group(store, rank, workers.n, device):
        report = report if rank == 0 else None
        outcome = job.run(device, lanes=workers.lanes_of(rank), n_lanes=workers.n_lanes, add_up=_add_up, report=report)
    return outcome if rank == 0 else None


# ---------------------------------------------------------------------- on this machine


def _train_locally(job: TrainingJob, workers: Workers, device: torch.device, report: Report | None) -> Outcome:
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


def _outcome(running: Sequence[Future[Any]], workers: Workers, look: Callable[[], None]) -> Outcome:
    """Wait for the first process, and for an error of any."""
    waiting: set[Future[Any]] = set(running)
    while waiting:
        done, waiting = wait(waiting, timeout=_POLL_SECONDS, return_when=FIRST_EXCEPTION)
        look()
        errors = [error for future in done if (error := future.exception()) is not None]
        if errors:
            raise _reason(errors, workers)
    outcome: Outcome = running[0].result()
    return outcome


def _reason(errors: Sequence[BaseException], workers: Workers) -> ChoqolateError:
    """What to tell the user: the error of the one that failed, not of those that lost it."""
    known = [error for error in errors if isinstance(error, ChoqolateError)]
    if known:
        return known[0]
    said = str(errors[0]).strip().partition("\n")[0] or type(errors[0]).__name__
    return ChoqolateError(_DIED.format(workers.n, said.rstrip(".") + "."))


def _work_locally(job: TrainingJob, workers: Workers, rank: int, folder: str, device: torch.device) -> Outcome | None:
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

        return _take_part(job, workers, rank, store, device, note)


def _read_progress(path: Path, report: Report | None) -> None:
    if report is not None:
        Progress(*_PROGRESS.unpack(path.read_bytes())).tell(report)


# ---------------------------------------------------------------------- on a Ray cluster


class _RayWorker:
    """One of the processes, as a Ray actor with two threads: one trains, the other answers."""

    def __init__(self) -> None:
        self._progress = Progress()
        self._store: Any = None

    def open_store(self) -> tuple[str, int]:
        """Open the place where the processes meet, on the machine of the first; tell where it is."""
        import ray
        import torch.distributed as distributed

        host = ray.util.get_node_ip_address()
        self._store = distributed.TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=_PATIENCE)
        return host, self._store.port

    def train(self, job: TrainingJob, workers: Workers, rank: int, where: tuple[str, int], device: Any) -> Any:
        import torch.distributed as distributed

        store = self._store or distributed.TCPStore(*where, is_master=False, timeout=_PATIENCE)
        return _take_part(job, workers, rank, store, device, self._progress.update)

    def progress(self) -> tuple[float, float]:
        return self._progress.last


def _train_on_ray(job: TrainingJob, workers: Workers, device: torch.device, report: Report | None) -> Outcome:
    with ray_session(workers.address, n_cpus=workers.n) as ray:
        _check_room(ray, workers, device)
        remote = ray.remote(num_cpus=1, num_gpus=int(device.type == "cuda"), max_concurrency=2)(_RayWorker)
        actors = [remote.remote() for _ in range(workers.n)]
        try:
            where = ray.get(actors[0].open_store.remote())
            shared = ray.put(job)
            running = [actor.train.remote(shared, workers, rank, where, device) for rank, actor in enumerate(actors)]
            first, waiting = running[0], running
            while waiting:
                done, waiting = ray.wait(waiting, timeout=1.0)
                ray.get(done)  # raises what went wrong
                if report is not None and waiting:
                    Progress(*ray.get(actors[0].progress.remote())).tell(report)
            outcome: Outcome = ray.get(first)
            return outcome
        except ray.exceptions.RayTaskError as error:
            raise _reason([error.cause], workers) from error
        except ray.exceptions.RayError as error:
            raise _reason([error], workers) from error
        finally:
            for actor in actors:
                ray.kill(actor)


def _check_room(ray: Any, workers: Workers, device: torch.device) -> None:
    """A cluster that is too small would let actors wait forever."""
    kind = "GPU" if device.type == "cuda" else "CPU"
    slots = int(ray.cluster_resources().get(kind, 0))
    if slots < workers.n:
        raise ChoqolateError(
            f"Expected a Ray cluster with {workers.n} {kind}s for as many workers, but it has {slots}. Ask for "
            "fewer workers, or start more nodes."
        )
