"""Arrays for temporary values of a training step, reused in every step."""

from __future__ import annotations

import math

import numpy as np


class Scratch:
    """Float32 arrays by name, in memory that is reused in every step.

    The system sets each page of newly allocated memory to zero. With new arrays in every step, a network of DECAF spent
    a fifth of its training time on that. An array is valid until an array of the same name is requested.
    """

    def __init__(self) -> None:
        self._kept: dict[str, np.ndarray] = {}

    def __reduce__(self) -> tuple[type[Scratch], tuple[()]]:
        return Scratch, ()  # the contents are of no use in another process

    def empty(self, name: str, *shape: int) -> np.ndarray:
        """Return the array of this name in the given shape, with arbitrary values."""
        size = math.prod(shape)
        kept = self._kept.get(name)
        if kept is None or len(kept) < size:
            kept = self._kept[name] = np.empty(size + size // 8, np.float32)  # some room, as batch sizes vary a little
        return kept[:size].reshape(shape)
