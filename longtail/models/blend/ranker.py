"""Blend: several rankers as one, combined into probabilities that are learnt on held-out points.

Rankers make different errors. Linear classifiers are best at single words, the nearest training points cover every rare
label, label text finds labels with hardly any points, and a network generalises over all of these. Some points are held
out, and the members are fitted to the others. Each member lists candidates for the held-out points. Every (point,
candidate) pair has features (:mod:`longtail.combine`), from which a combiner learns the probability that the label is
correct. Then the members learn from the held-out points too.

If no members are given, they are chosen by the data:

- a network: DECAF if labels have text, otherwise GLaS;
- a linear model: DiSMEC or Bonsai, by the number of labels;
- KNN and, if labels have text, TextMatch;
- FastXML and MNN if labels have no text, and points and features are few.

If the last features of a point are a dense vector, such as a sentence embedding, VectorKNN and VectorMatch use this
vector, and all other members the features before it. With a time budget, members that take too long are trained for
fewer epochs or left out, and members that do not improve the ranking of held-out points are dropped.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array, hstack

from longtail import progress, store
from longtail.combine.candidates import CandidateList, PairScorer
from longtail.combine.label_profile import LabelProfile, frequencies
from longtail.combine.predictor import CandidatePredictor, HeldOutPairs
from longtail.combine.selection import LABELS_MEASURED, describe_choice, held_out_metrics
from longtail.errors import DataError, ModelError, SettingsError, number_of
from longtail.kernels.encode import SparseRows
from longtail.kernels.pool import FEW_SLOW_ROWS, threads_for
from longtail.metrics.thresholds import threshold_of_probabilities
from longtail.models.base import Arrays, Ranker, check_features, data_bytes
from longtail.models.blend.members import MemberChoice
from longtail.models.learning_copy import learns_on_a_copy
from longtail.models.training_part import MemberParts, TrainingPart
from longtail.models.wrapper import check_base
from longtail.params import (
    NOT_NEGATIVE,
    POSITIVE,
    Anything,
    Integer,
    Jobs,
    Number,
    Seed,
    available_if,
    optional,
    value_shown,
)
from longtail.sparse import Pair, label_counts, labelled_rows, select_labels
from longtail.store.facts import ROWS, YES_NO, Text
from longtail.store.invariants import REMEDY, Rules

if TYPE_CHECKING:
    from longtail.combine.attribution import Shares
    from longtail.combine.combiner import Combiner
    from longtail.models.blend.budget import Budget
    from longtail.models.knn import KNN

_log = logging.getLogger("longtail.models")

DEFAULT_SECONDS = 600.0  # seconds that training may take by default
_MOST_HELD_OUT = 5000  # points held out, at most: members need the others more than the combiner does
_FEW_HELD_OUT = 2000  # with fewer, the combiner is trained badly
_NEGATIVES = 24  # labels per training point that a linear member suggests, from which hard negatives are drawn
_BYTES_PER_HELD_OUT = 32_000.0  # features of the candidates of one held-out point
_LEAST_GAIN = 0.05  # gain in the mean of the goals that a member must add to be kept


class Blend(Ranker):
    """Several rankers, combined into probabilities that are learnt on held-out points.

    Parameters
    ----------
    members : list of Ranker, optional
        Rankers to combine; copies of them are fitted. By default chosen by the data: DECAF (labels with text) or GLaS
        (without), DiSMEC (fewer than 20,000 labels, no `seconds`) or Bonsai, KNN, and TextMatch (labels with text);
        FastXML and MNN for 1,000 to 20,000 points with at most 5,000 features and no label text.
    seconds : float, optional
        Time limit of training. Members that take too long are trained for fewer epochs or left out, and members that do
        not improve the ranking of held-out points are dropped. By default 600 for members chosen by the data, and no
        limit for given members.
    vector_size : int
        Number of features at the end that are one dense vector per point and per label text, such as a sentence
        embedding. VectorKNN and, for labels with text, VectorMatch are added as members, which compare these vectors.
        Other members do not use them. A tagger with an encoder sets it.
    validation_fraction : float, optional
        Share of points held out to train the combiner, 5,000 at most. By default a tenth, or up to a fifth if there are
        fewer than 20,000 points. Not used if `fit` is given validation points.
    propensity_a, propensity_b : float
        A and B of the propensity model, in the metrics by which members are chosen. Use 0.5 and 0.4 for Wikipedia, 0.6
        and 2.6 for Amazon, and the defaults elsewhere.
    n_jobs : int, optional
        Number of threads; all cores by default.
    random_state : int, Generator, RandomState or None
        Seed of the held-out part and of members chosen by the data.

    Attributes
    ----------
    members_ : list of Ranker
        The fitted members.
    why_ : str
        What was combined, and why.
    report_ : list of dict
        Metrics of each member and of the blend on the held-out points; empty if there were too few.

    Examples
    --------
    >>> from longtail import Blend, Bonsai, KNN
    >>> Blend([Bonsai(n_trees=1), KNN()])
    Blend(members=[Bonsai(n_trees=1), KNN()])
    """

    kind: ClassVar[str] = "blend"
    _constraints: ClassVar = {
        "members": Anything("a list of rankers, or None"),
        "seconds": optional(POSITIVE),
        "vector_size": Integer(0),
        "validation_fraction": optional(Number(0, 0.5, above=True)),
        "propensity_a": NOT_NEGATIVE,
        "propensity_b": POSITIVE,
        "n_jobs": Jobs(),
        "random_state": Seed(),
    }
    members_: list[Ranker]
    predictor_: CandidatePredictor
    report_: list[dict[str, Any]]
    why_: str
    n_words_: int | None  # number of features before the vectors; None without vectors

    def __init__(
        self,
        members: Sequence[Any] | None = None,
        seconds: float | None = None,
        vector_size: int = 0,
        validation_fraction: float | None = None,
        propensity_a: float = 0.55,
        propensity_b: float = 1.5,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.members = members
        self.seconds = seconds
        self.vector_size = vector_size
        self.validation_fraction = validation_fraction
        self.propensity_a = propensity_a
        self.propensity_b = propensity_b
        self.n_jobs = n_jobs
        self.random_state = random_state

    def check_params(self) -> None:
        """Check that every parameter meets its constraint and that members are rankers."""
        super().check_params()
        if self.members is None:
            return
        if not isinstance(self.members, list | tuple) or not self.members:
            raise SettingsError(
                f"members is {value_shown(self.members)}; give a list of rankers such as [Bonsai(), KNN()], by name "
                "blend([bonsai, knn]), or None to have them chosen by the data"
            )
        for member in self.members:
            check_base(member, type(self).__name__)

    def n_fits(self) -> dict[str, int]:
        """Return how many rankers of each kind one ``fit`` trains, without members that are chosen by the data."""
        total = {self.kind: 1}
        for member in self.members or ():
            for kind, n in member.n_fits().items():
                total[kind] = total.get(kind, 0) + n * (2 if member._rest_share(0) >= 1 else 1)
        return total

    # Training ----------------------------------------------------------------------------------------------------

    def _fit(self, X: csr_array, Y: csr_array, Z: csr_array | None, validation: Pair | None) -> None:
        from longtail.models.blend.budget import Budget

        budget = Budget(self._seconds())
        self._check_vector_size(X)
        parts = self._divide(X, Y, Z, validation)
        part = parts.words
        members = self._plan(budget, parts)
        self.members_ = []
        names = {}
        for number, member in enumerate(
            sorted(members, key=_is_network)
        ):  # networks last: others suggest hard negatives
            others_list = any(not _is_network(m) for m in members if m is not member)
            name = f"{number + 1}-{member.kind}"
            begin = time.perf_counter()
            own = replace(parts.seen_by(member), listed_elsewhere=others_list)
            self.members_.append(self._fit_member(member, own, name))
            budget.note(self.members_[-1], time.perf_counter() - begin)
            names[id(self.members_[-1])] = name
        combiner = self._find_combiner(parts, budget)
        has_time, budget.remarks = self._steps.value(
            "time-left", lambda: [budget.fits_rest(self.members_, part), budget.remarks]
        )
        for member in self.members_:
            own = parts.seen_by(member)
            if not has_time:
                own = replace(own, rest=None)
            if own.rest is not None or _is_network(member):
                with progress.stage(f"all points: {member.kind}"):
                    self._run_step(f"{names[id(member)]}-rest", member, partial(member._fit_rest, own))
        self._set_predictor(part.X, Y, part.Z, combiner)
        self.why_ = " ".join([self.why_, *budget.remarks]).strip()

    def _divide(self, X: csr_array, Y: csr_array, Z: csr_array | None, validation: Pair | None) -> MemberParts:
        """Hold out points, and split the features of all points into those before the vectors and the vectors."""
        self.n_words_ = X.shape[1] - self.vector_size if self.vector_size else None
        words, vectors = self._columns(X)
        Z_words, Z_vectors = (None, None) if Z is None else map(_none_if_empty, self._columns(Z))
        held = held_vectors = None
        if validation is not None:
            held_words, held_vectors = self._columns(validation[0])
            held = held_words, validation[1]
        share = self._share_held_out(X.shape[0])
        part = TrainingPart.divide(words, Y, Z_words, held, share, self._seed, _MOST_HELD_OUT)
        if self.n_words_ is None:
            return MemberParts(part, part)
        return MemberParts(part, part.with_features(vectors, Z_vectors, held_vectors))

    def _columns(self, A: csr_array) -> tuple[csr_array, csr_array]:
        """Return the features before the vectors, and the vectors; without vectors, all features twice."""
        return (A, A) if self.n_words_ is None else _split_columns(A, self.n_words_)

    def _share_held_out(self, n_points: int) -> float:
        """Return the share of the points to hold out: a tenth, or up to a fifth if points are few.

        With few held-out points the combiner is trained badly. A fifth instead of a tenth of 2,500 to 12,000 Debian
        packages raised P@1 of other training points by 0.2 to 0.7, and B@1, 3, 5 by 0.4 to 0.9, 0.4 to 0.7 and 0.2 to
        0.5. On Tate it raised P@1 and B@1 by 0.7 with 2,500 points, and changed them by 0.3 at most with more points
        (means of three or four seeds).
        """
        if self.validation_fraction is not None:
            return self.validation_fraction
        return min(0.2, max(0.1, _FEW_HELD_OUT / max(1, n_points)))

    def _seconds(self) -> float | None:
        return DEFAULT_SECONDS if self.seconds is None and self.members is None else self.seconds

    def _choice(self) -> MemberChoice:
        return MemberChoice(self.seconds is not None, self.n_jobs, self._seed)

    def _members(self, X: csr_array, Y: csr_array, Z: csr_array | None, label_vectors: bool = False) -> list[Ranker]:
        """Return unfitted members: copies of the given ones or the default ones for the data, and those for vectors.

        `label_vectors` says whether label texts have vectors.
        """
        choice = self._choice()
        members = choice.members(X, Y, Z) if self.members is None else [m.unfitted() for m in self.members]
        if not self.vector_size or any(member.takes_vectors for member in members):
            return members
        return [*members, *choice.vector_members(label_vectors)]

    _less_memory: ClassVar[str] = "Give fewer or smaller members, such as blend([bonsai, knn]), or use fewer features."

    def memory_needed(self, X: csr_array, Y: csr_array, Z: csr_array | None = None) -> float:
        """Estimate the bytes of a fit: its points and labels, what members keep, and the largest fit of a member.

        A network keeps its tables until the end. Another member keeps its model, about a third of the memory of its
        fit.
        """
        words: tuple[Any, ...] = (X, Z)
        vectors = words
        if self.vector_size:
            self._check_vector_size(X)
            first = X.shape[1] - self.vector_size
            both = [(None, None) if A is None else _split_columns(A, first) for A in (X, Z)]
            words, vectors = zip(*both, strict=True)
        members = self._members(words[0], Y, words[1], vectors[1] is not None)
        needed = [
            (_is_network(member), member.memory_as_member(X_own, Y, Z_own))
            for member in members
            for X_own, Z_own in [vectors if member.takes_vectors else words]
        ]
        largest = max(n_bytes for _, n_bytes in needed)
        kept = sum(n_bytes if network else n_bytes / 3 for network, n_bytes in needed)
        alive = max(largest, kept)
        n_words = words[0].nnz / max(1, X.shape[0])
        profile = 8.0 * min(256.0 * Y.shape[1], n_words * Y.nnz)  # centroids of labels
        pairs = _BYTES_PER_HELD_OUT * min(_MOST_HELD_OUT, self._share_held_out(X.shape[0]) * X.shape[0])
        return 2 * data_bytes(X, Y) + alive + profile + pairs

    def _plan(self, budget: Budget, parts: MemberParts) -> list[Ranker]:
        """Return the members to fit within the budget."""
        part = parts.words
        members = self._members(part.X, part.Y, part.Z, parts.vectors.Z is not None)
        choice = self._choice()
        cheaper = {id(member): choice.instead_of(member) for member in members if self.members is None}
        instead = {key: ranker for key, ranker in cheaper.items() if ranker is not None}
        all_members = [*members, *instead.values()]
        facts = self._steps.value("plan", lambda: budget.decisions(all_members, budget.plan(members, part, instead)))
        return budget.follow(facts, all_members)

    def _fit_member(self, member: Ranker, part: TrainingPart, name: str) -> Ranker:
        """Make the data-dependent choices of a member, and fit it to the points that are not held out."""
        member._steps = self._steps.inside(f"{name}-choices")
        member = member.tuned(part.X[part.rows], part.Y[part.rows], part.Z)
        if _is_network(member) and self._steps.find(f"{name}-rest"):
            return member  # the checkpoint has the network after its last step
        if _is_network(member):
            from longtail.models.label_tree import LabelTreeRanker

            linear = next((m for m in self.members_ if isinstance(m, LabelTreeRanker)), None)
            if linear is not None:
                part = replace(part, negatives=linear.predict(part.X[part.rows], _NEGATIVES))
        with progress.stage(f"fitting {member.kind}"):
            if _is_network(member):  # it has its own checkpoints of epochs
                member._steps = self._steps.inside(f"{name}-rest")
                member._fit_part(part)
            else:
                self._run_step(f"{name}-part", member, lambda: member._fit_part(part))
        return member

    def _find_combiner(self, parts: MemberParts, budget: Budget) -> Combiner:
        """Train the combiner or load it from a checkpoint, and keep the members that it combines."""
        from longtail.combine.combiner import Combiner

        all_members = self.members_

        def compute() -> tuple[dict[str, Any], Arrays]:
            self._combine(parts, select=budget.binding)
            kept = [i for i, member in enumerate(all_members) if any(member is m for m in self.members_)]
            facts, arrays = self.predictor_.combiner.state()
            results = {"report": self.report_, "why": self.why_, "threshold": self.threshold_}
            return {"combiner": facts, "kept": kept, **results}, arrays

        facts, arrays = self._steps.stored("combiner", compute)
        self.members_ = [all_members[i] for i in facts["kept"]]
        self.report_, self.why_, self.threshold_ = facts["report"], facts["why"], facts["threshold"]
        return Combiner.restored(facts["combiner"], arrays)

    def _combine(self, parts: MemberParts, select: bool) -> None:
        """Train the combiner on the held-out points; with `select`, drop members that do not improve the ranking."""
        part = parts.words
        X, Y_train = part.X[part.rows], part.Y[part.rows]
        self.threshold_ = None
        self.report_, self.why_ = [], "The mean of all members, because no held-out point has a known label."
        self._set_predictor(X, Y_train, part.Z, None)
        if part.held is None:
            return
        known = label_counts(Y_train) > 0
        # Points with unknown labels only are left out. All scores would look too high on them, but after the final fit
        # there are no such points.
        rows = labelled_rows(select_labels(part.held[1], known))
        if not len(rows):
            return
        X_held, Y_held = self._held_points(parts)[rows], part.held[1][rows]
        Y_known = select_labels(Y_held, known)
        with progress.stage("combining"):
            pairs = self.predictor_.collect(X_held, Y_held, self._listing, self.n_jobs)
            propensity = self.propensity_a, self.propensity_b
            layout, shape = self.predictor_.layout(len(self._listers())), Y_held.shape
            numbers = {id(member): number for number, member in enumerate([*self._networks(), *self._listers()])}
            report = []
            for member in self.members_:
                scores = pairs.scored_by(layout, numbers[id(member)], shape, LABELS_MEASURED)
                report.append({"model": member.kind} | held_out_metrics(Y_known, scores, Y_train, propensity))
            if select and len(self.members_) > 1:
                pairs = self._drop_members(pairs, report, part, Y_known)
            layout = self.predictor_.layout(len(self._listers()))
            combiner = pairs.train(layout, Y_train, Y_held, self._text_lister())
            scores = pairs.of_labels(known).cross_scored(layout, Y_held.shape, LABELS_MEASURED, combiner.n_trees)
            combiner, scores = combiner.calibrated(scores, Y_known)
            self.predictor_ = replace(self.predictor_, combiner=combiner)
        self.threshold_ = threshold_of_probabilities(Y_known, scores)
        self.report_ = [*report, {"model": "blend"} | held_out_metrics(Y_known, scores, Y_train, propensity)]
        self.why_ = describe_choice(self.report_, f"A blend of {', '.join(m.kind for m in self.members_)}")

    def _held_points(self, parts: MemberParts) -> csr_array:
        """Return the held-out points with all features, vectors included."""
        assert parts.words.held is not None
        if self.n_words_ is None:
            return parts.words.held[0]
        assert parts.vectors.held is not None
        return csr_array(hstack([parts.words.held[0], parts.vectors.held[0]], format="csr"))

    def _drop_members(
        self, pairs: HeldOutPairs, report: list[dict[str, Any]], part: TrainingPart, Y_known: csr_array
    ) -> HeldOutPairs:
        """Drop each member, the weakest first, without which held-out points are ranked nearly as well or better.

        `report` has the metrics of each member. The pairs without the dropped members are returned.
        """
        shape, X, Y_train = Y_known.shape, part.X[part.rows], part.Y[part.rows]
        propensity = self.propensity_a, self.propensity_b

        def goal(pairs: HeldOutPairs, n_scorers: int, n_listers: int) -> float:
            layout = replace(self.predictor_.layout(n_listers), n_scorers=n_scorers)
            scores = pairs.cross_scored(layout, shape, LABELS_MEASURED, n_trees=0)
            return held_out_metrics(Y_known, scores, Y_train, propensity)["goal"]

        scorers, listers = self._networks(), self._listers()
        best = goal(pairs, len(scorers), len(listers))
        alone = {id(m): row["goal"] for m, row in zip(self.members_, report, strict=True)}
        for member in sorted(self.members_, key=lambda m: alone[id(m)]):
            if len(self.members_) == 1:
                break
            scorers, listers = self._networks(), self._listers()
            layout = self.predictor_.layout(len(listers))
            if member in scorers:
                columns = range(first := layout.scorer(scorers.index(member)), first + 3)
            else:
                columns = range(first := layout.lister(listers.index(member)), first + 7)
            fewer = pairs.without(list(columns))
            without = goal(fewer, len(scorers) - (member in scorers), len(listers) - (member in listers))
            if without > best - _LEAST_GAIN:
                _log.info("%s adds %.2f to the held-out goal and is dropped.", member.kind, best - without)
                if member in scorers:
                    fewer = replace(fewer, text_odds=np.delete(fewer.text_odds, scorers.index(member), axis=1))
                self.members_ = [m for m in self.members_ if m is not member]
                pairs, best = fewer, without
                self._set_predictor(X, Y_train, part.Z, None)
        return pairs

    def _set_predictor(self, X: csr_array, Y: csr_array, Z: csr_array | None, combiner: Combiner | None) -> None:
        """Set the predictor of the present members for these points; without a combiner it has an untrained one."""
        profile = LabelProfile.of(X, Y, Z, self.n_jobs)
        scorers = [self._scorer(member) for member in self._networks()]
        predictor = CandidatePredictor(scorers, frequencies(Y), label_counts(Y) == 0, profile)
        predictor.n_features = self.n_words_
        if combiner is None:
            from longtail.combine.combiner import Combiner

            combiner = Combiner.untrained(predictor.layout(len(self._listers())))
        predictor.combiner = combiner
        self.predictor_ = predictor

    @learns_on_a_copy
    def add_labels(self, label_features: Any) -> Self:
        """Append labels that have text only; they are suggested from now on.

        Parameters
        ----------
        label_features : sparse or dense matrix, (n, D)
            Text of the new labels, in the feature space of the points.
        """
        self._check_ready()
        if not any(member._scores_text() for member in self.members_):
            raise ModelError(
                "No member of this blend can score a label by its text. Fit it with label_features, and with a member "
                "that uses them, such as decaf or textmatch."
            )
        self._append_labels(check_features(label_features, self.n_features_in_, "label_features"))
        return self

    def _append_labels(self, label_features: csr_array) -> None:
        """Append labels without training points, whose text may be empty."""
        Z, vectors = self._columns(label_features)
        n_new, predictor = Z.shape[0], self.predictor_
        n_labels = self.n_labels_ + n_new
        self.members_ = [copy(member) for member in self.members_]
        for member in self.members_:
            if member._scores_text():
                member.add_labels(vectors if member.takes_vectors else Z)  # type: ignore[attr-defined]
            elif _is_network(member):
                _widen(member, n_labels)
                member.n_labels_ = n_labels
        profile = copy(predictor.profile)
        profile.append(Z)
        self.predictor_ = replace(
            predictor,
            profile=profile,
            scorers=[self._scorer(member) for member in self._networks()],
            frequency=np.concatenate([predictor.frequency, np.zeros(n_new, np.float32)]),
            unseen=np.concatenate([predictor.unseen, np.ones(n_new, bool)]),
        )
        self.n_labels_ = n_labels

    @available_if(lambda blend: blend._voters() or (blend.members is None and not hasattr(blend, "members_")))
    @learns_on_a_copy
    def partial_fit(self, X: Any, Y: Any) -> Self:
        """Add points to the nearest-neighbour members, and update label frequencies and centroids.

        The other members and the combiner do not change until the next ``fit``. A blend without ``knn`` among its
        members does not have this method.

        Parameters
        ----------
        X : sparse or dense matrix, (N, D)
            New points, with the same features as the first ones.
        Y : sparse or dense matrix, (N, L')
            Their labels. It has all known columns; further columns are new labels.
        """
        if not hasattr(self, "n_labels_"):
            return self.fit(X, Y)
        X, Y = self._check_further_points(X, Y)
        if Y.shape[1] > self.n_labels_:
            self._append_labels(csr_array((Y.shape[1] - self.n_labels_, self.n_features_in_), dtype=np.float32))
        words, vectors = self._columns(X)
        self.members_ = [copy(member) for member in self.members_]
        voters = self._voters()
        for member in self.learning_members():
            member.partial_fit(vectors if member.takes_vectors else words, Y)  # type: ignore[attr-defined]
        points, labels = voters[0].points_.matrices(voters[0].n_features_in_)
        profile, unseen = copy(self.predictor_.profile), self.predictor_.unseen & (label_counts(Y) == 0)
        profile.update(points, labels, np.unique(Y.indices), self.n_jobs)
        self.predictor_ = replace(self.predictor_, frequency=frequencies(labels), unseen=unseen, profile=profile)
        return self

    def learning_members(self) -> list[Ranker]:
        """Return the fitted members that ``partial_fit`` trains."""
        voters = self._voters()
        return [member for member in self.members_ if member in voters or member.kind == "vectorknn"]

    def _voters(self) -> list[KNN]:
        """Return the KNN members, to which points can be added."""
        from longtail.models.knn import KNN

        members = getattr(self, "members_", self.members)
        return [member for member in members if isinstance(member, KNN)] if isinstance(members, list | tuple) else []

    # Prediction --------------------------------------------------------------------------------------------------

    def _networks(self) -> list[Ranker]:
        """Return the members that score any pair."""
        return [member for member in self.members_ if _is_network(member)]

    def _listers(self) -> list[Ranker]:
        """Return the members that list candidates."""
        return [member for member in self.members_ if not _is_network(member)]

    def _text_lister(self) -> int | None:
        kinds = [member.kind for member in self._listers()]
        return kinds.index("textmatch") if "textmatch" in kinds else None

    @staticmethod
    def _scorer(member: Ranker) -> PairScorer:
        scorer = member._pair_scorer()
        assert scorer is not None
        return scorer

    def _listing(self, X: csr_array, k: int) -> list[CandidateList]:
        jobs = threads_for(X.shape[0], self.n_jobs, FEW_SLOW_ROWS)
        return self._list_candidates(*self._divided(SparseRows.of(X)), k, jobs)

    def _divided(self, points: SparseRows) -> tuple[SparseRows, SparseRows]:
        """Return the features of points before the vectors, and the vectors; without vectors, all features twice."""
        return (points, points) if self.n_words_ is None else points.divided(self.n_words_)

    def _list_candidates(
        self, words: SparseRows, vectors: SparseRows, k: int, n_jobs: int | None
    ) -> list[CandidateList]:
        return [member._candidates(vectors if member.takes_vectors else words, k, n_jobs) for member in self._listers()]

    def features_of(self, member: Ranker, X: csr_array) -> csr_array:
        """Return the features of points that a member uses: those before the vectors, or the vectors.

        Parameters
        ----------
        member : Ranker
            One of ``members_``.
        X : csr_array, (N, D)
            Points with all features.
        """
        return self._columns(X)[member.takes_vectors]

    def _predict(self, X: csr_array, k: int) -> csr_array:
        return self.predictor_.predict(X, self._listing, k, threads_for(X.shape[0], self.n_jobs, FEW_SLOW_ROWS))

    def _rank(self, indices: np.ndarray, values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        words, vectors = self._divided(SparseRows.single(indices, values))
        lists = self._list_candidates(words, vectors, max(k, self.predictor_.width), 1)
        return self.predictor_.predict_one(words, lists, k)

    def contributions(self, point: csr_array, best: csr_array, labels: Sequence[int]) -> list[Shares | None]:
        """Return the contribution of each of ``members_`` to the log odds of labels of one point.

        Parameters
        ----------
        point : csr_array, (1, D)
            The point.
        best : csr_array, (1, L)
            The scores that :meth:`predict` returned for it.
        labels : sequence of int
            Labels to explain. A label that is not in `best` has no contributions (None).
        """
        from longtail.combine.attribution import attribute

        lists = self._listing(point, max(best.nnz, self.predictor_.width))
        order = [*self._networks(), *self._listers()]
        columns = [next(i for i, one in enumerate(order) if one is member) for member in self.members_]
        shares = attribute(self.predictor_, self.predictor_.points(point), lists, (best.indices, best.data), labels)
        return [None if one is None else one._replace(members=one.members[columns]) for one in shares]

    def _fitted_parts(self) -> Iterable[Ranker]:
        return self.members_

    # Storing -----------------------------------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        facts, arrays = self.predictor_.state()
        parts = {f"member_{i}": member for i, member in enumerate(self.members_)}
        chosen = self.members is None
        facts["adds_vectors"] = bool(self.vector_size) and not any(m.takes_vectors for m in self.members or ())
        facts |= {"report": self.report_, "why": self.why_, "chosen": chosen, "threshold": self.threshold_}
        return facts, arrays, parts

    @classmethod
    def _read(cls, stored: store.Stored, parts: dict[str, Ranker]) -> Self:
        members = [parts[f"member_{i}"] for i in range(len(parts))]
        params = {name: value for name, value in stored.meta["params"].items() if name != "members"}
        given = [m for m in members if not (m.takes_vectors and stored.meta.get("adds_vectors"))] or members
        model = cls(None if stored.meta["chosen"] else given, **params)
        model._take_state(stored, parts)
        return model

    _facts: ClassVar = {"report": ROWS, "why": Text(), "chosen": YES_NO}

    @classmethod
    def _check_stored(cls, stored: store.Stored, parts: dict[str, Ranker]) -> None:
        if not parts or set(parts) != {f"member_{i}" for i in range(len(parts))}:
            raise ModelError(f"{stored.folder}: the members are not numbered from 0. {REMEDY}")
        super()._check_stored(stored, parts)

    @classmethod
    def _array_rules(cls, stored: store.Stored, parts: dict[str, Ranker]) -> Rules:
        scorers = sum(map(_is_network, parts.values()))
        n_words = str(stored.meta["n_features"] - _stored_vector_size(stored))
        return CandidatePredictor.array_rules(stored.meta, stored.arrays, scorers, len(parts) - scorers, n_words)

    @classmethod
    def _labels_of_part(cls, name: str, part: Any, stored: store.Stored) -> int:
        """Return the number of labels of a member; listers may lack labels that were appended after the fit."""
        n_labels = stored.meta["n_labels"]
        return n_labels if _is_network(part) else min(part.n_labels_, n_labels)

    @classmethod
    def _features_of_part(cls, part: Any, stored: store.Stored) -> int:
        size = _stored_vector_size(stored)
        return size if size and part.takes_vectors else stored.meta["n_features"] - size

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self.members_ = [parts[f"member_{i}"] for i in range(len(parts))]
        self.report_, self.why_, self.threshold_ = facts["report"], facts["why"], facts.get("threshold")
        scorers = [self._scorer(member) for member in self._networks()]
        self.n_words_ = self.n_features_in_ - self.vector_size if self.vector_size else None
        n_features = self.n_words_ or self.n_features_in_
        self.predictor_ = CandidatePredictor.restored(facts, arrays, scorers, n_features)
        self.predictor_.n_features = self.n_words_

    # Checks ------------------------------------------------------------------------------------------------------

    def _check_vector_size(self, X: csr_array) -> None:
        if self.vector_size >= X.shape[1]:
            raise SettingsError(
                f"vector_size is {self.vector_size}, but X has {number_of(X.shape[1], 'feature')}. Vectors are the "
                "last features of X, after at least one other feature."
            )

    def _check_X(self, X: Any) -> csr_array:
        if self.n_words_ is not None and getattr(X, "shape", (0, 0))[1:] == (self.n_words_,):
            raise DataError(
                f"X lacks the {self.n_features_in_ - self.n_words_} last features, which are a vector per point",
                remedy="Append the vectors to X; on the command line, give --vectors",
            )
        return super()._check_X(X)


def _widen(member: Any, n_labels: int) -> None:
    """Raise the number of labels of a network, which does not score the new ones; shallow copies do not change."""
    member.scorer_ = copy(member.scorer_)
    member.scorer_.labels = member.scorer_.labels.widened(n_labels)


def _split_columns(A: csr_array, first: int) -> tuple[csr_array, csr_array]:
    """Return the columns before `first`, and those from `first` on."""
    return csr_array(A[:, :first]), csr_array(A[:, first:])


def _none_if_empty(Z: csr_array) -> csr_array | None:
    """Return label text, or None if no label has any."""
    return Z if Z.nnz else None


def _stored_vector_size(stored: store.Stored) -> int:
    """Return `vector_size` of a model folder; folders of older versions do not have it."""
    size = stored.meta["params"].get("vector_size", 0)
    if not Integer(0, stored.meta["n_features"] - 1).allows(size):
        raise ModelError(f"{stored.folder}: vector_size is {size!r:.40}. {REMEDY}")
    return size


def _is_network(member: Ranker) -> bool:
    """Return whether a member scores any pair of point and label."""
    return type(member)._pair_scorer is not Ranker._pair_scorer
