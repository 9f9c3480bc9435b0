"""Names of optimisers and learning-rate schedules, in a module that is fast to import."""

from __future__ import annotations

OPTIMIZERS = ("sgd", "adagrad", "adam", "momentum", "row_adagrad")
"""Row-sparse optimisers; see :mod:`longtail.neural.optimizers`."""

SCHEDULES = ("constant", "linear", "cosine", "halved")
"""Schedules of the learning rate; see :class:`longtail.neural.loop.LoopSettings`."""
