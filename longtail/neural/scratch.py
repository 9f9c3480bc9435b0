"""Arrays that every training step fills anew."""

from __future__ import annotations

import math

import numpy as np


class Scratch:
    """Float32 arrays by name, in memory that is kept from one step to the next.

    The system hands out memory page by page, each set to zero: with new arrays for every step, a network of DECAF spent
    a fifth of its training time on that. An array is valid until its name is asked for again.
    """

    def __init__(self) -> None:
        self._kept: dict[str, np.ndarray] = {}

    def __reduce__(self) -> tuple[type[Scratch], tuple[()]]:
        return Scratch, ()  # another process has no use for the contents

    def empty(self, name: str, *shape: int) -> np.ndarray:
        """Return an array of this shape with arbitrary values."""
        size = math.prod(shape)
        kept = self._kept.get(name)
        if kept is None or len(kept) < size:
            kept = self._kept[name] = np.empty(size + size // 8, np.float32)  # sizes of batches vary a little
        return kept[:size].reshape(shape)
