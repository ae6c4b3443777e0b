"""Running settings in parallel processes, and none twice: every finished run is a line in the results file."""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

from choqolate._util.processes import n_cores, one_thread, serve
from choqolate._util.progress import item_bar, shows_bars
from choqolate._util.ray_cluster import check_engine
from choqolate._util.text import counted
from choqolate.errors import ChoqolateError, ChoqolateWarning
from choqolate.experiments.engine.results import Results, Run
from choqolate.experiments.engine.tasks import Config, Task

_RETRIES = 3  # of a batch that brings its process down, or loses its node, every time


class Batch(NamedTuple):
    """A task, and the seeds to run it for, together."""

    task: Task
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Finished:
    """What came of some tasks.

    Attributes:
        runs: all runs of the results file, by key.
        failures: why configs could not be run on their data, by the key of seed 0.
        trained: how many runs are new.
    """

    runs: dict[str, Run]
    failures: dict[str, str] = field(default_factory=dict)
    trained: int = 0

    def of(self, config: Config, seeds: Iterable[int]) -> list[Run]:
        """The runs of a config, in the order of the seeds; those that there are."""
        keys = (Run.key_of(config, seed) for seed in seeds)
        return [self.runs[key] for key in keys if key in self.runs]

    def reason(self, config: Config) -> str | None:
        """Why a config could not be run; ``None`` if it could."""
        return self.failures.get(_config_key(config))


def run_tasks(
    wanted: Sequence[Batch],
    results: Results,
    *,
    processes: int | None = None,
    engine: str = "local",
    address: str | None = None,
    tell: Callable[[str], None] = lambda _: None,
    verbose: bool = True,
    what: str = "training",
) -> Finished:
    """Run what is missing in the results file.

    Every batch is written when it is done, in one step. Stopped or killed at any moment, the same call goes on with the
    batches that are not in the file. Lines that are damaged are skipped, with a warning, and run again.

    A batch computes with one thread, wherever it runs: the results are the same bit for bit for any number of
    processes and either engine.

    Args:
        wanted: what to do, for which seeds; the longest first.
        results: the file.
        processes: batches at a time; by default one per core, or per CPU slot of a Ray cluster.
        engine: ``"local"``, or ``"ray"`` for a Ray cluster, all of whose machines see the scores at the same path.
        address: of the cluster, ``"host:port"`` or ``"auto"``; by default Ray is started on this machine alone.
        tell: called with a sentence about each batch that is done, unless a bar shows that, and each problem.
        verbose: show progress on stderr.
        what: is done, in a word.
    """
    check_engine(engine, address)
    known = _read(results)
    batches = pending(wanted, known.keys())
    failures: dict[str, str] = {}
    problems: list[str] = []
    noted: list[str] = []
    trained = 0
    total = sum(len(batch.seeds) * len(batch.task.configs()) for batch in batches)
    with (
        _executor(engine if batches else "local", address, processes, tell) as (work, slots),
        item_bar(total, f"{what} runs", enabled=verbose) as advance,
    ):
        workers = min(processes or slots, len(batches))
        if batches:
            size = f"{counted(total, 'run')} in {counted(len(batches), 'batch', 'batches')}"
            tell(f"{what}: {size}, {workers} at a time")
        for batch, answer in work(batches, workers):
            noted += answer.warnings
            results.append(answer.runs)
            known |= {run.key: run for run in answer.runs}
            failures |= {_config_key(config): why for config, why in answer.problems}
            trained += len(answer.runs)
            advance(len(batch.seeds) * len(batch.task.configs()))
            if answer.runs and not shows_bars(verbose):
                tell(f"{batch.task.label}: {counted(len(answer.runs), 'run')} in {answer.runs[0].seconds:.1f} s")
            problems += [f"{batch.task.label}: {why}" for _, why in answer.problems]
    for message in dict.fromkeys(noted):
        warnings.warn(message, ChoqolateWarning, stacklevel=2)
    for problem in dict.fromkeys(problems):
        tell(problem)
    return Finished(known, failures, trained)


