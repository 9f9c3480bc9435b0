"""The benchmark of the service: what it records is shown beside its bars."""

from __future__ import annotations

import shlex

from benchmarks.service import image, section
from benchmarks.service.server import _milliseconds

DOCKERFILE = (image.ROOT / "Dockerfile").read_text(encoding="utf-8")
STAMP = {"date": "2026-01-01", "commit": "abc1234"}
ROWS = {
    "one": {
        "connections": 32,
        "seconds": 60,
        "requests": 90_000,
        "p50_ms": 8.2,
        "p99_ms": 61.0,
        "errors": 0,
        "cpu_ms_per_request": 0.5,
        "load_before": 0.3,
        "mb_before": 300.0,
        "mb_after": 301.0,
    },
    "replace": {
        "seconds": 600,
        "requests": 9,
        "errors": 1,
        "replaced": 9,
        "memory_mb": [300.0, 400.0, 430.0],
        "load_before": 9.0,
    },
    "workers": {"mb_1": 300.0, "mb_4": 700.0, "weights_mb_1": 100.0, "weights_mb_4": 110.0},
    "kills": {"posts": 10_000, "kills": 20, "lost": 0, "doubled": 0, "learnt": 10_000},
}


def test_bars_that_are_met_and_missed() -> None:
    machine = {"processor": "p", "cores": "2", "memory": "m", "system": "s", "python": "3"}
    rows = {name: row | STAMP for name, row in ROWS.items()}
    lines = section.render({"rows": rows, "machine": machine, "versions": {"longtail": "0"}}).splitlines()

    def line(start: str) -> str:
        (found,) = [one for one in lines if one.startswith(f"| {start}")]
        return found

    met, missed = (section.mark(verdict) for verdict in (True, False))
    assert f"8.2 ms (0.50 ms of processor time per request) {met} | 0.3 |" in line(
        "one text, 32 connections, 60 s: p50"
    )
    assert f"61.0 ms {missed}" in line("one text, 32 connections, 60 s: p99")
    assert f"1 of 9 {missed}" in line("the same, 600 s, model replaced 9 times: errors")
    assert f"300 → 400 → 430 MB {missed}" in line("the same, 600 s, model replaced 9 times: memory")
    assert f"1.10× (100 → 110 MB; whole processes 300 → 700 MB) {met}" in line("4 workers")
    assert f"0 lost, 0 doubled, 10,000 learnt {met}" in line("10,000 corrections, 20 × kill -9")


def test_the_latencies_of_wrk_are_read() -> None:
    shown = "  Latency Distribution\n     50%    8.10ms\n     99%    1.20s\n     90%  912.00us\n"
    assert [_milliseconds(shown, percent) for percent in (50, 99, 90)] == [8.1, 1200.0, 0.912]


def test_the_dockerfile_copies_only_what_the_build_sees() -> None:
    ignore = (image.ROOT / ".dockerignore").read_text(encoding="utf-8")
    copies = [shlex.split(rest) for word, rest in image.instructions(DOCKERFILE) if word == "COPY"]
    names = [name for words in copies if not words[0].startswith("--from") for name in words[:-1]]
    assert "longtail" in names
    for name in names:
        assert (image.ROOT / name).exists(), name
        assert image.in_context(name, ignore), name
    assert not image.in_context("tests/conftest.py", ignore)
    assert not image.in_context("longtail/kernels/__pycache__/x.nbc", ignore)


def test_lines_of_a_dockerfile_are_joined() -> None:
    words = [word for word, _ in image.instructions(DOCKERFILE)]
    assert words.count("FROM") == 2
    assert {"COPY", "RUN", "ENV", "USER", "ENTRYPOINT", "CMD"} <= set(words)
    assert image.instructions("# no\nRUN a \\\n    && b\n") == [("RUN", "a && b")]
