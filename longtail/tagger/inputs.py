"""Texts and label lists from what users have: lists, Series of data frames, matrices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from scipy.sparse import issparse

from longtail.errors import DataError


def text_list(texts: Any) -> list[str]:
    """Return a list of a list, a Series or anything else that holds texts."""
    if isinstance(texts, str | bytes | Mapping) or not isinstance(texts, Iterable):
        raise DataError("texts is not a list of strings", remedy="Put a single text into a list: [text]")
    return list(texts)


def label_lists(labels: Any) -> Any:
    """Return lists of labels without None and NaN, which data frames have for a text without labels."""
    if issparse(labels) or isinstance(labels, str | bytes | Mapping) or not isinstance(labels, Iterable):
        return labels  # a matrix, or something that is refused later

    def known(row: Any) -> Any:
        if _is_missing(row):
            return []
        if isinstance(row, str | bytes) or not isinstance(row, Iterable):
            return row  # refused later, with the number of the row
        return [name for name in row if not _is_missing(name)]

    return [known(row) for row in labels]


def _is_missing(value: Any) -> bool:
    """Return whether a value is None or NaN."""
    return value is None or (isinstance(value, float | np.floating) and bool(np.isnan(value)))


def held_out_pair(validation: Any) -> tuple[list[str], Any]:
    """Return the texts and labels of a validation part."""
    try:
        texts, labels = validation
    except (TypeError, ValueError):
        raise DataError("validation is not a pair", remedy="Give (texts, labels) of the held-out points") from None
    return text_list(texts), labels
