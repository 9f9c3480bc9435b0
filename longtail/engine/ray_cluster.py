"""Run tasks on a Ray cluster.

Shared data is put into Ray's object store. It is sent once to each machine, where all processes read it in place. Small
tasks are grouped into one call, so that the work of a call outweighs the cost of sending it. Results come back as bytes
and are unpacked in this process, so that arrays stay valid after the cluster is gone.

If a process or machine is lost, its tasks run again elsewhere, in calls of half as many tasks: short calls succeed even
where processes are lost all the time. As results depend only on tasks and shared data, the model is the same.
"""

from __future__ import annotations

import os
import pickle
import platform
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from longtail._version import __version__
from longtail.engine.tasks import Finished, Packing
from longtail.engine.workers import Worker, WorkerLost
from longtail.errors import SettingsError
from longtail.kernels import pool

_MAX_LOSSES = 9  # how often a task may lose its process or machine before it fails
_LARGEST_SHARE = 0.75  # a call gets at most this share of the remaining work per core
_CALLS_PER_CORE, _FEW_CALLS_PER_CORE = 8, 3  # a call gets at least the work of one core divided by this
_SHORT_CALL = 0.2  # seconds of work that a call should have: the call itself costs 10 to 30 ms, mostly for its results
_CONNECT_SECONDS = 5.0  # the head of a cluster must accept a connection within this time


