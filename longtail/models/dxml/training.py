"""Training of DXML: learn label vectors, train the networks, choose the rule by which neighbours vote."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from longtail.data.split import FEW
from longtail.index import make_index
from longtail.kernels import pool
from longtail.kernels.dense_knn import Nearest
from longtail.metrics import evaluate
from longtail.models.dxml.deepwalk import WalkSettings, learn_vectors
from longtail.models.dxml.knn_vote import Vote, VotingPoints
from longtail.models.dxml.label_graph import pairs_at_most
from longtail.models.dxml.regression import RegressionLearner, RegressionNetwork, RegressionSettings
from longtail.neural.loop import LoopSettings, train
from longtail.sparse import Arrays, frozen_csr, unit_rows

if TYPE_CHECKING:
    from longtail.sparse import Pair

VOTE_GRID: dict[str, tuple[float, ...]] = {  # values to choose from
    "n_neighbors": (10, 20, 40, 60, 100),
    "sharpness": (0.0, 4.0, 8.0, 12.0, 16.0, 24.0),
    "feature_weight": (0.0, 0.5, 1.0, 2.0),
    "label_weight": (0.0, 1.5, 3.0, 5.0),
}
_FEWEST_WALKS = 20_000  # in all; if labels are few, there are more walks from each


def count_networks(settings: Any, n_points: int) -> int:
    """Return the number of networks: more if points are few, when one network is less reliable and trains faster."""
    return settings.n_networks or (6 if n_points < FEW else 3)


def walk_settings(settings: Any, n_labels: int, seed: int) -> WalkSettings:
    """Return the settings of DeepWalk for a graph of `n_labels` labels."""
    n_walks = settings.n_walks or max(10, -(-_FEWEST_WALKS // n_labels))
    how = {"hierarchical": settings.hierarchical, "seed": seed}
    return WalkSettings(settings.dim, n_walks, settings.walk_length, settings.window, **how)


def learn_label_vectors(
    graph: csr_array,
    settings: Any,
    n_networks: int,
    seed: int,
    cache: str | os.PathLike[str] | None,
    n_jobs: int | None,
) -> list[np.ndarray]:
    """Return label vectors for each network, learnt from separate walks on the same graph."""
    walks = [walk_settings(settings, graph.shape[0], seed + 1000 * number) for number in range(n_networks)]
    jobs = n_jobs if n_networks == 1 else 1  # several sets of vectors are learnt in parallel, each on one thread
    return pool.run(lambda one: learn_vectors(graph, one, cache, jobs), walks, n_jobs)


def network_settings(settings: Any, n_points: int, n_jobs: int | None) -> RegressionSettings:
    """Return the settings of the networks for `n_points` points."""
    hidden = settings.hidden or (512 if n_points < FEW else 256)
    steps = settings.optimizer, settings.decay, n_jobs, settings.summed, settings.unit_targets
    return RegressionSettings(hidden, settings.relu, settings.dropout, *steps)


def bytes_needed(settings: Any, X: csr_array, Y: csr_array, with_graph: bool) -> float:
    """Estimate the bytes of training: networks, vectors of points and labels, and the label graph."""
    n_networks = count_networks(settings, X.shape[0])
    width = n_networks * settings.dim
    needed = n_networks * RegressionNetwork.bytes_needed(X.shape[1], network_settings(settings, X.shape[0], 1))
    needed += 4 * width * (2 * X.shape[0] + 2 * Y.shape[1])  # vectors of points and labels
    return needed + (24 * pairs_at_most(Y) if with_graph else 0)


def train_networks(
    settings: Any,
    points: tuple[csr_array, np.ndarray, csr_array],
    vectors: list[np.ndarray],
    held: Pair | None,
    loop: LoopSettings,
    identity: str = "",
    before: list[Arrays] | None = None,
) -> tuple[list[Arrays], list[dict[str, float]]]:
    """Train one network towards each set of label vectors.

    Parameters
    ----------
    settings : namespace
        The result of :meth:`longtail.models.dxml.DXML.settings`, and ``seed``.
    points : tuple of (X, rows, Y)
        Points, the rows to train on and their labels; see :class:`RegressionLearner`.
    vectors : list of array, (L, l)
        Label vectors of each network.
    held : tuple of csr_array, optional
        Held-out points and their labels.
    loop : LoopSettings
        How long and how fast to train.
    identity : str
        Fingerprint of data and settings, for the checkpoint.
    before : list of dict of arrays, optional
        Tables of trained networks to continue from.

    Returns
    -------
    networks, history : list of dict of arrays, list of dict
        Tables of each network, and metrics of each epoch.
    """
    X, rows, Y = points
    rng = np.random.default_rng([settings.seed, loop.seed])
    jobs = settings.n_jobs if len(vectors) == 1 else 1  # several networks are trained in parallel, each on one thread
    own = network_settings(settings, X.shape[0], jobs)
    if before:
        own = replace(own, hidden=before[0]["W1"].shape[1])
    networks = [RegressionNetwork(X.shape[1], vectors[0].shape[1], own, rng) for _ in vectors]
    for network, tables in zip(networks, before or [], strict=False):
        network.adopt_tables(tables)
    learner = RegressionLearner(networks, vectors, X, rows, Y, held, settings.input_dropout, settings.n_jobs)
    history = train(learner, len(rows), loop, identity)
    return [network.tables for network in networks], history


def make_voters(
    points: np.ndarray,
    labels: csr_array,
    vectors: np.ndarray,
    features: csr_array,
    held: tuple[np.ndarray, csr_array, csr_array] | None,
    settings: Any,
) -> VotingPoints:
    """Build an index of training points and choose the rule by which they vote.

    Parameters
    ----------
    points, labels, vectors, features
        See :class:`VotingPoints`. Features may have any length.
    held : tuple of (points, labels, features), optional
        Held-out points on which the rule is chosen.
    settings : namespace
        The parameters of :class:`Vote`, with None for those to choose; `n_partitions`, `n_probe` and `recall` of the
        index; `seed` and `n_jobs`.
    """
    given = {name: value for name in VOTE_GRID if (value := getattr(settings, name)) is not None}
    features = frozen_csr(unit_rows(features))
    voters = VotingPoints(make_index(points, "ip", "exact"), labels, vectors, replace(Vote(), **given), features)
    if held is not None:
        voters.vote, voters.tried = choose_vote(voters, held, given, settings.n_jobs)
    if voters.vote.feature_weight == 0:
        voters.features = None
    kind = "auto" if settings.n_partitions is None else "ivf" if settings.n_partitions > 1 else "exact"
    if kind != "exact":
        voters.index = make_index(
            points,
            "ip",
            kind,
            n_partitions=settings.n_partitions,
            n_probe=settings.n_probe,
            recall=settings.recall,
            recall_k=voters.vote.n_searched,
            queries=held and held[0],
            random_state=settings.seed,
            n_jobs=settings.n_jobs,
        )
    return voters


def choose_vote(
    voters: VotingPoints,
    held: tuple[np.ndarray, csr_array, csr_array],
    given: dict[str, Any],
    n_jobs: int | None,
) -> tuple[Vote, list[dict[str, float]]]:
    """Choose the rule of the vote that ranks labels of held-out points best, by the mean of nDCG at 1, 3 and 5.

    The parameters are chosen one after the other, twice, with the others fixed; a full grid would hardly find better
    ones. A value is changed only if the gain is larger than chance explains.

    Returns
    -------
    vote, tried : Vote, list of dict
        The chosen rule, and every rule that was tried with its nDCG.
    """
    points, labels, features = held
    most = 2 * int(max([*VOTE_GRID["n_neighbors"], given.get("n_neighbors", 1)]))
    near = Nearest(*voters.index.search(points, min(most, len(voters.index)), n_jobs=n_jobs))
    qualities: dict[Vote, float] = {}

    def quality(vote: Vote) -> float:
        if vote not in qualities:
            scores = voters.count_votes(vote, points, features, near, min(5, labels.shape[1]), n_jobs)
            metrics = evaluate(labels, scores, train_Y=voters.labels, ks=(1, 3, 5))
            qualities[vote] = (metrics["nDCG@1"] + metrics["nDCG@3"] + metrics["nDCG@5"]) / 3
        return qualities[vote]

    best, margin = voters.vote, 8 / np.sqrt(len(points))
    for _ in range(2):
        for name, values in VOTE_GRID.items():
            if name not in given:
                changes: list[dict[str, Any]] = [{name: value} for value in values]
                rival = max((replace(best, **change) for change in changes), key=quality)
                best = rival if quality(rival) > quality(best) + margin else best
    return best, [asdict(vote) | {"nDCG": value} for vote, value in qualities.items()]
