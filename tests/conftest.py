"""Fixtures and rules for all tests."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# The first call of a kernel compiles it, which takes longer than any deadline.
settings.register_profile("longtail", deadline=None)
settings.load_profile("longtail")

ROOT = Path(__file__).resolve().parents[1]
_SHARED = ROOT.parent / "shared" / "data"
_SLOW_FOLDERS = ("tests/benchmarks", "tests/test_wheel.py", "tests/cli/test_process.py")
_COLD_TIMEOUT = 1200  # seconds for a test that may have to compile every kernel it uses


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """Return a function that finds the folder of a real dataset; the test is skipped if there is none."""

    def folder(name: str) -> Path:
        path = _SHARED / name
        if not path.is_dir():
            pytest.skip(f"the real dataset {name!r} is not on this machine (looked in ../shared/data)")
        return path

    return folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make quick` leaves out, and give tests more time while kernels are not compiled yet."""
    cold = _kernels_are_cold()
    for item in items:
        path = item.path.relative_to(ROOT).as_posix() if item.path.is_relative_to(ROOT) else ""
        if path.startswith(_SLOW_FOLDERS) or "shared_data" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)
        if cold and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_COLD_TIMEOUT))


def _kernels_are_cold() -> bool:
    """Return whether most kernels have no compiled version on disk, as in a fresh clone."""
    kernels = ROOT / "longtail" / "kernels"
    cache = Path(os.environ.get("NUMBA_CACHE_DIR", kernels / "__pycache__"))
    compiled = {path.name.partition("-")[0] for path in cache.rglob("*.nbi")} if cache.is_dir() else set()
    # Only functions that Python calls are kept on disk.
    public = re.compile(r"^@njit.*\ndef [a-z]", re.MULTILINE)
    written = sum(len(public.findall(path.read_text(encoding="utf-8"))) for path in kernels.glob("*.py"))
    return 2 * len(compiled) < written
