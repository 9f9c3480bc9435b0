"""Selection among numbers against NumPy."""

from __future__ import annotations

import numpy as np

from longtail.kernels.best import kth_highest


def test_kth_highest() -> None:
    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 100):
        for values in (rng.random(n, np.float32), rng.integers(0, 3, n).astype(np.float32), np.ones(n, np.float32)):
            for k in {1, 2, n // 2 + 1, n} & set(range(1, n + 1)):
                given = values.copy()
                assert kth_highest(given, k) == np.sort(values)[::-1][k - 1]
                assert sorted(given) == sorted(values)
