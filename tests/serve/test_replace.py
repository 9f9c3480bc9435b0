"""Model folders that are replaced or broken while they are served."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path
from typing import Any

import longtail
from longtail.serve import library
from tests.serve.conftest import LONG, Server, Start


def _version(server: Server) -> str:
    return server.client.get("/models").json()["models"][0]["version"]


def _until_logged(log: str, server: Server) -> None:
    end = time.monotonic() + LONG
    while log not in server.log.read_text():
        assert time.monotonic() < end, server.log.read_text()
        time.sleep(0.05)


def test_a_replaced_model_is_picked_up_and_no_request_is_lost(
    start: Start, folders: dict[str, Path], tmp_path: Path
) -> None:
    served = tmp_path / "m"
    shutil.copytree(folders["tree"], served)
    server = start(served, "--no-learn").until_ready()
    data = longtail.read(folders["data"])
    others = [longtail.Tagger("popular").fit_dataset(data), longtail.load(folders["tree"])]
    answers: list[int] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            answers.append(server.suggest("a red apple", k=3).status_code)

    clients = [threading.Thread(target=ask) for _ in range(4)]
    for client in clients:
        client.start()
    versions = {_version(server)}
    for i in range(4):
        others[i % 2].notes_ = {"round": i}
        others[i % 2].save(served)
        end = time.monotonic() + LONG
        while _version(server) in versions and time.monotonic() < end:
            time.sleep(0.05)
        versions.add(_version(server))
    stop.set()
    for client in clients:
        client.join()
    assert len(versions) == 5
    assert set(answers) == {200}
    assert len(answers) > 20


def test_a_broken_folder_leaves_the_old_model(start: Start, folders: dict[str, Path], tmp_path: Path) -> None:
    served, away = tmp_path / "m", tmp_path / "away"
    shutil.copytree(folders["tree"], served)
    server = start(served, "--no-learn").until_ready()
    before = server.suggest("a red apple").json()
    served.rename(away)
    time.sleep(1.5)
    assert server.suggest("a red apple").json() == before
    served.mkdir()
    (served / "model.json").write_text("{ broken")
    _until_logged("model not replaced", server)
    assert server.suggest("a red apple").json() == before
    assert server.client.get("/ready").status_code == 200
    shutil.rmtree(served)
    away.rename(served)
    longtail.load(folders["popular"]).save(served)
    end = time.monotonic() + LONG
    while server.suggest("a red apple").json()["version"] == before["version"]:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_memory_is_given_back_after_a_replacement(folders: dict[str, Path], tmp_path: Path, monkeypatch: Any) -> None:
    """At the next look at the folders, when no request uses the old model any more."""
    served = tmp_path / "m"
    shutil.copytree(folders["popular"], served)
    given_back: list[bool] = []
    monkeypatch.setattr(library, "return_free_memory", lambda: given_back.append(True))
    models = library.ModelLibrary({"m": str(served)})
    models.load()
    models.refresh()
    longtail.load(folders["tree"]).save(served)
    models.refresh()
    assert (models.reloads, given_back) == (1, [])
    models.refresh()
    models.refresh()
    assert given_back == [True]
    monkeypatch.undo()
    library.return_free_memory()  # harmless wherever it runs
