"""What the nearest points say: points under search with their labels, whose neighbours vote (DXML §3.4 and Alg. 2).

How many neighbours vote, how they weigh, and how many partitions are opened for them is chosen on held-out points.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse import csr_array, vstack

from longtail.index import Index, from_arrays, make_index
from longtail.kernels import pool
from longtail.kernels import vote as voting
from longtail.metrics import evaluate

COUNTS = (5, 10, 15, 20, 30, 40, 60, 80, 120)  # neighbours to choose from
SHARPNESSES = (0.0, 4.0, 8.0, 12.0, 16.0, 24.0, 32.0)
_BELOW_ONE, _ABOVE_ZERO = np.float32(1 - 2**-23), np.float32(1e-30)


@dataclass(frozen=True)
class Vote:
    """How neighbours vote: so many of them, weighing exp(sharpness * cosine); 0 is the paper's plain average."""

    n_neighbours: int = 30
    sharpness: float = 12.0

    def __call__(
        self, ids: np.ndarray, nearness: np.ndarray, Y: csr_array, k: int, n_jobs: int | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Labels and shares of the vote (N, k), the best first, and how many there are of them (N,).

        ids, nearness : (N, m), the nearest first, -1 for none; Y : labels of what the ids number.
        """
        n = len(ids)
        labels, scores = np.zeros((n, k), np.int32), np.zeros((n, k), np.float32)
        counts = np.zeros(n, np.int64)

        def work(block: tuple[int, int]) -> None:
            voting.vote(
                ids, nearness, np.float32(self.sharpness), Y.indptr, Y.indices, Y.shape[1], self.n_neighbours, k,
                *block, labels, scores, counts,
            )  # fmt: skip

        jobs = 1 if n < 64 else n_jobs
        pool.run(work, pool.blocks(n, jobs, 64), jobs)
        return labels, np.clip(scores, _ABOVE_ZERO, _BELOW_ONE), counts


def as_scores(labels: np.ndarray, scores: np.ndarray, counts: np.ndarray, n_labels: int) -> csr_array:
    """What a vote found, as a sparse matrix."""
    keep = np.arange(labels.shape[1]) < counts[:, None]
    indptr = np.concatenate([[0], np.cumsum(counts)])
    indptr = indptr.astype(np.int32 if indptr[-1] < 2**31 else np.int64)
    return csr_array((scores[keep], labels[keep], indptr), shape=(len(labels), n_labels))


def choose(
    ids: np.ndarray,
    nearness: np.ndarray,
    Y: csr_array,
    held: csr_array,
    n_neighbours: int | None = None,
    sharpness: float | None = None,
    n_jobs: int | None = None,
) -> tuple[Vote, list[dict[str, float]]]:
    """The vote that ranks labels of held-out points best, by the mean of nDCG at 1, 3 and 5; and all that were tried.

    ids, nearness : neighbours of the held-out points; Y, held : labels of the neighbours and of the held-out points.
    What is given is not chosen.
    """
    most = ids.shape[1]
    counts = [n_neighbours] if n_neighbours is not None else [n for n in COUNTS if n <= most] or [most]
    sharpnesses = [sharpness] if sharpness is not None else list(SHARPNESSES)
    tried, best, best_value = [], Vote(counts[0], sharpnesses[0]), -1.0
    for n in counts:
        for sharp in sharpnesses:
            vote = Vote(n, sharp)
            scores = as_scores(*vote(ids, nearness, Y, min(5, Y.shape[1]), n_jobs), Y.shape[1])
            found = evaluate(held, scores, train_Y=Y, ks=(1, 3, 5))
            value = (found["nDCG@1"] + found["nDCG@3"] + found["nDCG@5"]) / 3
            tried.append({"n_neighbours": n, "sharpness": sharp, "nDCG": value})
            if value > best_value:
                best, best_value = vote, value
    return best, tried


@dataclass
class Neighbours:
    """Points under search, of length 1, with their labels and how they vote."""

    index: Index
    labels: csr_array  # (points, L)
    vote: Vote
    tried: list[dict[str, float]] = field(default_factory=list)  # what the vote was chosen from

    @classmethod
    def settle(
        cls,
        points: np.ndarray,
        labels: csr_array,
        held: tuple[np.ndarray, csr_array] | None,
        n_neighbours: int | None = None,
        sharpness: float | None = None,
        kind: str = "auto",
        n_jobs: int | None = None,
        **partitions: Any,
    ) -> Neighbours:
        """Put points under search and choose, on held-out points and their labels, what is not given.

        kind, **partitions : of :func:`longtail.index.make_index`; partitions are opened as far as `recall` of the
        neighbours that vote needs.
        """
        usual = Vote()
        vote = Vote(n_neighbours or usual.n_neighbours, usual.sharpness if sharpness is None else sharpness)
        tried: list[dict[str, float]] = []
        if held is not None:
            exact = make_index(points, "ip", "exact")
            ids, nearness = exact.search(held[0], min(n_neighbours or COUNTS[-1], len(exact)), n_jobs=n_jobs)
            vote, tried = choose(ids, nearness, labels, held[1], n_neighbours, sharpness, n_jobs)
        if kind != "exact":
            partitions |= {"recall_k": vote.n_neighbours, "queries": held and held[0], "n_jobs": n_jobs}
        return cls(make_index(points, "ip", kind, **(partitions if kind != "exact" else {})), labels, vote, tried)

    def add(self, points: np.ndarray, labels: csr_array) -> None:
        """More points, which may have labels beyond those known."""
        old = self.labels
        old = csr_array((old.data, old.indices, old.indptr), shape=(old.shape[0], labels.shape[1]))
        self.index.add(points)
        self.labels = csr_array(vstack([old, labels], format="csr"))

    def rank(self, points: np.ndarray, k: int, n_jobs: int | None = None) -> csr_array:
        """The k best labels of each point and their shares of the vote."""
        ids, nearness = self.index.search(points, self._asked(), n_jobs=n_jobs)
        return as_scores(*self.vote(ids, nearness, self.labels, k, n_jobs), self.labels.shape[1])

    def rank_one(self, point: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The same for one point, on this thread: labels and shares."""
        ids, nearness = self.index.search_one(point, self._asked())
        labels, scores, counts = self.vote(ids[None], nearness[None], self.labels, k, 1)
        return labels[0, : counts[0]], scores[0, : counts[0]]

    def _asked(self) -> int:
        return min(self.vote.n_neighbours, len(self.index))

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """JSON values, and arrays, to store."""
        index, arrays = self.index.to_arrays()
        held = {f"index_{name}": array for name, array in arrays.items()}
        held |= {"labels_indptr": self.labels.indptr, "labels_indices": self.labels.indices}
        vote = [self.vote.n_neighbours, self.vote.sharpness]
        return {"index": index, "vote": vote, "tried": self.tried}, held

    @classmethod
    def from_arrays(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray], n_labels: int) -> Neighbours:
        """What :meth:`to_arrays` took apart; arrays may be memory-mapped."""
        own = {name.removeprefix("index_"): array for name, array in arrays.items() if name.startswith("index_")}
        index = from_arrays(meta["index"], own)
        indices = arrays["labels_indices"]
        labels = (np.ones(len(indices), np.float32), indices, arrays["labels_indptr"])
        return cls(index, csr_array(labels, shape=(len(index), n_labels)), Vote(*meta["vote"]), meta["tried"])
