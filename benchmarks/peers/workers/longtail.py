"""longtail's own rankers, used as a user would: made by name, with a saved model loaded from its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.peers.workers.protocol import Worker, load_matrix, main
from longtail._version import __version__
from longtail.registry import load, make


class Longtail(Worker):
    """Measure longtail."""

    def version(self) -> str:
        return f"longtail {__version__}"

    def _make(self) -> Any:
        common = {"random_state": self.params.get("seed", 0), "n_jobs": self.threads}
        return make(self.params["model"], self.params["settings"], defaults=common)

    def warm_up(self, phase: str) -> None:
        """Load the compiled kernels (or compile them, the first time on a machine) and run each once.

        A process that predicts loads a tiny model that the one that trains has saved, as users' processes load theirs:
        the kernels of training are not in it.
        """
        tiny_folder = self.folder.with_name(f"{self.folder.name}-tiny")
        random = np.random.default_rng(0)
        X = sp.random_array((300, 60), density=0.2, format="csr", dtype=np.float32, rng=random)
        Y = sp.csr_array((sp.random_array((300, 250), density=0.02, format="csr", rng=random) > 0).astype(np.float32))
        if phase == "fit":
            Z = sp.csr_array(X[:250]) if self.params.get("with_text") else None
            self._make().fit(X, Y, label_features=Z).save(tiny_folder)
            return
        tiny = load(tiny_folder)
        tiny.predict(X)
        tiny.rank(X.indices[: X.indptr[1]], X.data[: X.indptr[1]])

    def load_train(self, data: Path) -> None:
        self.X = sp.csr_array(load_matrix(data / "X.trn.npz"))
        self.Y = sp.csr_array(load_matrix(data / "Y.trn.npz"))
        self.Z = sp.csr_array(load_matrix(data / "Z.npz")) if self.params.get("with_text") else None

    def fit(self) -> None:
        self.model = self._make().fit(self.X, self.Y, label_features=self.Z)

    def save(self) -> None:
        self.model.save(self.folder)

    def load(self) -> None:
        self.model = load(self.folder)

    def load_test(self, data: Path) -> None:
        self.X = sp.csr_array(load_matrix(data / "X.tst.npz"))

    def predict(self, k: int, threads: int) -> Any:
        self.model.n_jobs = threads
        return self.model.predict(self.X, k=k)

    def point(self, row: int) -> Any:
        held = slice(self.X.indptr[row], self.X.indptr[row + 1])
        return self.X.indices[held], self.X.data[held]

    def predict_one(self, point: Any, k: int) -> Any:
        return self.model.rank(*point, k=k)

    def scores(self, answer: Any) -> sp.csr_array:
        return sp.csr_array(answer)


if __name__ == "__main__":
    main(Longtail)
