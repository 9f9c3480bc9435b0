"""The default members of a blend, chosen by the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scipy.sparse import csr_array

from longtail.models.base import Ranker

_MANY_LABELS = 20_000  # from here on Bonsai has one tree: further trees make predictions slower for little gain
_MOST_DISMEC_WORK = 4e10  # non-zeros of all points times labels up to which DiSMEC is used: it trains for minutes
# Two non-linear members are added if labels have no text, points are so many, and features are no more than these.
_SOME_POINTS = range(1_000, 20_000)
_FEW_FEATURES = 5_000
# Training points or labels that KNN and TextMatch compare a point with, from the least to the most, and the share of
# the training points in between. With a quarter of KNN's own number, a blend's P@k and B@k of held-out points changed
# by 0.4 at most, in either direction (six data sets), for two thirds of the time of the two members.
_LEAST_COMPARED, _MOST_COMPARED, _SHARE_COMPARED = 1 << 12, 1 << 14, 1 / 16
# A shorter training than DECAF's own. In a blend of all Tate points, DECAF's own epochs, dropout, batches and hard
# negatives changed P@k and B@k of held-out points by 0.2 at most, for a sixth more time. Half the candidates changed
# them as little with 20,000 points of Debian packages and Tate, for a fifth less time. Even fewer epochs or shorter
# vectors lowered P@1 by 0.2 to 0.6 on Debian packages.
_DECAF: dict[str, Any] = {"n_networks": 1, "epochs": 5, "n_candidates": 1024, "n_hard": 4, "dropout": 0.1}


def points_compared(n_points: int) -> int:
    """Return `n_compared` of KNN and TextMatch for this number of training points."""
    return min(max(int(_SHARE_COMPARED * n_points), _LEAST_COMPARED), _MOST_COMPARED)


@dataclass(frozen=True)
class MemberChoice:
    """Chooses unfitted members by the data.

    Parameters
    ----------
    hurried : bool
        Whether the user has set a time limit, with which DiSMEC is not used.
    n_jobs : int, optional
        Number of threads of each member.
    seed : int
        Seed of each member.
    """

    hurried: bool = False
    n_jobs: int | None = None
    seed: int = 0

    def members(self, X: csr_array, Y: csr_array, Z: csr_array | None) -> list[Ranker]:
        """Return unfitted members for points X with labels Y and label text Z. The first one is linear."""
        from longtail.models.knn import KNN

        n_compared = points_compared(X.shape[0])
        first: list[Ranker] = [self._linear_member(X, Y), KNN(n_compared=n_compared, n_jobs=self.n_jobs)]
        if Z is None:
            from longtail.models.glas import GLaS

            few = X.shape[0] in _SOME_POINTS and X.shape[1] <= _FEW_FEATURES
            return [*first, *(self._nonlinear_members() if few else []), GLaS(**self._shared())]
        from longtail.models.decaf import DECAF
        from longtail.models.epoch_ranker import usual_batch_size
        from longtail.models.textmatch import TextMatch

        network = DECAF(batch_size=usual_batch_size(X.shape[0]), **_DECAF, **self._shared())
        return [*first, TextMatch(n_compared=n_compared, n_jobs=self.n_jobs), network]

    def instead_of(self, member: Ranker) -> Ranker | None:
        """Return a faster ranker for a member that takes too long, or None."""
        from longtail.models.bonsai import Bonsai

        return Bonsai(**self._shared()) if member.kind == "dismec" else None

    def vector_members(self, of_labels: bool) -> list[Ranker]:
        """Return members that compare dense vectors of points and, with `of_labels`, of label texts."""
        from longtail.models.vectorknn import VectorKNN
        from longtail.models.vectormatch import VectorMatch

        points = VectorKNN(n_jobs=self.n_jobs)
        return [points, VectorMatch(n_jobs=self.n_jobs)] if of_labels else [points]

    def _linear_member(self, X: csr_array, Y: csr_array) -> Ranker:
        """Return DiSMEC if points and labels are few enough, and Bonsai otherwise.

        In a blend, DiSMEC instead of three Bonsai trees raised P@1, 3, 5 of held-out points by 0.5, 0.8 and 0.6 and B
        by 1.1, 1.1 and 1.0 on EU laws, and P by 0.3 and B by 0.6 on Tate. It changed nothing on Delicious and BibTeX.
        The blend took up to twice as long to train. A looser tolerance of its solver cost 0.1 to 0.5 of B.
        """
        from longtail.models.bonsai import Bonsai
        from longtail.models.dismec import DiSMEC

        n_labels = Y.shape[1]
        if n_labels >= _MANY_LABELS:
            return Bonsai(n_trees=1, **self._shared())
        if not self.hurried and float(X.nnz) * n_labels <= _MOST_DISMEC_WORK:
            return DiSMEC(**self._shared())
        return Bonsai(**self._shared())

    def _nonlinear_members(self) -> list[Ranker]:
        """Return non-linear members for few points and few features without label text, where they train fast.

        They learn interactions of features, which is possible if features are few, but not with words. On held-out
        points of Delicious the two raised P@1, 3, 5 by 2.2, 1.8 and 1.9 and B by 1.2, 1.3 and 1.6; on BibTeX P by 2.0,
        0.5 and 0.8 and B by 1.1, 0.6 and 1.3; on the words of Tate titles they changed nothing. DXML added nothing to
        these two.
        """
        from longtail.models.fastxml import FastXML
        from longtail.models.mnn import MNN

        return [FastXML(n_trees=50, cost=4.0, **self._shared()), MNN(**self._shared())]

    def _shared(self) -> dict[str, Any]:
        return {"n_jobs": self.n_jobs, "random_state": self.seed}
