"""Results of benchmarks: where their rows come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import machine, results


def test_rows_of_another_machine_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    monkeypatch.setattr(results, "load", lambda name, load=results.load: load(name, tmp_path))
    monkeypatch.setattr(results, "save", lambda name, known, save=results.save: save(name, known, tmp_path))
    for processor, key in (("first", "a"), ("first", "b"), ("second", "c"), ("second", "b")):
        here = machine.facts() | {"processor": processor}
        monkeypatch.setattr(machine, "facts", lambda here=here: here)
        results.add("some", key, {"ms": 1.0})
    known = results.load("some")
    assert known is not None
    assert {key: row.get("processor") for key, row in known["rows"].items()} == {"a": "first", "b": None, "c": None}
    lines = machine.described(known)
    assert lines[0].startswith("- machine: second")
    assert lines[1] == "- of first: 1 of the rows; times compare only within one machine"