def pending(wanted: Sequence[Batch], known: Collection[str]) -> list[Batch]:
    """Of each task the part that is missing, and for which seeds; what is wanted twice is done once.

    Args:
        wanted: all that should be there.
        known: keys of the runs that are.
    """
    planned: set[str] = set(known)
    left: list[Batch] = []
    for task, seeds in wanted:
        configs = task.configs()
        missing = [[seed for seed in seeds if Run.key_of(config, seed) not in planned] for config in configs]
        places = [place for place, own in enumerate(missing) if own]
        if places:
            chosen = [seed for seed in seeds if any(seed in own for own in missing)]
            left.append(Batch(task.part(places), tuple(chosen)))
            planned |= {Run.key_of(configs[place], seed) for place in places for seed in chosen}
    return left


def _config_key(config: Config) -> str:
    return Run.key_of(config, 0)


def _read(results: Results) -> dict[str, Run]:
    read = results.read()
    if read.damaged:
        warnings.warn(f"{read.trouble(results.path)}: these runs are repeated", ChoqolateWarning, stacklevel=3)
    return {run.key: run for run in read.runs}


class _Answer(NamedTuple):
    runs: list[Run]
    problems: list[tuple[Config, str]]
    warnings: list[str]


_Work = Callable[[Sequence[Batch], int], Iterable[tuple[Batch, _Answer]]]


@contextmanager
def _executor(
    engine: str, address: str | None, processes: int | None, tell: Callable[[str], None]
) -> Iterator[tuple[_Work, int]]:
    """Give a function that yields the answers to batches as they come, and how many can be worked on at a time."""
    if engine == "ray":
        from choqolate._util.ray_cluster import ray_session, say_if_full

        with ray_session(address, processes, tell=tell) as ray:
            say_if_full(ray, {"CPU": 1}, tell)
            yield partial(_work_on_ray, ray), max(1, int(ray.cluster_resources().get("CPU", 0)))
    else:
        yield _work_here, n_cores()


def _work_here(batches: Sequence[Batch], workers: int) -> Iterable[tuple[Batch, _Answer]]:
    """Work in processes of this machine; in this process if one batch is left."""
    if workers <= 1:
        for batch in batches:
            yield batch, _run_batch(batch)
        return
    from joblib.externals.loky.process_executor import ProcessPoolExecutor

    executor = ProcessPoolExecutor(workers, initializer=serve, initargs=(os.getpid(),), timeout=300)
    try:
        running: dict[Future[_Answer], Batch] = {executor.submit(_run_batch, batch): batch for batch in batches}
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield running.pop(future), future.result()
    except BrokenExecutor as error:
        raise ChoqolateError(
            "A training process was killed, perhaps for lack of memory. Finished runs are kept: run again, with fewer "
            "processes."
        ) from error
    except BaseException:
        executor.shutdown(wait=False, kill_workers=True)  # what is under way is not waited for
        raise
    executor.shutdown(wait=True)


def _work_on_ray(ray: ModuleType, batches: Sequence[Batch], workers: int) -> Iterable[tuple[Batch, _Answer]]:
    """Work in Ray tasks; those of a lost node are run again on another one, and answered once."""
    task = ray.remote(num_cpus=1, max_retries=_RETRIES, retry_exceptions=False)(_run_batch)
    waiting = deque(batches)
    running: dict[Any, Batch] = {}
    while waiting or running:
        while waiting and len(running) < workers:
            batch = waiting.popleft()
            running[task.remote(batch)] = batch
        done, _ = ray.wait(list(running), num_returns=1)
        for answer in done:
            try:
                yield running.pop(answer), ray.get(answer)
            except ray.exceptions.RayTaskError as error:
                raise error.cause from error
            except ray.exceptions.RayError as error:
                raise ChoqolateError(
                    f"A batch of runs was given to {1 + _RETRIES} processes of the Ray cluster, and each of them ended "
                    f"({type(error).__name__}), perhaps for lack of memory. Finished runs are kept: run again."
                ) from error


def _run_batch(batch: Batch) -> _Answer:
    """Run a batch with one thread; what cannot be done on its data is an answer, all else an error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ChoqolateWarning)
        configs = batch.task.configs()  # before the limit: loads an estimator of the user's own, and its libraries
        try:
            with one_thread():
                runs, problems = batch.task.run(batch.seeds)
        except ChoqolateError as error:
            runs, problems = [], dict.fromkeys(range(len(configs)), str(error))
    messages = [str(one.message) for one in caught if issubclass(one.category, ChoqolateWarning)]
    return _Answer(runs, [(configs[k], why) for k, why in problems.items()], list(dict.fromkeys(messages)))
