"""Texts and label lists from what users have: lists, Series of data frames, matrices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from longtail.data.separators import (
    LISTS,
    LabelCounts,
    choose_separator,
    cut_cell,
    given_cell,
    is_missing,
    label_of,
    likelier_separator,
    report_separator,
    unusual_separator,
)
from longtail.errors import DataError


def text_list(texts: Any) -> list[str]:
    """Return a list of a list, a Series or anything else that holds texts; a missing cell of a Series is empty."""
    single = isinstance(texts, str | bytes | Mapping) or getattr(texts, "ndim", 1) == 0
    if single or not isinstance(texts, Iterable):
        raise DataError("texts is not a list of strings", remedy="Put a single text into a list: [text]")
    if hasattr(texts, "columns"):
        raise DataError("texts is a DataFrame", remedy="Give one of its columns; longtail.read joins several")
    return ["" if is_missing(text) else text for text in texts] if hasattr(texts, "to_list") else list(texts)


def label_lists(labels: Any) -> Any:
    """Return lists of labels without None and NaN, which data frames have for a text without labels, and blank names.

    A Series is read as a column of a table is: cells of text are cut, and the separator is logged; a number is a label.
    A dense matrix of zeros
    and ones is a label matrix, as a sparse one is.
    """
    if hasattr(labels, "columns") and not issparse(labels):
        remedy = "Give one of its columns, or a matrix of zeros and ones with label_names: labels.to_numpy()"
        raise DataError("labels is a DataFrame", remedy=remedy)
    if _is_indicator(labels):
        return csr_array(labels, dtype=np.float32)
    if issparse(labels) or isinstance(labels, str | bytes | Mapping) or not isinstance(labels, Iterable):
        return labels  # a matrix, or something that is refused later
    if getattr(labels, "ndim", 1) == 0:
        raise DataError("labels is a single value", remedy="Give a list of labels per text")
    rows = [[] if is_missing(given_cell(row)) else row for row in labels]
    if hasattr(labels, "to_list"):
        if any(isinstance(row, str) for row in rows):
            rows = _cut_cells(rows)
        rows = [row if isinstance(row, Iterable) or (label := label_of(row)) is None else [label] for row in rows]

    def known(row: Any) -> Any:
        if isinstance(row, str | bytes) or not isinstance(row, Iterable):
            return row  # refused later, with the number of the row
        return [name for name in row if not (is_missing(name) or (isinstance(name, str) and not name.strip()))]

    return [known(row) for row in rows]


def _is_indicator(labels: Any) -> bool:
    """Return whether labels are a dense matrix with a row per text, a column per label, and 1 where a text has it."""
    if getattr(labels, "ndim", 0) != 2 or not isinstance(labels, np.ndarray) or labels.dtype.kind not in "buif":
        return False
    return bool(((labels == 0) | (labels == 1)).all())


def _cut_cells(rows: list[Any]) -> list[Any]:
    """Return lists of labels in place of text, cut at the separator that most rows have."""
    separator = choose_separator(rows)
    if separator == LISTS:
        return rows  # lists written as text are refused later
    counts = LabelCounts()
    cut = [cut_cell(row, separator) if isinstance(row, str) else row for row in rows]
    for row, names in zip(rows, cut, strict=True):
        if isinstance(row, str):
            counts.add(names)
    likelier, unusual = likelier_separator(rows, separator), None if counts.n_cut else unusual_separator(rows)
    report_separator("labels", separator, counts, given=False, likelier=likelier, unusual=unusual)
    return cut


def held_out_pair(validation: Any) -> tuple[list[str], Any]:
    """Return the texts and labels of a validation part."""
    try:
        texts, labels = validation
    except (TypeError, ValueError):
        raise DataError("validation is not a pair", remedy="Give (texts, labels) of the held-out points") from None
    return text_list(texts), labels
