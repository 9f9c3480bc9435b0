"""Results as JSON: one file per benchmark in ``results/``, from which `benchmarks.render` writes RESULTS.md.

Every row carries the commit that it was measured with, the date, and the model with its settings, so that
`benchmarks.stale` can name rows that are older than the code they describe. A row measured under a name that has
another meaning today also carries ``recorded_with``, the version and commit, and ``recorded_as``, the former name.
A row of another machine than the last row's carries its ``processor``.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks import machine
from benchmarks.paths import HERE, RESULTS

Row = dict[str, Any]
# Groups of rows in a file, by name.
_GROUPS = ("rows", "accuracy", "ablation", "throughput", "parts", "cluster", "large", "kills", "workers")
_PEERS = ("pecos-xrlinear", "omikuji-parabel", "omikuji-bonsai", "napkinxc-plt")  # those that set bars
_OURS = ("parabel", "bonsai", "dismec")


def load(name: str, folder: Path = RESULTS) -> dict[str, Any] | None:
    """Return the results of a benchmark, or None if it has not been run."""
    path = folder / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def save(name: str, results: dict[str, Any], folder: Path = RESULTS) -> None:
    """Write the results of a benchmark, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    fresh = path.with_suffix(".tmp")
    fresh.write_text(json.dumps(rounded(results), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    os.replace(fresh, path)


# Rows ----------------------------------------------------------------------------------------------------------------


def add(name: str, key: str, row: Row, model: str | None = None, group: str = "rows") -> None:
    """Put one row into the results of a benchmark, in the place of the row that had its key.

    Parameters
    ----------
    name : str
        The benchmark.
    key : str
        Name of the row within its group.
    row : dict
        Its figures.
    model : str, optional
        The model with its settings, as for `longtail.make`; None where the row is about no model.
    group : str
        Group of rows in the file.
    """
    facts = {"machine": machine.facts(), "versions": machine.versions()}
    row = stamped(row, model)
    with _locked(RESULTS):
        known = load(name) or {}  # read again for each row, because another run may have added rows
        if "machine" in known and known["machine"] != facts["machine"]:
            for _, other in rows(known):
                other.setdefault("processor", known["machine"]["processor"])
        known |= facts
        known.setdefault(group, {})[key] = row
        save(name, known)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, so that runs at the same time do not lose each other's rows."""
    folder.mkdir(parents=True, exist_ok=True)
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def stamped(row: Row, model: str | None = None) -> Row:
    """Return a row with the date, the commit and, if there is one, the model."""
    origin = {"date": datetime.now(UTC).date().isoformat(), "commit": commit()}
    return row | origin | ({} if model is None else {"model": model})


@cache
def commit() -> str:
    """Return the short hash of the checked-out commit, with ``+`` where the package has changes beyond it."""
    try:
        head = _git("rev-parse", "--short=7", "HEAD").strip()
        return f"{head}+" if _git("status", "--porcelain", "--", "longtail").strip() else head
    except (OSError, subprocess.CalledProcessError):
        return "unknown"  # a copy of the files without their history


def _git(*words: str) -> str:
    command = ["git", *words]
    return subprocess.run(command, cwd=HERE.parent, check=True, capture_output=True, text=True).stdout


def rows(known: dict[str, Any]) -> Iterator[tuple[str, Row]]:
    """Yield the key and content of every row in the results of a benchmark."""
    for group in _GROUPS:
        for key, row in known.get(group, {}).items():
            yield (key if group in ("rows", "parts") else f"{group} {key}"), row
    for data, systems in known.get("results", {}).items():
        for system, row in systems.items():
            yield f"{data} {system}", row


# Best figures --------------------------------------------------------------------------------------------------------


def best_peer(data: str, folder: Path = RESULTS) -> dict[str, float]:
    """Return the highest figure of any peer for each P, PSP and B on a data set; empty where none was measured."""
    return _highest(_runs(data, _PEERS, folder))


def best_own(data: str, folder: Path = RESULTS) -> dict[str, float]:
    """Return the same for longtail's models with default settings, from all benchmarks but that of rare labels."""
    models = _runs(data, _OURS, folder)
    for name, variant in (("decaf", "default"), ("dxml", "default"), ("blend", "blend")):
        found = (load(name, folder) or {"rows": {}})["rows"]
        models.append([row for key, row in found.items() if key.startswith(f"{data} {variant} ")])
    accuracy = (load("embeddings", folder) or {"accuracy": {}})["accuracy"]
    models += [[row] for key, row in accuracy.items() if key.split(" ")[-1] == data]
    return _highest(models)


def _runs(data: str, names: tuple[str, ...], folder: Path) -> list[list[dict[str, float]]]:
    """Return the metrics of each run of some systems of ``benchmarks.peers``."""
    systems = (load("peers", folder) or {"results": {}})["results"].get(data, {})
    return [[run["metrics"] for run in systems.get(name, {}).get("runs", []) if "metrics" in run] for name in names]


def _highest(models: list[list[dict[str, float]]]) -> dict[str, float]:
    """Return the highest mean over runs of any model, metric by metric."""
    found: dict[str, float] = {}
    for measure in (f"{kind}@{k}" for kind in ("P", "PSP", "B") for k in (1, 3, 5)):
        means = [mean(run[measure] for run in runs) for runs in models if runs and all(measure in run for run in runs)]
        if means:
            found[measure] = max(means)
    return found


def rounded(value: Any) -> Any:
    """Round numbers to five significant digits: more is noise, and makes differences unreadable."""
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value
