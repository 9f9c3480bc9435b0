"""Names of a package that are imported when they are first used, so that importing the package is instant."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions ``__getattr__`` and ``__dir__`` of a package that imports names when they are first used.

    Parameters
    ----------
    package : str
        The package's ``__name__``.
    modules : dict
        The module of each such name.
    """

    def getattr_of_package(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def dir_of_package() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return getattr_of_package, dir_of_package
