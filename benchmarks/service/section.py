"""The section of RESULTS.md about the service, from ``results/service.json``."""

from __future__ import annotations

from typing import Any

from benchmarks import machine
from benchmarks.tables import mark

_HOW = """\
`longtail serve` with one worker and `blend` trained on debian-packages, on the loopback address. `wrk` sends one text
per request on 32 connections. Client and service share the cores. The load average before a run tells whether the
machine had other work: above about 1, latencies are upper bounds, and the processor time per request is what to
compare. Resident weights are the mapped arrays of the model, each page divided by the number of processes that share
it."""


def render(results: dict[str, Any]) -> str:
    """Return the section, as Markdown."""
    rows = results["rows"]
    lines = ["## The service", "", _HOW, "", "| | bar | measured | load | date, commit |", "|---|---|---|---|---|"]
    for name, show in (("one", _one), ("replace", _replace), ("batch", _batch), ("start", _start)):
        lines += [_line(rows[name], *entry) for entry in show(rows[name])] if name in rows else []
    for name, show in (("workers", _workers), ("image", _image), ("kills", _kills)):
        lines += [_line(rows[name], *entry) for entry in show(rows[name])] if name in rows else []
    return "\n".join([*lines, "", *machine.described(results)])


Entry = tuple[str, str, str, bool]


def _line(row: dict[str, Any], what: str, bar: str, found: str, met: bool) -> str:
    load = f"{row['load_before']:.1f}" if "load_before" in row else ""
    return f"| {what} | {bar} | {found} {mark(met)} | {load} | {row['date']}, {row['commit']} |"


def _one(row: dict[str, Any]) -> list[Entry]:
    what = f"one text, {row['connections']} connections, {row['seconds']} s"
    growth = row["mb_after"] / row["mb_before"] - 1
    cost = f"{row['cpu_ms_per_request']:.2f} ms of processor time per request"
    return [
        (f"{what}: p50", "≤ 10 ms", f"{row['p50_ms']:.1f} ms ({cost})", row["p50_ms"] <= 10),
        (f"{what}: p99", "≤ 50 ms", f"{row['p99_ms']:.1f} ms", row["p99_ms"] <= 50),
        (f"{what}: errors", "0", f"{row['errors']} of {row['requests']:,}", row["errors"] == 0),
        (f"{what}: memory", "flat", f"{row['mb_before']:.0f} → {row['mb_after']:.0f} MB", growth < 0.05),
    ]


def _replace(row: dict[str, Any]) -> list[Entry]:
    what = f"the same, {row['seconds']} s, model replaced {row['replaced']} times"
    memory = row["memory_mb"]
    after = memory[1:] or memory  # a second model is in memory from the first change on
    return [
        (f"{what}: errors", "0", f"{row['errors']} of {row['requests']:,}", row["errors"] == 0),
        (
            f"{what}: memory after each",
            "within 5 %",
            " → ".join(f"{mb:.0f}" for mb in memory) + " MB",
            max(after) <= 1.05 * after[0],
        ),
    ]


def _batch(row: dict[str, Any]) -> list[Entry]:
    found = f"{row['texts_per_second']:,.0f} texts/s ({row['cpu_ms_per_text']:.2f} ms of processor time per text)"
    return [("batch of 1,000 texts", "≥ 3,000 texts/s", found, row["texts_per_second"] >= 3000)]


def _start(row: dict[str, Any]) -> list[Entry]:
    found = f"{row['seconds']:.2f} s ({row['cpu_seconds']:.2f} s of processor time)"
    return [("start to first answer, compiled kernels", "≤ 2 s", found, row["seconds"] <= 2)]


def _workers(row: dict[str, Any]) -> list[Entry]:
    ratio = row["weights_mb_4"] / row["weights_mb_1"]
    weights, whole = ([f"{row[f'{name}_{n}']:.0f}" for n in (1, 4)] for name in ("weights_mb", "mb"))
    found = f"{ratio:.2f}× ({' → '.join(weights)} MB; whole processes {' → '.join(whole)} MB)"
    return [("4 workers against 1, resident weights", "≤ 1.3×", found, ratio <= 1.3)]


def _image(row: dict[str, Any]) -> list[Entry]:
    found = f"{row['seconds']:.2f} s"
    return [("the Dockerfile's image as a user without a home: first answer", "≤ 3 s", found, row["seconds"] <= 3)]


def _kills(row: dict[str, Any]) -> list[Entry]:
    found = f"{row['lost']} lost, {row['doubled']} doubled, {row['learnt']:,} learnt"
    met = row["lost"] == row["doubled"] == 0 and row["learnt"] == row["posts"]
    return [(f"{row['posts']:,} corrections, {row['kills']} × kill -9", "none lost or doubled", found, met)]
