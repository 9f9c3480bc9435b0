"""One model in many threads and processes: the same answers, no crash, and no more threads than allowed."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import longtail
from longtail.kernels import pool
from tests.contract import toy

X, Y, Z = toy(n=200)
MODELS = {
    "knn": {},
    "bonsai": {"n_trees": 2},
    "fastxml": {"n_trees": 3, "cost": 1.0},
    "blend([bonsai(n_trees=1), knn])": {},
}


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest) -> Any:
    return longtail.make(request.param, MODELS[request.param]).fit(X, Y, label_features=Z)


def answer(model: Any, rows: csr_array = X) -> bytes:
    """Return what a model answers, to the last bit."""
    scores = model.predict(rows, 4)
    return scores.indices.tobytes() + scores.data.tobytes()


def load_and_answer(folder: str) -> bytes:
    """Answer in another process."""
    return answer(longtail.load(folder))


def test_eight_threads_predict_at_once(model: Any) -> None:
    expected, point = answer(model), model.rank(X.indices[: X.indptr[1]], X.data[: X.indptr[1]])
    start = threading.Barrier(8)

    def work(_: int) -> bool:
        start.wait(60)
        same = all(answer(model) == expected for _ in range(4))
        found = [model.rank(X.indices[: X.indptr[1]], X.data[: X.indptr[1]]) for _ in range(30)]
        return same and all((a == point[0]).all() and (b == point[1]).all() for a, b in found)

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(work, range(8)))


def test_eight_threads_fit_at_once() -> None:
    def work(name: str) -> bytes:
        return answer(longtail.make(name, MODELS[name]).fit(X, Y, label_features=Z))

    names = ["knn", "bonsai", "fastxml", "knn"] * 2
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(work, names))
    assert found == [work(name) for name in names[:4]] * 2


def test_asyncio_executors(model: Any) -> None:
    async def ask() -> list[bytes]:
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*(loop.run_in_executor(None, answer, model) for _ in range(16)))

    assert set(asyncio.run(ask())) == {answer(model)}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_after_a_fork(model: Any) -> None:
    """The parent's pool of threads is used before: its threads are not in the child."""
    expected = answer(model)
    with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as processes:
        assert set(processes.map(answer, [model] * 4, timeout=120)) == {expected}


def test_under_spawn_and_in_joblib(tmp_path: Path) -> None:
    joblib = pytest.importorskip("joblib")
    model = longtail.make("knn").fit(X, Y)
    model.save(tmp_path / "m")
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as processes:
        assert processes.submit(load_and_answer, str(tmp_path / "m")).result(240) == answer(model)
    for backend in ("threading", "loky"):
        found = joblib.Parallel(2, backend=backend)(joblib.delayed(answer)(model) for _ in range(3))
        assert set(found) == {answer(model)}


@pytest.mark.parametrize("name", ["knn", "bonsai", "fastxml", "dismec", "textmatch"])
def test_one_job_is_one_thread(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise AssertionError("n_jobs=1 asked for the pool of threads")

    monkeypatch.setattr(pool, "_kept", refuse)
    model = longtail.make(name, MODELS.get(name, {}) | {"n_jobs": 1}).fit(X, Y, label_features=Z)
    assert answer(model)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity")
def test_affinity_is_respected() -> None:
    code = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); from longtail.kernels import pool; "
    code += "print(pool.cores(None), pool.cores(8), pool.cores(-1))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["1", "1", "1"]


@pytest.mark.parametrize(
    ("content", "expected"), [("100000 100000", 1), ("max 100000", None), ("150000 100000", 2), ("x", None), ("", None)]
)
def test_limits_of_control_groups_are_respected(
    content: str, expected: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpu.max").write_text(content)
    monkeypatch.setattr(pool, "_QUOTAS", ((str(tmp_path / "cpu.max"), ""),))
    monkeypatch.setattr(pool.os, "sched_getaffinity", lambda pid: set(range(16)), raising=False)
    pool._quota.cache_clear()
    try:
        assert pool.available_cores() == (16 if expected is None else expected)
    finally:
        pool._quota.cache_clear()


def test_memory_stays_flat_over_loads_and_single_predictions(tmp_path: Path) -> None:
    """The first turn warms up; the second may add 2 MB at most."""
    code = """
import sys, resource, longtail
from tests.test_threads import X
def used():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
model = longtail.load(sys.argv[1])
point = X.indices[: X.indptr[1]], X.data[: X.indptr[1]]
loads, ranks = map(int, sys.argv[2:])
for turn in range(2):
    before = used()
    for _ in range(loads):
        longtail.load(sys.argv[1])
    for _ in range(ranks):
        model.rank(*point)
print(used() - before)
"""
    if not Path("/proc/self/statm").exists():
        pytest.skip("no /proc")
    longtail.make("blend([bonsai(n_trees=1), knn])").fit(X, Y).save(tmp_path / "m")
    line = [sys.executable, "-c", code, tmp_path / "m", "20", "2000"]
    ended = subprocess.run(line, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) < 2 << 20


def test_numbers_of_jobs_are_whole() -> None:
    assert pool.cores(np.int64(1)) == 1
