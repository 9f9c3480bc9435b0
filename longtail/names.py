"""Label names: packed so that a million of them load in no time, and mapped to the columns that rankers use."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

import numpy as np
from scipy.sparse import csr_array, issparse

from longtail.errors import DataError, ModelError, number_of, warn

_log = logging.getLogger("longtail.names")
_MAX_COMPARISONS = 500_000  # pairs of names whose spelling is compared: about a second
_MAX_SHOWN = 5  # names in a message


class Names(Sequence[str]):
    """A sequence of strings, stored as one block of UTF-8 and decoded on access, so that loading takes no time."""

    def __init__(self, blob: np.ndarray, offsets: np.ndarray) -> None:
        # Plain arrays that share the memory: a slice of a numpy.memmap takes several times as long.
        self.blob, self.offsets = np.asarray(blob), np.asarray(offsets)

    @classmethod
    def of(cls, strings: Iterable[str]) -> Names:
        """Pack strings into one block."""
        encoded = [string.encode("utf-8", "surrogatepass") for string in strings]
        offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        return cls(np.frombuffer(b"".join(encoded), np.uint8), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        index %= len(self)
        content = self.blob[self.offsets[index] : self.offsets[index + 1]].tobytes()
        try:
            return content.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:  # only if someone changed the model folder and its checksums on purpose
            raise ModelError(
                f"The name or identifier of label {index} is {content!r:.80}, which is not text in UTF-8. "
                "Train or copy the model again."
            ) from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and not isinstance(other, str) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Names({self[:3]}, …{len(self)} in all)" if len(self) > 3 else f"Names({self[:]})"


def find_label(label: str, names: Sequence[str], ids: Sequence[str] | None = None, *, numbered: bool = False) -> int:
    """Return the column of a label given by its name or identifier, or raise an error that suggests similar names.

    Parameters
    ----------
    label : str
        A name or an identifier.
    names, ids : sequence of str
        The names and identifiers of all labels, in the order of the columns.
    numbered : bool
        Whether the names are only numbers, because the model was saved without names.
    """
    for known in (names, ids or ()):
        number = next((at for at, name in enumerate(known) if name == label), None)
        if number is not None:
            return number
    if numbered:
        hint = f"This model numbers its labels from 0 to {len(names) - 1}"
        raise DataError(f"there is no label {label!r}", remedy=hint)
    close = difflib.get_close_matches(label, list(names), n=3, cutoff=0.4)
    close += [name for name in names if label.lower() in name.lower() and name not in close][:3]
    hint = f"Did you mean {' or '.join(map(repr, close))}?" if close else "Write the name as in the training data"
    raise DataError(f"there is no label {label!r}", remedy=hint)


class LabelNumbers:
    """Map label names to columns: in the given order or, without one, in the order in which they first occur.

    Parameters
    ----------
    names : list of str, optional
        The names of all labels, in order. Any other name is then an error.

    Attributes
    ----------
    accepts_new : bool
        Whether a name that has no column yet gets the next one.
    """

    def __init__(self, names: Sequence[str] | None = None) -> None:
        self.accepts_new = names is None
        self._columns = {name: i for i, name in enumerate(names or ())}
        if names is not None and len(self._columns) < len(names):
            twice = next(name for i, name in enumerate(names) if self._columns[name] != i)
            raise DataError(f"the label {twice!r} is named twice", remedy="Give each label in label_names once")

    def __len__(self) -> int:
        return len(self._columns)

    def in_order(self) -> list[str]:
        """Return the names in the order of their columns."""
        return list(self._columns)

    def matrix(self, labels: Any, n_texts: int, *, held_out: bool = False) -> csr_array:
        """Turn lists of names, or a matrix with one column per name, into a label matrix (N, L).

        With `held_out`, names without a column are left out: training has not seen them.
        """
        if issparse(labels):
            if len(self) != labels.shape[1]:
                raise DataError(
                    f"the labels are a matrix of {number_of(labels.shape[1], 'column')} and label_names has "
                    f"{number_of(len(self), 'entry', 'entries')}",
                    remedy="Give the name of each column in label_names",
                )
            Y = csr_array(labels, dtype=np.float32)
        else:
            Y = self._from_lists(labels, held_out)
        if Y.shape[0] != n_texts:
            raise DataError(
                f"{number_of(n_texts, 'text')} but labels for {Y.shape[0]}",
                remedy="Give a list of labels for each text",
            )
        return Y

    def texts(self, label_texts: Mapping[str, str] | Sequence[str] | None) -> list[str] | None:
        """Return the text of each label, in order. A name that occurs only in a dict of texts gets a column, too."""
        if label_texts is None:
            return None
        if isinstance(label_texts, Mapping):
            known = self.in_order()
            for name in label_texts:
                self._column(name, None)
            _remark_on_added(self.in_order()[len(known) :], known, n_described=len(label_texts))
            return [label_texts.get(name, name) for name in self._columns]
        if self.accepts_new:
            raise DataError(
                "label_texts is a list, but the order of the labels is not known",
                remedy="Give a dict from label name to text, or the order in label_names",
            )
        if isinstance(label_texts, str) or len(label_texts) != len(self):
            raise DataError(
                f"label_texts does not have {number_of(len(self), 'entry', 'entries')}",
                remedy="Give one text for each label name",
            )
        return list(label_texts)

    def _from_lists(self, labels: Any, held_out: bool) -> csr_array:
        if isinstance(labels, str | bytes | Mapping) or not isinstance(labels, Iterable):
            raise DataError("labels is not a list", remedy='Give a list of names for each text: [["a", "b"], ["c"]]')
        indices: list[int] = []
        indptr = [0]
        for row, names in enumerate(labels):
            if isinstance(names, str | bytes) or not isinstance(names, Iterable):
                shown = repr(names.item() if isinstance(names, np.generic) else names)
                raise DataError(
                    f"the labels of a text are {shown}, not a list",
                    row=row,
                    remedy=f"Write it as a list: [{shown}]. "
                    "Where each text has one label: [[label] for label in labels]",
                )
            known = (name for name in names if str(name) in self._columns) if held_out else names
            indices.extend(sorted({self._column(name, row) for name in known}))
            indptr.append(len(indices))
        values = np.ones(len(indices), np.float32)
        return csr_array((values, np.array(indices, np.int32), np.array(indptr)), shape=(len(indptr) - 1, len(self)))

    def _column(self, name: Any, row: int | None) -> int:
        """Return the column of a name. If new names are accepted, a new one gets the next column."""
        if isinstance(name, int | np.integer) and not isinstance(name, bool):
            name = str(name)
        if not isinstance(name, str):
            raise DataError(f"the label {name!r} is not a name", row=row, remedy="Labels are strings or whole numbers")
        if self.accepts_new:
            return self._columns.setdefault(name, len(self._columns))
        if name not in self._columns:
            raise DataError(
                f"the label {name!r} is not in label_names", row=row, remedy="Add it there, or leave it out"
            )
        return self._columns[name]


def _remark_on_added(added: list[str], known: list[str], n_described: int) -> None:
    """Log the labels that occur only in a dict of label texts, or issue a warning if they are probably misspelt.

    They probably are if one of them is spelt much like a known label, or if the dict has no known label at all.
    """
    if not added or not known:
        return
    near = dict[str, str]()
    for name in added[: _MAX_COMPARISONS // len(known)]:
        if any(character.isdigit() for character in name):
            continue  # codes and versions are similar without being misspelt
        if close := difflib.get_close_matches(name, known, n=1, cutoff=0.8):
            near[name] = close[0]
    first = [*near, *(name for name in added if name not in near)][:_MAX_SHOWN]
    shown = ", ".join(f"{name!r} (did you mean {near[name]!r}?)" if name in near else repr(name) for name in first)
    more = ", …" if len(added) > _MAX_SHOWN else ""
    what = (
        f"label_texts has {number_of(len(added), 'label')} that no training text has: {shown}{more}. "
        "They are added, and only models that use label text can suggest them."
    )
    if near or len(added) == n_described:
        warn(what)
    else:
        _log.warning("%s", what)


def check_known_labels(Y: csr_array, n_known: int, label_counts: np.ndarray | None = None) -> None:
    """Check that a model has the labels of the points to measure.

    Raise an error if it has none of them. Issue a warning if it has fewer than half of them, and log a message if fewer
    than half have training points.

    Parameters
    ----------
    Y : csr_array, (N, M)
        Labels of the points to measure. Columns from `n_known` on are labels that the model does not have.
    n_known : int
        Number of labels that the model has.
    label_counts : int array, (n_known,), optional
        Number of training points per label. It is 0 if the training data listed the name of a label without using it.
    """
    present = np.flatnonzero(np.bincount(Y.indices[Y.data != 0], minlength=Y.shape[1]))
    n_shared = int(np.count_nonzero(present < n_known))
    verb = "is" if 1 in (n_shared, len(present)) else "are"
    what = f"{n_shared:,} of {number_of(len(present), 'label')} {verb} known to this model"
    remedy = (
        "Labels are matched by name and cut as in the training data: check the spelling, the column labels= "
        "(--labels-column on the command line) and labels_separator= (--labels-separator on the command line)"
    )
    if len(present) and not n_shared:
        raise DataError(what, remedy=f"{remedy}, or train the model on data with these labels")
    if 2 * n_shared < len(present):
        warn(f"{what}; the others count as missed. {remedy}.")
    elif label_counts is not None:
        n_trained = int(np.count_nonzero(label_counts[present[present < n_known]]))
        if 2 * n_trained < len(present):
            _log.warning(
                "%s of %s labels of these points have training points; the others can be found by their text alone, "
                "and only by models that use it.",
                f"{n_trained:,}",
                f"{len(present):,}",
            )
