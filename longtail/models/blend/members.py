"""Which rankers a blend combines: those that suit the data, where none are given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scipy.sparse import csr_array

from longtail.models.base import Ranker

_MANY_LABELS = 20_000  # from here on one tree: a second and third cost a point more time than they gain
_MOST_DISMEC_WORK = 4e10  # features of all points, times labels, up to which DiSMEC is trained: minutes
_SOME_POINTS = range(1_000, 20_000)  # points with which two further members are fitted, where labels have no text
_FEW_FEATURES = 5_000  # and features are no more than this
_DECAF: dict[str, Any] = {
    "n_networks": 1,
    "epochs": 5,
    "n_candidates": 1024,
    "n_hard": 4,
    "dropout": 0.1,
}  # as a member


@dataclass(frozen=True)
class MemberChoice:
    """Chooses unfitted members by the data.

    Parameters
    ----------
    hurried : bool
        Whether the user has set a time limit: DiSMEC is not chosen then.
    n_jobs : int, optional
        Threads of each member.
    seed : int
        Seed of each member.
    """

    hurried: bool = False
    n_jobs: int | None = None
    seed: int = 0

    def members(self, X: csr_array, Y: csr_array, Z: csr_array | None) -> list[Ranker]:
        """Return unfitted members that suit points X, their labels Y and the label text Z; a linear one is first."""
        from longtail.models.knn import KNN

        first: list[Ranker] = [self._linear_member(X, Y), KNN(n_jobs=self.n_jobs)]
        if Z is None:
            from longtail.models.glas import GLaS

            few = X.shape[0] in _SOME_POINTS and X.shape[1] <= _FEW_FEATURES
            return [*first, *(self._nonlinear_members() if few else []), GLaS(**self._shared())]
        from longtail.models.decaf import DECAF
        from longtail.models.epoch_ranker import usual_batch_size
        from longtail.models.textmatch import TextMatch

        # A shorter training than DECAF's own. In a blend of all Tate points, the epochs, dropout, batches and hard
        # negatives of DECAF alone changed P@k and B@k of held-out points by at most 0.2, for a sixth more time, and
        # half the candidates by as much with 20,000 points of Debian packages and Tate, for a fifth less. Fewer epochs
        # or shorter vectors beside that lowered P@1 by 0.2 to 0.6 on Debian packages.
        network = DECAF(batch_size=usual_batch_size(X.shape[0]), **_DECAF, **self._shared())
        return [*first, TextMatch(n_jobs=self.n_jobs), network]

    def instead_of(self, member: Ranker) -> Ranker | None:
        """Return a ranker that can take the place of a member there is no time for, or None."""
        from longtail.models.bonsai import Bonsai

        return Bonsai(**self._shared()) if member.kind == "dismec" else None

    def vector_members(self, of_labels: bool) -> list[Ranker]:
        """Return members that compare dense vectors: those of points and, with `of_labels`, those of label texts."""
        from longtail.models.vectorknn import VectorKNN
        from longtail.models.vectormatch import VectorMatch

        points = VectorKNN(n_jobs=self.n_jobs)
        return [points, VectorMatch(n_jobs=self.n_jobs)] if of_labels else [points]

    def _linear_member(self, X: csr_array, Y: csr_array) -> Ranker:
        """Return one classifier per label where these are few enough, and label trees otherwise.

        In a blend, DiSMEC in the place of three Bonsai trees raised P@1, 3, 5 of held-out points by 0.5, 0.8 and 0.6
        and B by 1.1, 1.1 and 1.0 on EU laws, P by 0.3 and B by 0.6 on Tate, and changed nothing on Delicious and
        BibTeX, for up to twice the training time of the blend. A looser tolerance of its solver cost B 0.1 to 0.5.
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
        """Return further members for few points and features without label text, where fitting them takes little time.

        They learn what no linear model can from few features; words are too many for that. On held-out points of
        Delicious the two raised P@1, 3, 5 by 2.2, 1.8 and 1.9 and B by 1.2, 1.3 and 1.6; on those of BibTeX P by 2.0,
        0.5 and 0.8 and B by 1.1, 0.6 and 1.3; on the words of Tate titles nothing. DXML beside them added nothing.
        """
        from longtail.models.fastxml import FastXML
        from longtail.models.mnn import MNN

        return [FastXML(n_trees=50, cost=4.0, **self._shared()), MNN(**self._shared())]

    def _shared(self) -> dict[str, Any]:
        return {"n_jobs": self.n_jobs, "random_state": self.seed}
