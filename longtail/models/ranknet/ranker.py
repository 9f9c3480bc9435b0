"""RankNet: re-ranks the labels of any ranker, so that rare ones are ranked where they belong (ICLR 2021, §3.2).

Base models give rare labels scores that are too low. The paper's remedy is a residual network on the scores,
F = W2 σ(W1 ŷ) + ŷ, in as many blocks as wanted, with a loss that depends on how often each label occurs. Its simplest
instance multiplies a score by the label's inverse propensity.

Choices made here. The network reads and writes the base's best m labels only, so that its cost does not depend on the
number of labels. It learns from scores that copies of the base gave to points they had not seen. Its default loss is
logistic, so that it returns the probability p that a label is correct. Then the ranking with the highest expected
(1 - tail) P@k + tail PSP@k is known: the labels with the highest p (1 - tail + tail w / ŵ_k), where w is the inverse
propensity and ŵ_k the mean of a point's k rarest labels, which is lower the more positions there are. So position k
goes to the best label left by that measure, and `tail` moves along the curve without another fit. A part with the same
weights for all labels uses the score, the rank, the margin to the best label and the label's number of training points:
it learns how far scores of rare labels are to be trusted, which a rare label's own few points could not teach.
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
        The learnt network, or the base's score times the inverse propensity to the power of `tail`.
    tail : float, optional
        Share of propensity-scored precision in what is maximised, from 0, plain precision alone, to 1. By default 0.5,
        or 0 with the loss "population", which itself ranks rare labels first. It may be changed after fitting.
    n_candidates : int, optional
        Number m of the base's labels that are re-ranked, by default 50. Labels beyond follow in the base's order.
    n_blocks : int, optional
        Number of residual blocks, which learn what labels reveal of each other; by default 1. With 0, only the part
        shared by all labels is learnt.
    text : bool, optional
        Whether the similarity of the point and the label's text is an input of the network, where `fit` is given label
        features. By default True; in the paper False.
    epochs : int, optional
        Number of passes over the training points, by default 5.
    n_folds : int
        Number of copies of the base that are fitted to score points they did not see. More are slower, and their scores
        are nearer to those of the base itself.
    propensity_a, propensity_b : float
        A and B of the propensity model. Use 0.5 and 0.4 for Wikipedia, 0.6 and 2.6 for Amazon, and the defaults
        elsewhere.
    advanced : dict, optional
        Further parameters by name. After each stands its value, with that of the paper where it differs:

        ``bottleneck``
            V, the width of a block's hidden layer; None gives one weight per pair of co-occurring labels (small label
            sets only): 16.
        ``hidden``
            Units of the part that all labels share: 16; paper 0.
        ``loss``
            "logistic", whose scores are probabilities; or "population", the paper's, which ranks the rarer of two
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
        Threads; all cores by default.
    random_state : int, Generator, RandomState or None

    Attributes
    ----------
    base_ : Ranker
        The fitted base.
    points_ : array, (L,)
        Training points per label.
    propensity_ : array, (L,)
        Inverse propensities.
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
        """Return every parameter with its value: as given, as the preset has it or, for `tail`, as the loss needs."""
        settings = super().settings()
        settings.tail = TAILS[settings.loss] if settings.tail is None else settings.tail
        return settings

    # Learning ----------------------------------------------------------------------------------------------------

    def _copies(self) -> int:
        return 1 + (self.n_folds if self.method == "blocks" else 0)

    def _fit(
        self, X: csr_array, Y: csr_array, Z: csr_array | None, validation: tuple[csr_array, csr_array] | None
    ) -> None:
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
        """Return an unfitted copy around a tuned base, whose scores are relative to the largest gain of this data."""
        copy = super().tuned(X, Y, Z)
        copy._settled = getattr(self, "_settled", None) or self._largest(Y)
        return copy

    def _largest(self, Y: csr_array) -> list[float]:
        """Return the inverse propensity of a label without points, per position relative to a point's usual one.

        Scores are relative to it. It grows with the points, and fits to parts of them have labels without points.
        Copies that are fitted to parts and the final fit therefore share one value: calibration learns from the
        scores of the copies.
        """
        from longtail.metrics import inverse_propensity

        counts = np.append(label_counts(Y), 0)
        weights = inverse_propensity(counts=counts, n_points=Y.shape[0], A=self.propensity_a, B=self.propensity_b)
        if self.method != "blocks":
            return [float(weights[-1])]
        return (weights[-1] / typical_gain(Y, weights[:-1].astype(np.float32), N_POSITIONS)).tolist()

    def _learn(self, recipe: Ranker, X: csr_array, Y: csr_array, Z: csr_array | None) -> Reranker:
        """Train the network on scores of copies of the base for points they did not see."""
        from longtail.kernels.metrics import csr_is_in
        from longtail.models.ranknet.training import ScoredPoints, learn_reranker

        settings = SimpleNamespace(**vars(self.settings()), seed=self._seed)
        k = min(settings.n_candidates, Y.shape[1])
        scores = out_of_fold(recipe, X, Y, Z, k=k, n_folds=self.n_folds, random_state=self._seed)
        candidates = candidate_lists(scores)
        if self.text_ is not None:
            candidates = with_similarity(candidates, SparseRows(X.indptr, X.indices, X.data), self.text_, self.n_jobs)
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
        """Return the training points that each candidate's label had in the copy that scored it, (nnz,).

        Not the training points that the label has in all: what is learnt about labels with one training point then
        comes from labels that had one, and holds for those that have one in prediction.
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
        top = self._ranked(candidates, SparseRows(X.indptr, X.indices, X.data), k)
        return from_top_k(top.labels, top.scores, top.counts, self.n_labels_)

    def _rank(self, indices: np.ndarray, values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        best = self.base_._rank(indices, values, min(max(k, self._setting("n_candidates")), self.n_labels_))
        x = SparseRows(np.array([0, len(indices)], np.int32), indices, values)
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
        """Return the rule of ranking for the present value of `tail`."""
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

    _facts: ClassVar = {"typical": ListOf(POSITIVE, 1, 1000), "trust": POSITIVE, "largest": ListOf(POSITIVE, 1, 1000)}

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
