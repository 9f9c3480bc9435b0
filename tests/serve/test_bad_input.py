"""Mistakes of clients and of those who start the service: the right status, a clear message, and it lives on."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import longtail
from longtail.serve.feedback import FeedbackLog
from tests.serve.conftest import Server, Start

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"", 400, "not valid JSON"),
        (b"{", 400, "not valid JSON"),
        (b'{"texts": "\xff\xfe"}', 400, "UTF-8"),
        (b'{"texts": "\\ud800"}', 400, "not valid JSON"),
        (b"[]", 422, "body"),
        (b"{}", 422, "texts: field required"),
        (b'{"texts": ""}', 422, "texts: string should have at least 1 character."),
        (b'{"texts": []}', 422, "texts: list should have at least 1 item"),
        (b'{"texts": ["a", null]}', 422, "texts[1]: input should be a valid string"),
        (b'{"texts": ["a", 7]}', 422, "texts[1]: input should be a valid string."),
        (b'{"texts": "a", "k": 0}', 422, "k: input should be greater than or equal to 1"),
        (b'{"texts": "a", "k": 1000000}', 422, "k: input should be less than or equal to 100"),
        (b'{"texts": "a", "k": "5"}', 422, "k: input should be a valid integer"),
        (b'{"texts": "a", "threshold": 2}', 422, "threshold: input should be less than or equal to 1"),
        (b'{"texts": "a", "treshold": 0.5}', 422, "treshold: extra inputs are not permitted"),
        (b'{"texts": "a", "model": "x"}', 404, "No model is called 'x'. Models: tree, net."),
        (json.dumps({"texts": ["a"] * 1001}).encode(), 422, "at most 1000 items"),
        (json.dumps({"texts": "word " * 2_000_000}).encode(), 413, "larger than 8,388,608 bytes"),
    ],
)
def test_a_wrong_request(server: Server, body: bytes, status: int, message: str) -> None:
    answer = server.client.post("/suggest", content=body, headers=JSON)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert message in answer.json()["detail"]
    assert answer.json()["status"] == status
    assert server.suggest("a red apple").status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/explain", b'{"text": ""}', 422, "text: string should have at least 1 character"),
        ("/explain", b'{"text": "a", "k": 0}', 422, "k: input should be greater than or equal to 1"),
        ("/explain", b'{"text": "a", "k": 1000000}', 422, "k: input should be less than or equal to 20"),
        ("/explain", b'{"text": "a", "model": "x"}', 404, "No model is called 'x'"),
        ("/explain", b'{"text": "\xff"}', 400, "UTF-8"),
        ("/explain", b"{", 400, "not valid JSON"),
        ("/learn", b'{"corrections": [{"text": "", "labels": ["a"]}]}', 422, "corrections[0].text: string should have"),
        ("/learn", b'{"corrections": []}', 422, "corrections: list should have at least 1 item"),
        ("/learn", b'{"corrections": [{"text": "a", "labels": ["b"]}], "model": "x"}', 404, "No model is called 'x'"),
        ("/learn", b'{"corrections": [{"text": "\xff", "labels": ["b"]}]}', 400, "UTF-8"),
        ("/learn", b"[", 400, "not valid JSON"),
        ("/learn/undo", b'{"ids": []}', 422, "ids: list should have at least 1 item"),
        ("/learn/undo", b'{"ids": ["a"], "model": "x"}', 404, "No model is called 'x'"),
        ("/v1/projects/x/learn", b"[]", 404, "No model is called 'x'"),
        ("/v1/projects/tree/learn", b"[", 400, "not valid JSON"),
        ("/v1/projects/tree/suggest-batch", b'{"documents": [{"text": "\xff"}]}', 400, "UTF-8"),
    ],
)
def test_a_wrong_request_to_other_paths(server: Server, path: str, body: bytes, status: int, message: str) -> None:
    answer = server.client.post(path, content=body, headers=JSON)
    assert (answer.status_code, message in answer.json()["detail"]) == (status, True), answer.text
    for large in ("/explain", "/learn", "/v1/projects/tree/suggest"):
        assert server.client.post(large, content=b"a" * 10_000_000, headers=JSON).status_code == 413
    assert server.client.get("/health").status_code == 200


def test_other_paths_methods_and_types(server: Server) -> None:
    assert server.client.get("/nothing").status_code == 404
    assert server.client.get("/suggest").status_code == 405
    assert server.client.get("/suggest").headers["allow"] == "POST"
    assert server.client.get("/suggest").json()["detail"] == "This path does not take GET. Use POST."
    assert server.client.post("/suggest", content=b"<a/>", headers={"Content-Type": "text/xml"}).status_code == 415
    unknown = server.client.post("/explain", json={"text": "a", "labels": ["x"]})
    assert (unknown.status_code, "no label of the name 'x'" in unknown.json()["detail"]) == (404, True)
    nothing = server.client.post("/learn", json={"corrections": [{"text": "a"}]})
    assert (nothing.status_code, "names no label" in nothing.json()["detail"]) == (422, True)


def test_a_body_that_grows_too_large_without_saying_so(server: Server) -> None:
    def parts() -> Any:
        for _ in range(20):
            yield b"a" * 1_000_000

    answer = server.client.post("/suggest", content=parts(), headers=JSON)
    assert answer.status_code == 413


def _connect(server: Server) -> socket.socket:
    address = urlsplit(server.url)
    return socket.create_connection((address.hostname, address.port), timeout=60)


def test_a_slow_client_is_told_and_an_aborted_one_forgotten(server: Server) -> None:
    head = b"POST /suggest HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    with _connect(server) as slow, _connect(server) as gone:
        slow.sendall(head)
        gone.sendall(head)
        gone.close()
        assert server.suggest("a red apple").status_code == 200
        assert b" 408 " in slow.recv(65536)
    aborted = json.dumps({"texts": ["a red apple"] * 1000}).encode()
    for _ in range(5):
        with _connect(server) as client:
            client.sendall(head.replace(b"100", str(len(aborted)).encode())[:-1] + aborted)
    assert server.suggest("a red apple").status_code == 200
    assert "Traceback" not in server.log.read_text()


def test_tokens(start: Start, folders: dict[str, Path], tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("# of the catalogue\nfirst-token-0123456789\nsecond-token-987654321  # of the shop\n")
    server = start(folders["popular"], "--no-learn", "--tokens", tokens).until_ready()
    for given in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic first-token-0123456789"}):
        for method, path in (("POST", "/suggest"), ("GET", "/models"), ("GET", "/metrics"), ("GET", "/v1/projects")):
            answer = server.client.request(method, path, headers=given)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
    for token in ("first-token-0123456789", "second-token-987654321"):
        headers = {"Authorization": f"Bearer {token}"}
        assert server.client.post("/suggest", json={"texts": "a"}, headers=headers).status_code == 200
    assert server.client.get("/health").status_code == 200
    assert server.client.get("/").status_code == 200
    assert "0123456789" not in server.log.read_text()
    assert server.stop() == 0
    in_environment = start(folders["popular"], "--no-learn", env={"LONGTAIL_TOKENS": "first-token-0123456789"})
    assert in_environment.client.get("/models").status_code == 401


def _refused(*words: Any) -> str:
    command = [sys.executable, "-m", "longtail", "serve", *map(str, words)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr
    return " ".join(ended.stderr.split())


def test_a_port_in_use(server: Server, folders: dict[str, Path]) -> None:
    port = urlsplit(server.url).port
    message = _refused(folders["popular"], "--port", port)
    assert f"Port {port} of 127.0.0.1 cannot be used: Address already in use. Choose another one" in message


def test_what_cannot_be_served(folders: dict[str, Path], tmp_path: Path) -> None:
    assert "no model.json, so this is not a model folder" in _refused(tmp_path, "--port", 0)
    short = tmp_path / "tokens"
    short.write_text("abc\n")
    assert "at least 16 characters" in _refused(folders["popular"], "--tokens", short)
    assert "Two models are called 'popular'" in _refused(folders["popular"], folders["popular"])
    features = tmp_path / "features"
    longtail.make("popular").fit([[1.0, 0.0], [0.0, 1.0]], [[1, 0], [0, 1]]).save(features)
    assert "trained on features, not on text" in _refused(features, "--port", 0)


def test_a_full_disk_under_the_feedback_log(start: Start, folders: dict[str, Path], tmp_path: Path) -> None:
    """SQLite reports the same error for a file that has reached its largest number of pages."""
    code = tmp_path / "code"
    code.mkdir()
    (code / "sitecustomize.py").write_text(
        "import sqlite3\n"
        "connect = sqlite3.connect\n"
        "def limited(*args, **kwargs):\n"
        "    connection = connect(*args, **kwargs)\n"
        "    connection.execute('PRAGMA max_page_count=16')\n"
        "    return connection\n"
        "sqlite3.connect = limited\n"
    )
    root = Path(longtail.__file__).parents[1]
    env = {"PYTHONPATH": f"{code}:{root}"}
    server = start(folders["popular"], "--no-learn", "--feedback", tmp_path / "logs", env=env).until_ready()
    small = {"corrections": [{"text": "a", "labels": ["all about fig"], "id": "small"}]}
    large = {"corrections": [{"text": "word " * 50_000, "labels": ["all about fig"]}]}
    assert server.client.post("/learn", json=small).status_code == 202
    answer = server.client.post("/learn", json=large)
    assert answer.status_code == 507
    assert "Nothing was stored" in answer.json()["detail"]
    assert server.suggest("a red apple").status_code == 200
    again = server.client.post("/learn", json=small).json()
    assert (again["accepted"], again["duplicates"]) == (0, 1)
    assert len(FeedbackLog(tmp_path / "logs" / "popular.feedback.sqlite")) == 1


def test_a_log_that_cannot_be_written(start: Start, folders: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    server = start(folders["popular"], "--no-learn", "--feedback", tmp_path / "file" / "below").until_ready()
    correction = {"corrections": [{"text": "a", "labels": ["all about fig"]}]}
    assert server.client.post("/learn", json=correction).status_code == 507
    assert server.suggest("a red apple").status_code == 200


def test_time_is_limited(start: Start, folders: dict[str, Path], tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "sitecustomize.py").write_text(
        "import time\n"
        "from longtail.serve import library\n"
        "predict = library.ServedModel.predict\n"
        "def slow(self, texts, k):\n"
        "    if 'slow' in texts:\n"
        "        time.sleep(5)\n"
        "    return predict(self, texts, k)\n"
        "library.ServedModel.predict = slow\n"
    )
    root = Path(longtail.__file__).parents[1]
    server = start(folders["popular"], "--no-learn", "--max-seconds", "0.5", env={"PYTHONPATH": f"{code}:{root}"})
    server.until_ready()
    begin = time.monotonic()
    answer = server.suggest("slow")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "longer than 0.5 seconds" in answer.json()["detail"]
    assert time.monotonic() - begin < 4.9
    assert server.suggest("fast").status_code == 200
