"""Training of DECAF's network: the candidates of a batch, the training step, and metrics after each epoch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.sparse import csr_array

from longtail.kernels import rows as kernels
from longtail.kernels.encode import SparseRows
from longtail.labels.own_labels import are_rarely_correct, is_own, own_pairs, word_keys
from longtail.models.decaf.network import TextNetwork
from longtail.neural.batch import Candidates, points
from longtail.neural.losses import Loss, bce
from longtail.neural.measured_learner import MeasuredLearner
from longtail.neural.search import top_labels
from longtail.sparse import Pair, entry_keys, select_entries

_MOST_MEASURED = 500  # held-out points on which metrics are computed after each epoch
_NO_LOSS = np.float32(-80.0)  # a score of a negative whose loss and gradient are 0
_MOST_OWN = 3  # labels to retrieve beyond k, because up to three of them may be own labels


class ShortlistSampler:
    """Draws the candidates of a batch: positives, hard negatives of its points, and labels drawn at random.

    All points of a batch share the candidates, so that scoring is one matrix product. Labels are candidates with
    unequal probabilities: a frequent label is nearly always a positive of some point of the batch, a rare one hardly
    ever. The loss weighs negatives by these probabilities.

    Parameters
    ----------
    Y : csr_array, (N, L)
        Labels of training points. Labels without training points are never candidates, because they may be correct.
    n_drawn : int
        Number of labels drawn uniformly per batch. With no more labels than this, all are candidates.
    batch_size : int
        Points per batch, from which the probability of being a candidate is computed.
    shortlist : array, (N, S), optional
        Hard negatives of each point, -1 for none. It may contain positives.
    n_hard : int, optional
        Number of labels of a point's shortlist to use per batch. None uses all of them.
    """

    def __init__(
        self, Y: csr_array, n_drawn: int, batch_size: int, shortlist: np.ndarray | None = None, n_hard: int | None = 0
    ) -> None:
        self.Y, self.n_drawn = Y, n_drawn
        frequency = np.bincount(Y.indices, minlength=Y.shape[1]) / Y.shape[0]
        self.pool = np.flatnonzero(frequency).astype(np.int32)
        self.all = n_drawn >= len(self.pool)
        self._same = np.arange(Y.shape[1], dtype=np.int32)
        self._place = np.full(Y.shape[1], -1, np.int32)
        self.shortlist = shortlist
        width = 0 if shortlist is None else shortlist.shape[1]
        self.n_hard = width if n_hard is None else min(n_hard, width)
        if self.all:
            self._place[self.pool] = np.arange(len(self.pool), dtype=np.int32)
            return
        absent = (1 - frequency) ** batch_size * (1 - 1 / len(self.pool)) ** n_drawn
        if shortlist is not None and self.n_hard:
            counts = np.bincount(shortlist[shortlist >= 0], minlength=Y.shape[1])
            share = np.minimum(counts * (self.n_hard / shortlist.shape[1]) / Y.shape[0], 1)
            absent *= (1 - share) ** batch_size
        self.rates = np.maximum(1 - absent, 1e-6).astype(np.float32)

    def draw(self, rows: np.ndarray, rng: np.random.Generator) -> Candidates:
        """Draw the candidates of a batch of training points."""
        if self.all:
            ptr, places = kernels.positives(self.Y.indptr, self.Y.indices, rows, self._place)
            return Candidates(self.pool, ptr, places, None)
        ptr, own = kernels.positives(self.Y.indptr, self.Y.indices, rows, self._same)
        parts = [own, self.pool[rng.integers(len(self.pool), size=self.n_drawn)]]
        if self.shortlist is not None and self.n_hard:
            width = self.shortlist.shape[1]
            columns = np.arange(width)[None]
            if self.n_hard < width:
                columns = rng.integers(width, size=(len(rows), self.n_hard))
            hard = self.shortlist[rows[:, None], columns].ravel()
            parts.append(hard[hard >= 0])
        labels = np.unique(np.concatenate(parts))
        self._place[labels] = np.arange(len(labels), dtype=np.int32)
        places = self._place[own]
        self._place[labels] = -1
        return Candidates(labels, ptr, places, self.rates[labels])


class TextLearner(MeasuredLearner):
    """Trains a network on points and their targets.

    Parameters
    ----------
    network : TextNetwork
        The network to train.
    X, rows, Y, held
        Points and their targets, as for :class:`longtail.neural.measured_learner.MeasuredLearner`.
    sampler : ShortlistSampler
        Draws the candidates of a batch.
    correction : float
        Power of the inverse probability of being a candidate by which negatives are weighted.
    keep : float
        Probability that input dropout keeps a feature.
    own : OwnTargets, optional
        Own labels of the points. They are left out of the loss and of the metrics.

    Attributes
    ----------
    shortlist_only : bool
        Whether a point learns only from its own shortlist and positives (the paper), or from all candidates of its
        batch.
    """

    shortlist_only: bool

    def __init__(
        self,
        network: TextNetwork,
        X: csr_array,
        rows: np.ndarray,
        Y: csr_array,
        held: Pair | None,
        sampler: ShortlistSampler,
        correction: float = 0.0,
        keep: float = 1.0,
        own: OwnTargets | None = None,
    ) -> None:
        super().__init__(X, rows, Y, held and (held[0][:_MOST_MEASURED], held[1][:_MOST_MEASURED]))
        self.network, self.sampler, self.correction, self.keep = network, sampler, correction, keep
        self.own = own
        self.shortlist_only = False
        self._place = np.full(X.shape[1], -1, np.int32)

    def step(self, rows: np.ndarray, rng: np.random.Generator, rate: float) -> float:
        """Take one step on these training points and return the loss."""
        docs = points(self.X, self.rows[rows], self._place, unit=True)
        docs.drop(self.keep, rng)
        candidates = self.sampler.draw(rows, rng)
        loss = partial(bce, correction=self.correction, n_jobs=self.network.settings.n_jobs)
        if self.shortlist_only:
            loss = partial(_masked_bce, self._shortlist_mask(rows, candidates))
        if self.own is not None:
            loss = partial(_loss_without, self.own.places(self.rows[rows], candidates), loss)
        return self.network.step(docs, candidates, loss, rate, rng)

    def _shortlist_mask(self, rows: np.ndarray, candidates: Candidates) -> np.ndarray:
        """Return a mask (B, C) of the candidates that are in the point's shortlist or among its positives."""
        assert self.sampler.shortlist is not None
        own = self.sampler.shortlist[rows]
        at = np.searchsorted(candidates.labels, own).clip(max=len(candidates.labels) - 1)
        point, place = np.nonzero((candidates.labels[at] == own) & (own >= 0))
        mask = np.zeros((len(rows), len(candidates.labels)), bool)
        mask[point, at[point, place]] = True
        mask[np.repeat(np.arange(len(rows)), np.diff(candidates.ptr)), candidates.places] = True
        return mask

    def measure(self) -> dict[str, float]:
        """Compute P, PSP and nDCG of held-out points; nDCG@5 decides on early stopping."""
        # A network trained on shortlists cannot rank all labels, as these metrics do.
        return {} if self.shortlist_only else self.measure_validation()

    def search(self, X: csr_array, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the best of all targets for each point, and their scores, (N, k) each."""
        jobs = self.network.settings.n_jobs
        x = self.network.document_encoder()(SparseRows.of(X), jobs)[:, :-1]
        vectors, bias = self.network.classifiers(), self.network.tables["c"][:, 0]
        if self.own is None:
            return top_labels(x, vectors, bias, k, jobs)
        labels, scores = top_labels(x, vectors, bias, min(k + _MOST_OWN, len(bias)), jobs)
        own = is_own(word_keys(SparseRows.of(X), jobs)[:, None], self.own.keys[labels])
        order = np.argsort(own, axis=1, kind="stable")[:, :k]  # own labels last
        return np.take_along_axis(labels, order, axis=1), np.take_along_axis(scores, order, axis=1)


@dataclass(frozen=True)
class OwnTargets:
    """Own labels that are not correct: labels whose text has exactly the words of the point.

    Attributes
    ----------
    pairs : csr_array, (M, L)
        Own labels of each point of X.
    keys : array, (L,)
        Word keys of the label texts.
    """

    pairs: csr_array
    keys: np.ndarray

    @classmethod
    def of(cls, X: csr_array, rows: np.ndarray, Y: csr_array, text: csr_array, sure: bool) -> OwnTargets | None:
        """Find the own labels of points; return None if own labels may be correct.

        Parameters
        ----------
        X, Y : csr_array, (M, D) and (M, L)
            Points and their labels.
        rows : array
            Rows of X to train on, which show whether own labels may be correct.
        text : csr_array, (L, D)
            Label text.
        sure : bool
            Set it if own labels are known to be never correct, whatever the training points show.
        """
        pairs = own_pairs(X, text)
        if not (sure or are_rarely_correct(pairs[rows], Y[rows])):
            return None
        wrong = ~np.isin(entry_keys(pairs), entry_keys(Y))
        return cls(select_entries(pairs, wrong), word_keys(SparseRows.of(text)))

    def places(self, rows: np.ndarray, candidates: Candidates) -> tuple[np.ndarray, np.ndarray]:
        """Return where own labels are among the candidates of a batch, as positions in its scores (B, C)."""
        own = self.pairs[rows]
        point = np.repeat(np.arange(len(rows)), np.diff(own.indptr))
        at = np.searchsorted(candidates.labels, own.indices).clip(max=len(candidates.labels) - 1)
        is_candidate = candidates.labels[at] == own.indices
        return point[is_candidate], at[is_candidate]


def _loss_without(
    places: tuple[np.ndarray, np.ndarray],
    loss: Loss,
    scores: np.ndarray,
    ptr: np.ndarray,
    positives: np.ndarray,
    rates: np.ndarray | None,
) -> float:
    """Compute a loss without the scores at `places`, which must be negatives."""
    scores[places] = _NO_LOSS
    return loss(scores, ptr, positives, rates)


def _masked_bce(
    mask: np.ndarray, scores: np.ndarray, ptr: np.ndarray, places: np.ndarray, rates: np.ndarray | None
) -> float:
    """Compute binary cross-entropy over the scores where the mask is set."""
    scores[~mask] = _NO_LOSS
    return bce(scores, ptr, places)
