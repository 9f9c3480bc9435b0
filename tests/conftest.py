"""Fixtures for all tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# The first call of a kernel compiles it, which takes longer than any deadline.
settings.register_profile("longtail", deadline=None)
settings.load_profile("longtail")

_SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """The folder of a real dataset by its name; the test is skipped where the folder is absent."""

    def folder(name: str) -> Path:
        path = _SHARED / name
        if not path.is_dir():
            pytest.skip(f"the real dataset {name!r} is not on this machine (looked in ../shared/data)")
        return path

    return folder
