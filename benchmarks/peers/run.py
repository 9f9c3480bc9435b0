"""Measure longtail and its peers, then rewrite RESULTS.md: ``python -m benchmarks.peers.run``."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import machine, results
from benchmarks.paths import DATA_ROOT, PAGE, RESULTS, WORK
from benchmarks.peers.environments import python_of
from benchmarks.peers.generated import GENERATED
from benchmarks.peers.prepare import LABEL_TEXT, prepare, prepare_generated
from benchmarks.peers.runner import lock, measure
from benchmarks.peers.systems import DATA, System, chosen
from benchmarks.render import render

NAME = "peers"


def run(args: argparse.Namespace, say: Callable[[str], None] = print) -> None:
    """Measure every chosen system on every chosen data set, in turn."""
    systems = chosen(args.models)
    started = time.strftime("%Y-%m-%d %H:%M:%S")
    pythons: dict[str, Path | Exception] = {}
    for system in systems:
        try:
            pythons[system.name] = python_of(system.environment)
        except Exception as error:  # a peer that cannot be installed gives a row that says so
            pythons[system.name] = error
    for data in args.data.split(","):
        with lock(args.lock):
            facts = _prepared(data, args)
        able = [system for system in systems if _suits(system, facts, args.work / "data" / data)]
        runs: dict[str, list[dict[str, Any]]] = {system.name: [] for system in able}
        for repeat in range(args.repeat):
            for system in able:
                if any("error" in record for record in runs[system.name]):
                    continue  # what failed once on a data set is not tried again
                record = _measure(system, pythons[system.name], args, data, repeat)
                runs[system.name].append(record)
                # Kept at once, so that a run of hours that is broken off loses one measurement only.
                merge(data, facts, {system.name: _entry(system, runs[system.name], started)}, args.results)
                say(f"{data} {repeat + 1}/{args.repeat} {system.name}: {_line(record)}")
        render(args.page, args.results)
    say(f"wrote {args.page.name}")


def _suits(system: System, facts: dict[str, Any], folder: Path) -> bool:
    """Whether a system can be measured on a data set."""
    few_enough = facts["n_labels"] <= (system.max_labels or facts["n_labels"])
    return few_enough and (not system.with_text or (folder / LABEL_TEXT).exists())


def _prepared(data: str, args: argparse.Namespace) -> dict[str, Any]:
    """Make the matrices of a data set; returns its facts."""
    folder = args.work / "data" / data
    if data in GENERATED:
        return prepare_generated(data, GENERATED[data], folder)
    source = args.data_root / data
    if not source.is_dir():
        raise SystemExit(f"There is no folder {source}. Name the folder that holds the data sets with --data-root.")
    return prepare(source, folder)


def _measure(
    system: System, python: Path | Exception, args: argparse.Namespace, data: str, repeat: int
) -> dict[str, Any]:
    """One record of one system."""
    if isinstance(python, Exception):
        return {"error": f"not installed: {python}"}
    with lock(args.lock):
        work = args.work / "runs" / data / system.name
        return measure(system, python, args.work / "data" / data, work, repeat=repeat, timeout=args.timeout)


def _entry(system: System, runs: list[dict[str, Any]], started: str) -> dict[str, Any]:
    entry = {"run": started, "date": started[:10], "params": system.params, "runs": runs, "commit": results.commit()}
    return entry if system.environment is not None else entry | {"model": system.model}


def merge(data: str, facts: dict[str, Any], entries: dict[str, Any], folder: Path = RESULTS) -> None:
    """Put the entries of one data set beside what earlier runs left, unless those were of another machine."""
    here = {"machine": machine.facts(), "versions": machine.versions()}
    known = results.load(NAME, folder)
    if known is None or known["machine"] != here["machine"]:
        known = {"data": {}, "results": {}}
    if known["data"].get(data) != facts:  # other matrices: nothing of before can stand beside these figures
        known["results"].pop(data, None)
    known |= here
    known["data"][data] = facts
    known["results"].setdefault(data, {}).update(entries)
    results.save(NAME, known, folder)


def _line(record: dict[str, Any]) -> str:
    if "error" in record:
        return record["error"]
    metrics = record["metrics"]
    return (
        f"train {record['train_seconds']:.2f} s, batch {record['batch_ms_2']:.4f} ms, "
        f"single {record['single_ms_p50']:.3f} ms, +{record['train_peak_above_start_mb']:.0f} MB, "
        f"model {record['model_mb']:.1f} MB, "
        f"P {metrics['P@1']:.2f}/{metrics['P@3']:.2f}/{metrics['P@5']:.2f}, "
        f"PSP {metrics['PSP@1']:.2f}/{metrics['PSP@3']:.2f}/{metrics['PSP@5']:.2f}"
    )


def main(argv: Sequence[str] | None = None, **folders: Path) -> None:
    """Run the command line; `folders` replace where matrices (work), results and the page go."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.run", description=__doc__)
    names = f"data sets, comma-separated; generated ones: {', '.join(GENERATED)} (default: %(default)s)"
    parser.add_argument("--data", default=",".join(DATA), help=names)
    parser.add_argument("--models", help="systems, comma-separated: ours, peers, or names (default: ours,peers)")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each, interleaved; the best counts (default: 3)")
    parser.add_argument("--data-root", type=Path, default=DATA_ROOT, help="folder that holds the data sets")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds for one process (default: 1800)")
    parser.add_argument("--lock", type=Path, help="lock file to hold during each measurement, on a shared machine")
    parser.set_defaults(**{"work": WORK, "results": RESULTS, "page": PAGE, **folders})
    run(parser.parse_args(argv))


if __name__ == "__main__":
    main()
