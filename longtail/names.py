"""Names of labels: packed so that a million of them open at once, and numbered so that a ranker can do without them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

import numpy as np
from scipy.sparse import csr_array, issparse

from longtail.errors import DataError


class Names(Sequence[str]):
    """Strings in one block of UTF-8, cut where they are asked for: a million of them open in no time."""

    def __init__(self, blob: np.ndarray, offsets: np.ndarray) -> None:
        self.blob, self.offsets = blob, offsets

    @classmethod
    def of(cls, strings: Iterable[str]) -> Names:
        """Pack strings."""
        held = [string.encode("utf-8", "surrogatepass") for string in strings]
        ends = np.cumsum([0, *map(len, held)], dtype=np.int64)
        return cls(np.frombuffer(b"".join(held), np.uint8), ends)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(place)
        place %= len(self)
        return self.blob[self.offsets[place] : self.offsets[place + 1]].tobytes().decode("utf-8", "surrogatepass")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and not isinstance(other, str) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Names({self[:3]}, …{len(self)} in all)" if len(self) > 3 else f"Names({self[:]})"


class LabelNumbers:
    """Numbers for label names: in the order given or, without one, as they are met.

    Parameters
    ----------
    names : list of str, optional
        All labels there are; a name beyond them is an error.
    """

    def __init__(self, names: Sequence[str] | None = None) -> None:
        self.open = names is None
        self.place = {name: i for i, name in enumerate(names or ())}
        if names is not None and len(self.place) < len(names):
            twice = next(name for i, name in enumerate(names) if self.place[name] != i)
            raise DataError(f"the label {twice!r} is named twice", remedy="Give each label in label_names once")

    def __len__(self) -> int:
        return len(self.place)

    def listed(self) -> list[str]:
        """The names in the order of their numbers."""
        return list(self.place)

    def matrix(self, labels: Any, n_texts: int, *, held_out: bool = False) -> csr_array:
        """Lists of names, or a matrix of the right width, as a matrix (N, L) of ones.

        Of `held_out` labels, those that have no number are left out: nothing can be learnt about them any more.
        """
        if issparse(labels):
            if len(self) != labels.shape[1]:
                raise DataError(
                    f"the labels are a matrix of {labels.shape[1]} columns and label_names has {len(self)} entries",
                    remedy="Give the name of each column in label_names",
                )
            Y = csr_array(labels, dtype=np.float32)
        else:
            Y = self._from_lists(labels, held_out)
        if Y.shape[0] != n_texts:
            raise DataError(
                f"{n_texts} texts but labels for {Y.shape[0]}", remedy="Give a list of labels for each text"
            )
        return Y

    def texts(self, label_texts: Mapping[str, str] | Sequence[str] | None) -> list[str] | None:
        """The text of each label, in order; names that only a dict of texts has are numbered too."""
        if label_texts is None:
            return None
        if isinstance(label_texts, Mapping):
            for name in label_texts:
                self._number(name, None)
            return [label_texts.get(name, name) for name in self.place]
        if self.open:
            raise DataError(
                "label_texts is a list, and the order of the labels is not known",
                remedy="Give a dict from label name to text, or the order in label_names",
            )
        if isinstance(label_texts, str) or len(label_texts) != len(self):
            raise DataError(
                f"label_texts does not have {len(self)} entries", remedy="Give one text for each label name"
            )
        return list(label_texts)

    def _from_lists(self, labels: Any, held_out: bool) -> csr_array:
        if isinstance(labels, str | bytes | Mapping) or not isinstance(labels, Iterable):
            raise DataError("labels is not a list", remedy='Give a list of names for each text: [["a", "b"], ["c"]]')
        indices: list[int] = []
        ends = [0]
        for row, names in enumerate(labels):
            if isinstance(names, str | bytes) or not isinstance(names, Iterable):
                raise DataError(
                    f"the labels of a text are {names!r}, not a list",
                    row=row,
                    remedy=f"Write it as a list: [{names!r}]",
                )
            known = (name for name in names if str(name) in self.place) if held_out else names
            indices.extend(sorted({self._number(name, row) for name in known}))
            ends.append(len(indices))
        values = np.ones(len(indices), np.float32)
        return csr_array((values, np.array(indices, np.int32), np.array(ends)), shape=(len(ends) - 1, len(self)))

    def _number(self, name: Any, row: int | None) -> int:
        if isinstance(name, int | np.integer) and not isinstance(name, bool):
            name = str(name)
        if not isinstance(name, str):
            raise DataError(f"the label {name!r} is not a name", row=row, remedy="Labels are strings or whole numbers")
        if self.open:
            return self.place.setdefault(name, len(self.place))
        if name not in self.place:
            raise DataError(
                f"the label {name!r} is not in label_names", row=row, remedy="Add it there, or leave it out"
            )
        return self.place[name]