class RayCluster:
    """Engine that runs tasks on a Ray cluster.

    Parameters
    ----------
    address : str, optional
        HOST:PORT of the head. The default is the cluster that this process is connected to, else the one that
        ``RAY_ADDRESS`` names, else one that runs on this machine. If there is none, one is started on this machine and
        stopped by :meth:`close`.
    """

    remote: ClassVar[bool] = True

    def __init__(self, address: str | None = None) -> None:
        import ray

        self._ray: Any = ray
        self._connected = not self._ray.is_initialized()
        if self._connected:
            self._connect(address or os.environ.get("RAY_ADDRESS"))
        try:
            self._check_nodes()
        except BaseException:
            self.close()
            raise
        self._call = self._ray.remote(_run_tasks)

    # The cluster -------------------------------------------------------------------------------------------------

    def _connect(self, address: str | None) -> None:
        # Send no usage report to Ray's makers, and keep Ray's log lines out of ours.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        quiet: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
        if address is None:
            try:
                self._ray.init(address="auto", **quiet)
            except ConnectionError:  # no cluster on this machine
                self._ray.init(address="local", num_cpus=pool.available_cores(), include_dashboard=False, **quiet)
            return
        _check_answers(address)
        try:
            self._ray.init(address=address, **quiet)
        except (RuntimeError, ConnectionError, ValueError, OSError) as error:
            raise SettingsError(
                f"Cannot join the Ray cluster at {address}: {first_line(error)} Run this command on a machine of the "
                "cluster, with the same versions of Python and Ray."
            ) from None

    def _nodes(self) -> list[dict[str, Any]]:
        return [node for node in self._ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]

    def _check_nodes(self) -> None:
        """Raise an error if a machine of the cluster lacks longtail, or has other versions than this one."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        versions = self._ray.remote(_versions)
        requests = [
            (
                node["NodeManagerAddress"],
                versions.options(
                    num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
                ).remote(),
            )
            for node in self._nodes()
        ]
        results = [(host, self._versions_from(ref)) for host, ref in requests]
        if not any(versions_found for _, versions_found in results):
            raise SettingsError("No machine of the Ray cluster has a CPU. Start it with --num-cpus of at least 1.")
        check_versions([(host, versions_found) for host, versions_found in results if versions_found is not None])

    def _versions_from(self, ref: Any) -> dict[str, str] | None:
        """Return the versions of a machine, or None if it was lost in the meantime. It then gets no tasks."""
        from ray import exceptions

        try:
            return self._ray.get(ref)
        except exceptions.RayTaskError as error:
            raise SettingsError(
                f"A machine of the Ray cluster cannot import longtail ({error.cause!r}). Install the same version of "
                "longtail on every machine."
            ) from None
        except exceptions.RayError:
            return None

    def close(self) -> None:
        """Disconnect from the cluster. Stop it if it was started by this object."""
        if self._connected:
            self._ray.shutdown()
            self._connected = False

    def cores(self, n_jobs: int | None) -> int:
        """Return the number of cores of the cluster. `n_jobs` is ignored, as it is about this machine."""
        return max(1, int(sum(node["Resources"]["CPU"] for node in self._nodes())))

    def _fewest_cores(self) -> int:
        """Return the number of cores of the smallest machine: every machine has at least these."""
        return max(1, int(min(node["Resources"]["CPU"] for node in self._nodes())))

    # Tasks -------------------------------------------------------------------------------------------------------

    def share(self, data: Any) -> Any:
        """Put data into the object store and return its reference. The data is freed together with the reference."""
        return self._ray.put(data)

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
        """Return ``[work(task, *shared) for task in tasks]``; see :meth:`longtail.engine.Engine.map`."""
        tasks = list(tasks)
        results: list[Any] = [None] * len(tasks)
        small = self._ray.ObjectRef, int, float, str  # sent with each call; everything else is put into the store
        shared = [data if isinstance(data, small) else self.share(data) for data in shared]
        pack, unpack = packing or (None, None)
        cores = self._fewest_cores() if uses_whole_machine else 1
        # By default Ray prefers the machine that has the data, and would run a short map on that machine alone.
        call = self._call.options(num_cpus=cores, max_retries=0, scheduling_strategy="SPREAD")
        pending: dict[Any, list[int]] = {}
        losses = [0] * len(tasks)

        def begin(part: list[int]) -> None:
            pending[call.remote(work, [tasks[i] for i in part], cores, pack, *shared)] = part

        if uses_whole_machine:
            groups = [[i] for i in range(len(tasks))]
        else:
            groups = _task_groups(len(tasks), weights, self.cores(n_jobs))
        for group in groups:
            begin(group)
        try:
            while pending:
                (done,), _ = self._ray.wait(list(pending), num_returns=1)
                part = pending.pop(done)
                try:
                    outcomes = pickle.loads(self._get(done))
                except WorkerLost as error:
                    if len(part) == 1:
                        losses[part[0]] += 1
                        if losses[part[0]] == _MAX_LOSSES:
                            raise _cluster_failed(error) from None
                    for half in (part[: len(part) // 2], part[len(part) // 2 :]):
                        if half:
                            begin(half)
                    continue
                if unpack is not None:
                    outcomes = unpack(outcomes)
                for i, result in zip(part, outcomes, strict=True):
                    results[i] = result
                    if finished is not None:
                        finished(i, result)
        finally:
            for ref in pending:  # after an error, or an interruption
                self._ray.cancel(ref, force=True)
        return results

    def workers(
        self, build: Callable[..., Callable[[Any], Any]], shared: Sequence[Any], n: int, among: int
    ) -> list[Worker]:
        """Start actors of one core each; see :meth:`longtail.engine.Engine.workers`."""
        handles = [self.share(data) for data in shared]
        actor = self._ray.remote(_RemoteWorker).options(num_cpus=1)
        return [_Actor(self._get, actor.remote(build, *handles)) for _ in range(n)]

    def _get(self, ref: Any) -> Any:
        """Return the result of a call. An error that the task raised is raised here again."""
        from ray import exceptions

        try:
            return self._ray.get(ref)
        except exceptions.RayTaskError as error:
            if isinstance(error.cause, Exception):
                raise error.cause from None
            raise
        except exceptions.RayError as error:
            raise WorkerLost(first_line(error)) from None
        except ConnectionError as error:
            raise _cluster_failed(error) from None


def _run_tasks(
    work: Callable[..., Any], tasks: list[Any], cores: int, pack: Callable[[list[Any]], Any] | None, *shared: Any
) -> bytes:
    """Run some tasks in a process of the cluster, and return their results as bytes."""
    pool.limit_cores(cores)
    results = [work(task, *shared) for task in tasks]
    return pickle.dumps(results if pack is None else pack(results), protocol=5)


class _RemoteWorker:
    """The side of a worker that runs in a process of the cluster."""

    def __init__(self, build: Callable[..., Callable[[Any], Any]], *shared: Any) -> None:
        pool.limit_cores(1)
        # Copy the data: objects in the store are read-only, and a worker writes to what it is built from.
        self._call = build(*pickle.loads(pickle.dumps(shared, protocol=4)))

    def call(self, message: bytes) -> bytes:
        """Answer one call."""
        return pickle.dumps(self._call(pickle.loads(message)), protocol=5)


class _Actor:
    """Worker that passes calls to an actor of the cluster."""

    def __init__(self, get: Callable[[Any], Any], actor: Any) -> None:
        self._get, self._actor, self._pending = get, actor, None

    def send(self, message: Any) -> None:
        """Start a call."""
        self._pending = self._actor.call.remote(pickle.dumps(message, protocol=5))

    def receive(self) -> Any:
        """Return the result of the call, or raise its error."""
        return pickle.loads(self._get(self._pending))

    def close(self) -> None:
        """End the actor."""
        import ray

        if ray.is_initialized():
            ray.kill(self._actor)


def _versions() -> dict[str, str]:
    """Return the versions of the libraries that compute a model."""
    import numba
    import numpy as np
    import scipy

    return {
        "longtail": __version__,
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "SciPy": scipy.__version__,
        "Numba": numba.__version__,
    }


def check_versions(nodes: list[tuple[str, dict[str, str]]]) -> None:
    """Refuse machines with other versions than this process has.

    Parameters
    ----------
    nodes : list of (str, dict)
        Address and versions of each machine.
    """
    own_versions = _versions()
    for host, versions in nodes:
        for name, version in own_versions.items():
            if versions.get(name) != version:
                raise SettingsError(
                    f"{host} has {name} {versions.get(name, '(none)')}, and this machine has {version}. Install the "
                    "same versions on every machine of the cluster: models would differ otherwise."
                )


def _task_groups(n: int, seconds: Sequence[float] | None, cores: int) -> list[list[int]]:
    """Group consecutive tasks into calls: large groups first, and small ones last, to keep all cores busy at the end.

    If all work takes less than about a second, fewer calls are made: cores that wait at the end cost less than calls.
    """
    weights = [1.0] * n if seconds is None else seconds
    remaining = sum(weights)
    least = remaining / (_CALLS_PER_CORE * cores)
    if seconds is not None:
        least = max(least, min(_SHORT_CALL, remaining / (_FEW_CALLS_PER_CORE * cores)))
    parts: list[list[int]] = []
    size = most = 0.0
    for i in range(n):
        if not parts or size + weights[i] > most:
            parts.append([])
            size, most = 0.0, max(least, _LARGEST_SHARE * remaining / cores)
        parts[-1].append(i)
        size += weights[i]
        remaining -= weights[i]
    return parts


def _check_answers(address: str) -> None:
    """Refuse an address at which nothing listens. Ray itself would take minutes to find out."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise SettingsError(f"{address!r} is not an address of a Ray cluster; give HOST:PORT, such as 10.0.0.1:6379")
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
    except OSError as error:
        raise SettingsError(
            f"No Ray cluster answers at {address} ({error}). Start one there with: ray start --head --port={port}"
        ) from None


def _cluster_failed(error: BaseException) -> SettingsError:
    return SettingsError(
        f"The Ray cluster lost a task {_MAX_LOSSES} times, or all of its machines: {first_line(error)} "
        "Memory may have run out: use fewer cores per machine, or machines with more memory."
    )


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, with a full stop."""
    text = str(error).strip().splitlines()
    return (text[0] if text else type(error).__name__).rstrip(".") + "."
