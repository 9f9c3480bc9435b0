"""Independent tasks over shared read-only data, worked off by the cores of this machine or by a cluster.

Rankers hand over what can run side by side (groups of labels, trees, folds, members, blocks of points) to the engine in
use. The engine decides where it runs; the result does not depend on it. The engine is a setting of the process, not a
parameter of every ranker: ``with engine.use("ray"):``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, ClassVar, Protocol

from longtail.engine.workers import Worker, start_processes
from longtail.errors import SettingsError
from longtail.kernels import pool

Finished = Callable[[int, Any], None]  # called with the number of a task and its result, as soon as it is there
Packing = tuple[Callable[[list[Any]], Any], Callable[[Any], list[Any]]]  # of several results, and its inverse


class Engine(Protocol):
    """What works off tasks."""

    remote: ClassVar[bool]
    """Whether tasks run in other processes, which see neither files nor objects of this one."""

    def cores(self, n_jobs: int | None) -> int:
        """Return the number of tasks that can run at a time."""

    def share(self, data: Any) -> Any:
        """Return a handle of data that several calls of :meth:`map` use, so that it travels once to each machine."""

    def map(
        self,
        work: Callable[..., Any],
        tasks: Iterable[Any],
        shared: Sequence[Any] = (),
        *,
        n_jobs: int | None = None,
        uses_whole_machine: bool = False,
        weights: Sequence[float] | None = None,
        finished: Finished | None = None,
        packing: Packing | None = None,
    ) -> list[Any]:
        """Return ``[work(task, *shared) for task in tasks]``.

        Parameters
        ----------
        work : callable
            A function of a module, so that another process can import it. It must not change what is shared.
        tasks : iterable
            Small objects, such as numbers.
        shared : sequence
            Data that all tasks read, or handles of :meth:`share`.
        n_jobs : int, optional
            Number of threads on this machine; all cores by default.
        uses_whole_machine : bool
            Whether a task uses threads itself, as a fit of a ranker does: it then gets all cores of one machine.
        weights : sequence of float, optional
            Expected work of each task in seconds of one core, roughly, by which tasks are put together.
        finished : callable, optional
            Called with the number of a task and its result as soon as it is finished, in any order.
        packing : (callable, callable), optional
            Functions of a module: the first puts a list of results into a few long arrays, the second takes them out
            again. Results that travel are sent so; thousands of small arrays take longer to send than to compute.

        Notes
        -----
        The first error ends it, and so does an interruption: tasks that have not begun are cancelled. A task is done
        again where its process or its machine was lost.
        """

    def workers(
        self, build: Callable[..., Callable[[Any], Any]], shared: Sequence[Any], n: int, among: int
    ) -> list[Worker]:
        """Start processes that keep state between calls.

        Parameters
        ----------
        build : callable
            A function or class of a module. ``build(*shared)`` is called once in each process, and its result with
            each message that is sent to the worker.
        shared : sequence
            Data that workers are built from; each has a copy of its own, as far as it writes to it.
        n : int
            Number of workers to start.
        among : int
            Number of workers that will divide the cores of this machine among them.
        """


class LocalCores:
    """Threads of this process, which share all memory."""

    remote: ClassVar[bool] = False

    def cores(self, n_jobs: int | None) -> int:
        """Return the number of threads."""
        return pool.cores(n_jobs)

    def share(self, data: Any) -> Any:
        """Return the data itself."""
        return data

    def map(
        self,
        work: Callable[..., Any],
        tasks: Iterable[Any],
        shared: Sequence[Any] = (),
        *,
        n_jobs: int | None = None,
        uses_whole_machine: bool = False,
        weights: Sequence[float] | None = None,
        finished: Finished | None = None,
        packing: Packing | None = None,
    ) -> list[Any]:
        """Return ``[work(task, *shared) for task in tasks]``; see :meth:`Engine.map`."""

        def one(numbered: tuple[int, Any]) -> Any:
            number, task = numbered
            result = work(task, *shared)
            if finished is not None:
                finished(number, result)
            return result

        return pool.run(one, enumerate(tasks), n_jobs)

    def workers(
        self, build: Callable[..., Callable[[Any], Any]], shared: Sequence[Any], n: int, among: int
    ) -> list[Worker]:
        """Start processes that keep state between calls; see :meth:`Engine.workers`."""
        return start_processes(build, shared, n, among)


_current: Engine = LocalCores()


def current() -> Engine:
    """Return the engine in use: the cores of this machine, unless :func:`use` says otherwise."""
    return _current


@contextmanager
def use(engine: str | Engine) -> Iterator[Engine]:
    """Run the tasks of all rankers on an engine while the block runs.

    Parameters
    ----------
    engine : str or Engine
        "local" for the cores of this machine. "ray" for the Ray cluster that ``RAY_ADDRESS`` names or that runs on this
        machine; where there is none, one is started on this machine and stopped at the end. "ray://HOST:PORT" for the
        cluster whose head listens there (the address that ``ray start --head`` prints).
    """
    global _current
    opened = open_engine(engine) if isinstance(engine, str) else engine
    before, _current = _current, opened
    try:
        yield opened
    finally:
        _current = before
        if isinstance(engine, str) and hasattr(opened, "close"):
            opened.close()


def check_name(name: str) -> None:
    """Refuse the name of an engine that does not exist."""
    if name not in ("local", "ray") and not name.startswith("ray://"):
        raise SettingsError(f"There is no engine {name!r}. Give local, ray or ray://HOST:PORT.")


def check_installed(name: str) -> None:
    """Refuse an engine that does not exist, or whose package is not installed; called before data is read."""
    check_name(name)
    if name != "local" and find_spec("ray") is None:
        raise SettingsError(
            "The engine ray needs the package ray, which is not installed. Install it with: pip install 'longtail[ray]'"
        )


def open_engine(name: str) -> Engine:
    """Return the engine of a name as :func:`use` takes it; that of a cluster is connected."""
    check_installed(name)
    if name == "local":
        return LocalCores()
    from longtail.engine.ray_cluster import RayCluster

    return RayCluster(name.removeprefix("ray").removeprefix("://") or None)
