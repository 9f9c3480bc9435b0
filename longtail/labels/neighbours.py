"""Labels of similar points: the oldest way to classify, and one that needs no training and knows every rare label.

Points are compared by the cosine of their heaviest features, through an inverted index; the nearest ones vote for their
labels with the square of their similarity.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, fields

import numpy as np
from scipy.sparse import csc_array, csr_array, vstack

from longtail.kernels import neighbours as kernels
from longtail.kernels import pool

TERMS = 32  # heaviest features of a point that take part: more is slower on long texts, and hardly better
BUDGET = 1 << 15  # points met by way of a query's features, after which its most frequent ones are left out

Votes = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@dataclass
class Neighbours:
    """Points and their labels, to be asked.

    Attributes
    ----------
    ptr, rows, values : arrays
        Points by feature.
    label_ptr, labels : arrays
        Labels by point.
    n_labels : int
    """

    ptr: np.ndarray
    rows: np.ndarray
    values: np.ndarray
    label_ptr: np.ndarray
    labels: np.ndarray
    n_labels: int

    def __post_init__(self) -> None:
        # Arrays just made and arrays mapped from disk must look the same to the compiler.
        for entry in fields(self)[:-1]:
            array = np.asarray(getattr(self, entry.name)).view()
            array.flags.writeable = False
            setattr(self, entry.name, array)
        self._most = int(np.diff(self.label_ptr).max(initial=0))
        self._scratch = threading.local()

    @classmethod
    def of(cls, X: csr_array, Y: csr_array, before: Neighbours | None = None) -> Neighbours:
        """Take in points and their labels, after those of `before`; Y has the columns of all labels."""
        ptr, idx, val = kernels.heaviest(X.indptr, X.indices, X.data, TERMS)
        points = csr_array((val, idx, ptr), shape=X.shape)
        if before is not None:
            shape = (len(before.label_ptr) - 1, X.shape[1])
            points = vstack([csr_array(csc_array((before.values, before.rows, before.ptr), shape=shape)), points])
            ones = np.ones(len(before.labels), np.float32)
            Y = csr_array(vstack([csr_array((ones, before.labels, before.label_ptr), shape=(shape[0], Y.shape[1])), Y]))
        by_feature = csc_array(points)
        by_feature.sort_indices()  # points in ascending order: sums do not depend on how they were collected
        return cls(
            by_feature.indptr.astype(np.int64), by_feature.indices.astype(np.int32), by_feature.data,
            Y.indptr.astype(np.int64), Y.indices.astype(np.int32), Y.shape[1],
        )  # fmt: skip

    def __getstate__(self) -> dict[str, object]:
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def arrays(self) -> dict[str, np.ndarray]:
        """What to store, but for the number of labels."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self)[:-1]}

    def vote(
        self, ptr: np.ndarray, idx: np.ndarray, val: np.ndarray, n_neighbours: int, k: int, n_jobs: int | None,
        shared: bool = True,
    ) -> Votes:  # fmt: skip
        """The k best labels of each point: CSR (ptr, labels, shares of the votes), and the highest similarities.

        Without `shared`, labels have the similarity of their most similar point instead of a share.
        """
        n = len(ptr) - 1
        found, shares = np.empty((n, k), np.int32), np.empty((n, k), np.float32)
        counts, top = np.zeros(n, np.int32), np.zeros(n, np.float32)

        def work(block: tuple[int, int]) -> None:
            kernels.vote(
                ptr, idx, val, TERMS, BUDGET, self.ptr, self.rows, self.values, self.label_ptr, self.labels, self._most,
                n_neighbours, shared, k, *self._buffers(), *block, found, shares, counts, top,
            )  # fmt: skip

        if n < 64:
            work((0, n))
        else:
            pool.run(work, pool.blocks(n, n_jobs), n_jobs)
        if n == 1:
            some = counts[0]
            return np.array([0, some], np.int32), found[0, :some], shares[0, :some], top
        starts = np.zeros(n + 1, np.int32)
        np.cumsum(counts, out=starts[1:])
        filled = np.arange(k) < counts[:, None]
        return starts, found[filled], shares[filled], top

    def _buffers(self) -> tuple[np.ndarray, np.ndarray]:
        """Scratch of this thread, kept between calls."""
        if not hasattr(self._scratch, "buffers"):
            self._scratch.buffers = (
                np.zeros(len(self.label_ptr) - 1, np.float32),
                np.zeros(self.n_labels, np.float32),
            )
        return self._scratch.buffers
