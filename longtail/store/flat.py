"""Base class of models that consist of arrays only."""

from __future__ import annotations

import threading
from dataclasses import fields
from typing import Any

import numpy as np


class FlatArrays:
    """Base of a dataclass whose fields are all arrays.

    The arrays are made read-only. To the compiler, new arrays then have the same type as arrays mapped from disk;
    otherwise every kernel would be compiled twice. Only the arrays are pickled, and every thread gets its own scratch
    memory.
    """

    def __post_init__(self) -> None:
        for name, array in self.arrays().items():
            array = np.asarray(array)
            array.flags.writeable = False
            setattr(self, name, array)
        self._scratch = threading.local()

    def __getstate__(self) -> dict[str, np.ndarray]:
        return self.arrays()

    def __setstate__(self, arrays: dict[str, np.ndarray]) -> None:
        self.__init__(**arrays)  # type: ignore[misc]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays to store, by name."""
        entries: Any = fields(self)  # type: ignore[arg-type]
        return {entry.name: getattr(self, entry.name) for entry in entries}
