"""The same models from a Ray cluster of two nodes on this machine, also when processes and nodes are lost."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import longtail
from longtail import engine
from longtail.cli.app import app
from longtail.engine.ray_cluster import RayCluster, _task_groups, _versions, check_versions
from longtail.errors import DataError, SettingsError
from longtail.models import base
from longtail.models.base import Ranker
from tests.contract import toy

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'longtail[ray]'")
pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore"),  # Ray leaves sockets and files open
]
_NODE = {"num_cpus": 1, "object_store_memory": 100_000_000}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    kept = {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_memory_monitor_refresh_ms": "0"}
    before = {name: os.environ.get(name) for name in kept}
    os.environ.update(kept)  # the memory of a busy machine must not decide which process is killed
    cluster = Cluster(initialize_head=True, head_node_args={**_NODE, "include_dashboard": False})
    cluster.add_node(**_NODE)
    ray.init(address=cluster.address, logging_level="ERROR", log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})


@pytest.fixture
def two_nodes(cluster: Any) -> Iterator[RayCluster]:
    with engine.use("ray") as opened:
        assert isinstance(opened, RayCluster)
        yield opened


def assert_same(one: Ranker, two: Ranker) -> None:
    (_, arrays, parts), (_, other_arrays, other_parts) = one._state(), two._state()
    assert arrays.keys() == other_arrays.keys()
    for name, array in arrays.items():
        assert array.dtype == other_arrays[name].dtype
        np.testing.assert_array_equal(array, other_arrays[name])
    assert parts.keys() == other_parts.keys()
    for name, part in parts.items():
        assert_same(part, other_parts[name])


@pytest.mark.parametrize(
    "model",
    [
        "bonsai(arity=5, max_leaf=3, n_trees=2)",
        "dismec(cost=1.0)",
        "fastxml(n_trees=4, cost=4.0)",
        "taug(bonsai(n_trees=1, cost=1.0))",
        "ranknet(bonsai(n_trees=1, cost=1.0))",
        "decaf(epochs=1, dim=8, n_networks=2)",
        "blend([bonsai(n_trees=1, cost=1.0), knn])",
        "decaf(epochs=2, dim=8, batch_size=32, n_workers=2)",
    ],
)
def test_the_model_is_the_same(model: str, two_nodes: RayCluster, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    X, Y, Z = toy()
    there = longtail.make(model).fit(X, Y, label_features=Z)
    monkeypatch.setattr(base, "_POINTS_PER_TASK", 64)
    predicted = there.predict(X, 5)
    with engine.use("local"):
        here = longtail.make(model).fit(X, Y, label_features=Z)
        expected = here.predict(X, 5)
    assert_same(here, there)
    np.testing.assert_array_equal(predicted.indices, expected.indices)
    np.testing.assert_allclose(predicted.data, expected.data, rtol=1e-5)


def test_shared_data_travels_once(two_nodes: RayCluster) -> None:
    class Counted:
        times = 0

        def __reduce__(self) -> tuple[Any, ...]:
            Counted.times += 1
            return str, ("data",)

    data = two_nodes.share(Counted())
    for _ in range(3):
        assert two_nodes.map(lambda task, shared: f"{shared} {task}", range(40), (data,))[39] == "data 39"
    assert Counted.times == 1


def test_arrays_of_results_outlive_the_cluster(two_nodes: RayCluster) -> None:
    (array,) = two_nodes.map(lambda task: np.arange(10**6), [0])
    assert array.flags.writeable  # copied out of the object store


def _joined(results: list[str]) -> str:
    return "|".join(results)


def _split(joined: str) -> list[str]:
    return joined.split("|")


def test_packed_results_are_those_of_the_tasks(two_nodes: RayCluster) -> None:
    numbers: list[int] = []

    def note(i: int, result: str) -> None:
        assert result == f"task {i}"
        numbers.append(i)

    found = two_nodes.map(lambda task: f"task {task}", range(50), finished=note, packing=(_joined, _split))
    assert found == [f"task {i}" for i in range(50)]
    assert sorted(numbers) == list(range(50))


def test_an_error_of_a_task_arrives_as_it_was_raised(two_nodes: RayCluster) -> None:
    def work(task: int) -> int:
        if task == 3:
            raise DataError("is damaged", path="part-3.parquet", remedy="Mend it")
        return task

    with pytest.raises(DataError, match=r"^part-3.parquet: is damaged. Mend it\.$"):
        two_nodes.map(work, range(30))


def test_a_task_is_done_again_when_its_process_is_killed(two_nodes: RayCluster, tmp_path: Path) -> None:
    finished: list[int] = []

    def work(task: int, folder: str) -> int:
        try:
            Path(folder, f"begun-{task}").touch(exist_ok=False)
        except FileExistsError:
            return task
        if task % 3 == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return task

    found = two_nodes.map(work, range(6), (str(tmp_path),), finished=lambda i, _: finished.append(i))
    assert found == list(range(6))
    assert sorted(finished) == list(range(6))  # none lost, none doubled


def test_many_losses_do_not_matter_as_long_as_no_task_is_lost_again_and_again(
    two_nodes: RayCluster, tmp_path: Path
) -> None:
    def work(task: int, folder: str) -> int:
        path = Path(folder, f"begun-{task}")
        times = len(path.read_text()) if path.exists() else 0
        path.write_text("x" * (times + 1))
        if times == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return task

    n = 12  # in one call at first, which is lost more often than any one task may be
    assert two_nodes.map(work, range(n), (str(tmp_path),), weights=[1e-9] * (n - 1) + [1.0]) == list(range(n))


def test_a_task_that_is_lost_every_time_ends_it(two_nodes: RayCluster) -> None:
    def work(task: int) -> int:
        if task == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return task

    with pytest.raises(SettingsError, match=r"lost a task 9 times"):
        two_nodes.map(work, range(3))


def test_tasks_go_on_when_a_node_is_lost(cluster: Any, two_nodes: RayCluster, tmp_path: Path) -> None:
    lost = cluster.add_node(**_NODE)
    cluster.wait_for_nodes()
    doomed = lost.node_id

    def work(task: int, folder: str, doomed: str) -> str:
        import ray as there

        if there.get_runtime_context().get_node_id() == doomed:
            Path(folder, "reached").touch()
            time.sleep(600)  # the node is removed before
        deadline = time.monotonic() + 300
        while not Path(folder, "reached").exists() and time.monotonic() < deadline:
            time.sleep(0.05)  # so that the other nodes leave some of the tasks to the doomed one
        return f"task {task}"

    def remove() -> None:
        deadline = time.monotonic() + 300
        while not (tmp_path / "reached").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        cluster.remove_node(lost, allow_graceful=False)

    remover = threading.Thread(target=remove, daemon=True)
    remover.start()
    found = two_nodes.map(work, range(12), (str(tmp_path), doomed))
    remover.join()
    assert (tmp_path / "reached").exists()
    assert found == [f"task {i}" for i in range(12)]


def test_files_are_predicted_once_each(two_nodes: RayCluster, tmp_path: Path) -> None:
    texts = ["moss of the north", "bread at home", "moss and bread"]
    tagger = longtail.Tagger("parabel(n_trees=1, cost=1.0)").fit(texts, [["moss"], ["bread"], ["moss", "bread"]])
    tagger.save(tmp_path / "model")
    for part in range(5):
        (tmp_path / f"part-{part}.txt").write_text("".join(f"{text} {part}\n" for text in texts))
    out = tmp_path / "out"
    command = ["predict", str(tmp_path / "model"), "--input", f"{tmp_path}/part-*.txt", "--out", str(out)]
    CliRunner().invoke(app, [*command, "--engine", "ray"], catch_exceptions=False)
    whole = {path.name: path.read_bytes() for path in out.iterdir()}
    assert len(whole) == 6
    (out / "part-1.txt.jsonl").unlink()
    CliRunner().invoke(app, command, catch_exceptions=False)  # the rest, on this machine
    assert {path.name: path.read_bytes() for path in out.iterdir()} == whole


def test_tasks_are_put_together_by_weight() -> None:
    weights = [50.0, 30.0, 5.0, 5.0, 5.0, 5.0]
    assert _task_groups(6, weights, cores=1) == [[0], [1, 2], [3, 4], [5]]
    assert [len(part) for part in _task_groups(64, None, cores=2)] == [24, 15, 9, 6, 4, 4, 2]
    assert [len(part) for part in _task_groups(64, [0.01] * 64, cores=2)] == [24, 15, 10, 10, 5]  # each takes a while
    assert _task_groups(0, None, cores=2) == []


def test_nodes_with_other_versions_are_refused() -> None:
    check_versions([("10.0.0.1", _versions())])
    with pytest.raises(SettingsError, match=r"10.0.0.2 has longtail 0.0.1, and this machine has"):
        check_versions([("10.0.0.1", _versions()), ("10.0.0.2", _versions() | {"longtail": "0.0.1"})])


@pytest.mark.parametrize("address", ["somewhere", "host:", ":6379"])
def test_an_address_of_another_form_is_refused(address: str, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(SettingsError, match="HOST:PORT"), engine.use(f"ray://{address}"):
        pass


def test_an_address_that_does_not_answer_is_refused(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(SettingsError, match=r"No Ray cluster answers at 127.0.0.1:1 .*ray start --head"):
        RayCluster("127.0.0.1:1")
