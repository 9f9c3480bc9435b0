"""RankNet: re-ranks the labels of any ranker to rank rare labels higher (ICLR 2021, §3.2).

Base models score rare labels too low. The paper's remedy is a residual network on the scores, F = W2 σ(W1 ŷ) + ŷ, with
any number of blocks and a loss that depends on how often each label occurs. Its simplest form multiplies the score of a
label by its inverse propensity.

Choices made here. The network uses the base's best m labels only, so that its cost does not depend on the number of
labels. It is trained on scores that copies of the base gave to points that they were not fitted to.

By default the loss is logistic, so that the network returns the probability p that a label is correct. The ranking with
the highest expected (1 - tail) P@k + tail PSP@k is then known: position k gets the remaining label with the highest
p (1 - tail + tail w / ŵ_k). Here w is the inverse propensity of the label, and ŵ_k the mean inverse propensity of a
point's k rarest labels. `tail` can therefore be changed without another fit.

A part of the network has the same weights for all labels. Its inputs are the score, the rank, the margin to the best
label and the number of training points of the label. From all labels it learns how reliable the scores of rare labels
are, which could not be learnt from the few points of each.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array

from longtail import progress
from longtail.errors import ModelError, SettingsError
from longtail.kernels.encode import SparseRows
from longtail.kernels.rerank import CandidateLists, RankingRule
from longtail.kernels.topk import TopLabels
from longtail.models.base import Ranker
from longtail.models.presets import PresetRanker
from longtail.models.ranknet.presets import RANKNET_ADVANCED, RANKNET_PRESETS, TAILS
from longtail.models.ranknet.reranker import (
    N_POSITIONS,
    RankingRules,
    Reranker,
    candidate_list,
    candidate_lists,
    typical_gain,
    with_similarity,
)
from longtail.models.wrapper import Wrapper, folds, out_of_fold
from longtail.params import NOT_NEGATIVE, POSITIVE, SHARE, Anything, Boolean, Integer, Jobs, OneOf, Seed
from longtail.sparse import (
    Arrays,
    Pair,
    csr_arrays,
    csr_from_arrays,
    from_top_k,
    frozen,
    frozen_csr,
    label_counts,
    labelled_rows,
    unit_rows,
)
from longtail.store import Stored
from longtail.store.facts import ListOf
from longtail.store.invariants import REMEDY, Rules, csr, floats


class RankNet(PresetRanker, Wrapper):
    """Re-rank what another ranker finds.

    Parameters whose default is None have the value of the preset; :meth:`settings` shows it.

    Parameters
    ----------
    base : Ranker
        The ranker whose labels are re-ranked. `n_folds` + 1 copies of it are fitted.
    preset : {"fast", "paper"}
        Values of the parameters that are None: our recipe, or the published one (residual blocks with the
        population-aware loss).
    method : {"blocks", "inverse_propensity"}
        Rank by a network, or by the base's score times the inverse propensity to the power `tail`.
    tail : float, optional
        Weight of PSP@k against P@k, from 0 to 1. A higher value ranks rare labels higher. By default 0.5, or 0 with the
        loss "population", which ranks rare labels higher by itself. It may be changed after fitting.
    n_candidates : int, optional
        m, the number of the base's labels that are re-ranked: 50. Further labels follow in the order of the base.
    n_blocks : int, optional
        Number of residual blocks, which learn from the scores of other labels: 1. With 0, only the part that all labels
        share is learnt.
    text : bool, optional
        Whether the similarity of the point and the label's text is an input of the network, if `fit` is given label
        features: True; in the paper False.
    epochs : int, optional
        Number of passes over the training points: 5.
    n_folds : int
        Number of copies of the base that score points that they were not fitted to. More copies are slower, and their
        scores are nearer to those of the final base.
    propensity_a, propensity_b : float
        A and B of the propensity model. Use 0.5 and 0.4 for Wikipedia, 0.6 and 2.6 for Amazon, and the defaults
        elsewhere.
    advanced : dict, optional
        Further parameters by name. After each stands its value, with that of the paper where it differs:

        ``bottleneck``
            V, the width of a block's hidden layer: 16. None learns one weight per pair of co-occurring labels instead,
            for small label sets only.
        ``hidden``
            Hidden units of the part that all labels share: 16; paper 0.
        ``loss``
            "logistic", whose scores are probabilities; or the paper's "population", which ranks the rarer of two
            correct labels first.
        ``population``
            Exponent of the inverse propensity that weights a label in the logistic loss: 0.5.
        ``weight``, ``margin``
            λ and c of the population-aware loss: 3 and 1.
        ``n_irrelevant``
            Irrelevant candidates drawn per point at each step: None, all of them; paper 20.
        ``trust``
            Number of training points at which a label's own weights get half their full effect: 30; paper 0.
        ``learning_rate``, ``decay``
            Step size of Adagrad, and weight decay of the labels' own rows: 0.1 and 0.0001.
    n_jobs : int, optional
        Number of threads; all cores by default.
    random_state : int, Generator, RandomState or None
        Seed of every random choice.

    Attributes
    ----------
    base_ : Ranker
        The fitted base.
    points_ : array, (L,)
        Number of training points of each label.
    propensity_ : array, (L,)
        Inverse propensity of each label.
    """

    kind: ClassVar[str] = "ranknet"
    _presets: ClassVar = RANKNET_PRESETS
    _advanced: ClassVar = RANKNET_ADVANCED
    _constraints: ClassVar = {
        "base": Anything("a ranker"),
        "method": OneOf("blocks", "inverse_propensity"),
        "tail": SHARE,
        "n_candidates": Integer(1),
        "n_blocks": Integer(0),
        "text": Boolean(),
        "epochs": Integer(1),
        "n_folds": Integer(2),
        "propensity_a": NOT_NEGATIVE,
        "propensity_b": POSITIVE,
        "n_jobs": Jobs(),
        "random_state": Seed(),
    }

    points_: np.ndarray
    propensity_: np.ndarray
    typical_: np.ndarray  # mean inverse propensity of a point's k rarest labels, by k
    rules_: RankingRules
    network_: Reranker
    text_: csr_array | None

    def __init__(
        self,
        base: Any,
        preset: str = "fast",
        method: str = "blocks",
        tail: float | None = None,
        n_candidates: int | None = None,
        n_blocks: int | None = None,
        text: bool | None = None,
        epochs: int | None = None,
        n_folds: int = 3,
        propensity_a: float = 0.55,
        propensity_b: float = 1.5,
        advanced: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.base = base
        self.preset = preset
        self.method = method
        self.tail = tail
        self.n_candidates = n_candidates
        self.n_blocks = n_blocks
        self.text = text
        self.epochs = epochs
        self.n_folds = n_folds
        self.propensity_a = propensity_a
        self.propensity_b = propensity_b
        self.advanced = advanced
        self.n_jobs = n_jobs
        self.random_state = random_state

    def settings(self) -> SimpleNamespace:
        """Return every parameter with its value: as given, from the preset or, for `tail`, by the loss."""
        settings = super().settings()
        settings.tail = TAILS[settings.loss] if settings.tail is None else settings.tail
        return settings

    # Learning ----------------------------------------------------------------------------------------------------

    def _copies(self) -> int:
        return 1 + (self.n_folds if self.method == "blocks" else 0)

    def _fit(self, X: csr_array, Y: csr_array, Z: csr_array | None, validation: Pair | None) -> None:
        from longtail.metrics import inverse_propensity

        settings = self.settings()
        self.points_ = frozen(label_counts(Y).astype(np.float32))
        self.propensity_ = inverse_propensity(Y, self.propensity_a, self.propensity_b).astype(np.float32)
        self.typical_ = typical_gain(Y, self.propensity_, N_POSITIONS)
        self.largest_ = getattr(self, "_settled", None) or self._largest(Y)
        self._make_rules()
        self.text_, self.network_, recipe = None, Reranker.identity(), None
        if self.method == "blocks":
            self.text_ = None if Z is None or not settings.text else frozen_csr(unit_rows(Z))
            recipe = self._tuned_base(X, Y, Z)
            recipe._steps = self._steps.inside("folds")
            self.network_ = self._learn(recipe, X, Y, Z)
        self._fit_base(X, Y, Z, validation, recipe=recipe)

    def tuned(self, X: csr_array, Y: csr_array, Z: csr_array | None = None) -> Self:
        """Return an unfitted copy around a tuned base, whose scores are scaled by the largest gain of this data."""
        copy = super().tuned(X, Y, Z)
        copy._settled = getattr(self, "_settled", None) or self._largest(Y)
        return copy

    def _largest(self, Y: csr_array) -> list[float]:
        """Return the inverse propensity of a label without points, divided per position by that of a typical label.

        Scores are divided by it. It depends on the number of points. Copies of a wrapper, which are fitted to some of
        the points, and the final fit share one value, so that all score on the same scale.
        """
        from longtail.metrics import inverse_propensity

        counts = np.append(label_counts(Y), 0)
        weights = inverse_propensity(counts=counts, n_points=Y.shape[0], A=self.propensity_a, B=self.propensity_b)
        if self.method != "blocks":
            return [float(weights[-1])]
        return (weights[-1] / typical_gain(Y, weights[:-1].astype(np.float32), N_POSITIONS)).tolist()

    def _learn(self, recipe: Ranker, X: csr_array, Y: csr_array, Z: csr_array | None) -> Reranker:
        """Train the network on scores of points that the copies of the base were not fitted to."""
        from longtail.kernels.metrics import csr_is_in
        from longtail.models.ranknet.training import ScoredPoints, learn_reranker

        settings = SimpleNamespace(**vars(self.settings()), seed=self._seed)
        k = min(settings.n_candidates, Y.shape[1])
        scores = out_of_fold(recipe, X, Y, Z, k=k, n_folds=self.n_folds, random_state=self._seed)
        candidates = candidate_lists(scores)
        if self.text_ is not None:
            candidates = with_similarity(candidates, SparseRows.of(X), self.text_, self.n_jobs)
        value = (self.propensity_ / self.propensity_.max()) ** np.float32(settings.population)
        right = csr_is_in(candidates.ptr, candidates.labels, Y.indptr, Y.indices)
        data = ScoredPoints(candidates, labelled_rows(Y), right, self._points_outside(Y, candidates), value)
        pairs = None
        if settings.bottleneck is None:
            pairs = csr_array(Y.T @ Y)
            pairs.sort_indices()
        with progress.stage("learning to rank") as done:
            return learn_reranker(data, pairs, settings, done)

    def _points_outside(self, Y: csr_array, candidates: CandidateLists) -> np.ndarray:
        """Return the number of training points of each candidate label in the copy that scored it, (nnz,).

        This is not the number in all points. Otherwise the network would learn about labels with two training points
        from scores of copies that had only one of them.
        """
        fold = np.empty(Y.shape[0], np.int32)
        outside = np.empty((self.n_folds, Y.shape[1]), np.float32)
        for number, held in enumerate(folds(Y.shape[0], self.n_folds, self._seed)):
            fold[held] = number
            outside[number] = self.points_ - label_counts(Y[held])
        return outside[np.repeat(fold, np.diff(candidates.ptr)), candidates.labels]

    # Prediction --------------------------------------------------------------------------------------------------

    def _predict(self, X: csr_array, k: int) -> csr_array:
        candidates = candidate_lists(self.base_.predict(X, max(k, self._setting("n_candidates"))))
        top = self._ranked(candidates, SparseRows.of(X), k)
        return from_top_k(top.labels, top.scores, top.counts, self.n_labels_)

    def _rank(self, indices: np.ndarray, values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        best = self.base_._rank(indices, values, min(max(k, self._setting("n_candidates")), self.n_labels_))
        x = SparseRows.single(indices, values)
        top = self._ranked(candidate_list(*best), x, k)
        count = top.counts[0]
        return top.labels[0, :count], top.scores[0, :count]

    def _ranked(self, candidates: CandidateLists, x: SparseRows, k: int) -> TopLabels:
        """Return the k best candidates of the points x."""
        if self.text_ is not None:
            candidates = with_similarity(candidates, x, self.text_, self.n_jobs)
        return self.network_.rank(candidates, self.points_, self._rule(), k, self.n_jobs)

    def _make_rules(self) -> None:
        largest = np.array(self.largest_, np.float32)
        self.rules_ = RankingRules(self.propensity_, largest, self.typical_, self.method == "blocks")

    def _rule(self) -> RankingRule:
        """Return the ranking rule for the present value of `tail`."""
        tail = self._setting("tail")
        if tail is None:
            tail = TAILS[self._setting("loss")]
        if not SHARE.allows(tail):
            raise SettingsError(f"tail is {tail!r}; give {SHARE}: 0 for plain precision, 1 for rare labels")
        return self.rules_.rule(tail, self._setting("n_candidates"))

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        arrays = {"points": self.points_, "propensity": self.propensity_, **self.network_.arrays()}
        if self.text_ is not None:
            arrays |= csr_arrays("text", self.text_)
        trust = float(self.network_.net.trust)
        facts = {"typical": self.typical_.tolist(), "trust": trust, "largest": self.largest_}
        return facts, arrays, self._parts()

    _facts: ClassVar = {
        "typical": ListOf(POSITIVE, 1, 1000),
        "trust": NOT_NEGATIVE,
        "largest": ListOf(POSITIVE, 1, 1000),
    }

    @classmethod
    def _array_rules(cls, stored: Stored, parts: dict[str, Ranker]) -> Rules:
        meta = stored.meta
        learnt = meta["params"].get("method", "blocks") == "blocks"
        if len(meta["largest"]) != (len(meta["typical"]) if learnt else 1):
            raise ModelError(f"{stored.folder}: typical and largest in model.json differ in length. {REMEDY}")
        rules = Rules({"points": floats("L", least=0), "propensity": floats("L", above=0)})
        rules |= Reranker.array_rules(len(stored.arrays["pair_ptr"]) > 1)
        return rules | csr("text", "L", "D", unit=True) if "text_data" in stored.arrays else rules

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self._restore_base(parts)
        self.points_, self.propensity_ = frozen(arrays["points"]), arrays["propensity"]
        self.typical_ = np.atleast_1d(np.array(facts["typical"], np.float32))
        self.largest_ = facts["largest"]
        self._make_rules()
        self.network_ = Reranker(arrays, facts["trust"])
        self.text_ = csr_from_arrays("text", arrays, (self.n_labels_, self.n_features_in_))
