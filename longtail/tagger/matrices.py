"""Take from a dataset what a ranker is fitted to: features, labels, label text, and the names of labels."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from longtail.errors import DataError, SettingsError
from longtail.sparse import entry_keys, select_entries

if TYPE_CHECKING:
    from longtail.data import Dataset, TextVectorizer
    from longtail.models.base import Ranker

_log = logging.getLogger("longtail.tagger")


def without(Y: csr_array, pairs: np.ndarray | None) -> csr_array:
    """Return `Y` without the entries that `pairs` lists as (row, label)."""
    if pairs is None or not len(pairs):
        return Y
    ignored = pairs[:, 0].astype(np.int64) * Y.shape[1] + pairs[:, 1]
    return select_entries(Y, ~np.isin(entry_keys(Y), ignored))


def training_matrices(data: Dataset) -> tuple[csr_array, csr_array, csr_array | None]:
    """Return features, labels without the pairs to ignore, and label features or None."""
    if data.X is None:
        raise DataError("the dataset has no features", remedy="Read it with a vectorizer")
    return data.X, without(data.Y, data.ignore), data.label_features()


def given_vectors(ranker: Ranker, size: int) -> Ranker:
    """Set a ranker to read the last `size` features as a dense vector, and return it.

    It is an error if the ranker cannot use vectors.
    """
    if size:
        check_takes_vectors(ranker)
    if getattr(ranker, "vector_size", size) != size:
        ranker.set_params(vector_size=size)
    return ranker


def check_takes_vectors(ranker: Ranker) -> None:
    """Refuse a ranker that would treat the numbers of a dense vector like TF-IDF features."""
    if "vector_size" not in ranker._defaults():
        raise SettingsError(
            f"{type(ranker).__name__} cannot use vectors of texts. Use blend, or leave the encoder (or vectors) out."
        )


def remark_on_terms_as_vectors(ranker: Ranker) -> None:
    """Log a warning if a ranker that is made for dense vectors gets TF-IDF features instead."""
    if ranker.takes_vectors:
        _log.warning(
            "%s is made for dense vectors, but without an encoder it gets TF-IDF features of texts. For TF-IDF "
            "features use knn or textmatch; for sentence vectors, use blend with an encoder or ready vectors.",
            ranker.kind,
        )


def text_features(vectorizer: TextVectorizer, texts: Any) -> csr_array | None:
    """Return the features of label texts, or None if no text has a word of the vocabulary."""
    Z = vectorizer.transform(texts)
    return Z if Z.nnz else None


def names_and_ids(data: Dataset) -> tuple[Sequence[str], Sequence[str] | None]:
    """Return the names of the labels, and their identifiers if these differ from the names."""
    names = data.shown_label_names()
    return names, data.label_ids if data.label_ids != names else None
