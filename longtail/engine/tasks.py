"""Run independent tasks over shared read-only data, on the cores of this machine or on a cluster.

Rankers pass work that can run in parallel (groups of labels, trees, folds, members, blocks of points) to the current
engine. The engine decides where it runs; the result does not depend on that. The engine is a setting of the process,
not a parameter of every ranker: ``with engine.use("ray"):``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, ClassVar, Protocol

from longtail.engine.workers import Worker, start_processes
from longtail.errors import SettingsError
from longtail.kernels import pool

Finished = Callable[[int, Any], None]  # called with the number of a task and its result as soon as it is finished
Packing = tuple[Callable[[list[Any]], Any], Callable[[Any], list[Any]]]  # packs a list of results; unpacks it again


class Engine(Protocol):
    """Runs tasks."""

    remote: ClassVar[bool]
    """Whether tasks run in other processes, which have no access to files and objects of this one."""

    def cores(self, n_jobs: int | None) -> int:
        """Return the number of tasks that can run at a time."""

    def share(self, data: Any) -> Any:
        """Return a handle of data that several calls of :meth:`map` use. It is then sent only once to each machine."""

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
            A function of a module, so that another process can import it. It must not change the shared data.
        tasks : iterable
            Small objects, such as numbers.
        shared : sequence
            Data that all tasks read, or handles of :meth:`share`.
        n_jobs : int, optional
            Number of threads on this machine; all cores by default.
        uses_whole_machine : bool
            Whether a task itself uses several threads, as the fit of a ranker does. It then gets all cores of one
            machine.
        weights : sequence of float, optional
            Rough estimate of the work of each task, in seconds on one core. Small tasks are grouped by it.
        finished : callable, optional
            Called with the number of a task and its result as soon as it is finished, in any order.
        packing : (callable, callable), optional
            Two functions of a module: one packs a list of results into a few long arrays, the other unpacks them. It is
            used when results are sent between processes, as thousands of small arrays take longer to send than to
            compute.

        Notes
        -----
        After an error or an interruption, tasks that have not started are cancelled. If the process or machine of a
        task is lost, the task runs again.
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
            Data that workers are built from. A worker that writes to it changes only its own copy.
        n : int
            Number of workers to start.
        among : int
            Number of workers that share the cores of this machine.
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

        def run_task(numbered: tuple[int, Any]) -> Any:
            number, task = numbered
            result = work(task, *shared)
            if finished is not None:
                finished(number, result)
            return result

        return pool.run(run_task, enumerate(tasks), n_jobs)

    def workers(
        self, build: Callable[..., Callable[[Any], Any]], shared: Sequence[Any], n: int, among: int
    ) -> list[Worker]:
        """Start processes that keep state between calls; see :meth:`Engine.workers`."""
        return start_processes(build, shared, n, among)


_current: Engine = LocalCores()


def current() -> Engine:
    """Return the current engine: the cores of this machine, unless inside a block of :func:`use`."""
    return _current


@contextmanager
def use(engine: str | Engine) -> Iterator[Engine]:
    """Run the tasks of all rankers on an engine while the block runs.

    Parameters
    ----------
    engine : str or Engine
        "local" for the cores of this machine. "ray" for the Ray cluster that ``RAY_ADDRESS`` names or that runs on this
        machine; if there is none, one is started on this machine and stopped at the end. "ray://HOST:PORT" for the
        cluster whose head has this address (``ray start --head`` prints it).
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
    """Refuse an engine that does not exist or whose package is not installed. Call it before data is read."""
    check_name(name)
    if name != "local" and find_spec("ray") is None:
        raise SettingsError(
            "The engine ray needs the package ray, which is not installed. Install it with: pip install 'longtail[ray]'"
        )


def open_engine(name: str) -> Engine:
    """Return the engine with a name as in :func:`use`. The engine of a cluster connects to it."""
    check_installed(name)
    if name == "local":
        return LocalCores()
    from longtail.engine.ray_cluster import RayCluster

    return RayCluster(name.removeprefix("ray").removeprefix("://") or None)
