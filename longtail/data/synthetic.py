"""Synthetic data of any size that behaves like the real thing: rare labels, topics, label text.

Label frequencies follow a power law. Labels live in topics, and most labels of a point come from one of them. A
point's words are a mixture: words of its labels' own, words of its topic, and words that occur anywhere; words, too,
follow power laws and are shared between labels and between topics. A label's text is made of its own words. Hence
frequent labels can be learnt from their points, and rare ones from their text or from their topic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from longtail.data.dataset import Dataset
from longtail.data.vocabulary import SAME_COLUMNS, Counted, canonical, frozen, n_threads, on_threads, weigh_blocks
from longtail.errors import SettingsError
from longtail.kernels import synthetic as kernels
from longtail.kernels.text import tally

BLOCK_ROWS = 1 << 14
COHERENCE = 0.8  # share of a point's further labels that come from its topic
SHARES = (0.2, 0.4)  # of a point's words: from its labels' own, from its topic; the rest come from anywhere
WORDS_PER_LABEL = 4
LABEL_WORD_POWER = 0.7  # own words of labels are spread wider over the vocabulary than words in general


def make(
    n_points: int = 10_000,
    n_features: int = 20_000,
    n_labels: int = 2_000,
    *,
    labels_per_point: float = 5,
    words_per_point: float = 50,
    power: float = 1.0,
    n_topics: int | None = None,
    test_fraction: float = 0.2,
    label_text: bool = True,
    random_state: Any = 0,
    n_jobs: int = -1,
) -> Dataset:
    """Make a dataset with a test part.

    Parameters
    ----------
    n_points, n_features, n_labels : int
        Training points, words and labels. Every label has a training point if there are as many points as labels.
    labels_per_point, words_per_point : float
        Means; each point has at least one of either. Words are counted with repetitions.
    power : float, default=1.0
        The label of rank r is drawn at odds of r ** -power; 0 makes all equally frequent.
    n_topics : int, optional
        Number of topics; by default the square root of the number of labels.
    test_fraction : float, default=0.2
        Test points, made in addition, as a share of ``n_points``; 0 for no test part.
    label_text : bool, default=True
        Whether to make ``Z``.
    random_state : int, Generator or None, default=0
        Seed; None for another dataset each time.
    n_jobs : int, default=-1
        Threads; -1 for one a core. The result does not depend on it.

    Returns
    -------
    Dataset
        Rows of ``X`` and ``Z`` are TF-IDF of unit length.

    Examples
    --------
    >>> data = make(n_points=1000, n_labels=300)
    >>> data.test
    Dataset('synthetic', n_points=200, n_features=20000, n_labels=300, Z)
    """
    n_topics = max(1, round(max(n_labels, 1) ** 0.5)) if n_topics is None else n_topics
    for name, value in {
        "n_points": n_points,
        "n_features": n_features,
        "n_labels": n_labels,
        "n_topics": n_topics,
        "labels_per_point": labels_per_point,
        "words_per_point": words_per_point,
    }.items():
        if not 1 <= value < 2**31:
            raise SettingsError(f"{name}={value} must be at least 1 and below 2**31")
    if power < 0 or test_fraction < 0:
        raise SettingsError(f"power={power} and test_fraction={test_fraction} must not be negative")
    rng = np.random.default_rng(random_state)
    n_test = round(test_fraction * n_points)
    world = _World(rng, n_features, n_labels, n_topics, power, n_threads(n_jobs))

    # As far as there are training points, each label is the first one of some point.
    given = np.full(n_points, -1, np.int32)
    covered = min(n_points, n_labels)
    given[rng.permutation(n_points)[:covered]] = rng.permutation(n_labels)[:covered]
    Y, words = world.points(given, labels_per_point, words_per_point)

    frequency = np.zeros(n_features, np.int64)
    for block in words:
        tally(block[1], frequency)
    idf = frozen((np.log((1 + n_points) / (1 + frequency)) + 1).astype(np.float32))
    Z = world.tf_idf(world.label_words(), idf) if label_text else None
    train = Dataset(X=world.tf_idf(words, idf), Y=Y, Z=Z, name="synthetic")
    if n_test:
        Y, words = world.points(np.full(n_test, -1, np.int32), labels_per_point, words_per_point)
        train.test = Dataset(X=world.tf_idf(words, idf), Y=Y, Z=Z, name="synthetic")
    return train


class _World:
    """What all points share: topics and weights of the labels, words of the topics and of the labels."""

    def __init__(
        self, rng: np.random.Generator, n_features: int, n_labels: int, n_topics: int, power: float, threads: int
    ) -> None:
        self.rng, self.n_features, self.n_labels, self.threads = rng, n_features, n_labels, threads
        # A label's number says nothing about its topic or its rank, nor a word's about its frequency.
        self.topic = rng.integers(n_topics, size=n_labels, dtype=np.int32)
        weight = (rng.permutation(n_labels) + 1.0) ** -power
        self.by_topic = np.argsort(self.topic, kind="stable").astype(np.int32)
        self.topic_starts = np.searchsorted(self.topic[self.by_topic], np.arange(n_topics + 1))
        self.cumulated = np.concatenate(([0.0], np.cumsum(weight[self.by_topic])))
        self.by_rank = rng.permutation(n_features).astype(np.int32)
        self.topic_words = min(n_features, max(8, n_features // 50))
        seed = rng.integers(2**62)
        self.own = np.concatenate(
            self._in_blocks(
                lambda a, b: kernels.words_of_labels(
                    a, b, self.topic, WORDS_PER_LABEL, self.by_rank, self.topic_words, LABEL_WORD_POWER, seed
                ),
                n_labels,
            )
        )  # (L, WORDS_PER_LABEL)

    def points(
        self, given: np.ndarray, labels_per_point: float, words_per_point: float
    ) -> tuple[csr_array, list[Counted]]:
        """Labels and counted words of some points, whose first labels may be given."""
        n = given.size
        seeds = self.rng.integers(2**62, size=2)
        n_labels = np.minimum(1 + self.rng.poisson(labels_per_point - 1, n), self.n_labels)
        n_words = 1 + self.rng.poisson(words_per_point - 1, n)
        parts = self._in_blocks(
            lambda a, b: kernels.labels_of_points(
                a, b, n_labels, given, self.topic, self.by_topic, self.topic_starts, self.cumulated, COHERENCE, seeds[0]
            ),
            n,
        )
        indptr = np.concatenate(([0], np.cumsum(np.concatenate([np.diff(part[0]) for part in parts]))))
        labels = np.concatenate([part[1] for part in parts])
        topics = np.concatenate([part[2] for part in parts])
        words = self._in_blocks(
            lambda a, b: kernels.words_of_points(
                a, b, n_words, indptr, labels, topics, self.own, self.by_rank, self.topic_words, SHARES, seeds[1]
            ),
            n,
        )
        return canonical(np.ones(labels.size, np.float32), labels, indptr, self.n_labels), words

    def label_words(self) -> list[Counted]:
        """Counted words of the labels."""
        indptr = np.arange(self.n_labels + 1) * self.own.shape[1]
        counts = csr_array((np.ones(self.own.size, np.int32), self.own.ravel(), indptr), dtype=np.int32, copy=True)
        counts.sum_duplicates()
        return [(counts.indptr.astype(np.int64), counts.indices.astype(np.int32), counts.data)]

    def tf_idf(self, words: list[Counted], idf: np.ndarray) -> csr_array:
        """Rows of unit length, of some counted words."""
        columns = [SAME_COLUMNS] * len(words)
        return weigh_blocks(words, columns, idf, False, self.n_features, min(self.threads, len(words)))

    def _in_blocks(self, make_rows: Callable[[int, int], Any], n: int) -> list[Any]:
        """``make_rows(first, stop)`` for blocks of the n rows, on threads."""
        starts = range(0, n, BLOCK_ROWS)
        return on_threads(lambda a: make_rows(a, min(a + BLOCK_ROWS, n)), starts, min(self.threads, len(starts)))
