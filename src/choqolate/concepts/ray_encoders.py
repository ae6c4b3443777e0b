"""Encoders as Ray actors: one per GPU, or per share of CPU slots, anywhere in a cluster."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from choqolate._util.checks import check_number
from choqolate._util.processes import n_cores
from choqolate._util.ray_cluster import room, say_if_full
from choqolate.concepts.backbones import Backbone
from choqolate.concepts.blocks import BlockEncoder, BlockOutcome
from choqolate.concepts.encoder_pool import Encoder, EncoderLost
from choqolate.concepts.preprocessing import Prepared
from choqolate.errors import ChoqolateError

_GPU_DECODERS = 8  # threads per GPU
_LATE_SECONDS = 60  # without any encoder; one needs about ten to load
_FAILED_STARTS = 4  # of encoders that end before they are ready, while none gets ready


@contextmanager
def ray_encoders(
    ray: ModuleType,
    backbone: Backbone,
    folder: Path,
    *,
    batch_size: int | None,
    started: int,
    workers: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Iterator[RayEncoders]:
    """Start encoders in a Ray session; see :class:`BlockEncoder`.

    Args:
        ray: the module, in a session.
        backbone: the encoder. Its weights have to be at the same path on every machine.
        folder: of embeddings, at the same path on every machine.
        batch_size: images encoded at a time.
        started: when the run began.
        workers: number of encoders; by default one per GPU, or where there are none, one per share of CPU slots with
            as many threads as the local engine would use.
        tell: called with a sentence if the cluster has no room for any of them.
    """
    import torch

    if workers is not None:
        check_number("workers", workers, minimum=1, whole=True)
    n_gpus = int(ray.cluster_resources().get("GPU", 0)) if backbone.may_use_gpu else 0
    slots = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
    if n_gpus:
        threads, number, resources = n_cores(), n_gpus, {"CPU": 1, "GPU": 1}
    else:
        threads = max(1, min(torch.get_num_threads(), max(slots)))
        number, resources = max(1, sum(count // threads for count in slots)), {"CPU": threads}
    decoders = _GPU_DECODERS if n_gpus else 0
    here = backbone.unloaded("cuda" if n_gpus else None)
    arguments = (here, folder.absolute(), batch_size, started, threads, decoders)
    encoders = RayEncoders(ray, arguments, workers or number, resources, depth=2 if n_gpus else 1, tell=tell)
    try:
        yield encoders
    finally:
        encoders.stop()


class RayEncoders:
    """A number of actors; one that is lost with its node is started again where there is room."""

    def __init__(
        self,
        ray: ModuleType,
        arguments: tuple[Any, ...],
        number: int,
        resources: dict[str, int],
        *,
        depth: int,
        tell: Callable[[str], None],
    ) -> None:
        self.depth = depth
        self._ray, self._arguments, self._resources, self._tell = ray, ray.put(arguments), resources, tell
        # an actor answers `identify` while it encodes
        options = {"num_cpus": resources["CPU"], "num_gpus": resources.get("GPU", 0), "max_concurrency": depth + 1}
        self._actor = ray.remote(**options)(_Actor)
        self._failed_starts = 0
        say_if_full(ray, resources, tell)
        self._late_at = time.monotonic() + _LATE_SECONDS
        self._encoders = [self._start() for _ in range(number)]

    def ready(self) -> Sequence[Encoder]:
        """Those that have loaded the weights.

        Raises:
            ChoqolateError: if they cannot load them, or end over and over before they have.
        """
        ready = []
        for encoder in [one for one in self._encoders if one.loaded.done()]:
            try:
                encoder.loaded.result()
            except EncoderLost as error:
                self._failed_starts += 1
                if self._failed_starts == _FAILED_STARTS:
                    raise ChoqolateError(
                        f"Encoders cannot be started on the Ray cluster; {_FAILED_STARTS} ended while they loaded. Is "
                        f"the same choqolate installed on every node? Ray says: {error}"
                    ) from error
                self.replace(encoder)
            else:
                self._failed_starts = 0
                ready.append(encoder)
        self._say_if_late(bool(ready))
        return ready

    def _say_if_late(self, any_ready: bool) -> None:
        """Say so, once each time, if there has been no encoder for a while."""
        if any_ready:
            self._late_at = time.monotonic() + _LATE_SECONDS
        elif time.monotonic() > self._late_at:
            self._late_at = math.inf
            self._tell(f"no encoder is ready in the Ray cluster: {room(self._ray, self._resources)}")

    def replace(self, encoder: Encoder) -> None:
        """Start another actor, once: all calls of a lost one fail."""
        if encoder in self._encoders:
            self._tell("an encoder of the Ray cluster is lost: what it was doing is done again")
            self._encoders[self._encoders.index(encoder)] = self._start()

    def stop(self) -> None:
        """End all actors, also in a cluster that lives on."""
        for encoder in self._encoders:
            self._ray.kill(encoder.actor)

    def _start(self) -> _RayEncoder:
        return _RayEncoder(self._ray, self._actor.remote(self._arguments))


class _RayEncoder:
    def __init__(self, ray: ModuleType, actor: Any) -> None:
        self._ray, self.actor = ray, actor
        self.loaded: Future[None] = self._call(actor.load)

    def identify(self, files: list[str]) -> Future[list[Prepared]]:
        return self._call(self.actor.identify, files)

    def encode(self, files: list[str], careful: bool) -> Future[BlockOutcome]:
        return self._call(self.actor.encode, files, careful)

    def _call(self, method: Any, *arguments: Any) -> Future[Any]:
        answer: Future[Any] = Future()
        method.remote(*arguments).future().add_done_callback(lambda done: _pass_on(self._ray, done, answer))
        return answer


def _pass_on(ray: ModuleType, done: Future[Any], answer: Future[Any]) -> None:
    """The answer of an actor, with the errors of the code it ran as they were, and all of Ray's as a loss."""
    error = done.exception()
    if error is None:
        answer.set_result(done.result())
    elif isinstance(error, ray.exceptions.RayTaskError):
        answer.set_exception(error.cause if isinstance(error.cause, Exception) else error)
    else:
        answer.set_exception(EncoderLost(str(error)))


class _Actor(BlockEncoder):
    """A block encoder that takes its arguments from the object store."""

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        super().__init__(*arguments)
