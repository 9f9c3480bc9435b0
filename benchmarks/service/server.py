"""A running ``longtail serve``, what it costs, and the load that wrk puts on it."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Self

_WAIT = 120.0
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_SCRIPT = """
local bodies, i = {{}}, 0
for line in io.lines("{path}") do bodies[#bodies + 1] = line end
request = function()
  i = i % #bodies + 1
  return wrk.format("POST", "/suggest", {{["Content-Type"] = "application/json"}}, bodies[i])
end
"""


class Server:
    """``longtail serve`` as a process of its own.

    Parameters
    ----------
    words : str
        Arguments of the verb.
    port : int
        Port; 0 for any free one.
    """

    def __init__(self, *words: str, port: int = 0) -> None:
        self.begin = time.perf_counter()
        command = [sys.executable, "-m", "longtail", "serve", *words, "--port", str(port)]
        self.errors = tempfile.NamedTemporaryFile(suffix=".log")  # noqa: SIM115  closed with the server
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if " at http://" not in line:
            raise RuntimeError(Path(self.errors.name).read_text())
        self.port = int(line.strip().rpartition(":")[2])

    def post(self, path: str, document: Any) -> Any:
        """Return the answer to one request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_WAIT)
        try:
            connection.request("POST", path, json.dumps(document), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            content = answer.read()
            if answer.status >= 300:
                raise OSError(f"status {answer.status}: {content[:200]!r}")
            return json.loads(content)
        finally:
            connection.close()

    def until_answer(self, text: str) -> float:
        """Return the seconds from the start of the process to its first answer."""
        while time.perf_counter() - self.begin < _WAIT:
            try:
                self.post("/suggest", {"texts": text})
                return time.perf_counter() - self.begin
            except OSError:
                time.sleep(0.005)
        raise RuntimeError("the service does not answer")

    def processes(self) -> list[int]:
        """Return the numbers of the process and of its workers."""
        listed = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True).stdout.split()
        return [self.process.pid, *map(int, listed)]

    def cpu_seconds(self) -> float:
        """Return the processor time that the process has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def memory_mb(self) -> float:
        """Return the memory that the processes have of their own and their share of what they have in common."""
        return sum(_proportional_mb(pid) for pid in self.processes())

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End the process."""
        self.process.send_signal(number)
        self.process.wait(timeout=60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.stop()


def _proportional_mb(pid: int) -> float:
    try:
        return int(re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)[1]) / 1024  # type: ignore[index]
    except (OSError, TypeError):
        return 0.0


def under_load(server: Server, texts: list[str], seconds: int, connections: int = 32) -> dict[str, Any]:
    """Return latencies, requests and errors of a run of wrk with one text per request."""
    with tempfile.TemporaryDirectory() as folder:
        bodies, script = Path(folder) / "bodies.txt", Path(folder) / "one.lua"
        bodies.write_text("".join(json.dumps({"texts": text}) + "\n" for text in texts))
        script.write_text(_SCRIPT.format(path=bodies))
        before, load = server.cpu_seconds(), os.getloadavg()[0]
        command = [
            "wrk",
            "-t1",
            f"-c{connections}",
            f"-d{seconds}s",
            "--timeout",
            "30s",
            "--latency",
            "-s",
            str(script),
        ]
        shown = subprocess.run(
            [*command, f"http://127.0.0.1:{server.port}/"], capture_output=True, text=True, check=True
        ).stdout
    requests = int(re.search(r"(\d+) requests in", shown)[1])  # type: ignore[index]
    failed = re.search(r"Non-2xx or 3xx responses: (\d+)", shown)
    socket = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", shown)
    return {
        "connections": connections,
        "seconds": seconds,
        "requests": requests,
        "p50_ms": _milliseconds(shown, 50),
        "p99_ms": _milliseconds(shown, 99),
        "errors": (int(failed[1]) if failed else 0) + sum(map(int, socket.groups() if socket else ())),
        "cpu_ms_per_request": 1000 * (server.cpu_seconds() - before) / max(requests, 1),
        "load_before": load,
    }


def _milliseconds(shown: str, percent: int) -> float:
    number, unit = re.search(rf"^\s+{percent}%\s+([\d.]+)(us|ms|s|m)$", shown, re.M).groups()  # type: ignore[union-attr]
    return float(number) * {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}[unit]
