"""Names of the optimisers and schedules that training can use, without importing them."""

from __future__ import annotations

OPTIMIZERS = ("sgd", "adagrad", "adam", "momentum", "row_adagrad")
"""Row-sparse optimisers; see :mod:`longtail.neural.optimizers`."""

SCHEDULES = ("constant", "linear", "cosine", "halved")
"""Shapes of the learning rate over the epochs; see :class:`longtail.neural.loop.LoopSettings`."""
