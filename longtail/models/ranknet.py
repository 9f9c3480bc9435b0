"""RankNet: the labels that any ranker found, ranked anew so that rare ones get their due (ICLR 2021 submission, §3.2).

Base models give rare labels scores that are too low. The paper's cure is a residual network on the scores,
F = W2 σ(W1 ŷ) + ŷ, in as many blocks as wanted, with a loss that knows how often each label occurs; its simplest
instance multiplies a score by the label's inverse propensity.

Choices made here. The network reads and writes the base's best m labels only, so that its cost does not depend on how
many labels there are. It learns from scores that copies of the base gave to points they had not seen. Its default loss
is logistic, so that what it returns is the chance p of a label to be right. Then the ranking with the highest expected
(1 - tail) P@k + tail PSP@k is known: the labels with the highest p (1 - tail + tail w / ŵ_k), w being the inverse
propensity and ŵ_k the mean of a point's k rarest labels, which is lower the more places there are. So place k goes to
the best label left by that measure, and `tail` moves along the curve without fitting again. A part with the same
weights for all labels sees the score, the rank, the margin to the best and how many training points the label had: it
learns how far scores of rare labels are to be trusted, which no row of a rare label itself could.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array

from longtail import progress
from longtail.errors import SettingsError
from longtail.kernels.metrics import csr_is_in
from longtail.metrics import inverse_propensity
from longtail.models.base import Arrays, Ranker
from longtail.models.label_tree import unit_rows
from longtail.models.wrapper import Wrapper, check_base, folds, out_of_fold
from longtail.neural.rerank import LOSSES, Candidates, Reranker, RerankSettings, add_similarity, frozen

_Worth = tuple[np.ndarray, np.ndarray, np.ndarray]  # gain (L,), plain and scale of each place; see fill_places
METHODS = ("blocks", "inverse_propensity")
PLACES = 5  # that are filled by a measure of their own; those beyond go by the last


class RankNet(Wrapper):
    """Re-ranks what another ranker finds.

    Parameters
    ----------
    base : Ranker
        The ranker whose labels are ranked anew. A copy of it is fitted.
    method : {"blocks", "inverse_propensity"}
        The learnt network, or the base's score times the inverse propensity to the power of `tail`.
    tail : float
        The share of propensity-scored precision in what is made highest, from 0, plain precision alone, to 1. It may be
        changed after fitting.
    candidates : int
        m, how many of the base's labels are ranked anew; those beyond follow in the base's order.
    n_blocks : int
        Residual blocks, one on top of the other; with 0 only the part shared by all labels is learnt.
    bottleneck : int, optional
        V, the width of a block's hidden layer. None for the full-rank variant, for few labels: a weight for every two
        labels that occur together.
    hidden : int
        Units of the part that all labels share.
    loss : {"logistic", "population"}
        The logistic loss, whose scores are chances; or the paper's population-aware one, which ranks the rarer of two
        right labels first.
    population : float
        Exponent of the inverse propensity that weighs a label in the logistic loss.
    weight, margin : float
        λ and c of the population-aware loss.
    n_irrelevant : int, optional
        Irrelevant candidates drawn for a point at each step; all of them by default.
    trust : float
        Training points at which what was learnt of a label itself counts by half.
    text : bool
        Let the network see how similar the point is to the label's text, where `fit` is given label features.
    epochs, learning_rate, decay
        Passes over the points, step size of Adagrad, and weight decay of the labels' own rows.
    n_folds : int
        Copies of the base that are fitted to have scores of points they did not see.
    propensity_a, propensity_b : float
        A and B of the propensity model: 0.55 and 1.5, but for Wikipedia (0.5, 0.4) and Amazon (0.6, 2.6).
    n_jobs : int, optional
        Threads; all cores by default.
    random_state : int

    Attributes
    ----------
    base_ : Ranker
        The fitted base.
    points_ : array, (L,)
        Training points of each label.
    """

    kind: ClassVar[str] = "ranknet"
    points_: np.ndarray
    propensity_: np.ndarray
    typical_: np.ndarray
    network_: Reranker
    text_: csr_array | None
    _made_worth: tuple[float, _Worth] | None

    def __init__(
        self,
        base: Any,
        method: str = "blocks",
        tail: float = 0.5,
        candidates: int = 50,
        n_blocks: int = 1,
        bottleneck: int | None = 16,
        hidden: int = 16,
        loss: str = "logistic",
        population: float = 0.5,
        weight: float = 1.0,
        margin: float = 1.0,
        n_irrelevant: int | None = None,
        trust: float = 10.0,
        text: bool = True,
        epochs: int = 5,
        learning_rate: float = 0.1,
        decay: float = 0.0001,
        n_folds: int = 3,
        propensity_a: float = 0.55,
        propensity_b: float = 1.5,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.base = base
        self.method = method
        self.tail = tail
        self.candidates = candidates
        self.n_blocks = n_blocks
        self.bottleneck = bottleneck
        self.hidden = hidden
        self.loss = loss
        self.population = population
        self.weight = weight
        self.margin = margin
        self.n_irrelevant = n_irrelevant
        self.trust = trust
        self.text = text
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.decay = decay
        self.n_folds = n_folds
        self.propensity_a = propensity_a
        self.propensity_b = propensity_b
        self.n_jobs = n_jobs
        self.random_state = random_state

    # Learning ----------------------------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        check_base(self.base, "RankNet")
        for name, known in (("method", METHODS), ("loss", tuple(LOSSES))):
            if getattr(self, name) not in known:
                raise SettingsError(f"{name} is {getattr(self, name)!r}; choose one of {', '.join(known)}")
        for name, least in (("candidates", 1), ("n_blocks", 0), ("hidden", 0), ("epochs", 1)):
            self._check_whole(name, least)
        for name in ("bottleneck", "n_irrelevant"):
            if getattr(self, name) is not None:
                self._check_whole(name, 1)
        for name in ("population", "weight", "margin", "trust", "decay"):
            if not getattr(self, name) >= 0:
                raise SettingsError(f"{name} is {getattr(self, name)!r}; give 0 or a number above it")
        if not self.learning_rate > 0:
            raise SettingsError(f"learning_rate is {self.learning_rate!r}; give a number above 0")
        self._check_tail()

    def _check_whole(self, name: str, least: int) -> None:
        value = getattr(self, name)
        if not isinstance(value, int | np.integer) or value < least:
            raise SettingsError(f"{name} is {value!r}; give a whole number from {least}")

    def _check_tail(self) -> None:
        if not isinstance(self.tail, int | float | np.number) or not 0 <= self.tail <= 1:
            raise SettingsError(f"tail is {self.tail!r}; give a number from 0, plain precision, to 1, rare labels")

    def _fit(
        self, X: csr_array, Y: csr_array, Z: csr_array | None, validation: tuple[csr_array, csr_array] | None
    ) -> None:
        self._check_settings()
        self.points_ = frozen(np.bincount(Y.indices, minlength=Y.shape[1]).astype(np.float32))
        self.propensity_ = inverse_propensity(Y, self.propensity_a, self.propensity_b).astype(np.float32)
        self.typical_ = typical_worth(Y, self.propensity_, PLACES)
        self.text_, self.network_ = None, Reranker.identity()
        if self.method == "blocks":
            self.text_ = None if Z is None or not self.text else _read_only(unit_rows(Z))
            self.network_ = self._learn(X, Y, Z)
        self._fit_base(X, Y, Z, validation)
        self._made_worth = None

    def _learn(self, X: csr_array, Y: csr_array, Z: csr_array | None) -> Reranker:
        """The network, from scores of copies of the base for points they did not see."""
        n_folds, seed = self.n_folds, self.random_state
        scores = out_of_fold(self.base, X, Y, Z, k=min(self.candidates, Y.shape[1]), n_folds=n_folds, random_state=seed)
        found = Candidates.of(scores)
        if self.text_ is not None:
            add_similarity(found, (X.indptr, X.indices, X.data), self.text_, self.n_jobs)
        right = csr_is_in(found.ptr, found.labels, Y.indptr, Y.indices)
        # How rare a label was to the copy that scored it, not how rare it is: what is learnt of labels with one
        # training point then comes from labels that had one, and holds for those that have one now.
        fold = np.empty(X.shape[0], np.int32)
        known = np.empty((n_folds, Y.shape[1]), np.float32)  # training points of each label outside each fold
        for number, held in enumerate(folds(X.shape[0], n_folds, seed)):
            fold[held] = number
            known[number] = self.points_ - np.bincount(Y[held].indices, minlength=Y.shape[1])
        points = known[np.repeat(fold, np.diff(found.ptr)), found.labels]
        rows = np.flatnonzero(np.diff(Y.indptr))
        worth = (self.propensity_ / self.propensity_.max()) ** np.float32(self.population)
        pairs = None
        if self.bottleneck is None:
            pairs = csr_array(Y.T @ Y)
            pairs.sort_indices()
        settings = RerankSettings(
            self.n_blocks, self.bottleneck, self.hidden, self.trust, self.loss, self.weight, self.margin,
            self.n_irrelevant, self.epochs, self.learning_rate, self.decay, self.random_state,
        )  # fmt: skip
        with progress.stage("learning to rank") as done:
            return Reranker.learn(found, rows, points, right, worth, pairs, settings, done)

    # Answering ---------------------------------------------------------------------------------------------------

    def _predict(self, X: csr_array, k: int) -> csr_array:
        found = Candidates.of(self.base_.predict(X, max(k, self.candidates)))
        labels, values, counts = self._ranked(found, (X.indptr, X.indices, X.data), k)
        n = X.shape[0]
        indptr = np.zeros(n + 1, np.int32 if n * k < 2**31 else np.int64)
        np.cumsum(counts, out=indptr[1:])
        filled = np.arange(k) < counts[:, None]
        return csr_array((values[filled], labels[filled], indptr), shape=(n, self.n_labels_))

    def _rank(self, indices: np.ndarray, values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray] | None:
        best = self.base_._rank(indices, values, min(max(k, self.candidates), self.n_labels_))
        if best is None:
            return None
        found = Candidates.of_point(*best)
        (ranked,), (chances,), (count,) = self._ranked(
            found, (np.array([0, len(indices)], np.int32), indices, values), k
        )
        return ranked[:count], chances[:count]

    def _ranked(
        self, found: Candidates, x: tuple[np.ndarray, np.ndarray, np.ndarray], k: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The k best candidates of points x (ptr, idx, val): labels and scores (N, k), and how many of them count."""
        if self.text_ is not None:
            add_similarity(found, x, self.text_, self.n_jobs)
        learnt = self.method == "blocks"
        return self.network_.rank(found, self.points_, self._worth(), learnt, self.candidates, k, self.n_jobs)

    def _worth(self) -> _Worth:
        """What a right label counts in each place, at most 1; made again when `tail` has changed."""
        if self._made_worth is None or self._made_worth[0] != self.tail:
            self._check_tail()
            gain, tail = self.propensity_, np.float32(self.tail)
            if self.method == "blocks":
                plain, scale = np.full(len(self.typical_), 1 - tail), tail / self.typical_
            else:
                gain, plain, scale = gain**tail, np.zeros(1, np.float32), np.ones(1, np.float32)
            most = plain + scale * gain.max()
            self._made_worth = self.tail, (frozen(gain), frozen(plain / most), frozen(scale / most))
        return self._made_worth[1]

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        arrays = {"points": self.points_, "propensity": self.propensity_, **self.network_.arrays()}
        if self.text_ is not None:
            arrays |= {f"text_{part}": getattr(self.text_, part) for part in ("data", "indices", "indptr")}
        return {"typical": self.typical_.tolist()}, arrays, self._parts()

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self._restore_base(parts)
        self.points_, self.propensity_ = frozen(arrays["points"]), arrays["propensity"]
        self.typical_ = np.atleast_1d(np.array(facts["typical"], np.float32))
        self.network_ = Reranker(arrays, self.trust)
        self.text_ = None
        if "text_data" in arrays:
            text = (arrays["text_data"], arrays["text_indices"], arrays["text_indptr"])
            self.text_ = _read_only(csr_array(text, shape=(self.n_labels_, self.n_features_in_)))
        self._made_worth = None


def typical_worth(Y: csr_array, worth: np.ndarray, n_places: int) -> np.ndarray:
    """Mean worth (L,) of a point's k best labels, for k = 1 .. n_places, where a label it does not have counts 0."""
    order = np.lexsort((-worth[Y.indices], np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))))
    place = np.arange(Y.nnz) - np.repeat(Y.indptr[:-1], np.diff(Y.indptr))
    first = place < n_places
    total = np.bincount(place[first], worth[Y.indices[order]][first], n_places)
    points = max(int(np.count_nonzero(np.diff(Y.indptr))), 1)
    return (total.cumsum() / np.arange(1, n_places + 1) / points).astype(np.float32)


def _read_only(matrix: csr_array) -> csr_array:
    return csr_array((frozen(matrix.data), frozen(matrix.indices), frozen(matrix.indptr)), shape=matrix.shape)
