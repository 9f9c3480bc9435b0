"""Labels ranked in a space that they share with points: by cosine, by a vote of the nearest points, or by both."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.sparse import csr_array

from longtail.index import Index, from_arrays
from longtail.index.ranking import as_matrix, top_k, vote
from longtail.metrics import evaluate

HOWS = ("cosine", "knn", "both")
_NEIGHBORS = (10, 20, 40, 80, 160)  # to choose from
_SHARPNESS = (5.0, 10.0, 20.0)
_SHARES = (0.25, 0.5, 0.75)
_BLENDED = 100  # labels that the cosine gives to a mean with the vote


@dataclass(frozen=True)
class Scoring:
    """How labels are ranked.

    Parameters
    ----------
    how : {"cosine", "knn", "both"}
    n_neighbors : int
        Points that vote.
    sharpness : float
        A vote weighs exp(sharpness · cosine).
    share : float
        Of the cosine in "both"; the vote has the rest.
    """

    how: str = "cosine"
    n_neighbors: int = 20
    sharpness: float = 10.0
    share: float = 0.5


class LabelScorer:
    """Label vectors and, where they vote, training points with their labels.

    Parameters
    ----------
    labels : Index
        Label vectors under the cosine.
    slope, offset : float
        From a cosine to a label's chance: the logistic function of ``slope * cosine + offset``.
    points : Index, optional
        Training points under the cosine, and
    votes : csr_array, (points, labels), optional
        what each votes for.
    scoring : Scoring
    """

    def __init__(
        self,
        labels: Index,
        slope: float,
        offset: float,
        points: Index | None = None,
        votes: csr_array | None = None,
        scoring: Scoring | None = None,
    ) -> None:
        self.labels, self.slope, self.offset = labels, slope, offset
        self.points, self.votes = points, votes
        self.scoring = Scoring() if scoring is None else scoring

    def rank(self, h: np.ndarray, k: int, n_jobs: int | None = None) -> csr_array:
        """The k best labels of encoded points (n, d) with scores from 0 to 1, the best first."""
        scoring = self.scoring
        near = None if scoring.how == "cosine" else self._near(h, scoring.n_neighbors, n_jobs)
        return self._rank(h, k, scoring, near, n_jobs)

    def _near(self, h: np.ndarray, n: int, n_jobs: int | None) -> tuple[np.ndarray, np.ndarray]:
        """The nearest points, (n, neighbours), and their cosines."""
        assert self.points is not None
        return self.points.search(h, min(n, len(self.points)), n_jobs=n_jobs)

    def _rank(
        self, h: np.ndarray, k: int, scoring: Scoring, near: tuple[np.ndarray, np.ndarray] | None, n_jobs: int | None
    ) -> csr_array:
        n_labels = len(self.labels)
        if near is None:
            return self._by_cosine(h, k, n_jobs)
        assert self.votes is not None
        ids, cosines = (found[:, : scoring.n_neighbors] for found in near)
        weights = np.exp(np.float32(scoring.sharpness) * (cosines - 1))
        if scoring.how == "knn":
            return vote(ids, weights, self.votes, k)
        share = np.float32(scoring.share)
        by_cosine = self._by_cosine(h, min(n_labels, max(k, _BLENDED)), n_jobs)
        return top_k(csr_array(share * by_cosine + (1 - share) * vote(ids, weights, self.votes, n_labels)), k)

    def _by_cosine(self, h: np.ndarray, k: int, n_jobs: int | None) -> csr_array:
        ids, cosines = self.labels.search(h, min(k, len(self.labels)), n_jobs=n_jobs)
        chances = 1 / (1 + np.exp(-np.clip(self.slope * cosines + self.offset, -60, 60)))
        return as_matrix(ids, chances.astype(np.float32), len(self.labels))

    def best(
        self, h: np.ndarray, Y: csr_array, hows: tuple[str, ...], n_neighbors: int | None, n_jobs: int | None = None
    ) -> dict[Scoring, float]:
        """For each of `hows` the scoring that ranks encoded points best, and the nDCG@5 it reaches.

        Parameters
        ----------
        h : array, (n, d)
            Held-out points.
        Y : csr_array, (n, labels)
        hows : tuple of str
        n_neighbors : int, optional
            Where it is not to be chosen.
        """
        found: dict[Scoring, float] = {}
        near = None if hows == ("cosine",) else self._near(h, n_neighbors or max(_NEIGHBORS), n_jobs)
        for how in hows:
            tried = [Scoring(how)]
            if how != "cosine":
                counts = _NEIGHBORS if n_neighbors is None else (n_neighbors,)
                tried = [replace(tried[0], n_neighbors=n, sharpness=s) for n in counts for s in _SHARPNESS]
            if how == "both":
                tried = [replace(one, share=share) for one in tried for share in _SHARES]
            figures = {}
            for one in tried:
                scores = self._rank(h, min(5, len(self.labels)), one, None if how == "cosine" else near, n_jobs)
                figures[one] = evaluate(Y, scores, ks=(5,))["nDCG@5"]
            chosen = max(figures, key=lambda one: figures[one])
            found[chosen] = figures[chosen]
        return found

    def join(self, before: LabelScorer, places: np.ndarray) -> None:
        """Let the points of another scorer vote, too; `places` are where its labels are among ours."""
        if before.points is None or before.votes is None or self.points is None or self.votes is None:
            self.points = self.votes = None
            return
        held = before.votes
        wider = csr_array((held.data, places[held.indices], held.indptr), shape=(held.shape[0], len(self.labels)))
        more = self.points.vectors
        self.points = from_arrays(*before.points.to_arrays())  # another one: `before` stays as it is
        self.points.add(more)
        self.votes = csr_array(sparse.vstack([wider, self.votes], format="csr"))

    # State -------------------------------------------------------------------------------------------------------

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Facts as JSON values, and arrays to store."""
        facts: dict[str, Any] = {"slope": self.slope, "offset": self.offset, "scoring": asdict(self.scoring)}
        facts["labels"], held = self.labels.to_arrays()
        arrays = {f"labels_{name}": array for name, array in held.items()}
        if self.points is not None and self.votes is not None:
            facts["points"], held = self.points.to_arrays()
            arrays |= {f"points_{name}": array for name, array in held.items()}
            arrays |= {"votes_indptr": self.votes.indptr, "votes_indices": self.votes.indices}
        return facts, arrays

    @classmethod
    def from_arrays(cls, facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        """What :meth:`to_arrays` took apart; arrays may be memory-mapped, and others among them do not matter."""
        labels = from_arrays(facts["labels"], _named(arrays, "labels_"))
        points = votes = None
        if "points" in facts:
            points = from_arrays(facts["points"], _named(arrays, "points_"))
            ones = np.ones(len(arrays["votes_indices"]), np.float32)
            shape = len(points), len(labels)
            votes = csr_array((ones, arrays["votes_indices"], arrays["votes_indptr"]), shape=shape)
        return cls(labels, facts["slope"], facts["offset"], points, votes, Scoring(**facts["scoring"]))


def _named(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
