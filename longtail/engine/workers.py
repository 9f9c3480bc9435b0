"""Run worker processes that keep state between calls, such as replicas of a network.

Tasks of :meth:`longtail.engine.Engine.map` have no state. A worker is built once from shared data and then called many
times, so that only changes have to be sent. This file has the workers of this machine: processes that read calls from
their standard input. Shared data is written once to a file, which all of them map into memory.
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

_ALIGNMENT = 64  # bytes; each array in the file of shared data begins at a multiple of it
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_EXIT_SECONDS = 10.0  # a worker that has not ended by itself after this time is killed


class WorkerLost(Exception):
    """The process of a worker, or its machine, has died."""


class Worker(Protocol):
    """A callable object in another process."""

    def send(self, message: Any) -> None:
        """Start a call. Each must be followed by one :meth:`receive`."""

    def receive(self) -> Any:
        """Return the result of the call, or raise its error, or :class:`WorkerLost` if the process has died."""

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
                worker.receive()  # the worker has been built, and no longer needs the name of the file
        except BaseException:
            for worker in started:
                worker.close()
            raise
    return started


class _Process:
    """Worker that passes calls to a process of this machine."""

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
        """Start a call."""
        assert self._process.stdin is not None
        try:
            pickle.dump(message, self._process.stdin, protocol=5)
            self._process.stdin.flush()
        except OSError:  # the process has died; receive raises the error
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
        """End the process, by closing its input."""
        for stream in (self._process.stdin, self._process.stdout):
            try:
                if stream is not None:
                    stream.close()
            except OSError:  # unwritten data was left in the buffer
                pass
        try:
            self._process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def serve_calls() -> None:
    """Run the calls of the parent process until it closes the pipe. This is the main function of a worker process."""
    calls, results = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # anything printed goes to standard error, not between the results
    try:
        call: Callable[[Any], Any] = _build
        while True:
            message = pickle.load(calls)
            try:
                result = call(message)
            except Exception as error:
                _send(results, True, error)
                continue
            if call is _build:
                call, result = result, None
            _send(results, False, result)
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        os._exit(0)  # the parent process has gone


def _build(message: tuple[str, int]) -> Callable[[Any], Any]:
    """Build the callable object of a worker from the file of shared data."""
    path, threads = message
    pool.limit_cores(threads)
    build, shared = _read(Path(path))
    return build(*shared)


def _send(stream: IO[bytes], failed: bool, result: Any) -> None:
    pickle.dump((failed, result), stream, protocol=5)
    stream.flush()


def _write(data: Any, path: Path) -> None:
    """Write an object to a file: its arrays as they are in memory, then its pickle, then the positions of these."""
    buffers: list[pickle.PickleBuffer] = []
    rest = pickle.dumps(data, protocol=5, buffer_callback=buffers.append)
    with path.open("wb") as stream:
        positions = []
        for raw in [*(buffer.raw() for buffer in buffers), memoryview(rest)]:
            stream.write(b"\0" * (-stream.tell() % _ALIGNMENT))
            positions.append((stream.tell(), raw.nbytes))
            stream.write(raw)
        end = stream.tell()
        pickle.dump(positions, stream)
        stream.write(end.to_bytes(8, "little"))


def _read(path: Path) -> Any:
    """Return the object that :func:`_write` wrote. Its arrays share the mapped file until they are changed."""
    with path.open("rb") as stream:
        mapped = memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY))
    end = int.from_bytes(mapped[-8:], "little")
    *arrays, (at, size) = pickle.loads(mapped[end:-8])
    return pickle.loads(mapped[at : at + size], buffers=[mapped[a : a + n] for a, n in arrays])
