"""Text to TF-IDF, beside scikit-learn's TfidfVectorizer, whose result ours equals."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

import longtail
from benchmarks.micro.timing import Figure, best_in_turn
from longtail.data.text import TextVectorizer


def check_equal(ours: csr_array, theirs: Any) -> None:
    """Refuse to time two different results."""
    theirs.sort_indices()
    np.testing.assert_array_equal(ours.indptr, theirs.indptr)
    np.testing.assert_array_equal(ours.indices, theirs.indices)
    np.testing.assert_allclose(ours.data, theirs.data, rtol=1e-5)


def measure() -> list[Figure]:
    """Compare fitting all titles of the demo data, and transforming one title."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = longtail.read(longtail.DEMO).texts
    assert texts is not None
    ours, theirs = TextVectorizer(n_jobs=1), TfidfVectorizer(dtype=np.float32)
    check_equal(ours.fit_transform(texts), theirs.fit_transform(texts))
    seconds = best_in_turn(
        3,
        {
            "ours": lambda: TextVectorizer(n_jobs=1).fit_transform(texts),
            "theirs": lambda: TfidfVectorizer(dtype=np.float32).fit_transform(texts),
        },
    )
    figures = [Figure("TF-IDF", "scikit-learn", f"fit {len(texts):,} titles", seconds["ours"], seconds["theirs"])]
    seconds = best_in_turn(
        200, {"ours": lambda: ours.transform(texts[:1]), "theirs": lambda: theirs.transform(texts[:1])}
    )
    return [*figures, Figure("TF-IDF", "scikit-learn", "transform one title", seconds["ours"], seconds["theirs"])]
