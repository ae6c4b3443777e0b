"""Encoders as processes of this machine, one per device."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from choqolate._util.processes import serve
from choqolate.concepts.backbones import Backbone
from choqolate.concepts.blocks import BlockEncoder, BlockOutcome
from choqolate.concepts.encoder_pool import Encoder, EncoderLost
from choqolate.concepts.preprocessing import Prepared
from choqolate.errors import ChoqolateError


@contextmanager
def device_encoders(
    devices: Sequence[str],
    backbone: Backbone,
    folder: Path,
    *,
    batch_size: int | None,
    started: int,
    decoders: int,
) -> Iterator[DeviceEncoders]:
    """Start one process per device; see :class:`BlockEncoder`. ``decoders`` is the number of threads of each."""
    import torch

    encoders = DeviceEncoders(
        [
            (backbone.unloaded(device), folder, batch_size, started, torch.get_num_threads(), decoders)
            for device in devices
        ]
    )
    try:
        yield encoders
    finally:
        encoders.stop()


class DeviceEncoders:
    """One process per device. A process that is killed ends the run."""

    depth = 2

    def __init__(self, arguments: Sequence[tuple[Any, ...]]) -> None:
        self._encoders: list[_DeviceEncoder] = []
        try:
            for each in arguments:
                self._encoders.append(_DeviceEncoder(each))
        except BaseException:
            self.stop()
            raise

    def ready(self) -> Sequence[Encoder]:
        loaded = [encoder for encoder in self._encoders if encoder.loaded.done()]
        for encoder in loaded:
            try:
                encoder.loaded.result()
            except EncoderLost:
                self.replace(encoder)
        return loaded

    def replace(self, encoder: Encoder) -> None:
        raise ChoqolateError(
            "An encoding process was killed, perhaps for lack of memory. What is encoded so far is kept: run again to "
            "continue, with a smaller batch size."
        )

    def stop(self) -> None:
        for encoder in self._encoders:
            encoder.stop()


class _DeviceEncoder:
    """The near end of a process that answers several calls at a time."""

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        from joblib.externals.loky.backend import get_context

        context = get_context("loky")  # starts clean, neither forked nor with the caller's main module
        self._connection, far = context.Pipe()
        self._answers: dict[int, Future[Any]] = {}
        self._lock = threading.Lock()
        self._process = context.Process(target=_answer_calls, args=(far, os.getpid(), arguments))
        self._process.start()
        far.close()
        threading.Thread(target=self._receive, daemon=True).start()
        self.loaded: Future[None] = self._call("load")

    def identify(self, files: list[str]) -> Future[list[Prepared]]:
        return self._call("identify", files)

    def encode(self, files: list[str], careful: bool) -> Future[BlockOutcome]:
        return self._call("encode", files, careful)

    def stop(self) -> None:
        self._process.terminate()  # what is written is whole
        self._process.join()

    def _call(self, method: str, *arguments: Any) -> Future[Any]:
        answer: Future[Any] = Future()
        with self._lock:
            self._answers[id(answer)] = answer
            with suppress(OSError):  # then the far end is gone, and the answers are on their way
                self._connection.send((id(answer), method, arguments))
                return answer
        self._lose_all()
        return answer

    def _receive(self) -> None:
        with suppress(Exception):  # the far end is gone, or what it says cannot be read
            while True:
                number, result, error = self._connection.recv()
                with self._lock:
                    answer = self._answers.pop(number)
                if error is None:
                    answer.set_result(result)
                else:
                    answer.set_exception(error)
        with self._lock:
            self._connection.close()  # nobody listens any more
        self._lose_all()

    def _lose_all(self) -> None:
        with self._lock:
            lost, self._answers = self._answers, {}
        for answer in lost.values():
            answer.set_exception(EncoderLost())


def _answer_calls(connection: Connection, parent: int, arguments: tuple[Any, ...]) -> None:
    serve(parent)
    encoder, lock = BlockEncoder(*arguments), threading.Lock()

    def answer(number: int, method: str, values: tuple[Any, ...]) -> None:
        result, error = None, None
        try:
            result = getattr(encoder, method)(*values)
        except Exception as caught:
            error = _portable(caught)
        with lock:
            try:
                connection.send((number, result, error))
            except Exception as failed:
                connection.send((number, None, ChoqolateError(repr(failed))))

    with suppress(EOFError), ThreadPoolExecutor(DeviceEncoders.depth + 1) as executor:
        while True:
            executor.submit(answer, *connection.recv())


def _portable(error: Exception) -> Exception:
    """An error that another process can read: its text, if it cannot be sent as it is."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return ChoqolateError(repr(error))
    return error
