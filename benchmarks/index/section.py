"""The section of RESULTS.md on the search of label vectors, from ``results/index.json``."""

from __future__ import annotations

from typing import Any

from benchmarks.machine import described
from benchmarks.tables import mark

_HOW = """\
Generated vectors of length 512, inner product, the 5 best, on one thread: 500 queries in a batch, 100 of them one at a
time, the better of two passes. `clustered`: unit vectors in topics of about 100, as trained label vectors lie;
`gaussian`: no structure, where no partition or graph can tell near from far. Half of the queries are a stored vector
with noise of its own length (a point near one label), half the sum of three (a point with three labels); recall is
given for all and, in brackets, for the two halves. `auto` is what `make_index` chooses; it opens as many partitions as
samples of its own need for a recall of 0.99, whatever that costs. `faiss-ivf` is faiss's IndexIVFFlat with as many
partitions, and the fewest opened (doubling) that reach 0.98 on these very queries. Megabytes are those of all arrays,
the float32 vectors among them; building uses all cores."""
_BARS = {100_000: 1.0, 1_000_000: 5.0}  # p50 in milliseconds
_RECALL = 0.98
_HEAD = ["vectors", "index", "p50 ms", "p95 ms", "batch ms", "recall@5", "opened", "MB", "build s"]
_ORDER = ("clustered", "gaussian"), ("auto", "exact", "hnsw", "faiss-ivf")


def render(results: dict[str, Any]) -> str:
    """Return the section, as Markdown."""
    rows = sorted(results["rows"].values(), key=_place)
    lines = [
        "## Search of label vectors",
        "",
        _HOW,
        "",
        *described(results),
        f"- measured: {', '.join(sorted({row['date'] for row in rows}))}",
        "",
        "| goal (`auto`, clustered) | bar | measured |",
        "|---|---|---|",
    ]
    for row in rows:
        if row["requested"] == "auto" and row["data"] == "clustered" and row["n"] in _BARS:
            fast, found = row["p50_ms"] < _BARS[row["n"]], row["recall"] >= _RECALL
            lines += [
                f"| p50 at {row['n']:,} vectors | < {_BARS[row['n']]:g} ms | {row['p50_ms']:.3f} ms {mark(fast)} |",
                f"| recall@5 at {row['n']:,} vectors | ≥ {_RECALL} | {row['recall']:.3f} {mark(found)} |",
            ]
    for data in dict.fromkeys(row["data"] for row in rows):
        lines += ["", f"### {data}", "", f"| {' | '.join(_HEAD)} |", "|---" * len(_HEAD) + "|"]
        lines += [_row(row) for row in rows if row["data"] == data]
    return "\n".join(lines)


def _place(row: dict[str, Any]) -> tuple[int, int, int]:
    data, kinds = _ORDER
    return data.index(row["data"]), row["n"], kinds.index(row["requested"])


def _row(row: dict[str, Any]) -> str:
    name = f"**auto** ({row['kind']})" if row["requested"] == "auto" else row["requested"]
    opened = f"{row['n_probe']} of {row['n_partitions']}" if "n_probe" in row else ""
    found = f"{row['recall']:.3f} ({row['recall_near']:.3f}, {row['recall_mixed']:.3f})"
    return (
        f"| {row['n']:,} | {name} | {row['p50_ms']:.3f} | {row['p95_ms']:.3f} | {row['batch_ms']:.3f} | {found} "
        f"| {opened} | {row['mb']:.0f} | {row['build_seconds']:.1f} |"
    )
