"""Tables of vectors in eight bits: whole steps of a scale per row, a quarter of the size."""

from __future__ import annotations

import numpy as np

from longtail.sparse import Arrays
from longtail.store.invariants import Rules, codes, floats


def packed(name: str, table: np.ndarray, dtype: str) -> Arrays:
    """Return a table to store: as it is, or as int8 with a scale per row."""
    if dtype != "int8":
        return {name: table}
    # A scale is a power of two, so that a table once rounded is rounded to itself ever after.
    most = np.abs(table).max(axis=1, initial=0, keepdims=True) / np.float32(127)
    scale = np.exp2(np.ceil(np.log2(np.where(most > 0, most, 1)))).astype(np.float32)
    return {name: np.rint(table / scale).astype(np.int8), f"{name}.scale": scale}


def packed_rules(name: str, rows: str, width: str, eight_bits: bool) -> Rules:
    """Declare what the arrays of :func:`packed` must be."""
    if not eight_bits:
        return Rules({name: floats(f"{rows} {width}")})
    return Rules({name: codes(f"{rows} {width}"), f"{name}.scale": floats(f"{rows} 1")})


def unpacked(name: str, arrays: Arrays) -> np.ndarray:
    """Return a table that :func:`packed` made."""
    scale = arrays.get(f"{name}.scale")
    return arrays[name] if scale is None else arrays[name] * scale
