"""Apply the corrections of a feedback log to training data, for the next training."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from longtail.data import Dataset
from longtail.errors import DataError
from longtail.serve.feedback import Feedback
from longtail.sparse import canonical, entry_rows, resized, select_entries


@dataclass(frozen=True)
class CorrectedData:
    """A dataset after corrections, and a summary of the changes.

    Parameters
    ----------
    data : Dataset
        Texts with their labels. Features have not been computed yet.
    corrections : int
        Number of corrections that were applied.
    changed, added : int
        Number of texts whose labels were changed, and number of texts that were added.
    new_labels : list of str
        Labels that the dataset did not have before.
    last : int
        Number of the last correction in its log, or 0 if there was none.
    """

    data: Dataset
    corrections: int
    changed: int
    added: int
    new_labels: list[str]
    last: int


def apply_corrections(data: Dataset, entries: Iterable[Feedback]) -> CorrectedData:
    """Apply corrections to a dataset with texts, the oldest first.

    ``labels`` replace the labels of a text, ``right`` are added and ``wrong`` are removed. A text that the dataset does
    not have is added if the correction has a correct label for it. Labels are matched by name or identifier. Those that
    match no label become new labels.

    Parameters
    ----------
    data : Dataset
        A dataset that was read without a vectorizer.
    entries : iterable of Feedback
        Corrections from :meth:`FeedbackLog.after`.
    """
    if data.texts is None:
        raise DataError("the data has no texts, so corrections of texts cannot be applied", remedy="Give texts")
    texts, ids = list(data.texts), None if data.ids is None else list(data.ids)
    names = list(data.shown_label_names())
    numbers = {label: at for at, label in enumerate(data.label_ids or ())} | {name: at for at, name in enumerate(names)}
    rows_of: dict[str, list[int]] = {}
    for row, text in enumerate(texts):
        rows_of.setdefault(text, []).append(row)
    labels_of: dict[int, set[int]] = {}  # the labels of each corrected row
    n_entries = last = 0

    def columns(labels: Iterable[str]) -> set[int]:
        for label in labels:
            if numbers.setdefault(label, len(names)) == len(names):
                names.append(label)
        return {numbers[label] for label in labels}

    for entry in entries:
        n_entries, last = n_entries + 1, entry.seq
        text = entry.correction["text"]
        if text not in rows_of:
            if not entry.labels:
                continue
            rows_of[text] = [len(texts)]
            labels_of[len(texts)] = set()
            texts.append(text)
            if ids is not None:
                ids.append(entry.id)
        replaces_all = entry.correction.get("labels") is not None
        right, wrong = columns(entry.labels), {numbers.get(label, -1) for label in entry.correction.get("wrong") or ()}
        for row in rows_of[text]:
            before = labels_of.get(row)
            if before is None:
                before = set(data.Y.indices[data.Y.indptr[row] : data.Y.indptr[row + 1]].tolist())
            labels_of[row] = right - wrong if replaces_all else (before | right) - wrong
    corrected = _with_rows(data, labels_of, len(texts), names)
    return CorrectedData(
        replace(corrected, texts=texts, ids=ids),
        n_entries,
        changed=sum(row < data.n_points for row in labels_of),
        added=len(texts) - data.n_points,
        new_labels=names[data.n_labels :],
        last=last,
    )


def _with_rows(data: Dataset, labels_of: dict[int, set[int]], n_points: int, names: list[str]) -> Dataset:
    """Return the dataset with the labels of some rows replaced, and with new rows and labels appended."""
    new = names[data.n_labels :]
    changed = np.zeros(n_points, np.bool_)
    changed[list(labels_of)] = True
    kept = resized(select_entries(data.Y, ~changed[entry_rows(data.Y)]), n_points, len(names))
    rows = np.repeat(list(labels_of), [len(labels) for labels in labels_of.values()])
    indices = [label for labels in labels_of.values() for label in labels]
    corrected = csr_array((np.ones(len(rows), np.float32), (rows, indices)), shape=kept.shape)

    def with_new(labels: list[str] | None) -> list[str] | None:
        return None if labels is None else [*labels, *new]

    described: dict[str, Any] = {
        name: with_new(getattr(data, name)) for name in ("label_ids", "label_names", "label_texts")
    }
    test = data.test
    if test is not None:
        test = replace(test, Y=resized(test.Y, n_columns=len(names)), **described)
    return replace(data, Y=canonical(csr_array(kept + corrected, dtype=np.float32)), test=test, **described)
