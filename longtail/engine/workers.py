"""Worker processes that keep state between calls, as replicas of a network do.

Tasks of :meth:`longtail.engine.Engine.map` start from nothing. A worker is built once from shared data and then called
many times, so that only what has changed travels. Here are the workers of this machine: processes that read calls from
their standard input. Shared data is written to a file once, which all of them map into memory.
"""

from __future__ import annotations

import mmap
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

from longtail.child_python import child_command, child_environment
from longtail.kernels import pool

_ALIGNED = 64  # bytes; where an array begins in the file of shared data
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_WAIT_SECONDS = 10.0  # for a worker to end by itself


class WorkerLost(Exception):
    """The process of a worker, or its machine, has ended."""


class Worker(Protocol):
    """An object in another process, which is called with messages."""

    def send(self, message: Any) -> None:
        """Begin a call; each is followed by one :meth:`receive`."""

    def receive(self) -> Any:
        """Return the result of the call, or raise its error; :class:`WorkerLost` where the process has ended."""

    def close(self) -> None:
        """End the worker."""


def start_processes(
    build: Callable[..., Callable[[Any], Any]], shared: Sequence[Any], n: int, among: int
) -> list[Worker]:
    """Start workers on this machine; see :meth:`longtail.engine.Engine.workers`."""
    threads = max(1, pool.available_cores() // among)
    started: list[Worker] = []
    with tempfile.TemporaryDirectory(prefix="longtail-") as folder:
        path = Path(folder) / "shared"
        _write((build, shared), path)
        try:
            started.extend(_Process(threads) for _ in range(n))
            for worker in started:
                worker.send((os.fspath(path), threads))
            for worker in started:
                worker.receive()  # it is built, and needs the name of the file no more
        except BaseException:
            for worker in started:
                worker.close()
            raise
    return started


class _Process:
    """A process of this machine as a worker."""

    def __init__(self, threads: int) -> None:
        limits = {name: str(threads) for name in _THREAD_VARIABLES}
        command = child_command("-c", "from longtail.engine.workers import serve_calls; serve_calls()")
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=child_environment(limits)
        )

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    def send(self, message: Any) -> None:
        """Begin a call."""
        assert self._process.stdin is not None
        try:
            pickle.dump(message, self._process.stdin, protocol=5)
            self._process.stdin.flush()
        except OSError:  # it has ended; receive reports it
            pass

    def receive(self) -> Any:
        """Return the result of the call, or raise its error."""
        assert self._process.stdout is not None
        try:
            failed, result = pickle.load(self._process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            self.close()
            raise WorkerLost(f"A worker process ended with code {self._process.returncode}") from None
        if failed:
            raise result
        return result

    def close(self) -> None:
        """End the process, which stops where its input ends."""
        for stream in (self._process.stdin, self._process.stdout):
            try:
                if stream is not None:
                    stream.close()
            except OSError:  # something was still to be written
                pass
        try:
            self._process.wait(_WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def serve_calls() -> None:
    """Answer the calls of the process that started this one, until its pipe is closed."""
    calls, results = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed here must not get among the results
    try:
        call: Callable[[Any], Any] = _function_of
        while True:
            message = pickle.load(calls)
            try:
                result = call(message)
            except Exception as error:
                _send(results, True, error)
                continue
            if call is _function_of:
                call, result = result, None
            _send(results, False, result)
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        os._exit(0)  # nobody is interested any more


def _function_of(message: tuple[str, int]) -> Callable[[Any], Any]:
    """Build what answers calls from the file of shared data."""
    path, threads = message
    pool.limit_cores(threads)
    build, shared = _read(Path(path))
    return build(*shared)


def _send(stream: IO[bytes], failed: bool, result: Any) -> None:
    pickle.dump((failed, result), stream, protocol=5)
    stream.flush()


def _write(data: Any, path: Path) -> None:
    """Write an object to a file: its arrays as they are in memory, then the rest, then where each begins."""
    buffers: list[pickle.PickleBuffer] = []
    rest = pickle.dumps(data, protocol=5, buffer_callback=buffers.append)
    with path.open("wb") as stream:
        places = []
        for raw in [*(buffer.raw() for buffer in buffers), memoryview(rest)]:
            stream.write(b"\0" * (-stream.tell() % _ALIGNED))
            places.append((stream.tell(), raw.nbytes))
            stream.write(raw)
        end = stream.tell()
        pickle.dump(places, stream)
        stream.write(end.to_bytes(8, "little"))


def _read(path: Path) -> Any:
    """Return the object that :func:`_write` wrote; its arrays are those of the file until they are written to."""
    with path.open("rb") as stream:
        mapped = memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY))
    end = int.from_bytes(mapped[-8:], "little")
    *arrays, (at, size) = pickle.loads(mapped[end:-8])
    return pickle.loads(mapped[at : at + size], buffers=[mapped[a : a + n] for a, n in arrays])
