"""DECAF's four training modules (paper §3.1).

I    surrogate task: learn token vectors by classifying into clusters of labels, with classifiers made of text alone
II   shortlister: cluster the labels again by the vectors of Module I, and learn to shortlist clusters
III  initial classifiers of labels: z² = E z, new residual blocks
IV   ranker: learn the classifiers of labels against the candidates that the shortlister gives

The :class:`Plan` decides which of them run. By default it is Module IV alone, with candidates that a batch shares.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array, vstack

from longtail.errors import SettingsError
from longtail.index import Index, make_index
from longtail.kernels import decaf as kernels
from longtail.kernels.encode import SparseRows
from longtail.kernels.pool import spread
from longtail.labels.clusters import balanced_clusters, members
from longtail.models.decaf.adjusting import Adjustment, learn_adjustment, token_counts
from longtail.models.decaf.learner import OwnTargets, ShortlistSampler, TextLearner
from longtail.models.decaf.network import CHUNK, Targets, TextNetwork, TextNetworkSettings
from longtail.models.decaf.presets import LISTED, MOST_PER_STEP, paper_sizes
from longtail.models.decaf.trained import DocumentEncoder, TrainedNetwork
from longtail.models.epoch_ranker import usual_batch_size
from longtail.neural.encoding import activate, sum_tokens
from longtail.neural.loop import LoopSettings, absorb, train
from longtail.neural.search import ONE_BY_ONE
from longtail.neural.tables import prior_log_odds
from longtail.sparse import Pair, ones_like, unit_rows

_RECALL = 0.85  # share of training positives that an opened cluster must hold (paper, supplement)
MOST_LISTED = 1000  # labels in the shortlist of a point, at most
# With more labels than this, the recall of the search weights labels by their probability: of 300,000 labels, it then
# opens 83 partitions instead of 262. With fewer labels this does not pay, as it costs 0.2 to 0.3 of B@5 on Debian
# packages and Tate.
_LIKELY_LABELS = 100_000
_SEARCH_RECALL = 0.98  # of the search for the classifiers with the highest scores
_SAMPLE = 2000  # training points on which the search and the beam are tuned
_MINING_PROBES = 16  # partitions to open for hard negatives, which need not be exactly the labels of highest score
_SURROGATE_DROPOUT, _SURROGATE_RATE = 0.5, 0.01  # of Module I


@dataclass(frozen=True)
class Plan:
    """Settings of a training run; :class:`longtail.models.decaf.DECAF` describes them."""

    network: TextNetworkSettings
    loop: LoopSettings
    shortlist: str
    surrogate_epochs: int
    n_clusters: int
    beam: int | None
    n_candidates: int
    n_networks: int
    n_hard: int | None
    shared: bool
    correction: float
    keep: float  # probability that input dropout keeps a feature
    prior: bool
    indexed: bool  # whether to build an index of many classifiers
    adjust: bool
    start_from_text: bool
    centroid_length: float
    lite: bool
    n_workers: int


def make_plan(settings: Any, n_points: int, n_labels: int, listed_elsewhere: bool) -> Plan:
    """Return the training plan for data of this size.

    Parameters
    ----------
    settings : namespace
        Every parameter of DECAF with its value, and ``seed``.
    n_points, n_labels : int
        Number of training points, and of labels that have any.
    listed_elsewhere : bool
        Whether other members of a blend list labels, so that no index is needed.
    """
    if settings.lite and not settings.surrogate_epochs:
        raise SettingsError("lite keeps the token vectors of Module I, which surrogate_epochs=0 leaves out")
    dim, n_clusters = paper_sizes(n_labels)
    if settings.preset != "paper":
        n_clusters = 1 << max(1, int(np.log2(max(2, n_labels / 8))))
    size = max(1, (settings.batch_size or usual_batch_size(n_points, MOST_PER_STEP)) // settings.n_workers)
    loop = LoopSettings(
        settings.epochs,
        size,
        settings.learning_rate,
        settings.schedule,
        patience=settings.patience,
        seed=settings.seed,
        checkpoint=settings.checkpoint,
    )
    loop.check()
    network = TextNetworkSettings(
        settings.dim or dim,
        settings.classifier,
        settings.dropout,
        settings.forget,
        settings.token_length,
        settings.block_rate,
        settings.spectral,
        optimizer=settings.optimizer,
        relu=settings.relu,
        n_jobs=settings.n_jobs,
    )
    return Plan(
        network,
        loop,
        shortlist=settings.shortlist,
        surrogate_epochs=settings.surrogate_epochs,
        n_clusters=settings.n_clusters or n_clusters,
        beam=settings.beam,
        n_candidates=settings.n_candidates,
        n_networks=settings.n_networks,
        n_hard=settings.n_hard,
        shared=settings.shared,
        correction=settings.correction,
        keep=1 - settings.input_dropout,
        prior=settings.prior,
        indexed=not listed_elsewhere,
        adjust=settings.adjust and not listed_elsewhere,  # a blend's combiner learns the same from more points
        start_from_text=settings.init == "text",
        centroid_length=settings.centroid_length,
        lite=settings.lite,
        n_workers=settings.n_workers,
    )


@dataclass(frozen=True)
class Stage:
    """The training of one network, on labels or on clusters of labels.

    Attributes
    ----------
    name : str
        Name in progress reports.
    targets : Targets
        Labels or clusters.
    settings : TextNetworkSettings
        Settings of the network.
    epochs, rate
        Epochs and learning rate of the training loop.
    number : int
        Number of the network in the ensemble. Networks with different numbers have different random numbers.
    cluster_of : array, optional
        The cluster of each label, if clusters are the targets.
    before : TextNetwork, optional
        Network whose token vectors (and, for clusters, blocks) the training starts from.
    shortlist : array, (N, S), optional
        Hard negatives of each point, -1 for none.
    """

    name: str
    targets: Targets
    settings: TextNetworkSettings
    epochs: int
    rate: float
    number: int = 0
    cluster_of: np.ndarray | None = None
    before: TextNetwork | None = None
    shortlist: np.ndarray | None = None


@dataclass
class Ranking:
    """The result of Modules II to IV: the ranker's network, and the shortlister if it uses clusters."""

    network: TextNetwork
    guide: DocumentEncoder | None
    clusters: np.ndarray | None
    cluster_of: np.ndarray | None
    beam: int


