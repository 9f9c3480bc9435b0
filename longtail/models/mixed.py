"""A network and other views of the same points as one ranker, for networks that know no label text.

The views are trained on the points that the network is trained on, held-out points say what each is worth, and then
all learn from those, too. What a network must bring is an :class:`~longtail.neural.instance.Instance`: points to
vectors, and label vectors under search.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array

from longtail.models.base import Arrays, Ranker
from longtail.models.views import Views, weight
from longtail.neural.ensemble import WIDTH, Ensemble
from longtail.neural.instance import Instance
from longtail.neural.mixing import Mix


class Mixed:
    """What is mixed, and how.

    Parameters
    ----------
    views : Views

    Attributes
    ----------
    mix : Mix
        The plain mean of the network and the views, until :meth:`learn`.
    counts : array, (L,)
        Points of each label.
    known : array, (L,)
        Which labels the trees were trained on; all of them, where there are no trees.
    n_points : int
    ensemble : Ensemble
        Network and views; made by :meth:`settle`.
    """

    mix: Mix
    counts: np.ndarray
    known: np.ndarray
    n_points: int
    ensemble: Ensemble

    def __init__(self, views: Views) -> None:
        self.views = views

    def fit(self, X: csr_array, Y: csr_array) -> None:
        """Train the views on points and their labels, and on nothing before them; the mix stays, if there is one."""
        self.views.fit(X, Y)
        self.counts, self.n_points = np.bincount(Y.indices, minlength=Y.shape[1]), X.shape[0]
        self.known = (self.counts > 0) | (self.views.linear is None)
        if not hasattr(self, "mix"):
            self.mix = Mix.start(len(self.views), shared=True)

    def join(self, X: csr_array, Y: csr_array) -> None:
        """Take in further points: they vote as neighbours do, the trees stay as they are. Y may have more labels."""
        self.views.join(X, Y)
        counts = np.bincount(Y.indices, minlength=Y.shape[1])
        counts[: len(self.counts)] += self.counts
        fresh = np.full(len(counts) - len(self.counts), self.views.linear is None)
        self.known = np.concatenate([self.known, fresh])
        self.counts, self.n_points = counts, self.n_points + X.shape[0]

    def settle(self, instance: Instance, label_ids: np.ndarray) -> None:
        """Take the network as it is now, `label_ids` being its labels. Those that no tree knows it ranks alone."""
        often = weight(self.counts[label_ids], self.n_points)
        unknown = ~self.known[label_ids]
        self.ensemble = Ensemble([instance], label_ids, often, unknown, self.mix, len(self.counts))

    def learn(self, X: csr_array, Y: csr_array, n_jobs: int | None) -> None:
        """Learn the mix from held-out points and their labels, the columns of Y being those of the network."""
        counts = self.counts[self.ensemble.label_ids]
        self.ensemble.fit_mix(X, Y, self.views.ask(X, WIDTH, n_jobs), counts, None, None, n_jobs)

    # Answering ---------------------------------------------------------------------------------------------------

    def answer(self, X: csr_array, k: int, n_jobs: int | None) -> csr_array:
        """The k best labels of each point as CSR, the best first."""
        return self.ensemble.answer(X, self.views.ask(X, max(k, WIDTH), n_jobs), k, n_jobs)

    def answer_one(self, indices: np.ndarray, values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k best labels of one point and their scores."""
        return self.ensemble.answer_one(indices, values, self.views.ask_one(indices, values, max(k, WIDTH)), k)

    # Storing -----------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        """Facts, arrays and rankers to store; the network stores itself."""
        facts, arrays, parts = self.views.state()
        facts |= self.mix.state() | {"n_points": self.n_points}
        return facts, arrays | {"counts": self.counts, "known": self.known}, parts

    @classmethod
    def restored(cls, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> Self:
        """What :meth:`state` took apart, among other arrays and parts; to be settled."""
        mixed = cls(Views.restored(facts, arrays, parts))
        mixed.mix = Mix.restored(facts)
        mixed.counts, mixed.known = np.array(arrays["counts"]), np.array(arrays["known"])
        mixed.n_points = facts["n_points"]
        return mixed
