"""DECAF: label text inside one-vs-all classifiers (Mittal et al., WSDM 2021).

A point is the sum of its tokens' vectors, passed through a residual block. The text of a label uses the same token
table and its own residual block. The classifier of a label combines the vector of its text with a refinement vector of
its own. Labels that share words therefore learn from each other, and a rare label does not depend on its few points
alone.

Choices made here. The paper trains in four modules (:mod:`longtail.models.decaf.modules`) on a GPU, as
``preset="paper"`` does. ``preset="fast"`` is made for a few cores:

- The same network is trained by Module IV alone. All points of a batch share their candidates, which are scored in one
  matrix product. Negatives are weighted by the inverse of their probability of being drawn, to a power (`correction`).
- The first network lists likely labels of each training point, which the other networks use as hard negatives.
- In prediction, the classifiers are searched directly.
- Refinement vectors start at the mean of their label's points, no ReLU follows the block of documents, and the tables
  are trained by Adagrad with one sum per row. ``benchmarks/recipes`` measures each of these choices.
- Held-out points show how much to shrink the vectors of rare tokens (:mod:`longtail.models.decaf.adjusting`). At the
  end the networks learn from them too, in a few epochs.

The probabilities of three networks are averaged, as in the paper.

If points and labels are things of the same kind, such as products, one label may be the point itself. Its text is the
most similar of all, but it is never correct. Published data sets come with a list of such pairs, which the paper's
metrics leave out. Both presets leave them out if the training points show that they are not correct
(:mod:`longtail.labels.own_labels`). Otherwise, every tenth Debian package would have itself as its best label.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array

from longtail import store
from longtail.engine import current
from longtail.errors import ModelError
from longtail.kernels.encode import SparseRows
from longtail.kernels.pool import threads_for
from longtail.models.base import Arrays, Ranker, check_features, data_bytes
from longtail.models.decaf.presets import ADVANCED, LISTED, MOST_PER_STEP, PRESETS, paper_sizes
from longtail.models.decaf.trained import FACTS, DecafScorer
from longtail.models.epoch_ranker import MOST_HELD_OUT, EpochRanker, usual_batch_size
from longtail.models.learning_copy import learns_on_a_copy
from longtail.models.training_part import TrainingPart
from longtail.neural.search import best_labels
from longtail.params import Integer, OneOf, optional
from longtail.sparse import from_top_k, label_counts, take_labels, unit_rows
from longtail.store.facts import ROWS
from longtail.store.invariants import Rules

if TYPE_CHECKING:
    from longtail.models.decaf.adjusting import Adjustment
    from longtail.models.decaf.modules import Plan, Ranking, Training
    from longtail.models.decaf.network import TextNetwork

_CHUNK = 8192  # points whose clusters are searched at once


class Choices(NamedTuple):
    """What a fit has chosen by its data. Another fit takes it over to score on the same scale."""

    adjustment: Adjustment | None = None
    drops_own_labels: bool | None = None  # None if it is not chosen yet


class DECAF(EpochRanker):
    """Classifiers made of label text and refinement vectors.

    A parameter that is None has the value of the preset.

    Parameters
    ----------
    preset : {"fast", "paper"}
        Values of the other parameters: the recipe that was best here for a few cores, or the paper's pipeline.
    dim : int, optional
        Length of token and label vectors. Longer vectors are slower and slightly more accurate. In the paper 300, or
        512 from 320,000 labels on.
    n_networks : int, optional
        Number of networks in the ensemble, 3 by default; they share Module I. With 1, training takes a third of the
        time, prediction two fifths, and P@5 falls by about 1.
    classifier : {"both", "text", "refinement"}
        Parts of a classifier. One part alone is the paper's DECAF-ẑ¹ or DECAF-ẑ².
    shortlist : {"search", "clusters", "hnsw", "tree"}, optional
        Source of the labels that are scored for a point: a search of the classifiers, the paper's clusters (Module II),
        a graph of label centroids, or a label tree (Parabel).
    n_clusters : int, optional
        Number of clusters in Modules I and II. By default the largest power of two up to an eighth of the labels. In
        the paper 2^15, or 2^17 from 200,000 labels on, but no more than a quarter of the labels.
    beam : int, optional
        Number of clusters opened per point. By default as many as find 85 % of the labels of training points.
    n_candidates : int, optional
        Number of labels drawn per batch, in addition to its positives. With no more labels than this, all labels are
        candidates. More candidates are slower and slightly more accurate.
    n_hard : int, optional
        Number of labels of each point's shortlist that are used in a batch as hard negatives; in the paper all. In the
        fast preset the first network uses none, and lists those of the others.
    dropout : float, optional
        Dropout after each ReLU.
    epochs : int, optional
        Number of passes over the points in Modules II and IV.
    batch_size : int, optional
        Points per step, divided among the workers. In the fast preset about a hundredth of the points, from 32 to 256.
    learning_rate : float, optional
        Highest learning rate: of Adagrad in the fast preset, of Adam in the paper's.
    validation_fraction : float, optional
        Share of points held out for early stopping, 2,000 at most; 0 for none. Not used if `fit` is given validation
        points.
    dtype : {"float32", "int8"}
        Type of the stored token vectors and classifiers. int8 takes a quarter of the space.
    checkpoint : str, optional
        Folder for a checkpoint after each epoch of each module, from which an interrupted run can be resumed; removed
        at the end.
    n_workers : int
        Number of processes that train one network, each on its own share of the points, on this machine or on a Ray
        cluster. The network depends on it slightly. Use more than one on several machines, or on one with many cores.
    advanced : dict, optional
        Settings of the training recipe that only experiments need: ``init`` ("text", "random": DECAF-no-init), ``lite``
        (do not train token vectors after Module I: DECAF-lite), ``shared`` (a point learns from all candidates of its
        batch; in the paper, from its own shortlist), ``correction`` (power of the inverse probability by which
        negatives are weighted), ``forget`` (probability that a label is scored in a batch by its text alone),
        ``input_dropout``, ``prior`` (start biases at the log odds of each label), ``spectral`` (divide the blocks by
        their spectral norm), ``token_length`` (of token vectors at the start), ``token_vectors`` (a .npy file with one
        vector per feature to start from; with ``surrogate_epochs=0`` it replaces Module I: DECAF-FFT),
        ``centroid_length`` (length of refinement vectors that start at the mean of their label's points; 0 for the
        start that ``init`` names), ``block_rate`` (learning rate of the blocks relative to the tables), ``optimizer``
        ("adam", "row_adagrad": of all tables but the blocks), ``relu`` (after the block of documents),
        ``surrogate_epochs`` (of Module I; 0 leaves it out), ``adjust`` (learn from held-out points how much to shrink
        vectors of rare tokens, and how to calibrate scores), ``own_labels`` ("keep"; "drop": never suggest, nor learn
        from, a label whose text has exactly the words of the point; "auto": drop if the training points show that such
        labels are never correct), ``schedule``, ``patience``.
    n_jobs : int, optional
        Number of threads; all cores by default.
    random_state : int, Generator, RandomState or None
        Seed of every random choice.

    Attributes
    ----------
    history_ : list of dict
        Loss and held-out precision after each epoch of Module IV.

    Examples
    --------
    >>> from longtail import DECAF
    >>> DECAF(epochs=5, advanced={"forget": 0.2})
    DECAF(epochs=5, advanced={'forget': 0.2})
    """

    kind: ClassVar[str] = "decaf"
    _presets: ClassVar = PRESETS
    _advanced: ClassVar = ADVANCED
    _constraints: ClassVar = {
        "classifier": OneOf("both", "text", "refinement"),
        "shortlist": OneOf("search", "clusters", "hnsw", "tree"),
        "n_clusters": optional(Integer(1)),
        "beam": optional(Integer(1)),
        "n_candidates": Integer(1),
        "n_hard": Integer(0),
        "dtype": OneOf("float32", "int8"),
        "n_workers": Integer(1),
    }
    history_: list[dict[str, float]]
    scorer_: DecafScorer
    tree_: Ranker | None
    _adjustment: Adjustment | None

    def __init__(
        self,
        preset: str = "fast",
        dim: int | None = None,
        n_networks: int | None = None,
        classifier: str = "both",
        shortlist: str | None = None,
        n_clusters: int | None = None,
        beam: int | None = None,
        n_candidates: int | None = None,
        n_hard: int | None = None,
        dropout: float | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        validation_fraction: float | None = None,
        dtype: str = "float32",
        checkpoint: str | None = None,
        n_workers: int = 1,
        advanced: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.preset = preset
        self.dim = dim
        self.n_networks = n_networks
        self.classifier = classifier
        self.shortlist = shortlist
        self.n_clusters = n_clusters
        self.beam = beam
        self.n_candidates = n_candidates
        self.n_hard = n_hard
        self.dropout = dropout
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.validation_fraction = validation_fraction
        self.dtype = dtype
        self.checkpoint = checkpoint
        self.n_workers = n_workers
        self.advanced = advanced
        self.n_jobs = n_jobs
        self.random_state = random_state

    # Training ----------------------------------------------------------------------------------------------------

    def _fit_part(self, part: TrainingPart) -> None:
        """Train the networks on the points that are not held out."""
        from longtail.models.decaf.modules import make_plan

        self.n_features_in_, self.n_labels_ = part.X.shape[1], part.Y.shape[1]
        settings = self.settings()
        settings.seed, settings.checkpoint = self._seed, self._epoch_folder()
        labels = np.flatnonzero(label_counts(part.Y[part.all_rows()])).astype(np.int32)
        tokens = None
        if settings.token_vectors is not None:
            from longtail.models.decaf.token_vectors import read_token_vectors

            tokens = read_token_vectors(settings.token_vectors, part.X.shape[1], self.dim)
            settings.dim = tokens.shape[1]
        self._trained_labels = labels
        plan = make_plan(settings, len(part.rows), len(labels), part.listed_elsewhere)
        self._training = self._prepare(part, settings, labels, plan)
        self._training.tokens, self._training.adjustment = tokens, self._choices.adjustment
        trained = self._train_networks(self._training, settings)
        self._rankings = [ranking for ranking, _ in trained]
        self.history_ = [entry for _, history in trained for entry in history]
        self.scorer_ = self._make_scorer(labels, exact=True)
        self._training.learn_adjustment(self.scorer_.networks)
        self._adjustment = self._training.adjustment
        if self._adjustment is not None:
            self.scorer_ = self._make_scorer(labels, exact=True)
        self._add_labels_without_points(part, labels)

    @staticmethod
    def _train_networks(training: Training, settings: Any) -> list[tuple[Ranking, list[Any]]]:
        """Train the ensemble; the first network may list hard negatives for the others."""
        surrogate, numbers = training.surrogate(), range(settings.n_networks)

        def train(some: range) -> list[tuple[Ranking, list[Any]]]:
            if settings.n_workers > 1:  # one network after another, because the workers use all cores
                return [training.ranker(number, surrogate) for number in some]
            shared = training.for_another_process() if current().remote else training, surrogate
            return current().map(_train_network, some, shared, n_jobs=1, uses_whole_machine=True)

        if len(numbers) == 1 or not training.mines:
            return train(numbers)
        first = train(numbers[:1])
        training.listed = training.mined(first[0][0].network)
        return first + train(numbers[1:])

    @property
    def _choices(self) -> Choices:
        """The choices of another fit, to be used by this one."""
        return getattr(self, "_settled", Choices())

    def _scored_like(self, fitted: Ranker) -> Self:
        """Return an unfitted copy with the choices of the fitted ranker, so that both score on the same scale."""
        copy = self.unfitted()
        if isinstance(fitted, DECAF):
            copy._settled = Choices(fitted._adjustment, fitted.scorer_.label_keys is not None)
        return copy

    def _add_labels_without_points(self, part: TrainingPart, labels: np.ndarray) -> None:
        """Add labels that have text only to the scorer; `labels` are those with points."""
        if part.Z is not None and self.scorer_.knows_text:
            known = np.zeros(self.n_labels_, bool)
            known[labels] = True
            others = np.flatnonzero(~known & (np.diff(part.Z.indptr) > 0))
            texts = unit_rows(part.Z)[others]
            self.scorer_ = self.scorer_.extended(texts, others, self.n_labels_, self.dtype, self.n_jobs)

    def _prepare(self, part: TrainingPart, settings: Any, labels: np.ndarray, plan: Plan) -> Training:
        """Collect the data that the modules train on; `labels` are the labels with points."""
        from longtail.linear.tree import mean_label_vectors
        from longtail.models.decaf.learner import OwnTargets
        from longtail.models.decaf.modules import Training

        X, Y = part.X[part.rows], take_labels(part.Y, labels)
        text = None if part.Z is None or not part.Z.nnz else unit_rows(part.Z)
        self.tree_ = None
        negatives = part.negatives
        if settings.shortlist == "tree":
            from longtail.models.parabel import Parabel

            self.tree_ = Parabel(n_jobs=self.n_jobs, random_state=self._seed).fit(X, part.Y[part.rows])
            negatives = self.tree_.predict(X, LISTED)
        listed = None
        if negatives is not None and (settings.n_hard != 0 or self.tree_ is not None):
            listed = _padded(negatives, labels)
        clustered = settings.surrogate_epochs or settings.shortlist == "clusters"
        own = None
        drops = {"auto": self._choices.drops_own_labels, "keep": False, "drop": True}[settings.own_labels]
        if text is not None and drops is not False:
            own = OwnTargets.of(part.X, part.rows, Y, text[labels], sure=drops is True)
        return Training(
            part.X,
            part.rows,
            Y[part.rows],
            None if text is None else text[labels],
            mean_label_vectors(X, Y[part.rows], 256, self.n_jobs) if clustered else None,
            part.held_with(labels),
            listed,
            plan,
            self._identity(part.X, part.Y, part.Z, *(part.held or ())),
            own=own,
        )

    def _make_scorer(self, labels: np.ndarray, exact: bool, rest: np.ndarray | None = None) -> DecafScorer:
        networks = [self._training.trained(ranking, exact, rest) for ranking in self._rankings]
        if not exact:
            networks = [network.rounded(self.dtype) for network in networks]
        own = self._training.own
        keys = None if own is None else own.keys
        return DecafScorer(networks, labels, self.n_labels_, self._training.text, keys)

    def _fit_rest(self, part: TrainingPart) -> None:
        """Learn from the held-out points in a few epochs, build the index, and add labels that have text only."""
        # The labels are those of `_fit_part`: a blend without time for `rest` removes it from `part`, but the networks
        # have classifiers for its labels.
        labels = self._trained_labels
        if part.rest is not None:
            Y_rest = take_labels(part.Y[part.rest], labels)
            for ranking in self._rankings:
                self._training.absorb(ranking.network, part.rest, Y_rest)
        self.scorer_ = self._make_scorer(labels, exact=False, rest=part.rest)
        self.scorer_.text = None
        self._add_labels_without_points(part, labels)
        del self._training, self._rankings, self._trained_labels
        self._remove_checkpoint()

    _less_memory: ClassVar[str] = "Lower dim, n_candidates, beam or batch_size, or use fewer features (max_features)."

    def memory_needed(self, X: csr_array, Y: csr_array, Z: csr_array | None = None) -> float:
        """Estimate the bytes of a fit: the larger one of training the last network and of what follows.

        While a network is trained, the earlier ones are in memory. After training there are several copies of the token
        vectors of all networks: as trained, as kept, and as tried on held-out points. In addition, the classifiers of
        one network are computed from label text.
        """
        return self._memory_needed(X, Y, Z, adjust=self.settings().adjust)

    def memory_as_member(self, X: csr_array, Y: csr_array, Z: csr_array | None = None) -> float:
        """Estimate the bytes of a fit as a member of a blend, where networks are not adjusted on held-out points."""
        return self._memory_needed(X, Y, Z, adjust=False)

    def _memory_needed(self, X: csr_array, Y: csr_array, Z: csr_array | None, adjust: bool) -> float:
        from longtail.models.decaf.modules import MOST_LISTED
        from longtail.models.decaf.network import TextNetwork

        settings, (n, n_features) = self.settings(), X.shape
        n_labels = int(np.count_nonzero(label_counts(Y)))
        batch = self._batch_size(n)
        dim = settings.dim or paper_sizes(n_labels)[0]
        n_hard = MOST_LISTED if settings.n_hard is None else settings.n_hard
        candidates = min(n_labels, settings.n_candidates + batch * (8 + n_hard))
        network = TextNetwork.bytes_needed(n_features, n_labels, dim, settings.optimizer, batch, candidates)
        if settings.n_workers > 1:  # a replica in each process
            network *= 1 + settings.n_workers
        kept = 4.0 * dim * (2 * n_features + 4 * n_labels) * (settings.n_networks - 1)  # and classifiers
        n_tokens = (4 if adjust else 2) * n_features
        finished = 4.0 * dim * (settings.n_networks * (n_tokens + 2 * n_labels) + 3 * n_labels)
        clusters = 0.0
        if settings.shortlist == "clusters" or settings.surrogate_epochs:
            n_clusters = settings.n_clusters or max(2, n_labels // 8)
            beam = min(n_clusters, settings.beam or n_clusters)  # a poor shortlister may need all clusters
            clusters = (
                12.0 * _CHUNK * beam
                + 4.0 * MOST_HELD_OUT * beam * 8
                + 4.0 * dim * (n + n_clusters)
                + 4.0 * n * MOST_LISTED
            )
        return 1.5 * data_bytes(X, Y, Z) + max(network + kept + clusters, finished)

    @learns_on_a_copy
    def add_labels(self, label_features: Any) -> Self:
        """Append labels that have text but no points; they are suggested from now on.

        Parameters
        ----------
        label_features : sparse or dense matrix, (n, D)
            Text of the new labels, in the feature space of the points. A label without any known word is never
            suggested.
        """
        self._check_ready()
        if not self.scorer_.knows_text:
            raise ModelError(
                "This DECAF was trained without label text and cannot score labels by theirs. "
                "Fit it with label_features, and with a classifier that uses them."
            )
        Z = unit_rows(check_features(label_features, self.n_features_in_, "label_features"))
        with_text = np.flatnonzero(np.diff(Z.indptr))
        n_labels = self.n_labels_ + Z.shape[0]
        added = self.n_labels_ + with_text
        self.scorer_ = self.scorer_.extended(Z[with_text], added, n_labels, self.dtype, self.n_jobs)
        self.n_labels_ = n_labels
        return self

    def _scores_text(self) -> bool:
        return self.scorer_.knows_text

    def _rest_share(self, n_points: int) -> float:
        return 0.15

    def _batch_size(self, n_points: int) -> int:
        return self.settings().batch_size or usual_batch_size(n_points, MOST_PER_STEP)

    # Prediction --------------------------------------------------------------------------------------------------

    def _fitted_parts(self) -> Iterable[Ranker]:
        return () if self.tree_ is None else (self.tree_,)

    def _pair_scorer(self) -> DecafScorer | _TreeShortlist:
        return self.scorer_ if self.tree_ is None else _TreeShortlist(self.scorer_, self.tree_)

    def _predict(self, X: csr_array, k: int) -> csr_array:
        jobs = threads_for(X.shape[0], self.n_jobs)
        best = best_labels(self._pair_scorer(), SparseRows.of(X), k, jobs)
        return from_top_k(best.labels, best.scores, best.counts, self.n_labels_)

    def _rank(self, indices: np.ndarray, values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        best = best_labels(self._pair_scorer(), SparseRows.single(indices, values), k, 1)
        return best.labels[0, : best.counts[0]], best.scores[0, : best.counts[0]]

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        facts, arrays = self.scorer_.state(self.dtype)
        return facts | {"history": self.history_}, arrays, {} if self.tree_ is None else {"tree": self.tree_}

    _facts: ClassVar = FACTS | {"history": ROWS}

    @classmethod
    def _labels_of_part(cls, name: str, part: Any, stored: store.Stored) -> int:
        """Return the number of labels of the label tree, which does not have labels that were added later."""
        return min(part.n_labels_, stored.meta["n_labels"])

    @classmethod
    def _array_rules(cls, stored: store.Stored, parts: dict[str, Ranker]) -> Rules:
        return DecafScorer.array_rules(stored.meta, stored.arrays)

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self.history_, self.tree_ = facts["history"], parts.get("tree")
        self.scorer_ = DecafScorer.restored(facts, arrays, self.n_labels_)


def _train_network(number: int, training: Training, surrogate: TextNetwork | None) -> tuple[Ranking, list[Any]]:
    """Train one network of the ensemble."""
    return training.ranker(number, surrogate)


class _TreeShortlist:
    """DECAF's scorer with the shortlists of a label tree (Table 5)."""

    def __init__(self, scorer: DecafScorer, tree: Ranker) -> None:
        self.scorer, self.tree, self.labels = scorer, tree, scorer.labels

    def encode(self, points: SparseRows, n_jobs: int | None) -> tuple[Any, SparseRows]:
        """Return encoded points, and the points themselves for the tree."""
        return self.scorer.encode(points, n_jobs), points

    def shortlist(self, encoded: tuple[Any, SparseRows], width: int, n_jobs: int | None) -> np.ndarray:
        """Return the labels that the tree suggests, (N, S), -1 for none."""
        listed = self.tree._candidates(encoded[1], width, n_jobs)
        counts = np.diff(listed.ptr)
        out = np.full((len(counts), max(1, counts.max(initial=0))), -1, np.int32)
        out[np.arange(out.shape[1]) < counts[:, None]] = listed.labels
        return out

    def log_odds(self, encoded: tuple[Any, SparseRows], labels: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return the networks' log odds."""
        return self.scorer.log_odds(encoded[0], labels, n_jobs)

    def text_log_odds(
        self, encoded: tuple[Any, SparseRows], rows: np.ndarray, labels: np.ndarray, n_jobs: int | None
    ) -> np.ndarray:
        """Return the networks' log odds by text alone."""
        return self.scorer.text_log_odds(encoded[0], rows, labels, n_jobs)


def _padded(suggested: csr_array, labels: np.ndarray) -> np.ndarray:
    """Return suggested labels as positions in `labels`, one row per point, padded with -1."""
    position = np.full(suggested.shape[1], -1, np.int32)
    position[labels] = np.arange(len(labels), dtype=np.int32)
    counts = np.diff(suggested.indptr)
    out = np.full((suggested.shape[0], max(1, counts.max(initial=0))), -1, np.int32)
    out[np.arange(out.shape[1]) < counts[:, None]] = position[suggested.indices]
    return out
