"""Convert the texts and labels that users give to :class:`longtail.Tagger`: lists, Series of data frames, matrices."""

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
    """Return texts as a list. They may be a list, a Series or another iterable; missing cells of a Series are empty."""
    single = isinstance(texts, str | bytes | Mapping) or getattr(texts, "ndim", 1) == 0
    if single or not isinstance(texts, Iterable):
        raise DataError("texts is not a list of strings", remedy="Put a single text into a list: [text]")
    if hasattr(texts, "columns"):
        raise DataError("texts is a DataFrame", remedy="Give one of its columns; longtail.read joins several")
    return ["" if is_missing(text) else text for text in texts] if hasattr(texts, "to_list") else list(texts)


def label_lists(labels: Any) -> Any:
    """Return one list of labels per text, without blank names, None and NaN (how data frames mark missing labels).

    A Series is read like a column of a table: a cell of text is cut at the separator, which is logged, and a number is
    a label. A matrix of zeros and ones, sparse or dense, is returned as a sparse label matrix.
    """
    if hasattr(labels, "columns") and not issparse(labels):
        remedy = "Give one of its columns, or a matrix of zeros and ones with label_names: labels.to_numpy()"
        raise DataError("labels is a DataFrame", remedy=remedy)
    if _is_indicator(labels):
        return csr_array(labels, dtype=np.float32)
    if issparse(labels) or isinstance(labels, str | bytes | Mapping) or not isinstance(labels, Iterable):
        return labels  # a matrix; everything else is refused later
    if getattr(labels, "ndim", 1) == 0:
        raise DataError("labels is a single value", remedy="Give a list of labels per text")
    rows = [[] if is_missing(given_cell(row)) else row for row in labels]
    if hasattr(labels, "to_list"):
        if any(isinstance(row, str) for row in rows):
            rows = _cut_cells(rows)
        rows = [row if isinstance(row, Iterable) or (label := label_of(row)) is None else [label] for row in rows]

    def without_missing(row: Any) -> Any:
        if isinstance(row, str | bytes) or not isinstance(row, Iterable):
            return row  # refused later, with the number of the row
        return [name for name in row if not (is_missing(name) or (isinstance(name, str) and not name.strip()))]

    return [without_missing(row) for row in rows]


def _is_indicator(labels: Any) -> bool:
    """Return whether labels are a dense matrix of zeros and ones, with one row per text and one column per label."""
    if getattr(labels, "ndim", 0) != 2 or not isinstance(labels, np.ndarray) or labels.dtype.kind not in "buif":
        return False
    return bool(((labels == 0) | (labels == 1)).all())


def _cut_cells(rows: list[Any]) -> list[Any]:
    """Return rows with every cell of text cut into a list of labels, at the separator that most cells have."""
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
    """Return the texts and labels of the parameter `validation`."""
    try:
        texts, labels = validation
    except (TypeError, ValueError):
        raise DataError("validation is not a pair", remedy="Give (texts, labels) of the held-out points") from None
    return text_list(texts), labels
