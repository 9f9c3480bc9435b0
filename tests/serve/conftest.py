"""A real server on a free port, with tiny models that are trained once per session."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import longtail

FRUITS = ["apple", "pear", "plum", "fig", "lime", "quince"]
COLOURS = ["red", "green", "blue"]
LONG = 120.0  # seconds: a busy machine may have to compile kernels first


def write_data(folder: Path) -> Path:
    """Texts about fruits and colours, and labels with URIs."""
    folder.mkdir()
    labels = [{"uid": f"http://example.org/{name}", "title": f"all about {name}"} for name in [*FRUITS, *COLOURS]]
    points = [
        {
            "uid": f"d{i}",
            "title": f"a {COLOURS[i // 6 % 3]} {FRUITS[i % 6]} number{i}",
            "target_ind": [i % 6, 6 + i // 6 % 3],
        }
        for i in range(72)
    ]
    (folder / "trn.json").write_text("".join(json.dumps(point) + "\n" for point in points))
    (folder / "lbl.json").write_text("".join(json.dumps(label) + "\n" for label in labels))
    return folder


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Model folders: a label tree, nearest neighbours, a network that can learn, and a baseline."""
    root = tmp_path_factory.mktemp("models")
    data = longtail.read(write_data(root / "data"))
    longtail.Tagger("parabel").fit_dataset(data).save(root / "tree")
    longtail.Tagger("knn").fit_dataset(data).save(root / "near")
    longtail.Tagger("mnn", dim=8, epochs=2).fit_dataset(data).save(root / "net")
    longtail.Tagger("popular").fit_dataset(data).save(root / "popular")
    return {name: root / name for name in ("tree", "near", "net", "popular", "data")}


class Server:
    """A running ``longtail serve``."""

    def __init__(self, words: list[str], log: Path, env: dict[str, str] | None = None) -> None:
        self.log = log
        self.stderr = log.open("ab")
        command = [sys.executable, "-m", "longtail", "serve", *words]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.stderr, text=True, env=os.environ | (env or {})
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if " at http://" not in line:
            self.process.kill()
            self._close()
            raise AssertionError(f"{line!r}\n{log.read_text()}")
        self.url = line.strip().rpartition(" ")[2]
        self.client = httpx.Client(base_url=self.url, timeout=LONG)

    def until_ready(self) -> Server:
        """Wait until the models are loaded."""
        end = time.monotonic() + LONG
        while time.monotonic() < end:
            assert self.process.poll() is None, self.log.read_text()
            with contextlib.suppress(httpx.TransportError):
                if self.client.get("/ready").status_code == 200:
                    return self
            time.sleep(0.05)
        raise AssertionError(f"not ready after {LONG} s\n{self.log.read_text()}")

    def suggest(self, texts: Any, **more: Any) -> httpx.Response:
        """Call ``POST /suggest``."""
        return self.client.post("/suggest", json={"texts": texts, **more})

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Stop the server and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(timeout=60)
        self.client.close()
        self._close()
        return code

    def _close(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.stderr.close()


Start = Callable[..., Server]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a server for one test."""
    servers: list[Server] = []

    def started(*words: Any, env: dict[str, str] | None = None, log: Path | None = None) -> Server:
        log = log or tmp_path / f"server{len(servers)}.log"
        words = words if "--port" in words else (*words, "--port", 0)
        servers.append(Server([*map(str, words)], log, env))
        return servers[-1]

    yield started
    for server in servers:
        server.stop(signal.SIGKILL)


@pytest.fixture(scope="session")
def server(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server that most tests share: two models, learning switched off so that answers stay the same."""
    root = tmp_path_factory.mktemp("server")
    words = [f"tree={folders['tree']}", f"net={folders['net']}", "--feedback", str(root / "feedback"), "--no-learn"]
    running = Server([*words, "--port", "0", "--max-seconds", "5"], root / "server.log").until_ready()
    yield running
    assert running.stop() == 0
