"""Feedback: stored before the answer, never lost, never doubled, learnt where a model can."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import shutil
import signal
import sqlite3
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

import longtail
from longtail.cli.app import app
from longtail.errors import DataError, ModelError
from longtail.serve import learning
from longtail.serve.feedback import FeedbackLog
from longtail.serve.learning import learn_from_log
from longtail.serve.settings import default_feedback_path
from tests.serve.conftest import LONG, Server, Start


def _correction(i: int) -> dict[str, Any]:
    return {"text": f"a fig number{i}", "labels": ["all about fig"], "id": f"c{i}"}


def test_a_log_keeps_corrections_in_order_and_each_id_once(tmp_path: Path) -> None:
    log = FeedbackLog(tmp_path / "log.sqlite")
    assert (len(log), log.last(), list(log.after())) == (0, 0, [])
    first, second = log.append("m", "api", [[_correction(0), _correction(1)], [_correction(1), {"text": "x"}]])
    assert (first.accepted, first.duplicates, first.ids) == (2, 0, ["c0", "c1"])
    assert (second.accepted, second.duplicates) == (1, 1)
    again = FeedbackLog(log.path)
    assert [entry.correction["text"] for entry in again.after()] == ["a fig number0", "a fig number1", "x"]
    assert [entry.id for entry in again.after(1)][:1] == ["c1"]
    assert again.identity() == log.identity() != ""
    assert sqlite3.connect(log.path).execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_log_that_is_moved_away_is_begun_anew(tmp_path: Path) -> None:
    log = FeedbackLog(tmp_path / "log.sqlite")
    log.append("m", "api", [[_correction(0)]])
    for path in list(tmp_path.iterdir()):
        path.rename(tmp_path / f"old-{path.name}")
    log.append("m", "api", [[_correction(1)]])
    assert [entry.id for entry in FeedbackLog(log.path).after()] == ["c1"]
    log.close()


def test_a_file_that_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "log.sqlite").write_text("this is no database, though it is long enough to be one" * 100)
    with pytest.raises(OSError, match="cannot be written"):
        FeedbackLog(tmp_path / "log.sqlite").append("m", "api", [[_correction(0)]])


@pytest.mark.parametrize(
    "table", ["feedback (id TEXT, stars INTEGER)", "customers (name TEXT)", "about (key TEXT); CREATE TABLE x (y TEXT)"]
)
def test_another_database_is_not_touched(tmp_path: Path, table: str) -> None:
    with sqlite3.connect(tmp_path / "mine.db") as connection:
        connection.executescript(f"CREATE TABLE {table}")
    connection.close()
    before = (tmp_path / "mine.db").read_bytes()
    with pytest.raises(OSError, match="another database"):
        FeedbackLog(tmp_path / "mine.db").append("m", "api", [[_correction(0)]])
    assert (tmp_path / "mine.db").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["mine.db"]


def test_a_lock_file_of_the_user_keeps_its_content(folders: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "poetry.lock").write_text("of another tool")
    served = shutil.copytree(folders["net"], tmp_path / "net")
    learn_from_log(served, FeedbackLog(tmp_path / "poetry"))
    assert (tmp_path / "poetry.lock").read_text() == "of another tool"


def test_post_learn(server: Server) -> None:
    body = {
        "corrections": [
            {"text": "a fig", "labels": ["all about fig", "something new"], "id": "post-1"},
            {"text": "a pear", "right": ["http://example.org/pear"], "wrong": ["all about red"]},
        ]
    }
    answer = server.client.post("/learn", json=body)
    assert answer.status_code == 202
    document = answer.json()
    assert (document["accepted"], document["duplicates"], document["learning"]) == (2, 0, "next training")
    assert document["unknown_labels"] == ["something new"]
    assert document["ids"][0] == "post-1"
    again = server.client.post("/learn", json=body).json()
    assert (again["accepted"], again["duplicates"]) == (1, 1)


def test_corrections_are_taken_back(server: Server) -> None:
    corrections = [{"text": "a fig", "labels": ["all about fig"], "id": name} for name in ("undo-1", "un/do é")]
    log = FeedbackLog(server.log.parent / "feedback" / "tree.feedback.sqlite")
    server.client.post("/learn", json={"corrections": corrections})
    n = len(log)
    answer = server.client.post("/learn/undo", json={"ids": ["un/do é", "nowhere", "un/do é"]})
    assert answer.status_code == 200
    assert answer.json() == {"model": "tree", "removed": 1, "missing": ["nowhere"], "learnt": 0}
    assert (len(log), [entry.id for entry in log.after()][-1]) == (n - 1, "undo-1")
    assert server.client.post("/learn", json={"corrections": corrections}).json()["accepted"] == 1


def _post_all(url: str, numbers: Any, acknowledged: set[int], stop: threading.Event) -> None:
    """Post corrections one by one, and each again until the server has acknowledged it."""
    with httpx.Client(base_url=url, timeout=LONG) as client:
        for i in numbers:
            while not stop.is_set():
                with contextlib.suppress(httpx.TransportError):
                    if client.post("/learn", json={"corrections": [_correction(i)]}).status_code == 202:
                        acknowledged.add(i)
                        break
                time.sleep(0.02)


def test_kill_9_neither_loses_nor_doubles_feedback(start: Start, folders: dict[str, Path], tmp_path: Path) -> None:
    n, kills = 400, 3
    words = [folders["popular"], "--no-learn", "--feedback", tmp_path / "logs"]
    server = start(*words).until_ready()
    port = server.url.rpartition(":")[2]
    acknowledged: set[int] = set()
    stop = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        parts = [pool.submit(_post_all, server.url, range(k, n, 4), acknowledged, stop) for k in range(4)]
        try:
            for kill in range(kills):
                while len(acknowledged) < n * (kill + 1) / (kills + 1):
                    time.sleep(0.005)
                server.stop(signal.SIGKILL)
                stored = {entry.id for entry in FeedbackLog(tmp_path / "logs" / "popular.feedback.sqlite").after()}
                assert {f"c{i}" for i in set(acknowledged)} <= stored
                server = start(*words, "--port", port)
            for part in parts:
                part.result(timeout=LONG)
        finally:
            stop.set()
    entries = list(FeedbackLog(tmp_path / "logs" / "popular.feedback.sqlite").after())
    assert len(entries) == n
    assert {entry.id for entry in entries} == {f"c{i}" for i in range(n)}


def test_a_model_learns_each_correction_once(folders: dict[str, Path], tmp_path: Path) -> None:
    served = tmp_path / "net"
    shutil.copytree(folders["net"], served)
    log = FeedbackLog(default_feedback_path(served))
    corrections = [{"text": f"a yellow dragonfruit {i}", "labels": ["all about quince", "unknown"]} for i in range(8)]
    log.append("net", "api", [corrections, [{"text": "a fig", "wrong": ["all about red"]}]])
    learnt = learn_from_log(served, log)
    assert (learnt.corrections, learnt.points, learnt.unknown_labels) == (9, 8, ("unknown",))
    assert learn_from_log(served, log).corrections == 0
    tagger = longtail.load(served)
    assert tagger.n_points_ == 72 + 8
    assert tagger.notes_["feedback"] == {"learnt": {log.identity(): 9}}
    other = FeedbackLog(tmp_path / "other.sqlite")
    other.append("net", "api", [corrections])
    assert [learn_from_log(served, one).corrections for one in (other, log, other)] == [8, 0, 0]
    with pytest.raises(ModelError, match="cannot be trained further"):
        learn_from_log(folders["tree"], log)


def test_a_blend_learns_at_once(folders: dict[str, Path], tmp_path: Path) -> None:
    data = longtail.read(folders["data"])
    longtail.Tagger("blend([parabel, knn, textmatch])").fit_dataset(data).save(tmp_path / "blend")
    before = dict(longtail.load(tmp_path / "blend").suggest("a red number5 quince", k=9))
    log = FeedbackLog(tmp_path / "log.sqlite")
    log.append("blend", "api", [[{"text": "a red number5 quince", "labels": ["all about lime"]}]])
    assert learn_from_log(tmp_path / "blend", log).points == 1
    learnt = longtail.load(tmp_path / "blend")
    assert dict(learnt.suggest("a red number5 quince", k=9))["all about lime"] > before.get("all about lime", 0)
    assert (learnt.n_points_, learnt.label_counts_.sum()) == (73, 145)


def test_learn_names_the_members_that_learn(folders: dict[str, Path], tmp_path: Path) -> None:
    model, table = tmp_path / "blend", tmp_path / "new.csv"
    longtail.Tagger("blend([parabel, knn, textmatch])").fit_dataset(longtail.read(folders["data"])).save(model)
    table.write_text("text,labels\na red number5 quince,all about lime\n")
    shown = " ".join(CliRunner().invoke(app, ["learn", str(model), str(table)]).stdout.split())
    assert f"Trained knn in {model} on 1 correction; parabel, textmatch will learn" in shown
    again = CliRunner().invoke(app, ["learn", str(model), "--json"])
    assert json.loads(again.stdout)["learnt_by"] == ["knn"]


def test_a_model_that_is_replaced_while_it_learns_is_learnt_again(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a training that ends meanwhile would be overwritten by the old model."""
    served = tmp_path / "net"
    shutil.copytree(folders["net"], served)
    log = FeedbackLog(tmp_path / "log.sqlite")
    log.append("net", "api", [[_correction(0)]])
    features, rounds = longtail.Tagger.features, []

    def meanwhile(self: longtail.Tagger, texts: Any) -> Any:
        if not rounds:
            newer = longtail.load(folders["net"])
            newer.notes_ = {"round": 2}
            newer.save(served)
        rounds.append(len(texts))
        return features(self, texts)

    monkeypatch.setattr(longtail.Tagger, "features", meanwhile)
    assert learn_from_log(served, log).points == 1
    assert rounds == [1, 1]
    assert longtail.load(served).notes_.keys() == {"round", "feedback"}


