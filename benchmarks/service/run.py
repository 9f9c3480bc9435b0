"""Measure the service: ``python -m benchmarks.service.run --model DIR --parts one,batch,start,workers,replace,kills``.

DIR holds a blend trained on debian-packages, by default one that is trained first; texts are those of its test part.
Needs ``wrk`` (Debian's package of that name).
"""

from __future__ import annotations

import argparse
import concurrent.futures
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import longtail
from benchmarks import render, results
from benchmarks.paths import DATA_ROOT, WORK
from benchmarks.service.server import Server, under_load
from longtail.serve.feedback import FeedbackLog
from longtail.serve.learning import learn_from_log

_POSTS, _KILLS, _CLIENTS = 10_000, 20, 8


def one_text(model: Path, texts: list[str], seconds: int) -> dict[str, Any]:
    """One text per request on 32 connections; memory before and after."""
    with Server(str(model), "--no-learn") as server:
        server.until_answer(texts[0])
        under_load(server, texts, 3)
        before = server.memory_mb()
        return under_load(server, texts, seconds) | {"mb_before": before, "mb_after": server.memory_mb()}


def batch(model: Path, texts: list[str], seconds: int) -> dict[str, Any]:
    """1,000 texts per request, one after the other."""
    with Server(str(model), "--no-learn") as server:
        server.until_answer(texts[0])
        body, best = {"texts": texts[:1000]}, float("inf")
        cpu = server.cpu_seconds()
        for _ in range(10):
            begin = time.perf_counter()
            server.post("/suggest", body)
            best = min(best, time.perf_counter() - begin)
        return {"texts_per_second": 1000 / best, "cpu_ms_per_text": (server.cpu_seconds() - cpu) / 10}


def start(model: Path, texts: list[str], seconds: int) -> dict[str, Any]:
    """Seconds, and processor time, from the start to the first answer, with compiled kernels: the best of five."""
    found = []
    for _ in range(5):
        with Server(str(model), "--no-learn") as server:
            found.append((server.until_answer(texts[0]), server.cpu_seconds()))
    return {"seconds": min(found)[0], "cpu_seconds": min(cpu for _, cpu in found)}


def workers(model: Path, texts: list[str], seconds: int) -> dict[str, Any]:
    """Memory of four workers against one, without what each process of Python has of its own; see the section."""
    found = {}
    for n in (1, 4):
        with Server(str(model), "--no-learn", "--workers", str(n)) as server:
            server.until_answer(texts[0])
            under_load(server, texts, 5)
            time.sleep(1)
            found[n] = server.memory_mb(), sum(_weights_mb(pid, model) for pid in server.processes())
    return {"mb_1": found[1][0], "mb_4": found[4][0], "weights_mb_1": found[1][1], "weights_mb_4": found[4][1]}


def _weights_mb(pid: int, model: Path) -> float:
    """Return the proportional share of a process in the mapped arrays of a model."""
    total, inside = 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if "-" in line.split(" ", 1)[0] and ":" not in line.split(" ", 1)[0]:
            inside = str(model.resolve()) in line
        elif inside and line.startswith("Pss:"):
            total += int(line.split()[1])
    return total / 1024


def replace(model: Path, texts: list[str], seconds: int) -> dict[str, Any]:
    """The load of `one_text` while the model is replaced every minute; memory after the first and the last change."""
    with tempfile.TemporaryDirectory() as folder:
        served = Path(folder) / "model"
        shutil.copytree(model, served)
        with Server(str(served), "--no-learn") as server:
            server.until_answer(texts[0])
            tagger, memory, stop = longtail.load(model), [], threading.Event()

            def replacing() -> None:
                while not stop.wait(60):
                    memory.append(server.memory_mb())
                    tagger.notes_["round"] = len(memory)
                    tagger.save(served)

            thread = threading.Thread(target=replacing)
            thread.start()
            found = under_load(server, texts, seconds)
            stop.set()
            thread.join()
            memory.append(server.memory_mb())
            loads = Path(server.errors.name).read_text().count('"event":"model loaded"')
    return found | {"replaced": loads - 1, "memory_mb": memory}


def kills(model: Path, texts: list[str], seconds: int) -> dict[str, Any]:
    """10,000 corrections while the service, which learns them, is killed 20 times: what is lost, doubled, learnt."""
    with tempfile.TemporaryDirectory() as folder:
        served, log = Path(folder) / "model", FeedbackLog(Path(folder) / "model.feedback.sqlite")
        small = [[f"group {i % 50}", f"label {i % 400}"] for i in range(2000)]
        longtail.Tagger("blend([knn, textmatch])").fit(texts[:2000], small).save(served)
        server, done = Server(str(served)), set[int]()
        port = server.port

        def post(numbers: range) -> None:
            connection: http.client.HTTPConnection | None = None
            for i in numbers:
                correction = {"text": f"{texts[i % len(texts)]} {i}", "labels": [f"label {i % 400}"], "id": f"c{i}"}
                while i not in done:
                    try:
                        connection = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                        body = json.dumps({"corrections": [correction]})
                        connection.request("POST", "/learn", body, {"Content-Type": "application/json"})
                        answer = connection.getresponse()
                        answer.read()
                        if answer.status == 202:
                            done.add(i)
                    except (OSError, http.client.HTTPException):
                        connection = None
                        time.sleep(0.02)

        lost = 0
        with concurrent.futures.ThreadPoolExecutor(_CLIENTS) as pool:
            jobs = [pool.submit(post, range(k, _POSTS, _CLIENTS)) for k in range(_CLIENTS)]
            for kill in range(_KILLS):
                while len(done) < _POSTS * (kill + 1) / (_KILLS + 1):
                    time.sleep(0.005)
                server.stop(signal.SIGKILL)
                stored = {entry.id for entry in log.after()}
                lost += len({f"c{i}" for i in set(done)} - stored)
                server = Server(str(served), port=port)
            for job in jobs:
                job.result()
        server.stop()
        learn_from_log(served, log)
        ids = [entry.id for entry in log.after()]
        learnt = longtail.load(served).n_points_ - 2000
    return {
        "posts": _POSTS,
        "kills": _KILLS,
        "lost": lost + _POSTS - len(set(ids)),
        "doubled": len(ids) - len(set(ids)),
        "learnt": learnt,
    }


PARTS: dict[str, Callable[[Path, list[str], int], dict[str, Any]]] = {
    "one": one_text,
    "batch": batch,
    "start": start,
    "workers": workers,
    "replace": replace,
    "kills": kills,
}
_SECONDS = {"one": 60, "replace": 600}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure the parts that are asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.service.run", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--model", type=Path, default=WORK / "service-blend", metavar="DIR")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--data-root", type=Path, default=DATA_ROOT)
    parser.add_argument("--seconds", type=int, help="length of the runs under load; 60, and 600 with replaced models")
    given = parser.parse_args(argv)
    if not given.model.exists():
        command = [sys.executable, "-m", "longtail", "train", str(given.data_root / "debian-packages")]
        subprocess.run([*command, "--out", str(given.model)], check=True)
    data = longtail.read(given.data_root / "debian-packages", vectorizer=None)
    assert data.test is not None
    texts = [text for text in data.test.texts or [] if text.strip()]
    for name in given.parts.split(","):
        load = os.getloadavg()[0]
        row = {"load_before": load} | PARTS[name](given.model, texts, given.seconds or _SECONDS.get(name, 0))
        print(name, row, flush=True)
        results.add("service", name, row, "blend")
    render.render()


if __name__ == "__main__":
    main()
