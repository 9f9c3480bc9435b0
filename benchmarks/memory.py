"""Compare the estimated memory of a fit with the measured peak: ``python -m benchmarks.memory bonsai decaf``.

Each model is fitted to synthetic data of three sizes, each in a process of its own, which has compiled its kernels on a
few points before. A line shows the estimate of the whole process (what it held before the fit, and what the fit needs),
its measured peak, and the ratio of the two; and the ratio for what the fit needs alone.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
from scipy.sparse import csr_array

SIZES = ((3_000, 20_000, 2_000), (6_000, 40_000, 4_000), (12_000, 80_000, 8_000))  # points, features, labels
MODELS = {
    "popular": "popular",
    "textmatch": "textmatch",
    "bonsai": "bonsai(n_trees=1, cost=1.0)",
    "parabel": "parabel(n_trees=3, cost=1.0)",
    "dismec": "dismec(cost=1.0)",
    "fastxml": "fastxml(n_trees=10, cost=4.0)",
    "pfastrexml": "pfastrexml(n_trees=10, cost=4.0)",
    "glas": "glas(epochs=1)",
    "decaf": "decaf(epochs=1)",
    "mnn": "mnn(epochs=1)",
    "dxml": "dxml(epochs=1)",
    "knn": "knn",
    "taug": "taug(bonsai(n_trees=1, cost=1.0))",
    "ranknet": "ranknet(bonsai(n_trees=1, cost=1.0), epochs=1)",
    "labeltext": "labeltext(bonsai(n_trees=1, cost=1.0))",
    "calibrated": "calibrated(bonsai(n_trees=1, cost=1.0))",
    "blend": "blend([bonsai(n_trees=1, cost=1.0), knn, textmatch, decaf(epochs=1)])",
}


def make_data(n: int, d: int, n_labels: int, seed: int = 0) -> tuple[csr_array, csr_array, csr_array]:
    """Return points with some 60 features and 4 labels each, and label text, all drawn by a power law."""
    rng = np.random.default_rng(seed)

    def matrix(rows: int, columns: int, each: int) -> csr_array:
        drawn = (columns * rng.random((rows, each)) ** 3).astype(np.int32)
        found = csr_array((np.ones(drawn.size, np.float32), drawn.ravel(), np.arange(0, drawn.size + 1, each)))
        found.resize((rows, columns))
        found.sum_duplicates()
        return found

    return matrix(n, d, 60), matrix(n, n_labels, 4), matrix(n_labels, d, 3)


def measure(model: str, n: int, d: int, n_labels: int) -> None:
    """Fit one model in this process and print a line."""
    import longtail
    from longtail.cli.measure import peak_memory_mb
    from longtail.engine import memory

    few = make_data(300, 500, 50)
    longtail.make(MODELS[model]).fit(few[0], few[1], label_features=few[2]).predict(few[0])
    X, Y, Z = make_data(n, d, n_labels)
    ranker = longtail.make(MODELS[model])
    before = memory.used_bytes() / 1e6
    needed = ranker.memory_needed(X, Y, Z) / 1e6
    ranker.fit(X, Y, label_features=Z)
    peak = peak_memory_mb()
    ratio, alone = (before + needed) / peak, needed / max(1.0, peak - before)
    print(
        f"{model:8} N={n:<7,} D={d:<7,} L={n_labels:<6,} estimate {before + needed:6.0f} MB, peak {peak:6.0f} MB, "
        f"ratio {ratio:.2f} (fit alone: {needed:.0f} of {peak - before:.0f} MB, {alone:.2f})",
        flush=True,
    )


def main() -> None:
    """Measure the models named on the command line, or all."""
    if sys.argv[1:2] == ["--one"]:
        measure(sys.argv[2], *map(int, sys.argv[3:]))
        return
    for model in sys.argv[1:] or list(MODELS):
        for size in SIZES:
            subprocess.run([sys.executable, "-m", "benchmarks.memory", "--one", model, *map(str, size)], check=True)


if __name__ == "__main__":
    main()
