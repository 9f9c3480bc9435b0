"""The training plan that follows from DECAF's settings and the size of the data."""

from __future__ import annotations

from typing import Any

import numpy as np

from longtail.errors import SettingsError
from longtail.models.decaf.modules import Plan
from longtail.models.decaf.network import TextNetworkSettings
from longtail.models.decaf.presets import paper_sizes
from longtail.neural.choices import usual_batch_size
from longtail.neural.loop import LoopSettings


def make_plan(settings: Any, n_points: int, n_labels: int, listed_elsewhere: bool) -> Plan:
    """Return the training plan for data of this size.

    Parameters
    ----------
    settings : namespace
        Every parameter with its value, and ``seed``.
    n_points, n_labels : int
    listed_elsewhere : bool
        Whether other members of a blend list labels: then no index is built.
    """
    if settings.lite and not settings.surrogate_epochs:
        raise SettingsError("lite keeps the token vectors of Module I, which surrogate_epochs=0 leaves out")
    dim, n_clusters = paper_sizes(n_labels)
    if settings.preset != "paper":
        n_clusters = 1 << max(1, int(np.log2(max(2, n_labels / 8))))
    size = max(1, (settings.batch_size or usual_batch_size(n_points)) // settings.n_workers)
    loop = LoopSettings(
        settings.epochs,
        size,
        settings.learning_rate,
        settings.schedule,
        patience=settings.patience,
        seed=settings.seed,
        checkpoint=settings.checkpoint,
    )
    loop.check()
    network = TextNetworkSettings(
        settings.dim or dim,
        settings.classifier,
        settings.dropout,
        settings.forget,
        settings.token_length,
        settings.block_rate,
        settings.spectral,
        optimizer=settings.optimizer,
        relu=settings.relu,
        n_jobs=settings.n_jobs,
    )
    return Plan(
        network,
        loop,
        settings.shortlist,
        settings.surrogate_epochs,
        n_clusters=settings.n_clusters or n_clusters,
        beam=settings.beam,
        n_candidates=settings.n_candidates,
        n_networks=settings.n_networks,
        n_hard=settings.n_hard,
        shared=settings.shared,
        correction=settings.correction,
        keep=1 - settings.input_dropout,
        prior=settings.prior,
        indexed=not listed_elsewhere,
        start_from_text=settings.init == "text",
        centroid_length=settings.centroid_length,
        lite=settings.lite,
        n_workers=settings.n_workers,
    )
