"""Datasets, readers and writers of the field's file formats, text features, splits and synthetic data.

Names are loaded on first use, so that importing the package is instant.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longtail.data.dataset import Dataset as Dataset
    from longtail.data.reading import read as read
    from longtail.data.text import TextVectorizer as TextVectorizer
    from longtail.data.writing import write as write

_MODULES = {
    "Dataset": "longtail.data.dataset",
    "TextVectorizer": "longtail.data.text",
    "read": "longtail.data.reading",
    "write": "longtail.data.writing",
}

__all__ = ["Dataset", "TextVectorizer", "read", "write"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
