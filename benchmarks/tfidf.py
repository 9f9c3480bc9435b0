"""Time text to TF-IDF beside scikit-learn's TfidfVectorizer on real text, both in this process, in turn.

    python -m benchmarks.tfidf [FOLDER ...] [--repeats R] [--rows N] [--json]

Each folder holds a ``trn.json.gz`` of JSON lines with ``title`` and maybe ``content``. Best of several runs, after one
run that compiles or loads the kernels; the matrices are compared before a ratio is printed. A single text is the first
title, median of many calls.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import TfidfVectorizer

from longtail.data.text import TextVectorizer

DEFAULT = [Path(__file__).resolve().parents[2] / "shared" / "data" / name for name in ("eurlex57k", "debian-packages")]


def read_texts(folder: Path, rows: int | None) -> tuple[list[str], str]:
    """Title and content of each point, and the first title alone."""
    with gzip.open(folder / "trn.json.gz", "rt", encoding="utf-8") as lines:
        points = [json.loads(line) for line in lines]
    points = points[:rows]
    return [f"{point['title']} {point.get('content', '')}" for point in points], points[0]["title"]


def best_in_turn(repeats: int, runs: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Least seconds of each run; they alternate, so that a busy moment hits all alike."""
    seconds = dict.fromkeys(runs, float("inf"))
    for _ in range(repeats):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            seconds[name] = min(seconds[name], time.perf_counter() - start)
    return seconds


def median_microseconds(call: Callable[[], Any], n_calls: int) -> float:
    """Median time of one call."""
    samples = []
    for _ in range(n_calls):
        start = time.perf_counter_ns()
        call()
        samples.append(time.perf_counter_ns() - start)
    return statistics.median(samples) / 1000


def check_equal(ours: csr_array, theirs: Any) -> None:
    """Refuse to time two different results."""
    theirs.sort_indices()
    np.testing.assert_array_equal(ours.indptr, theirs.indptr)
    np.testing.assert_array_equal(ours.indices, theirs.indices)
    np.testing.assert_allclose(ours.data, theirs.data, rtol=1e-5)


def measure(folder: Path, repeats: int, rows: int | None) -> dict[str, Any]:
    """All figures of one folder."""
    texts, title = read_texts(folder, rows)
    ours, peer = TextVectorizer(), TfidfVectorizer()
    start = time.perf_counter()
    TextVectorizer().fit_transform(texts[:10])
    first = time.perf_counter() - start
    check_equal(ours.fit_transform(texts), peer.fit_transform(texts))
    seconds = best_in_turn(
        repeats,
        {
            "fit_transform": lambda: TextVectorizer().fit_transform(texts),
            "fit_transform, 1 thread": lambda: TextVectorizer(n_jobs=1).fit_transform(texts),
            "transform": lambda: ours.transform(texts),
            "sklearn fit_transform": lambda: TfidfVectorizer().fit_transform(texts),
            "sklearn transform": lambda: peer.transform(texts),
        },
    )
    return {
        "data": folder.name,
        "texts": len(texts),
        "megabytes": sum(len(text.encode()) for text in texts) / 1e6,
        "features": ours.n_features_,
        "first_call_seconds": first,
        "seconds": seconds,
        "times_faster": {
            name: seconds["sklearn transform" if name == "transform" else "sklearn fit_transform"] / seconds[name]
            for name in seconds
            if not name.startswith("sklearn")
        },
        "one_title_us": median_microseconds(lambda: ours.transform([title]), 5000),
        "sklearn one_title_us": median_microseconds(lambda: peer.transform([title]), 500),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, default=DEFAULT)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", type=int, help="only the first so many texts")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = [measure(folder, options.repeats, options.rows) for folder in options.folders]
    if options.json:
        print(json.dumps(results, indent=2))
        return
    for result in results:
        print("{data}: {texts} texts, {megabytes:.1f} MB, {features} terms".format(**result))
        for name, seconds in result["seconds"].items():
            ratio = result["times_faster"].get(name)
            print(f"  {name:<26}{seconds:8.3f} s" + ("" if ratio is None else f"  {ratio:6.1f}× as fast as sklearn"))
        print(
            "  one title                 {one_title_us:8.1f} µs, sklearn {sklearn one_title_us:.1f} µs".format(**result)
        )
        print("  first call                {first_call_seconds:8.3f} s".format(**result))


if __name__ == "__main__":
    main()
