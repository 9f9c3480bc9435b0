"""omikuji: Parabel (its defaults) and Bonsai as settings of its label trees.

The binding has no batch prediction, and its `predict` walks over every feature in Python, which can cost more than the
prediction. Batches call the same library function on the CSR arrays directly, from several threads, so that the Rust
core is measured at its best; single points are predicted by the public method.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import omikuji
import scipy.sparse as sp
from omikuji._libomikuji import ffi, lib

from benchmarks.peers.workers.protocol import Worker, load_matrix, main


class Omikuji(Worker):
    """Measure omikuji."""

    def version(self) -> str:
        return f"omikuji {version('omikuji')}"

    def load_train(self, data: Path) -> None:
        # The library's own two steps of train_on_data, apart, so that parsing the file is not timed as training.
        self.pool = lib.init_omikuji_thread_pool(self.threads)
        self.data = lib.load_omikuji_data_set(ffi.new("char[]", str(data / "train.txt").encode()), self.pool)
        if self.data == ffi.NULL:
            raise RuntimeError("omikuji refused the training file")

    def fit(self) -> None:
        settings = omikuji.Model.default_hyper_param()
        for name, value in self.params.items():
            setattr(settings, name, value)
        model = lib.train_omikuji_model(self.data, settings, self.pool)
        if model == ffi.NULL:
            raise RuntimeError("omikuji failed to train")
        self.model = omikuji.Model(model)

    def save(self) -> None:
        self.model.save(str(self.folder))

    def load(self) -> None:
        self.model = omikuji.Model.load(str(self.folder))
        self.model.init_prediction_thread_pool(1)
        self.pools = {threads: lib.init_omikuji_thread_pool(threads) for threads in (1, 2)}

    def load_test(self, data: Path) -> None:
        self.X = load_matrix(data / "X.tst.npz")
        self.n_labels = load_matrix(data / "Y.tst.npz").shape[1]
        self.features = ffi.from_buffer("uint32_t[]", self.X.indices.view(np.uint32))
        self.values = ffi.from_buffer("float[]", self.X.data)

    def _span(self, first: int, last: int, k: int, labels: Any, scores: Any, counts: np.ndarray, pool: Any) -> None:
        starts = self.X.indptr
        for i in range(first, last):
            lo, hi = int(starts[i]), int(starts[i + 1])
            point = (hi - lo, self.features + lo, self.values + lo)
            best = (labels + i * k, scores + i * k)
            counts[i] = lib.omikuji_predict(self.model._model_ptr, 10, *point, k, *best, pool)

    def predict(self, k: int, threads: int) -> Any:
        n_points = self.X.shape[0]
        labels, scores = np.zeros((n_points, k), np.uint32), np.zeros((n_points, k), np.float32)
        counts = np.zeros(n_points, np.int64)
        out = (ffi.from_buffer("uint32_t[]", labels), ffi.from_buffer("float[]", scores), counts)
        # Rayon's pool bounds the cores at work; one feeder more than its threads keeps it from waiting for Python.
        bounds = np.linspace(0, n_points, threads + 2).astype(int)
        with ThreadPoolExecutor(threads + 1) as feeders:
            tasks = [feeders.submit(self._span, lo, hi, k, *out, self.pools[threads]) for lo, hi in pairwise(bounds)]
            for task in tasks:
                task.result()
        return labels, scores, counts

    def point(self, row: int) -> Any:
        held = slice(self.X.indptr[row], self.X.indptr[row + 1])
        return list(zip(self.X.indices[held].tolist(), self.X.data[held].tolist(), strict=True))

    def predict_one(self, point: Any, k: int) -> Any:
        return self.model.predict(point, beam_size=10, top_k=k)

    def scores(self, answer: Any) -> sp.csr_array:
        labels, scores, counts = answer
        kept = np.arange(labels.shape[1]) < counts[:, None]  # (N, k)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        return sp.csr_array((scores[kept], labels[kept].astype(np.int32), indptr), shape=(len(counts), self.n_labels))


if __name__ == "__main__":
    main(Omikuji)
