"""Put compiled kernels into a wheel, if LONGTAIL_KERNELS names the folder that `longtail warm --portable` filled.

Without it the wheel is pure Python and serves every platform. `make wheel` builds the one with kernels.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledKernels(BuildHookInterface):
    """Adds the kernels and names the Python and the platform that they are for."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the entries to what the wheel holds."""
        given = os.environ.get("LONGTAIL_KERNELS")
        if not given or self.target_name != "wheel" or version == "editable":
            return
        entries = [path for path in Path(given).rglob("*") if path.suffix in (".nbc", ".nbi")]
        if not entries:
            raise FileNotFoundError(f"{given} holds no compiled kernels; run `longtail warm --portable` first")
        build_data["force_include"] |= {str(path): f"longtail/kernels/compiled/{path.name}" for path in entries}
        build_data["pure_python"] = False
        build_data["tag"] = f"cp{sys.version_info.major}{sys.version_info.minor}-none-{_platform()}"


def _platform() -> str:
    """Return the platform tag. Kernels are data to the linker of the system, so any version of it will do."""
    machine = platform.machine().lower()
    if sys.platform == "win32":
        return f"win_{machine}"
    if sys.platform == "darwin":
        return f"macosx_{'11_0' if machine == 'arm64' else '10_13'}_{machine}"
    return f"manylinux_2_17_{machine}"
