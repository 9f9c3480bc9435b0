"""What Ray costs: ``python -m benchmarks.scale.cluster debian-packages [--points 12000] [--models bonsai]``.

Each model is trained on two threads and on a cluster of two nodes on this machine, in turn, and the models are compared
bit by bit. With ``--kill`` a process of the cluster is killed now and then while it trains.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import results
from benchmarks.paths import DATA_ROOT

MODELS = {
    "bonsai": "bonsai",
    "dismec": "dismec(cost=1.0)",
    "fastxml": "fastxml(n_trees=20, cost=4.0)",
    "taug": "taug(bonsai(n_trees=1))",
    "blend": "blend([bonsai, knn, textmatch])",
}


def arrays_of(ranker: Any) -> dict[str, np.ndarray]:
    """Return all arrays of a model and of the rankers in it."""
    _, arrays, parts = ranker._state()
    found = dict(arrays)
    for name, part in parts.items():
        found |= {f"{name}.{key}": array for key, array in arrays_of(part).items()}
    return found


def same(one: Any, two: Any) -> bool:
    """Return whether two models are equal bit by bit."""
    a, b = arrays_of(one), arrays_of(two)
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of all below it, those of the cluster included."""
    parents, used = {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as stream:
                fields = stream.read().rpartition(")")[2].split()
        except OSError:  # ended in the meantime
            continue
        parents[int(name)], used[int(name)] = int(fields[1]), sum(map(int, fields[11:15]))
    own = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in own} - own:
        own |= more
    return sum(used.get(pid, 0) for pid in own) / os.sysconf("SC_CLK_TCK")


class Killer(threading.Thread):
    """Kill a process that works for the cluster every few seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(daemon=True)
        self.seconds, self.kills, self.ended = seconds, 0, threading.Event()

    def run(self) -> None:
        while not self.ended.wait(self.seconds * (0.5 + random.random())):
            found = [int(name) for name in os.listdir("/proc") if name.isdigit() and _works(int(name))]
            if found:
                os.kill(random.choice(found), signal.SIGKILL)
                self.kills += 1


def _works(pid: int) -> bool:
    """Return whether a process of the cluster of this user is working off tasks now."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as stream:
            return stream.read().startswith(b"ray::_run_tasks")
    except OSError:
        return False


def main(argv: Sequence[str] | None = None) -> None:
    """Measure the models named, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale.cluster")
    parser.add_argument("data", nargs="?", default="debian-packages")
    parser.add_argument("--points", type=int, default=12_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--models", nargs="*", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--kill", type=float, metavar="SECONDS", help="mean time between two kills")
    given = parser.parse_args(argv)
    os.environ |= {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_memory_monitor_refresh_ms": "0"}
    import ray
    from ray.cluster_utils import Cluster

    import longtail
    from longtail import engine

    data = longtail.read(DATA_ROOT / given.data)
    rows = np.sort(np.random.default_rng(0).permutation(data.n_points)[: given.points])
    X, Y = data.X[rows], data.Y[rows]
    node = {"num_cpus": 1, "object_store_memory": 500_000_000}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    cluster.add_node(**node)
    ray.init(address=cluster.address, logging_level="ERROR", log_to_driver=False)
    try:
        for name in given.models:
            seconds: dict[str, list[float]] = {"local": [], "ray": []}
            cpu: dict[str, list[float]] = {"local": [], "ray": []}
            models: dict[str, Any] = {}
            kills = 0
            for _ in range(given.rounds + 1):  # the first time kernels are compiled or loaded
                for where, taken in seconds.items():
                    killer = Killer(given.kill) if given.kill and where == "ray" else None
                    with engine.use(where):
                        if killer:
                            killer.start()
                        begin, used = time.perf_counter(), cpu_seconds()
                        models[where] = longtail.make(MODELS[name]).fit(X, Y, label_features=data.Z)
                        taken.append(time.perf_counter() - begin)
                        cpu[where].append(cpu_seconds() - used)
                        if killer:
                            killer.ended.set()
                            killer.join()
                            kills += killer.kills
            local, there = (min(taken[1:]) for taken in seconds.values())
            row = {"local_s": local, "ray_s": there, "ratio": there / local, "same": same(*models.values())}
            row |= {"local_cpu_s": min(cpu["local"][1:]), "ray_cpu_s": min(cpu["ray"][1:])}
            row |= {"data": given.data, "n_points": len(rows), "kills": kills}
            print(
                name,
                {key: round(value, 2) if isinstance(value, float) else value for key, value in row.items()},
                flush=True,
            )
            if not given.kill:
                results.add("scale", f"{name} {given.data} {len(rows)}", row, MODELS[name], group="cluster")
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    main()
