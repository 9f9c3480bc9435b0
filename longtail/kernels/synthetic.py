"""Kernels of the synthetic data generator: labels of points, words of labels, words of points.

Every row draws from its own stream of random numbers, begun from the seed and the row, so that rows can be made in any
order and by any number of threads.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from longtail.kernels.terms import GOLDEN, MIX
from longtail.kernels.text import fold_repeats

_HALF, _DOWN = np.uint64(32), np.uint64(11)
_UNIT = 1.0 / (1 << 53)
_TRIES = 8  # draws for a label that a point does not have yet, before it goes with fewer


@njit(cache=True, nogil=True)
def _mix(x: np.uint64) -> np.uint64:
    x = (x ^ (x >> _HALF)) * MIX
    x = (x ^ (x >> _HALF)) * GOLDEN
    return x ^ (x >> _HALF)


@njit(cache=True, nogil=True)
def _stream(seed: int, row: int) -> np.uint64:
    """First state of a row's stream."""
    return _mix(np.uint64(seed) + _mix(np.uint64(row) + GOLDEN))


@njit(cache=True, nogil=True)
def _next(state: np.uint64) -> tuple[np.uint64, float]:
    """Next state, and a number from 0 to below 1."""
    state = state + GOLDEN
    return state, np.float64(_mix(state) >> _DOWN) * _UNIT


@njit(cache=True, nogil=True)
def _power_law(u: float, n: int, exponent: float) -> int:
    """Rank from 0 to n - 1 at about (rank + 1) ** -exponent odds, for u from 0 to below 1: the law's inverse."""
    if abs(exponent - 1.0) < 1e-9:
        rank = (n + 1.0) ** u
    else:
        rest = 1.0 - exponent
        rank = (1.0 + u * ((n + 1.0) ** rest - 1.0)) ** (1.0 / rest)
    return min(int(rank), n) - 1


@njit(cache=True, nogil=True)
def _topic_word(topic: int, rank: int, n_words: int) -> int:
    """The word of some rank in a topic: scattered over the vocabulary, where it meets other topics' words."""
    return np.int64(_mix(np.uint64(topic) * MIX + np.uint64(rank)) % np.uint64(n_words))  # type: ignore[return-value]


@njit(cache=True, nogil=True)
def words_of_labels(
    first: int,
    stop: int,
    topic: np.ndarray,
    n_own: int,
    by_rank: np.ndarray,
    topic_words: int,
    exponent: float,
    seed: int,
) -> np.ndarray:
    """Own words of labels ``first`` to ``stop``: one of their topic, the others from all over the vocabulary.

    Parameters
    ----------
    topic : (L,) int
        Topic of each label.
    n_own : int
        Own words of a label.
    by_rank : (D,) int32
        The words by descending frequency.
    topic_words : int
        Words of a topic.
    exponent : float
        Of the power law that the other words follow.

    Returns
    -------
    own : (stop - first, n_own) int32
    """
    own = np.empty((stop - first, n_own), np.int32)
    for label in range(first, stop):
        state = _stream(seed, label)
        for j in range(n_own):
            state, u = _next(state)
            if j == 0:
                own[label - first, j] = _topic_word(topic[label], _power_law(u, topic_words, 1.0), by_rank.size)
            else:
                own[label - first, j] = by_rank[_power_law(u, by_rank.size, exponent)]
    return own


@njit(cache=True, nogil=True)
def labels_of_points(
    first: int,
    stop: int,
    n_wanted: np.ndarray,
    given: np.ndarray,
    topic: np.ndarray,
    by_topic: np.ndarray,
    topic_starts: np.ndarray,
    cumulated: np.ndarray,
    coherence: float,
    seed: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels of points ``first`` to ``stop``.

    The first label of a point is given, or drawn from all labels; it sets the point's topic. Each further one is drawn
    from the topic with probability ``coherence``, else from all.

    Parameters
    ----------
    n_wanted : (N,) int
        Labels of each point.
    given : (N,) int
        First label of each point, -1 to draw one.
    topic, by_topic, topic_starts : arrays
        Topic of each label (L,), the labels ordered by topic (L,), and where each topic begins there (T + 1,).
    cumulated : (L + 1,) float64
        Cumulated weights of the labels in the order of ``by_topic``.

    Returns
    -------
    indptr : (stop - first + 1,) int64
    labels : (nnz,) int32
        Distinct and ascending in each row.
    topics : (stop - first,) int32
        Topic of each point.
    """
    indptr = np.zeros(stop - first + 1, np.int64)
    labels = np.empty(n_wanted[first:stop].sum(), np.int32)
    topics = np.empty(stop - first, np.int32)
    n_labels = by_topic.size
    size = 0
    for point in range(first, stop):
        state = _stream(seed, point)
        begin = size
        low, high = 0, n_labels  # where in by_topic to draw from
        for j in range(n_wanted[point]):
            label = given[point] if j == 0 else np.int64(-1)
            if j > 0:
                state, u = _next(state)
                low, high = 0, n_labels
                if u < coherence:
                    low, high = topic_starts[topics[point - first]], topic_starts[topics[point - first] + 1]
            for _ in range(_TRIES):
                if label >= 0:
                    break
                state, u = _next(state)
                target = cumulated[low] + u * (cumulated[high] - cumulated[low])
                at = low + np.searchsorted(cumulated[low + 1 : high], target, side="right")
                label = by_topic[at]
                for i in range(begin, size):
                    if labels[i] == label:
                        label = -1
                        break
            if label >= 0:
                labels[size] = label
                size += 1
                if j == 0:
                    topics[point - first] = topic[label]
        labels[begin:size].sort()
        indptr[point - first + 1] = size
    return indptr, labels[:size].copy(), topics


@njit(cache=True, nogil=True)
def words_of_points(
    first: int,
    stop: int,
    n_wanted: np.ndarray,
    indptr: np.ndarray,
    labels: np.ndarray,
    topics: np.ndarray,
    own: np.ndarray,
    by_rank: np.ndarray,
    topic_words: int,
    shares: tuple[float, float],
    seed: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counted words of points ``first`` to ``stop``: a mixture of their labels' words, their topic's and anyone's.

    ``indptr`` and ``labels`` are the points' labels, ``topics`` their topics, ``own`` (L, n_own) the labels' words;
    ``shares`` the labels' and the topic's share of the mixture.
    Returns what ``longtail.kernels.text.match_block`` does: indptr, distinct ids of each row, counts.
    """
    out_indptr = np.zeros(stop - first + 1, np.int64)
    ids = np.empty(n_wanted[first:stop].sum(), np.int32)
    counts = np.empty(ids.size, np.int32)
    bag = np.empty(64, np.int32)
    from_labels, from_topic = shares
    for point in range(first, stop):
        state = _stream(seed, point)
        begin = out_indptr[point - first]
        n_own_labels = indptr[point + 1] - indptr[point]
        for i in range(begin, begin + n_wanted[point]):
            state, source = _next(state)
            state, u = _next(state)
            if source < from_labels:
                pick = int(u * n_own_labels * own.shape[1])
                label = labels[indptr[point] + pick // own.shape[1]]
                ids[i] = own[label, pick % own.shape[1]]
            elif source < from_labels + from_topic:
                ids[i] = _topic_word(topics[point], _power_law(u, topic_words, 1.0), by_rank.size)
            else:
                ids[i] = by_rank[_power_law(u, by_rank.size, 1.0)]
        end, bag = fold_repeats(ids, counts, begin, begin + n_wanted[point], bag)
        out_indptr[point - first + 1] = end
    size = out_indptr[stop - first]
    return out_indptr, ids[:size].copy(), counts[:size].copy()
