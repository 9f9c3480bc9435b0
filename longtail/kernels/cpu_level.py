"""Define the processor level for which kernels are compiled that will be shared between machines.

Numba compiles for the processor of this machine, and another processor may lack some of its instructions. Kernels for a
wheel or an image are compiled for a level instead, so that every processor of that level or above can run them. On x86
it is x86-64-v3 (AVX2 and FMA, since about 2013), elsewhere the common minimum of the architecture.
"""

from __future__ import annotations

import os
import platform
from functools import cache
from typing import Any

from llvmlite import binding

_X86_64_V3 = "+avx,+avx2,+bmi,+bmi2,+cx16,+f16c,+fma,+lzcnt,+movbe,+popcnt,+sahf,+sse3,+sse4.1,+sse4.2,+ssse3,+xsave"


@cache
def level() -> tuple[str, str]:
    """Return the name and the features of the level for this architecture, in Numba's form."""
    if platform.machine().lower() in ("x86_64", "amd64"):
        return "x86-64-v3", _X86_64_V3  # features in LLVM's names
    return "generic", ""


def level_environment() -> dict[str, str]:
    """Return the environment variables that make Numba compile for the level."""
    name, features = level()
    return {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features}


def compiles_for_level() -> bool:
    """Return whether this process compiles for the level instead of for its own processor."""
    return all(os.environ.get(name, "") == value for name, value in level_environment().items())


def level_target(target: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return Numba's name of the target of kernels for the level, given the target of this process.

    Return None if this processor lacks an instruction of the level.
    """
    return (target[0], *level()) if _has_level() else None


@cache
def _has_level() -> bool:
    available = binding.get_host_cpu_features()
    return all(available.get(feature[1:], False) for feature in filter(None, level()[1].split(",")))
