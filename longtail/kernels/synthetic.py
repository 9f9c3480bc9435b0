"""Kernels of the synthetic data generator: draw the labels of points, the words of labels and the words of points.

Every row has its own stream of random numbers, which depends only on the seed and the row number. Rows can thus be made
in any order and by any number of threads.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from longtail.kernels.compiling import njit
from longtail.kernels.terms import GOLDEN, MIX
from longtail.kernels.text import Counted, fold_repeats

_HALF, _DOWN = np.uint64(32), np.uint64(11)
_STEP = 1.0 / (1 << 53)
_TRIES = 8  # attempts to draw a label that a point does not have yet; if all fail, it gets one label fewer


class LabelTopics(NamedTuple):
    """The topics of the labels, and the labels in the order of their topics."""

    topic: np.ndarray  # (L,): the topic of each label
    by_topic: np.ndarray  # (L,): the labels, ordered by topic
    starts: np.ndarray  # (T + 1,): where each topic begins in by_topic
    cumulated: np.ndarray  # (L + 1,) float64: cumulated weights of the labels in the order of by_topic


class PointLabels(NamedTuple):
    """The labels of points, ascending in each row, and the topic of each point."""

    indptr: np.ndarray
    labels: np.ndarray
    topics: np.ndarray


class WordSource(NamedTuple):
    """The words of the vocabulary by descending frequency, (D,) int32, and the number of words of a topic."""

    by_rank: np.ndarray
    topic_words: int


@njit(cache=True, nogil=True)
def _mix(x: np.uint64) -> np.uint64:
    x = (x ^ (x >> _HALF)) * MIX
    x = (x ^ (x >> _HALF)) * GOLDEN
    return x ^ (x >> _HALF)


@njit(cache=True, nogil=True)
def _stream(seed: int, row: int) -> np.uint64:
    """Return the first state of the stream of a row."""
    return _mix(np.uint64(seed) + _mix(np.uint64(row) + GOLDEN))


@njit(cache=True, nogil=True)
def _draw(state: np.uint64) -> tuple[np.uint64, float]:
    """Return the next state, and a number from 0 to below 1."""
    state = state + GOLDEN
    return state, np.float64(_mix(state) >> _DOWN) * _STEP


@njit(cache=True, nogil=True, no_cpython_wrapper=False)
def _power_law(u: float, n: int, exponent: float) -> int:
    """Map u, from 0 to below 1, to a rank from 0 to n - 1 with probability proportional to (rank + 1) ** -exponent."""
    if abs(exponent - 1.0) < 1e-9:
        rank = (n + 1.0) ** u
    else:
        rest = 1.0 - exponent
        rank = (1.0 + u * ((n + 1.0) ** rest - 1.0)) ** (1.0 / rest)
    return min(int(rank), n) - 1


@njit(cache=True, nogil=True)
def _topic_word(topic: int, rank: int, n_words: int) -> int:
    """Return the word at a rank of a topic. Words are scattered over the vocabulary, so that topics share some."""
    return np.int64(_mix(np.uint64(topic) * MIX + np.uint64(rank)) % np.uint64(n_words))  # type: ignore[return-value]


@njit(cache=True, nogil=True)
def words_of_labels(
    rows: tuple[int, int], topic: np.ndarray, n_own: int, words: WordSource, exponent: float, seed: int
) -> np.ndarray:
    """Draw the words of each label: one from the topic of the label, the others from the whole vocabulary.

    Parameters
    ----------
    rows : (int, int)
        First label, and the one after the last.
    topic : (L,) int
        Topic of each label.
    n_own : int
        Number of words per label.
    words : WordSource
        The vocabulary.
    exponent : float
        Exponent of the power law of the other words.
    seed : int
        Seed of the streams.

    Returns
    -------
    own : (stop - first, n_own) int32
    """
    first, stop = rows
    by_rank, topic_words = words
    own = np.empty((stop - first, n_own), np.int32)
    for label in range(first, stop):
        state = _stream(seed, label)
        for j in range(n_own):
            state, u = _draw(state)
            if j == 0:
                own[label - first, j] = _topic_word(topic[label], _power_law(u, topic_words, 1.0), by_rank.size)
            else:
                own[label - first, j] = by_rank[_power_law(u, by_rank.size, exponent)]
    return own


@njit(cache=True, nogil=True)
def labels_of_points(
    rows: tuple[int, int], n_wanted: np.ndarray, given: np.ndarray, labels_by: LabelTopics, coherence: float, seed: int
) -> PointLabels:
    """Draw the labels of points.

    The first label of a point is given, or drawn from all labels, and determines the topic of the point. Each further
    label is drawn from that topic with probability ``coherence``, and otherwise from all labels.

    Parameters
    ----------
    rows : (int, int)
        First point, and the one after the last.
    n_wanted : (N,) int
        Number of labels per point.
    given : (N,) int
        First label of each point, -1 to draw one.
    labels_by : LabelTopics
        The labels.
    coherence : float
        Probability that a further label comes from the topic.
    seed : int
        Seed of the streams.
    """
    first, stop = rows
    topic, by_topic, topic_starts, cumulated = labels_by
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
                state, u = _draw(state)
                low, high = 0, n_labels
                if u < coherence:
                    low, high = topic_starts[topics[point - first]], topic_starts[topics[point - first] + 1]
            for _ in range(_TRIES):
                if label >= 0:
                    break
                state, u = _draw(state)
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
    return PointLabels(indptr, labels[:size].copy(), topics)


@njit(cache=True, nogil=True)
def words_of_points(
    rows: tuple[int, int],
    n_wanted: np.ndarray,
    points: PointLabels,
    own: np.ndarray,
    words: WordSource,
    shares: tuple[float, float],
    seed: int,
) -> Counted:
    """Draw and count the words of points: a mixture of words of their labels, words of their topic, and all words.

    Parameters
    ----------
    rows : (int, int)
        First point, and the one after the last.
    n_wanted : (N,) int
        Number of words per point.
    points : PointLabels
        Labels and topics of all points.
    own : (L, n_own) int32
        The words of each label.
    words : WordSource
        The vocabulary.
    shares : (float, float)
        Shares of the words that come from the labels and from the topic.
    seed : int
        Seed of the streams.
    """
    first, stop = rows
    indptr, labels, topics = points
    by_rank, topic_words = words
    out_indptr = np.zeros(stop - first + 1, np.int64)
    ids = np.empty(n_wanted[first:stop].sum(), np.int32)
    counts = np.empty(ids.size, np.int32)
    longest = 0
    for point in range(first, stop):
        longest = max(longest, n_wanted[point])
    bag = np.empty(4 * longest + 64, np.int32)  # at least `bag_size`
    from_labels, from_topic = shares
    for point in range(first, stop):
        state = _stream(seed, point)
        begin = out_indptr[point - first]
        n_own_labels = indptr[point + 1] - indptr[point]
        for i in range(begin, begin + n_wanted[point]):
            state, source = _draw(state)
            state, u = _draw(state)
            if source < from_labels:
                pick = int(u * n_own_labels * own.shape[1])
                label = labels[indptr[point] + pick // own.shape[1]]
                ids[i] = own[label, pick % own.shape[1]]
            elif source < from_labels + from_topic:
                ids[i] = _topic_word(topics[point], _power_law(u, topic_words, 1.0), by_rank.size)
            else:
                ids[i] = by_rank[_power_law(u, by_rank.size, 1.0)]
        out_indptr[point - first + 1] = fold_repeats(ids, counts, begin, begin + n_wanted[point], bag)
    size = out_indptr[stop - first]
    return Counted(out_indptr, ids[:size].copy(), counts[:size].copy())
