"""The section of RESULTS.md about first commands, from ``results/cold.json``."""

from __future__ import annotations

from typing import Any

from benchmarks import machine
from benchmarks.tables import mark

_HOW = """\
The first `longtail train` and `longtail predict --text TEXT` of a fresh installation without compiled kernels, with
3,000 titles of debian-packages; the same commands again; and the first prediction after `longtail warm`. Seconds are
processor time, but for the last column. Compiling while training is the time of the first training less that of
the second. `wheel` is an installation from a wheel with compiled kernels (`make wheel`). The load average tells whether
the machine had other work: above about 1 per core, processor time grows too, by a half and more."""
_HEADER = (
    "| | first predict | later | memory | first train | compiling in it | `warm` | predict after `warm`, wall |",
    "|---|---|---|---|---|---|---|---|",
)
_FIRST_PREDICT = {"bonsai": 5.0, "blend": 9.0}  # the bars, in seconds
_COMPILING = {"bonsai": 15.0, "blend": 30.0}
_WARMED = 2.0


def render(results: dict[str, Any]) -> str:
    """Return the section, as Markdown."""
    lines, notes = [], []
    for key, row in sorted(results["rows"].items()):
        lines.append(_line(key, row))
        size = f", wheel of {row['wheel_mb']:.1f} MB" if "wheel_mb" in row else ""
        kernels = f"{row['kernels']} kernels compiled by the first prediction{size}"
        notes.append(f"- {key}: {kernels}; {row['date']}, commit {row['commit']}, load {row['load_before']:.1f}")
    bars = [
        f"- bars, {model}: predict {_FIRST_PREDICT[model]:.0f} s, compiling {_COMPILING[model]:.0f} s"
        for model in _COMPILING
    ]
    about = [*notes, *bars, f"- bar of predict after `warm`: {_WARMED:.0f} s"]
    return "\n".join(["## First use", "", _HOW, "", *_HEADER, *lines, "", *about, *machine.described(results)])


def _line(key: str, row: dict[str, Any]) -> str:
    model = key.split(" ")[0]
    first, later = row["first_predict"]["cpu_seconds"], row["later_predict"]["cpu_seconds"]
    train = row["first_train"]["cpu_seconds"]
    compiling = train - row["later_train"]["cpu_seconds"]
    cells = [
        key,
        f"{first:.1f} {mark(first <= _FIRST_PREDICT[model])}",
        f"{later:.1f}",
        f"{row['later_predict']['peak_mb']:.0f} MB",
        f"{train:.1f}",
        f"{compiling:.1f} {mark(compiling <= _COMPILING[model])}",
        f"{row['warm']['cpu_seconds']:.1f}",
        f"{row['warmed_predict']['seconds']:.1f} {mark(row['warmed_predict']['seconds'] <= _WARMED)}",
    ]
    return f"| {' | '.join(cells)} |"
