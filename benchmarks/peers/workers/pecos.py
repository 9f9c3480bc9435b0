"""PECOS XR-Linear: one tree, hierarchical 16-means over the labels' mean feature vectors; the library's defaults."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import scipy.sparse as sp
from pecos.xmc import Indexer, LabelEmbeddingFactory
from pecos.xmc.xlinear.model import XLinearModel

from benchmarks.peers.workers.protocol import Worker, load_matrix, main


class Pecos(Worker):
    """Measure PECOS."""

    def version(self) -> str:
        return f"libpecos {version('libpecos')}"

    def load_train(self, data: Path) -> None:
        self.X = load_matrix(data / "X.trn.npz")
        self.Y = load_matrix(data / "Y.trn.npz").tocsc()

    def fit(self) -> None:
        labels = LabelEmbeddingFactory.create(self.Y, self.X, method="pifa")
        chain = Indexer.gen(labels, nr_splits=16, max_leaf_size=100, threads=self.threads)
        self.model = XLinearModel.train(
            self.X, self.Y, C=chain, nr_splits=16, threshold=0.1, threads=self.threads, **self.params
        )

    def save(self) -> None:
        self.model.save(str(self.folder))

    def load(self) -> None:
        self.model = XLinearModel.load(str(self.folder), is_predict_only=True)

    def load_test(self, data: Path) -> None:
        self.X = load_matrix(data / "X.tst.npz")

    def predict(self, k: int, threads: int) -> Any:
        return self.model.predict(self.X, beam_size=10, only_topk=k, post_processor="l3-hinge", threads=threads)

    def point(self, row: int) -> Any:
        return self.X[row]

    def predict_one(self, point: Any, k: int) -> Any:
        return self.model.predict(point, beam_size=10, only_topk=k, post_processor="l3-hinge", threads=1)

    def scores(self, answer: Any) -> sp.csr_array:
        return sp.csr_array(answer)


if __name__ == "__main__":
    main(Pecos)
