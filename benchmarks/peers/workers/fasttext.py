"""fastText, on the words themselves (on the features' numbers where there is no text).

It reads its file while it trains, so its training time includes the reading. It has no threads at prediction. Its start
values are filled in ten blocks, one a thread: with fewer than ten threads the rest is whatever lay in memory, and
training often ends in NaN. So it gets ten threads, on as many cores as everyone else.
"""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import fasttext
import scipy.sparse as sp

from benchmarks.peers.workers.protocol import Worker, load_matrix, main, pairs_to_csr

LABEL = "__label__"


class FastText(Worker):
    """Measure fastText."""

    def version(self) -> str:
        return f"fasttext-numpy2 {version('fasttext-numpy2')}"

    def load_train(self, data: Path) -> None:
        self.file = data / "words.trn.txt"

    def fit(self) -> None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: self.threads])
        self.model = fasttext.train_supervised(input=str(self.file), thread=10, verbose=0, **self.params)

    def save(self) -> None:
        self.folder.mkdir(parents=True)
        self.model.save_model(str(self.folder / "model.bin"))

    def load(self) -> None:
        self.model = fasttext.load_model(str(self.folder / "model.bin"))

    def load_test(self, data: Path) -> None:
        self.n_labels = load_matrix(data / "Y.tst.npz").shape[1]
        self.lines = (data / "words.tst.txt").read_text(encoding="utf-8").splitlines()

    def predict(self, k: int, threads: int) -> Any:
        return self.model.predict(self.lines, k=k)

    def point(self, row: int) -> Any:
        return self.lines[row]

    def predict_one(self, point: Any, k: int) -> Any:
        return self.model.predict(point, k=k)

    def scores(self, answer: Any) -> sp.csr_array:
        rows = [
            [(int(label.removeprefix(LABEL)), min(float(score), 1.0)) for label, score in zip(*row, strict=True)]
            for row in zip(*answer, strict=True)
        ]
        return pairs_to_csr(rows, self.n_labels)


if __name__ == "__main__":
    main(FastText)
