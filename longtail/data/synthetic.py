"""Make synthetic data of any size that resembles real data: with rare labels, topics and label text.

Label frequencies follow a power law. Each label belongs to a topic, and most labels of a point come from one topic. The
words of a point are a mixture: some come from its labels, some from its topic, and the rest from all words. Words
follow power laws, too, and are shared between labels and between topics. The text of a label consists of its own words.
Frequent labels can thus be learnt from their points, and rare ones from their text or their topic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from longtail.data.dataset import Dataset
from longtail.data.vocabulary import SAME_COLUMNS, sorted_csr, weighted_rows
from longtail.errors import SettingsError
from longtail.kernels import pool
from longtail.kernels import synthetic as kernels
from longtail.kernels.text import Counted, count_documents
from longtail.params import LARGEST, NOT_NEGATIVE, Constraint, Integer, Jobs, Number, Seed, optional, seed_of
from longtail.sparse import frozen

BLOCK_ROWS = 1 << 14
COHERENCE = 0.8  # probability that a further label of a point comes from its topic
SHARES = (0.2, 0.4)  # fractions of a point's words that come from its labels and from its topic
WORDS_PER_LABEL = 4
LABEL_WORD_POWER = 0.7  # exponent for the words of labels: lower than for other words, so that more of them are rare
_CONSTRAINTS: dict[str, Constraint] = {
    "n_points": Integer(1),
    "n_features": Integer(1),
    "n_labels": Integer(1),
    "n_topics": optional(Integer(1)),
    "labels_per_point": Number(1, LARGEST),
    "words_per_point": Number(1, LARGEST),
    "power": NOT_NEGATIVE,
    "test_fraction": NOT_NEGATIVE,
    "random_state": Seed(),
    "n_jobs": Jobs(),
}


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
    n_jobs: int | None = None,
) -> Dataset:
    """Make a dataset with a test part.

    Parameters
    ----------
    n_points, n_features, n_labels : int
        Numbers of training points, words and labels. Every label has a training point if there are at least as many
        points as labels.
    labels_per_point, words_per_point : float
        Mean numbers per point. Each point has at least one label and one word. Repeated words are counted.
    power : float, default=1.0
        The label of rank r is drawn with a probability proportional to r ** -power. 0 makes all labels equally
        frequent.
    n_topics : int, optional
        Number of topics; by default the square root of the number of labels.
    test_fraction : float, default=0.2
        Number of test points, as a fraction of ``n_points``. They are made in addition; 0 makes no test part.
    label_text : bool, default=True
        Whether to make ``Z``, the features of the label texts.
    random_state : None, int, Generator or RandomState, default=0
        Seed. None makes another dataset at each call.
    n_jobs : int, optional
        Number of threads; None or -1 for all cores. The result does not depend on it.

    Returns
    -------
    Dataset
        Rows of ``X`` and ``Z`` are TF-IDF weights of unit length.

    Examples
    --------
    >>> data = make(n_points=1000, n_labels=300)
    >>> data.test
    Dataset('synthetic', n_points=200, n_features=20000, n_labels=300, Z)
    """
    for name, value in {
        "n_points": n_points,
        "n_features": n_features,
        "n_labels": n_labels,
        "n_topics": n_topics,
        "labels_per_point": labels_per_point,
        "words_per_point": words_per_point,
        "power": power,
        "test_fraction": test_fraction,
        "random_state": random_state,
        "n_jobs": n_jobs,
    }.items():
        if not _CONSTRAINTS[name].allows(value):
            raise SettingsError(f"{name} is {value!r}; give {_CONSTRAINTS[name]}")
    n_topics = max(1, round(n_labels**0.5)) if n_topics is None else n_topics
    if isinstance(random_state, np.random.RandomState):
        random_state = seed_of(random_state)
    rng = np.random.default_rng(random_state)
    n_test = round(test_fraction * n_points)
    world = _World(rng, n_features, n_labels, n_topics, power, n_jobs)

    # Make each label the first label of one point, as far as there are enough points.
    first_labels = np.full(n_points, -1, np.int32)
    covered = min(n_points, n_labels)
    first_labels[rng.permutation(n_points)[:covered]] = rng.permutation(n_labels)[:covered]
    Y, words = world.points(first_labels, labels_per_point, words_per_point)

    frequency = np.zeros(n_features, np.int64)
    for block in words:
        count_documents(block.ids, frequency)
    idf = frozen((np.log((1 + n_points) / (1 + frequency)) + 1).astype(np.float32))
    Z = world.tf_idf(world.label_words(), idf) if label_text else None
    train = Dataset(X=world.tf_idf(words, idf), Y=Y, Z=Z, name="synthetic")
    if n_test:
        Y, words = world.points(np.full(n_test, -1, np.int32), labels_per_point, words_per_point)
        train.test = Dataset(X=world.tf_idf(words, idf), Y=Y, Z=Z, name="synthetic")
    return train


class _World:
    """The distributions from which all points are drawn: topics and weights of labels, words of topics and labels."""

    def __init__(
        self,
        rng: np.random.Generator,
        n_features: int,
        n_labels: int,
        n_topics: int,
        power: float,
        n_jobs: int | None,
    ) -> None:
        self.rng, self.n_features, self.n_labels, self.n_jobs = rng, n_features, n_labels, n_jobs
        # The number of a label is independent of its topic and frequency, and that of a word of its frequency.
        topic = rng.integers(n_topics, size=n_labels, dtype=np.int32)
        weight = (rng.permutation(n_labels) + 1.0) ** -power
        by_topic = np.argsort(topic, kind="stable").astype(np.int32)
        starts = np.searchsorted(topic[by_topic], np.arange(n_topics + 1))
        self.labels = kernels.LabelTopics(topic, by_topic, starts, np.concatenate(([0.0], np.cumsum(weight[by_topic]))))
        by_rank = rng.permutation(n_features).astype(np.int32)
        self.words = kernels.WordSource(by_rank, min(n_features, max(8, n_features // 50)))
        seed = rng.integers(2**62)
        self.own = np.concatenate(
            self._in_blocks(
                lambda rows: kernels.words_of_labels(rows, topic, WORDS_PER_LABEL, self.words, LABEL_WORD_POWER, seed),
                n_labels,
            )
        )  # (L, WORDS_PER_LABEL)

    def points(
        self, first_labels: np.ndarray, labels_per_point: float, words_per_point: float
    ) -> tuple[csr_array, list[Counted]]:
        """Draw the labels and count the words of points. Their first labels are given, or -1 to draw them, too."""
        n = first_labels.size
        seeds = self.rng.integers(2**62, size=2)
        n_labels = np.minimum(1 + self.rng.poisson(labels_per_point - 1, n), self.n_labels)
        n_words = 1 + self.rng.poisson(words_per_point - 1, n)
        parts = self._in_blocks(
            lambda rows: kernels.labels_of_points(rows, n_labels, first_labels, self.labels, COHERENCE, seeds[0]), n
        )
        drawn = kernels.PointLabels(
            np.concatenate(([0], np.cumsum(np.concatenate([np.diff(part.indptr) for part in parts])))),
            np.concatenate([part.labels for part in parts]),
            np.concatenate([part.topics for part in parts]),
        )
        words = self._in_blocks(
            lambda rows: kernels.words_of_points(rows, n_words, drawn, self.own, self.words, SHARES, seeds[1]), n
        )
        ones = np.ones(drawn.labels.size, np.float32)
        return sorted_csr(ones, drawn.labels, drawn.indptr, self.n_labels), words

    def label_words(self) -> list[Counted]:
        """Count the words of the labels."""
        indptr = np.arange(self.n_labels + 1) * self.own.shape[1]
        counts = csr_array((np.ones(self.own.size, np.int32), self.own.ravel(), indptr), dtype=np.int32, copy=True)
        counts.sum_duplicates()
        return [Counted(counts.indptr.astype(np.int64), counts.indices.astype(np.int32), counts.data)]

    def tf_idf(self, words: list[Counted], idf: np.ndarray) -> csr_array:
        """Return the TF-IDF rows of counted words, scaled to unit length."""
        return weighted_rows(words, [SAME_COLUMNS] * len(words), idf, False, self.n_features, self.n_jobs)

    def _in_blocks(self, make_rows: Callable[[tuple[int, int]], Any], n: int) -> list[Any]:
        """Return ``make_rows((first, stop))`` for all blocks of the n rows, computed by several threads."""
        bounds = [(first, min(first + BLOCK_ROWS, n)) for first in range(0, n, BLOCK_ROWS)]
        return pool.run(make_rows, bounds, self.n_jobs)
