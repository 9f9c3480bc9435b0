"""A sparse matrix as a tuple of arrays, which kernels take as one argument."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Csr(NamedTuple):
    """Rows of a sparse matrix: read-only int64 row starts, int32 columns, float32 values."""

    ptr: np.ndarray
    idx: np.ndarray
    val: np.ndarray
