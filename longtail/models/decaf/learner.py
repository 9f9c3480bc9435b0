"""How DECAF's network is trained: the candidates of a batch, one step, and its accuracy after each epoch."""

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
from longtail.sparse import entry_keys, select_entries

_HELD_OUT_MEASURED = 500  # held-out points whose ranking is followed from epoch to epoch
_NEVER = np.float32(-80.0)  # a score whose loss and gradient are nothing
_OWN_AMONG_BEST = 3  # labels retrieved beyond k, because up to three may be own labels


class ShortlistSampler:
    """Draws the candidates of a batch: its positives, the hardest labels of its points, and some drawn at random.

    Candidates are shared inside a batch, so that scoring is one matrix product. Labels come in at unequal rates: a
    frequent one is nearly always some point's positive, a rare one hardly ever. The loss weighs negatives by those
    rates.

    Parameters
    ----------
    Y : csr_array, (N, L)
        Labels of training points. Labels without any are left out: they may be correct.
    n_drawn : int
        Labels drawn uniformly per batch; all labels are candidates where there are no more than these.
    batch_size : int
    shortlist : array, (N, S), optional
        Labels easily confused with the point's own (hard negatives), -1 for none; positives among them do no harm.
    n_hard : int, optional
        How many of a point's shortlist take part in a batch; all, if not given.
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
            met = np.bincount(shortlist[shortlist >= 0], minlength=Y.shape[1])
            share = np.minimum(met * (self.n_hard / shortlist.shape[1]) / Y.shape[0], 1)
            absent *= (1 - share) ** batch_size
        self.rates = np.maximum(1 - absent, 1e-6).astype(np.float32)

    def draw(self, rows: np.ndarray, rng: np.random.Generator) -> Candidates:
        """Draw the candidates of the batch of these points."""
        if self.all:
            ptr, places = kernels.positives(self.Y.indptr, self.Y.indices, rows, self._place)
            return Candidates(self.pool, ptr, places, None)
        ptr, own = kernels.positives(self.Y.indptr, self.Y.indices, rows, self._same)
        parts = [own, self.pool[rng.integers(len(self.pool), size=self.n_drawn)]]
        if self.shortlist is not None and self.n_hard:
            width = self.shortlist.shape[1]
            whole = np.arange(width)[None]
            chosen = whole if self.n_hard == width else rng.integers(width, size=(len(rows), self.n_hard))
            hard = self.shortlist[rows[:, None], chosen].ravel()
            parts.append(hard[hard >= 0])
        labels = np.unique(np.concatenate(parts))
        self._place[labels] = np.arange(len(labels), dtype=np.int32)
        places = self._place[own]
        self._place[labels] = -1
        return Candidates(labels, ptr, places, self.rates[labels])


class TextLearner(MeasuredLearner):
    """Steps a network on training points.

    Parameters
    ----------
    network : TextNetwork
    X, rows, Y, held
        Points and their targets, as for :class:`longtail.neural.measured_learner.MeasuredLearner`.
    sampler : ShortlistSampler
    correction : float
        How far negatives are weighted by the inverse of their probability of being a candidate.
    keep : float
        Probability of a feature of a point to stay in input dropout.
    own : OwnTargets, optional
        Own labels of the points: nothing is learnt from them, and they are left out when points are ranked.

    Attributes
    ----------
    listed : bool
        Each point learns from its own shortlist and positives alone (the paper), not from all candidates of its batch.
    """

    listed: bool

    def __init__(
        self,
        network: TextNetwork,
        X: csr_array,
        rows: np.ndarray,
        Y: csr_array,
        held: tuple[csr_array, csr_array] | None,
        sampler: ShortlistSampler,
        correction: float = 0.0,
        keep: float = 1.0,
        own: OwnTargets | None = None,
    ) -> None:
        super().__init__(X, rows, Y, held and (held[0][:_HELD_OUT_MEASURED], held[1][:_HELD_OUT_MEASURED]))
        self.network, self.sampler, self.correction, self.keep = network, sampler, correction, keep
        self.own = own
        self.listed = False
        self._place = np.full(X.shape[1], -1, np.int32)

    def step(self, rows: np.ndarray, rng: np.random.Generator, rate: float) -> float:
        """Take one step on these training points; return the loss."""
        docs = points(self.X, self.rows[rows], self._place, unit=True)
        docs.drop(self.keep, rng)
        candidates = self.sampler.draw(rows, rng)
        loss = partial(bce, correction=self.correction, n_jobs=self.network.settings.n_jobs)
        if self.listed:
            loss = partial(_listed, self._listed(rows, candidates))
        if self.own is not None:
            loss = partial(_without, self.own.places(self.rows[rows], candidates), loss)
        return self.network.step(docs, candidates, loss, rate, rng)

    def _listed(self, rows: np.ndarray, candidates: Candidates) -> np.ndarray:
        """Return whether each candidate (B, C) is in the point's shortlist or among its positives."""
        assert self.sampler.shortlist is not None
        own = self.sampler.shortlist[rows]
        at = np.searchsorted(candidates.labels, own).clip(max=len(candidates.labels) - 1)
        point, place = np.nonzero((candidates.labels[at] == own) & (own >= 0))
        mask = np.zeros((len(rows), len(candidates.labels)), bool)
        mask[point, at[point, place]] = True
        mask[np.repeat(np.arange(len(rows)), np.diff(candidates.ptr)), candidates.places] = True
        return mask

    def measure(self) -> dict[str, float]:
        """Return P, PSP and nDCG of held-out points; nDCG@5 decides on early stopping."""
        # Training on shortlists does not learn to score labels outside them.
        return {} if self.listed else self.measure_validation()

    def search(self, X: csr_array, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the best targets of points among all of them, and their scores, (N, k) each."""
        jobs = self.network.settings.n_jobs
        x = self.network.document_encoder()(SparseRows.of(X), jobs)[:, :-1]
        vectors, bias = self.network.classifiers(), self.network.tables["c"][:, 0]
        if self.own is None:
            return top_labels(x, vectors, bias, k, jobs)
        labels, scores = top_labels(x, vectors, bias, min(k + _OWN_AMONG_BEST, len(bias)), jobs)
        masked = is_own(word_keys(SparseRows.of(X), jobs)[:, None], self.own.keys[labels])
        order = np.argsort(masked, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(labels, order, axis=1), np.take_along_axis(scores, order, axis=1)


@dataclass(frozen=True)
class OwnTargets:
    """Own labels of points: labels whose text has exactly the words of the point, except those that are correct.

    Attributes
    ----------
    pairs : csr_array, (M, L)
        Own labels of the points of X.
    keys : array, (L,)
        Word keys of the labels.
    """

    pairs: csr_array
    keys: np.ndarray

    @classmethod
    def of(cls, X: csr_array, rows: np.ndarray, Y: csr_array, text: csr_array, sure: bool) -> OwnTargets | None:
        """Return the own labels of points, or None where points to train on show that these may be correct.

        Parameters
        ----------
        X, Y : csr_array, (M, D) and (M, L)
            Points and their labels.
        rows : array
            Those to train on.
        text : csr_array, (L, D)
            Label text.
        sure : bool
            Whether it is known that own labels are never correct.
        """
        pairs = own_pairs(X, text)
        if not (sure or are_rarely_correct(pairs[rows], Y[rows])):
            return None
        wrong = ~np.isin(entry_keys(pairs), entry_keys(Y))
        return cls(select_entries(pairs, wrong), word_keys(SparseRows.of(text)))

    def places(self, rows: np.ndarray, candidates: Candidates) -> tuple[np.ndarray, np.ndarray]:
        """Return the places in the batch of these points (B, C) of those that are candidates."""
        own = self.pairs[rows]
        point = np.repeat(np.arange(len(rows)), np.diff(own.indptr))
        at = np.searchsorted(candidates.labels, own.indices).clip(max=len(candidates.labels) - 1)
        met = candidates.labels[at] == own.indices
        return point[met], at[met]


def _without(
    places: tuple[np.ndarray, np.ndarray],
    loss: Loss,
    scores: np.ndarray,
    ptr: np.ndarray,
    positives: np.ndarray,
    rates: np.ndarray | None,
) -> float:
    """Return a loss from which some places of the scores are left out."""
    scores[places] = _NEVER
    return loss(scores, ptr, positives, rates)


def _listed(
    mask: np.ndarray, scores: np.ndarray, ptr: np.ndarray, places: np.ndarray, rates: np.ndarray | None
) -> float:
    """Return the logistic loss where the mask is set."""
    scores[~mask] = _NEVER
    return bce(scores, ptr, places)
