"""Names of the optimisers and schedules that training can use, without importing them."""

from __future__ import annotations

import math

OPTIMIZERS = ("sgd", "adagrad", "adam", "momentum", "row_adagrad")
"""Row-sparse optimisers; see :mod:`longtail.neural.optimizers`."""

SCHEDULES = ("constant", "linear", "cosine", "halved")
"""Shapes of the learning rate over the epochs; see :class:`longtail.neural.loop.LoopSettings`."""


def usual_batch_size(n_points: int, most: int = 512) -> int:
    """Return about a hundredth of the points, a power of two from 32 to `most`: rare tokens get enough steps."""
    return int(min(max(2 ** round(math.log2(max(1.0, n_points / 100))), 32), most))