@dataclass
class Training:
    """The data to train on, and the four modules.

    Attributes
    ----------
    X : csr_array, (M, D)
        Points, used without a copy.
    rows : array, (N,)
        Rows of X to train on.
    Y : csr_array, (N, L)
        Labels of these rows.
    text : csr_array, (L, D), optional
        Label text, rows of length 1 or 0.
    centroids : csr_array, (L, D), optional
        Mean of each label's points, if Modules I or II run.
    held : tuple of csr_array, optional
        Held-out points and their labels.
    listed : array, (N, S), optional
        Labels that another model suggests for each training point, as hard negatives.
    plan : Plan
        Settings of the training.
    identity : str
        Fingerprint of data and settings, for checkpoints.
    tokens : array, (D, d), optional
        Token vectors to start from; random ones by default.
    adjustment : Adjustment, optional
        Corrections of the networks that were learnt on held-out points.
    own : OwnTargets, optional
        Own labels of the points (:mod:`longtail.labels.own_labels`), if these are never correct.
    """

    X: csr_array
    rows: np.ndarray
    Y: csr_array
    text: csr_array | None
    centroids: csr_array | None
    held: Pair | None
    listed: np.ndarray | None
    plan: Plan
    identity: str = ""
    tokens: np.ndarray | None = None
    adjustment: Adjustment | None = None
    own: OwnTargets | None = None

    def for_another_process(self) -> Training:
        """Return the same training without a checkpoint, whose folder may not exist on another machine."""
        return replace(self, plan=replace(self.plan, loop=replace(self.plan.loop, checkpoint=None)))

    def surrogate(self) -> TextNetwork | None:
        """Run Module I, whose network all networks of the ensemble start from; None if it has no epochs."""
        plan = self.plan
        if not plan.surrogate_epochs:
            return None
        assert self.centroids is not None
        cluster_of = balanced_clusters(self.centroids, plan.n_clusters, plan.loop.seed, plan.network.n_jobs)
        n = int(cluster_of.max()) + 1
        text = None if self.text is None else unit_rows(csr_array(indicator(cluster_of, n).T @ self.text))
        settings = replace(plan.network, form="text", drop=_SURROGATE_DROPOUT, freeze=False, forget=0.0)
        network, _ = self._train(
            Stage("module I", Targets(n, text), settings, plan.surrogate_epochs, _SURROGATE_RATE, 0, cluster_of)
        )
        return network

    def ranker(self, number: int, surrogate: TextNetwork | None) -> tuple[Ranking, list[dict[str, float]]]:
        """Run Modules II to IV for one network."""
        plan = self.plan
        settings = replace(plan.network, freeze=plan.lite and surrogate is not None)
        before, shortlist, clusters, cluster_of, beam = surrogate, self.listed, None, None, 0
        if plan.shortlist == "clusters":
            before, cluster_of, shortlist, beam = self._shortlister(number, surrogate, settings)
            clusters = with_bias_column(before.classifiers(), before.tables["c"])
        elif plan.shortlist == "hnsw" and surrogate is not None:
            shortlist = self._nearest_labels(surrogate)
        targets = Targets(self.Y.shape[1], self.text)
        name = f"module IV of network {number + 1}" if plan.n_networks > 1 else "training the network"
        network, history = self._train(
            Stage(name, targets, settings, plan.loop.epochs, plan.loop.rate, number, None, before, shortlist)
        )
        # Module IV does not change the shortlister, which therefore keeps the encoder that it was trained with.
        guide = None if clusters is None or before is None else before.document_encoder()
        return Ranking(network, guide, clusters, cluster_of, beam), history

    @property
    def mines(self) -> bool:
        """Whether the first network lists hard negatives for the others."""
        return self.plan.shared and self.plan.shortlist == "search" and self.plan.n_hard != 0 and self.listed is None

    def mined(self, network: TextNetwork) -> np.ndarray:
        """Return the labels with the highest scores of a trained network for each training point, (N, S)."""
        jobs, encoder = self.plan.network.n_jobs, network.document_encoder()
        labels = with_bias_column(network.classifiers(), network.tables["c"])
        index = make_index(labels, "ip", n_probe=_MINING_PROBES, n_jobs=jobs)
        listed = np.empty((len(self.rows), min(LISTED, len(labels))), np.int32)
        for start in range(0, len(listed), CHUNK):
            x = encoder(SparseRows.of(self.X[self.rows[start : start + CHUNK]]), jobs)
            listed[start : start + CHUNK] = index.search(x, listed.shape[1], n_jobs=jobs)[0]
        return listed

    def absorb(self, network: TextNetwork, rows: np.ndarray, Y: csr_array) -> None:
        """Train a few epochs on the held-out points too, when they are no longer needed (:func:`absorb`).

        `rows` are the held-out points in X, `Y` (n, L) their labels.
        """
        plan = self.plan

        def learner_with(known: np.ndarray) -> TextLearner:
            known = np.sort(known)
            all_Y = csr_array(vstack([self.Y[known], Y]))
            sampler = ShortlistSampler(all_Y, plan.n_candidates, plan.loop.batch_size)
            all_rows = np.concatenate([self.rows[known], rows])
            return TextLearner(network, self.X, all_rows, all_Y, None, sampler, plan.correction, plan.keep, self.own)

        absorb(len(self.rows), len(rows), learner_with, plan.loop)

    def learn_adjustment(self, networks: list[TrainedNetwork]) -> None:
        """Learn corrections of the networks on the held-out points, unless clusters or a tree list labels."""
        if self.adjustment is not None or self.held is None or not self.plan.adjust:
            return
        if all(network.index is not None and network.clusters is None for network in networks):
            counts = token_counts(self.X, self.rows, self.text)
            keys = None if self.own is None else self.own.keys
            self.adjustment = learn_adjustment(networks, counts, *self.held, self.plan.network.n_jobs, keys)

    def trained(self, ranking: Ranking, exact: bool = False, rest: np.ndarray | None = None) -> TrainedNetwork:
        """Return a network for prediction, with the corrections that were learnt.

        Parameters
        ----------
        ranking : Ranking
            Result of :meth:`ranker`.
        exact : bool
            Search all labels exactly, because the network is needed only for a short time and an index takes time to
            build.
        rest : array, optional
            Rows of X beyond `rows` that the network was trained on.
        """
        plan, network = self.plan, ranking.network
        labels = with_bias_column(network.classifiers(), network.tables["c"])
        encoder, text = network.document_encoder(), network.text_encoder()
        if self.adjustment is not None:
            rows = self.rows if rest is None else np.concatenate([self.rows, rest])
            counts = token_counts(self.X, rows, self.text)
            encoder = replace(encoder, tokens=self.adjustment.tokens(encoder.tokens, counts))
            labels, text = self.adjustment.classifiers(labels), self.adjustment.text(text)
        index: Index | None = None
        if ranking.clusters is not None:
            index = make_index(ranking.clusters, "ip", "exact" if exact else "auto")
        elif plan.shortlist == "hnsw" and not exact:
            points = encoder(SparseRows.of(self.X[self.rows]), plan.network.n_jobs)
            points[:, -1] = 0  # centroids have no bias
            index = make_index(self._centroids(points), "cosine", "hnsw", n_jobs=plan.network.n_jobs)
        elif plan.shortlist != "tree":
            sample = self.X[self.rows[:: max(1, len(self.rows) // _SAMPLE)]]
            queries = encoder(SparseRows.of(sample), plan.network.n_jobs)
            tuned = {"queries": queries, "recall": _SEARCH_RECALL, "recall_k": 10, "n_jobs": plan.network.n_jobs}
            tuned["log_odds"] = len(labels) > _LIKELY_LABELS
            tuned["n_partitions"] = round(3 * len(labels) ** 0.5)  # small ones, as this search takes most of the time
            search_all = exact or not plan.indexed or len(labels) <= ONE_BY_ONE
            index = make_index(labels, "ip", "exact") if search_all else make_index(labels, "ip", "ivf", **tuned)
        shortlister = ranking.guide, ranking.clusters, ranking.cluster_of, ranking.beam
        return TrainedNetwork(encoder, text, labels, index, *shortlister)

    # The modules ---------------------------------------------------------------------------------------------------

    def _shortlister(
        self, number: int, surrogate: TextNetwork | None, settings: TextNetworkSettings
    ) -> tuple[TextNetwork, np.ndarray, np.ndarray, int]:
        """Run Module II; return the network of clusters, the cluster of each label, the shortlists, and the beam."""
        plan, jobs = self.plan, self.plan.network.n_jobs
        centroids = self.centroids
        assert centroids is not None
        if surrogate is not None:
            centroids = csr_array(csr_array(self.Y.T) @ embedded(surrogate, self.X, self.rows))
        cluster_of = balanced_clusters(centroids, plan.n_clusters, plan.loop.seed + 1 + number, jobs)
        n = int(cluster_of.max()) + 1
        targets = Targets(n, self.text, None if self.text is None else members(cluster_of, n))
        name = f"module II of network {number + 1}"
        network, _ = self._train(
            Stage(name, targets, settings, plan.loop.epochs, plan.loop.rate, number, cluster_of, surrogate)
        )
        index = make_index(with_bias_column(network.classifiers(), network.tables["c"]), "ip", "exact")
        encoder = network.document_encoder()
        sample = np.arange(0, len(self.rows), max(1, len(self.rows) // _SAMPLE))
        Y_clusters = merged(self.Y, cluster_of, n)
        beam = min(plan.beam or self._needed_beam(encoder, index.vectors, sample, Y_clusters), n)
        ptr, labels = members(cluster_of, n)
        largest = int(np.diff(ptr).max())
        listed = np.empty((len(self.rows), min(MOST_LISTED, beam * largest)), np.int32)
        for start in range(0, len(self.rows), CHUNK):
            block_of_points = self.X[self.rows[start : start + CHUNK]]
            nearest, _ = index.search(encoder(SparseRows.of(block_of_points), jobs), beam, n_jobs=jobs)
            out = listed[start : start + CHUNK]
            spread(lambda block, f=nearest, o=out: kernels.expand_clusters(f, ptr, labels, *block, o), len(out), jobs)
        return network, cluster_of, listed, beam

    def _needed_beam(
        self, encoder: DocumentEncoder, clusters: np.ndarray, sample: np.ndarray, Y_clusters: csr_array
    ) -> int:
        """Return the smallest beam that finds 85 % of the clusters of a sample of training points."""
        sampled, own = self.X[self.rows[sample]], Y_clusters[sample]
        scores = encoder(SparseRows.of(sampled), self.plan.network.n_jobs) @ clusters.T
        at = scores[np.repeat(np.arange(len(sample)), np.diff(own.indptr)), own.indices]
        scores.sort(axis=1)
        ranks = [
            scores.shape[1] - np.searchsorted(row, at[a:b])
            for row, a, b in zip(scores, own.indptr[:-1], own.indptr[1:], strict=True)
        ]
        return int(np.quantile(np.concatenate(ranks), _RECALL)) + 1

    def _nearest_labels(self, surrogate: TextNetwork) -> np.ndarray:
        """Return the labels whose centroids are nearest to each training point, by graph search (HNSW in Table 5)."""
        jobs = self.plan.network.n_jobs
        x = embedded(surrogate, self.X, self.rows)
        index = make_index(self._centroids(x), "cosine", "hnsw", n_jobs=jobs)
        return index.search(x, min(100, len(index)), n_jobs=jobs)[0]

    def _centroids(self, points: np.ndarray) -> np.ndarray:
        """Return the sum of the vectors of each label's training points, whose direction is that of the centroid."""
        return np.asarray(csr_array(self.Y.T) @ points, np.float32)

    def _train(self, stage: Stage) -> tuple[TextNetwork, list[dict[str, float]]]:
        """Train one network; also return the history of its epochs."""
        plan, cluster_of = self.plan, stage.cluster_of
        Y, held = self.Y, self.held
        if cluster_of is not None:
            Y = merged(Y, cluster_of, stage.targets.n)
            held = None if held is None else (held[0], merged(held[1], cluster_of, stage.targets.n))
        rng = np.random.default_rng([plan.loop.seed, stage.number])
        prior = prior_log_odds(Y) if plan.prior else np.zeros(Y.shape[1], np.float32)
        network = TextNetwork(self.X.shape[1], stage.targets, stage.settings, prior, rng)
        if self.tokens is not None:
            network.tables["E"][...] = self.tokens
        if stage.before is not None:
            network.adopt(stage.before, blocks=cluster_of is not None)
        if cluster_of is None and plan.start_from_text and network.has_text and network.has_refinement:
            _start_from_text(network)
        if cluster_of is None and plan.centroid_length and network.has_refinement:
            self._start_at_centroids(network, Y)
        shortlist_only = not plan.shared and cluster_of is None and stage.shortlist is not None
        n_drawn = 0 if shortlist_only else plan.n_candidates
        sampler = ShortlistSampler(Y, n_drawn, plan.loop.batch_size, stage.shortlist, plan.n_hard)
        own = self.own if cluster_of is None else None
        learner = TextLearner(network, self.X, self.rows, Y, held, sampler, plan.correction, plan.keep, own)
        learner.shortlist_only = shortlist_only
        folder = plan.loop.checkpoint
        loop = replace(
            plan.loop,
            epochs=stage.epochs,
            rate=stage.rate,
            stage=stage.name,
            seed=plan.loop.seed + stage.number,
            keep_checkpoint=True,
            checkpoint=None if folder is None else str(Path(folder) / stage.name.replace(" ", "-")),
        )
        if plan.n_workers == 1:
            history = train(learner, len(self.rows), loop, self.identity)
        else:
            from longtail.neural.replicas import train_on_workers

            history = train_on_workers(learner, len(self.rows), loop, self.identity, plan.n_workers)
        if stage.before is None and self.tokens is None:  # random vectors of untrained tokens would be noise
            network.tables["E"][network.optimizers["E"].age == 0] = 0
        return network, history

    def _start_at_centroids(self, network: TextNetwork, Y: csr_array) -> None:
        """Initialise refinement vectors with the direction of the mean of each target's encoded points."""
        encoder, jobs = network.document_encoder(), network.settings.n_jobs
        sums = np.zeros_like(network.tables["V"])
        for start in range(0, len(self.rows), CHUNK):
            x = encoder(SparseRows.of(self.X[self.rows[start : start + CHUNK]]), jobs)[:, :-1]
            sums += csr_array(Y[start : start + CHUNK].T) @ x
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        nonzero = lengths[:, 0] > 0
        network.tables["V"][nonzero] = sums[nonzero] * (np.float32(self.plan.centroid_length) / lengths[nonzero])


def _start_from_text(network: TextNetwork) -> None:
    """Run Module III: initialise z² = E z. Labels without text keep their random vectors.

    It is not used for clusters: initialised with the sum over the texts of their labels, they made a worse shortlister.
    """
    V = network.tables["V"]
    for start in range(0, len(V), CHUNK):
        targets = np.arange(start, min(start + CHUNK, len(V)))
        sums = network.embed(network.texts(targets)[0])
        V[targets] = np.where(sums.any(axis=1, keepdims=True), sums, V[targets])


def embedded(network: TextNetwork, X: csr_array, rows: np.ndarray) -> np.ndarray:
    """Return the sums of token vectors E x of some points, (N, d), scaled to length 1."""
    sums = sum_tokens(SparseRows.of(X[rows]), network.tables["E"], None, network.settings.n_jobs)
    return activate(sums, relu=False, normalize=True)[0]


def with_bias_column(vectors: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Append the biases to the classifiers as one more column."""
    return np.concatenate([vectors, bias], axis=1).astype(np.float32)


def indicator(cluster_of: np.ndarray, n: int) -> csr_array:
    """Return the matrix (labels, n clusters) with a one for the cluster of each label."""
    size = len(cluster_of)
    return csr_array((np.ones(size, np.float32), cluster_of, np.arange(size + 1, dtype=np.int32)), shape=(size, n))


def merged(Y: csr_array, cluster_of: np.ndarray, n: int) -> csr_array:
    """Turn labels of points into clusters of points, (N, n): a cluster is correct if one of its labels is."""
    summed = csr_array(Y @ indicator(cluster_of, n))
    summed.sum_duplicates()
    return ones_like(
        csr_array((summed.data, summed.indices.astype(np.int32), summed.indptr.astype(np.int32)), summed.shape)
    )
