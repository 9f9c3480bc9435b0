"""One training step of an embedding classifier, beside the same step in plain torch."""

from __future__ import annotations

import longtail
from benchmarks.embeddings.run import BATCH, throughput
from benchmarks.micro.timing import Figure

N_CANDIDATES, N_STEPS = 2048, 10


def measure() -> list[Figure]:
    """Compare GLaS's step with torch's: the same batches, loss and regulariser."""
    import torch

    torch.set_num_threads(1)
    data = longtail.read(longtail.DEMO)
    figures = []
    for name, sparse in (("torch, Adam", False), ("torch, SparseAdam", True)):
        row = throughput(data.X, data.Y, N_CANDIDATES, N_STEPS, sparse)
        ours, theirs = (BATCH / row[f"{loop}_points_per_second"] for loop in ("ours", "torch"))
        task = f"a step of {BATCH} points, {data.n_labels:,} labels"
        figures.append(Figure("training loop", name, task, ours, theirs))
    return figures
