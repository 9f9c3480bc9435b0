"""scikit-learn's TF-IDF and PECOS as one pipeline from texts to labels; runs in the environment of PECOS.

    python pecos_pipeline.py FOLDER THREADS REPEATS

The folder holds ``train.json`` and ``test.json``, lists of texts, and ``Y.npz``. One line of JSON goes to the output.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from pecos.xmc import Indexer, LabelEmbeddingFactory
from pecos.xmc.xlinear.model import XLinearModel
from sklearn.feature_extraction.text import TfidfVectorizer


def main(folder: Path, threads: int, repeats: int) -> None:
    """Train, then time the whole way from texts to the 5 best labels."""
    train, test = (json.loads((folder / f"{part}.json").read_text(encoding="utf-8")) for part in ("train", "test"))
    Y = sp.csc_matrix(sp.load_npz(folder / "Y.npz"), dtype=np.float32)
    vectorizer = TfidfVectorizer(dtype=np.float32)
    X = sp.csr_matrix(vectorizer.fit_transform(train))
    labels = LabelEmbeddingFactory.create(Y, X, method="pifa")
    chain = Indexer.gen(labels, nr_splits=16, max_leaf_size=100, threads=threads)
    model = XLinearModel.train(X, Y, C=chain, nr_splits=16, threshold=0.1, threads=threads)

    def predict() -> None:
        rows = sp.csr_matrix(vectorizer.transform(test))
        model.predict(rows, beam_size=10, only_topk=5, post_processor="l3-hinge", threads=threads)

    seconds, cpu = [], []
    for _ in range(repeats):
        start, used = time.perf_counter(), time.process_time()
        predict()
        seconds.append(time.perf_counter() - start)
        cpu.append(time.process_time() - used)
    print(json.dumps({"seconds": min(seconds), "cpu_seconds": min(cpu), "n": len(test)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
