"""Kernels compiled with bounds checks: ``make bounds``, which CI runs on all tests of this folder."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from numba.core import config

from longtail.kernels import cache_folders
from longtail.kernels.compiling import njit

_FOLDERS = "from longtail.kernels.cache_folders import cache_folders as f; print(*f(), sep='\\n')"


def test_checked_kernels_are_kept_apart_from_the_others() -> None:
    def folders(value: str) -> set[str]:
        environment = os.environ | {"NUMBA_BOUNDSCHECK": value}
        ended = subprocess.run([sys.executable, "-c", _FOLDERS], capture_output=True, text=True, env=environment)
        return set(ended.stdout.split("\n")) - {""}

    plain, checked = folders("0"), folders("1")
    assert plain
    assert len(plain) == len(checked)
    assert not plain & checked


@pytest.mark.skipif(not config.BOUNDSCHECK, reason="only with NUMBA_BOUNDSCHECK=1: otherwise memory would be read")
def test_an_index_outside_its_array_is_an_error() -> None:
    """Guard the run of all other tests: without the checks it would prove nothing."""
    assert all("bounds-checked" in str(folder) for folder in cache_folders.readable_folders())
    with pytest.raises(IndexError):
        njit(lambda values, at: values[at])(np.zeros(3, np.int32), 3)