def test_the_service_learns_in_the_background(start: Start, folders: dict[str, Path], tmp_path: Path) -> None:
    served = tmp_path / "net"
    shutil.copytree(folders["net"], served)
    server = start(served, f"tree={folders['tree']}", "--feedback", tmp_path / "logs").until_ready()
    version = server.client.get("/models").json()["models"][0]["version"]
    body = {"corrections": [_correction(i) for i in range(5)]}
    assert server.client.post("/learn", json=body | {"model": "tree"}).json()["learning"] == "next training"
    assert server.client.post("/learn", json=body).json()["learning"] == "background"
    end = time.monotonic() + LONG
    while (model := server.client.get("/models").json()["models"][0])["version"] == version:
        assert time.monotonic() < end, server.log.read_text()
        time.sleep(0.1)
    assert model["n_points"] == 72 + 5
    assert server.stop() == 0
    assert '"level":"error"' not in server.log.read_text()


def test_learning_rests_in_proportion_to_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large model takes seconds to load and save; corrections that come meanwhile are learnt together."""
    clock = [100.0]

    class Child:
        returncode = 0

        def __init__(self, *_: Any, **__: Any) -> None:
            clock[0] += 3

        def communicate(self) -> tuple[bytes, bytes]:
            return b"", b""

    monkeypatch.setattr(learning, "subprocess", SimpleNamespace(Popen=Child, DEVNULL=None, PIPE=None))
    monkeypatch.setattr(learning, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    learner = learning.BackgroundLearner({})
    learner._learn("m", tmp_path, FeedbackLog(tmp_path / "log"), 7)
    assert (learner._tried, learner._not_before) == ({"m": 7}, {"m": 115.0})


def test_longtail_learn(folders: dict[str, Path], tmp_path: Path) -> None:
    served, tree, table = tmp_path / "net", tmp_path / "tree", tmp_path / "new.csv"
    shutil.copytree(folders["net"], served)
    shutil.copytree(folders["tree"], tree)
    rows = [f"a ripe fig {i},all about fig|all about red" for i in range(6)]
    table.write_text("\n".join(["text,labels", *rows]) + "\n")
    for model, facts in ((served, {"learnt": 6, "unknown_labels": []}), (tree, {"unknown_labels": []})):
        for stored, learnt in ((6, facts), (0, facts | ({"learnt": 0} if "learnt" in facts else {}))):
            result = CliRunner().invoke(app, ["learn", str(model), str(table), "--json"])
            assert result.exit_code == 0, result.output
            expected = {"model": str(model), "feedback": str(default_feedback_path(model)), **learnt}
            assert json.loads(result.stdout) == expected | {"stored": stored, "duplicates": 6 - stored}
    shown = CliRunner().invoke(app, ["learn", str(tree), str(table)])
    assert "there already: 6" in " ".join(shown.stdout.split())
    assert f"train again with --feedback {default_feedback_path(tree)}" in " ".join(shown.stderr.split())
    table.write_text("text,labels\na ripe kiwi,all about kiwi\n")
    shown = CliRunner().invoke(app, ["learn", str(tree), str(table)])
    assert "not in the model and wait in the log: 1 (all about kiwi)" in shown.stderr
    assert longtail.load(served).n_points_ == 78
    assert next(FeedbackLog(default_feedback_path(tree)).after()).source == "file"


def test_longtail_learn_undo(folders: dict[str, Path], tmp_path: Path) -> None:
    near, table = tmp_path / "near", tmp_path / "new.csv"
    shutil.copytree(folders["near"], near)
    log = FeedbackLog(default_feedback_path(near))
    table.write_text("text,labels\na ripe fig,all about fig|all about red\na ripe kiwi,all about kiwi\n")

    def learn(*words: str, code: int = 0) -> Any:
        result = CliRunner().invoke(app, ["learn", str(near), *words])
        assert result.exit_code == code, result.output
        return result

    assert "Took 0 corrections out of" in learn("--undo", "--id", "nowhere").stdout
    assert not log.path.exists()
    learn(str(table))
    log.append("near", "api", [[_correction(0), _correction(1)]])
    assert len(log) == 4
    undone = learn(str(table), "--undo")
    assert f"Took 2 corrections out of {log.path}\n" in undone.stdout
    assert f"{near} has learnt from 2 of them already. To make it forget them, train again" in undone.stderr
    assert [entry.id for entry in log.after()] == ["c0", "c1"]
    facts = json.loads(learn("--undo", "--id", "c1", "--id", "file", "--json").stdout)
    assert facts == {"model": str(near), "feedback": str(log.path), "removed": 1, "missing": ["file"], "learnt": 0}
    assert "Took 0 corrections out of" in learn(str(table), "--undo").stdout
    learn(str(table))
    assert [entry.seq for entry in log.after()] == [3, 5, 6]  # numbers are not given twice
    for words in (("--undo",), (str(table), "--undo", "--id", "c0")):
        assert "either DATA, with which they were stored, or --id" in learn(*words, code=2).stderr
    assert "--id has no effect without --undo" in learn(str(table), "--id", "c0", code=2).stderr


@pytest.mark.parametrize(
    "damaged",
    [
        "'{\"text\": '",
        "'5'",
        "CAST(X'7b22ff' AS TEXT)",
        "X'ff'",
        "5",
        "'{\"labels\": 5}'",
        "'{\"right\": [5]}'",
        "'{\"text\": 5}'",
    ],
)
def test_a_damaged_correction_is_one_clear_error(tmp_path: Path, damaged: str) -> None:
    log = FeedbackLog(tmp_path / "feedback.sqlite")
    log.append("m", "test", [[{"text": "a", "labels": ["x"]}]])
    log.close()
    with sqlite3.connect(log.path) as connection:
        connection.execute(f"UPDATE feedback SET correction = {damaged}")
    connection.close()
    with pytest.raises(DataError, match="not a readable feedback log"):
        list(log.after(0))


def test_a_log_that_is_not_a_log_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "feedback.sqlite").write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    for use in (FeedbackLog.last, FeedbackLog.identity, FeedbackLog.__len__):
        with pytest.raises(DataError, match="not a readable feedback log"):
            use(FeedbackLog(tmp_path / "feedback.sqlite"))
