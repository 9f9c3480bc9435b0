"""napkinXC's probabilistic label tree: balanced 2-means, logistic loss, exact search; the library's defaults."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import napkinxc.models
import scipy.sparse as sp

from benchmarks.peers.workers.protocol import Worker, load_matrix, main, pairs_to_csr


class NapkinXC(Worker):
    """Measure napkinXC."""

    def version(self) -> str:
        return f"napkinxc {version('napkinxc')}"

    def load_train(self, data: Path) -> None:
        self.X = load_matrix(data / "X.trn.npz")
        self.Y = load_matrix(data / "Y.trn.npz")

    def fit(self) -> None:
        model = napkinxc.models.PLT(str(self.folder), threads=self.threads, **self.params)
        model.fit(self.X, self.Y)

    def save(self) -> None:
        pass  # training writes the folder as it goes, so its time includes the writing

    def load(self) -> None:
        self.model = napkinxc.models.PLT(str(self.folder), threads=2, **self.params)
        self.model.load()

    def load_test(self, data: Path) -> None:
        self.X = load_matrix(data / "X.tst.npz")
        self.n_labels = load_matrix(data / "Y.tst.npz").shape[1]

    def predict(self, k: int, threads: int) -> Any:
        self.model.set_params(threads=threads)
        return self.model.predict_proba(self.X, top_k=k)

    def point(self, row: int) -> Any:
        return self.X[row]

    def predict_one(self, point: Any, k: int) -> Any:
        return self.model.predict_proba(point, top_k=k)

    def scores(self, answer: Any) -> sp.csr_array:
        return pairs_to_csr(answer, self.n_labels)


if __name__ == "__main__":
    main(NapkinXC)
