"""Training of DXML: label vectors, the networks, and the choice of how neighbours vote."""

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

VOTE_GRID: dict[str, tuple[float, ...]] = {  # what a vote is chosen from
    "n_neighbors": (10, 20, 40, 60, 100),
    "sharpness": (0.0, 4.0, 8.0, 12.0, 16.0, 24.0),
    "feature_weight": (0.0, 0.5, 1.0, 2.0),
    "label_weight": (0.0, 1.5, 3.0, 5.0),
}
_LEAST_WALKS = 20_000  # walks in all at least, for few labels


def count_networks(settings: Any, n_points: int) -> int:
    """Return the number of networks: with few points each leaves more open, and costs less."""
    return settings.n_networks or (6 if n_points < FEW else 3)


def walk_settings(settings: Any, n_labels: int, seed: int) -> WalkSettings:
    """Return the settings of DeepWalk for a graph of so many labels."""
    n_walks = settings.n_walks or max(10, -(-_LEAST_WALKS // n_labels))
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
    """Return label vectors for each network, from walks of its own on one graph."""
    walks = [walk_settings(settings, graph.shape[0], seed + 1000 * number) for number in range(n_networks)]
    jobs = n_jobs if n_networks == 1 else 1  # several are learnt at once, each on a thread of its own
    return pool.run(lambda one: learn_vectors(graph, one, cache, jobs), walks, n_jobs)


def network_settings(settings: Any, n_points: int, n_jobs: int | None) -> RegressionSettings:
    """Return the settings of the networks for so many points."""
    hidden = settings.hidden or (512 if n_points < FEW else 256)
    steps = settings.optimizer, settings.decay, n_jobs, settings.summed, settings.unit_targets
    return RegressionSettings(hidden, settings.relu, settings.dropout, *steps)


def bytes_needed(settings: Any, X: csr_array, Y: csr_array, with_graph: bool) -> float:
    """Estimate the memory of training: networks, points and labels under search, and the label graph."""
    n_networks = count_networks(settings, X.shape[0])
    width = n_networks * settings.dim
    needed = n_networks * RegressionNetwork.bytes_needed(X.shape[1], network_settings(settings, X.shape[0], 1))
    needed += 4 * width * (2 * X.shape[0] + 2 * Y.shape[1])  # points under search, and label vectors
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
        Of :meth:`longtail.models.dxml.DXML.settings`.
    points : tuple of (X, rows, Y)
        Points, the rows to train on and their labels; see :class:`RegressionLearner`.
    vectors : list of array, (L, l)
        Label vectors of each network.
    held : tuple of csr_array, optional
        Held-out points.
    loop : LoopSettings
        How long and how fast to train.
    identity : str
        Of the checkpoint.
    before : list of dict of arrays, optional
        Networks to continue from.

    Returns
    -------
    networks, history : list of dict of arrays, list of dict
    """
    X, rows, Y = points
    rng = np.random.default_rng([settings.seed, loop.seed])
    jobs = settings.n_jobs if len(vectors) == 1 else 1  # several are trained at once, each on a thread of its own
    own = network_settings(settings, X.shape[0], jobs)
    if before:
        own = replace(own, hidden=before[0]["W1"].shape[1])
    networks = [RegressionNetwork(X.shape[1], vectors[0].shape[1], own, rng) for _ in vectors]
    for network, tables in zip(networks, before or [], strict=False):
        network.adopt_tables(tables)
    learner = RegressionLearner(networks, vectors, X, rows, Y, held, settings.input_dropout, settings.n_jobs)
    history = train(learner, len(rows), loop, identity)
    return [network.tables for network in networks], history


def settle_vote(
    points: np.ndarray,
    labels: csr_array,
    vectors: np.ndarray,
    features: csr_array,
    held: tuple[np.ndarray, csr_array, csr_array] | None,
    settings: Any,
) -> VotingPoints:
    """Put points under search and choose how they vote.

    Parameters
    ----------
    points, labels, vectors, features
        See :class:`VotingPoints`; features of any length.
    held : tuple of (points, labels, features), optional
        Held-out points to choose on.
    settings : namespace
        The parameters of :class:`Vote`, None for those that are to be chosen; `n_partitions`, `n_probe` and `recall`
        of the index, `seed` and `n_jobs`.
    """
    given = {name: value for name in VOTE_GRID if (value := getattr(settings, name)) is not None}
    features = frozen_csr(unit_rows(features))
    made = VotingPoints(make_index(points, "ip", "exact"), labels, vectors, replace(Vote(), **given), features)
    if held is not None:
        made.vote, made.tried = choose_vote(made, held, given, settings.n_jobs)
    if made.vote.feature_weight == 0:
        made.features = None
    kind = "auto" if settings.n_partitions is None else "ivf" if settings.n_partitions > 1 else "exact"
    if kind != "exact":
        made.index = make_index(
            points,
            "ip",
            kind,
            n_partitions=settings.n_partitions,
            n_probe=settings.n_probe,
            recall=settings.recall,
            recall_k=made.vote.n_searched,
            queries=held and held[0],
            random_state=settings.seed,
            n_jobs=settings.n_jobs,
        )
    return made


def choose_vote(
    made: VotingPoints,
    held: tuple[np.ndarray, csr_array, csr_array],
    given: dict[str, Any],
    n_jobs: int | None,
) -> tuple[Vote, list[dict[str, float]]]:
    """Choose the vote that ranks labels of held-out points best, by the mean of nDCG at 1, 3 and 5.

    Parameters are chosen in turn, twice round, each with the others as they are: a full grid would find little more. A
    value is left only for one that is better by more than chance explains.

    Returns
    -------
    vote, tried : Vote, list of dict
        The choice, and every vote that was tried with its nDCG.
    """
    points, labels, features = held
    most = 2 * int(max([*VOTE_GRID["n_neighbors"], given.get("n_neighbors", 1)]))
    near = Nearest(*made.index.search(points, min(most, len(made.index)), n_jobs=n_jobs))
    qualities: dict[Vote, float] = {}

    def quality(vote: Vote) -> float:
        if vote not in qualities:
            scores = made.count_votes(vote, points, features, near, min(5, labels.shape[1]), n_jobs)
            metrics = evaluate(labels, scores, train_Y=made.labels, ks=(1, 3, 5))
            qualities[vote] = (metrics["nDCG@1"] + metrics["nDCG@3"] + metrics["nDCG@5"]) / 3
        return qualities[vote]

    best, margin = made.vote, 8 / np.sqrt(len(points))
    for _ in range(2):
        for name, values in VOTE_GRID.items():
            if name not in given:
                changes: list[dict[str, Any]] = [{name: one} for one in values]
                rival = max((replace(best, **change) for change in changes), key=quality)
                best = rival if quality(rival) > quality(best) + margin else best
    return best, [asdict(vote) | {"nDCG": value} for vote, value in qualities.items()]
