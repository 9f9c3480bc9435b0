"""What the nearest points say: points under search with their labels, whose neighbours vote (DXML §3.4 and Alg. 2).

The paper finds k neighbours in the space of label vectors and averages their labels. Here neighbours weigh by how near
they are, and two things are added that the space has lost on the way: how alike a neighbour's own features are, and how
near a label's vector lies to the point. How much of each, and how many neighbours vote, is chosen on held-out points.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array, vstack

from longtail.index import Index, from_arrays, make_index
from longtail.index.base import frozen
from longtail.kernels import pool
from longtail.kernels import vote as kernels
from longtail.metrics import evaluate

_BELOW_ONE, _ABOVE_ZERO = np.float32(1 - 2**-23), np.float32(1e-30)


@dataclass(frozen=True)
class Vote:
    """How neighbours vote.

    Parameters
    ----------
    n_neighbors : int
        How many.
    sharpness : float
        A neighbour weighs exp(sharpness * nearness); 0 is the paper's plain average.
    feature_weight : float
        Nearness is the cosine in the space of label vectors, and so much of the cosine of features. Twice as many
        neighbours are looked for then, and the nearest by both vote.
    label_weight : float
        A label's share of the vote is multiplied by exp(label_weight * cosine of its vector and the point).
    """

    n_neighbors: int = 30
    sharpness: float = 12.0
    feature_weight: float = 1.0
    label_weight: float = 2.0

    @property
    def asked(self) -> int:
        """Neighbours to look for."""
        return self.n_neighbors * (2 if self.feature_weight > 0 else 1)


PLAIN = Vote(30, 12.0, 0.0, 0.0)
GRID: dict[str, tuple[float, ...]] = {  # what is chosen from
    "n_neighbors": (10, 20, 40, 60, 100),
    "sharpness": (0.0, 4.0, 8.0, 12.0, 16.0, 24.0),
    "feature_weight": (0.0, 0.5, 1.0, 2.0),
    "label_weight": (0.0, 1.5, 3.0, 5.0),
}


@dataclass
class Neighbours:
    """Points of length 1 under search, with their labels and how they vote."""

    index: Index
    labels: csr_array  # (points, L)
    vectors: np.ndarray  # (L, d), of the labels
    vote: Vote
    features: csr_array | None = None  # (points, D), of length 1; None where the vote needs none
    tried: list[dict[str, float]] = field(default_factory=list)  # what the vote was chosen from

    # Making ------------------------------------------------------------------------------------------------------

    @classmethod
    def settle(
        cls,
        points: np.ndarray,
        labels: csr_array,
        vectors: np.ndarray,
        features: csr_array,
        held: tuple[np.ndarray, csr_array, csr_array] | None,
        given: dict[str, Any],
        kind: str = "auto",
        n_jobs: int | None = None,
        **partitions: Any,
    ) -> Neighbours:
        """Put points under search and choose how they vote.

        Parameters
        ----------
        points, labels, vectors, features
            See the class; features of any length.
        held : tuple of (points, labels, features), optional
            Held-out points to choose on.
        given : dict
            Settings of the vote that are not to be chosen; None for those that are.
        kind, **partitions
            Of :func:`longtail.index.make_index`; partitions are opened as far as `recall` of the neighbours that are
            asked for needs.
        """
        given = {name: value for name, value in given.items() if value is not None}
        features = of_length_1(features)
        made = cls(make_index(points, "ip", "exact"), labels, vectors, replace(Vote(), **given), features)
        if held is not None:
            made._choose(*held, given, n_jobs)
        if made.vote.feature_weight == 0:
            made.features = None
        if kind != "exact":
            partitions |= {"recall_k": made.vote.asked, "queries": held and held[0], "n_jobs": n_jobs}
            made.index = make_index(points, "ip", kind, **partitions)
        return made

    def _choose(
        self, points: np.ndarray, labels: csr_array, features: csr_array, given: dict[str, Any], n_jobs: int | None
    ) -> None:
        """Choose the vote that ranks labels of held-out points best, by the mean of nDCG at 1, 3 and 5.

        Settings are chosen in turn, twice round, each with the others as they are: a full grid would find little more.
        A setting is left only for one that is better by more than chance explains.
        """
        most = 2 * int(max([*GRID["n_neighbors"], given.get("n_neighbors", 1)]))
        found = self.index.search(points, min(most, len(self.index)), n_jobs=n_jobs)
        known: dict[Vote, float] = {}

        def value(vote: Vote) -> float:
            if vote not in known:
                self.vote = vote
                scores = self._counted(points, features, found[0], found[1], min(5, labels.shape[1]), n_jobs)
                figures = evaluate(labels, scores, train_Y=self.labels, ks=(1, 3, 5))
                known[vote] = (figures["nDCG@1"] + figures["nDCG@3"] + figures["nDCG@5"]) / 3
            return known[vote]

        best, margin = self.vote, 8 / np.sqrt(len(points))
        for _ in range(2):
            for name, values in GRID.items():
                if name not in given:
                    changes: list[dict[str, Any]] = [{name: one} for one in values]
                    rival = max((replace(best, **change) for change in changes), key=value)
                    best = rival if value(rival) > value(best) + margin else best
        self.vote = best
        self.tried = [asdict(vote) | {"nDCG": figure} for vote, figure in known.items()]

    def add(self, points: np.ndarray, labels: csr_array, features: csr_array) -> None:
        """More points, which may have labels beyond those known."""
        old = self.labels
        old = csr_array((old.data, old.indices, old.indptr), shape=(old.shape[0], labels.shape[1]))
        self.index.add(points)
        self.labels = csr_array(vstack([old, labels], format="csr"))
        if self.features is not None:
            self.features = csr_array(vstack([self.features, of_length_1(features)], format="csr"))

    # Asking ------------------------------------------------------------------------------------------------------

    def rank(self, points: np.ndarray, features: csr_array, k: int, n_jobs: int | None = None) -> csr_array:
        """The k best labels of each point and their scores."""
        ids, nearness = self.index.search(points, self._asked(), n_jobs=n_jobs)
        return self._counted(points, features, ids, nearness, k, n_jobs)

    def rank_one(
        self, point: np.ndarray, indices: np.ndarray, values: np.ndarray, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The same for one point, on this thread: labels and scores."""
        ids, nearness = self.index.search_one(point, self._asked())
        bounds = np.array([0, len(indices)], np.int32)
        labels, scores, counts = self._count(point[None], (bounds, indices, values), ids[None], nearness[None], k, 1)
        return labels[0, : counts[0]], scores[0, : counts[0]]

    def _asked(self) -> int:
        return min(self.vote.asked, len(self.index))

    def _counted(
        self, points: np.ndarray, features: csr_array, ids: np.ndarray, nearness: np.ndarray, k: int, n_jobs: int | None
    ) -> csr_array:
        """The vote of these neighbours as a sparse matrix."""
        X = (features.indptr, features.indices, features.data)
        labels, scores, counts = self._count(points, X, ids, nearness, k, n_jobs)
        keep = np.arange(k) < counts[:, None]
        indptr = np.concatenate([[0], np.cumsum(counts)])
        indptr = indptr.astype(np.int32 if indptr[-1] < 2**31 else np.int64)
        return csr_array((scores[keep], labels[keep], indptr), shape=(len(points), self.labels.shape[1]))

    def _count(
        self,
        points: np.ndarray,
        X: tuple[np.ndarray, np.ndarray, np.ndarray],
        ids: np.ndarray,
        nearness: np.ndarray,
        k: int,
        n_jobs: int | None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Labels and scores (N, k), and how many there are of them (N,)."""
        vote, n = self.vote, len(points)
        ids, nearness = (np.array(part[:, : vote.asked]) for part in (ids, nearness))
        labels, scores = np.zeros((n, k), np.int32), np.zeros((n, k), np.float32)
        counts = np.zeros(n, np.int64)
        own = self.features
        Y, vectors, points = (self.labels.indptr, self.labels.indices), frozen(self.vectors), frozen(points)

        def work(block: tuple[int, int]) -> None:
            if vote.feature_weight > 0 and own is not None:
                kernels.add_feature_cosines(
                    ids, nearness, *map(frozen, X), frozen(own.indptr), frozen(own.indices), frozen(own.data),
                    own.shape[1], vote.feature_weight, *block,
                )  # fmt: skip
            kernels.vote(
                ids, nearness, np.float32(vote.sharpness), *map(frozen, Y), points, vectors,
                np.float32(vote.label_weight), vote.n_neighbors, k, *block, labels, scores, counts,
            )  # fmt: skip

        jobs = 1 if n < 64 else n_jobs
        pool.run(work, pool.blocks(n, jobs, 64), jobs)
        return labels, np.clip(scores, _ABOVE_ZERO, _BELOW_ONE), counts

    # Keeping -----------------------------------------------------------------------------------------------------

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """JSON values, and arrays, to store."""
        index, arrays = self.index.to_arrays()
        held = {f"index_{name}": array for name, array in arrays.items()}
        held |= {"labels_indptr": self.labels.indptr, "labels_indices": self.labels.indices}
        held["label_vectors"] = self.vectors
        if self.features is not None:
            held |= {f"features_{name}": getattr(self.features, name) for name in ("data", "indices", "indptr")}
        return {"index": index, "vote": asdict(self.vote), "tried": self.tried}, held

    @classmethod
    def from_arrays(
        cls, meta: dict[str, Any], arrays: dict[str, np.ndarray], n_labels: int, n_features: int
    ) -> Neighbours:
        """What :meth:`to_arrays` took apart; arrays may be memory-mapped."""
        own = {name.removeprefix("index_"): array for name, array in arrays.items() if name.startswith("index_")}
        index = from_arrays(meta["index"], own)
        indices, indptr = arrays["labels_indices"], arrays["labels_indptr"]
        labels = csr_array((np.ones(len(indices), np.float32), indices, indptr), shape=(len(index), n_labels))
        features = None
        if "features_data" in arrays:
            parts = tuple(arrays[f"features_{name}"] for name in ("data", "indices", "indptr"))
            features = csr_array(parts, shape=(len(index), n_features))
        return cls(index, labels, arrays["label_vectors"], Vote(**meta["vote"]), features, meta["tried"])


def of_length_1(X: csr_array) -> csr_array:
    """Rows scaled to length 1; an empty row stays."""
    square = np.add.reduceat(np.append(X.data.astype(np.float64) ** 2, 0.0), X.indptr[:-1])
    scale = np.where((np.diff(X.indptr) > 0) & (square > 0), 1 / np.sqrt(np.maximum(square, 1e-300)), 0.0)
    data = X.data * np.repeat(scale, np.diff(X.indptr)).astype(np.float32)
    return csr_array((data, X.indices, X.indptr), shape=X.shape)
