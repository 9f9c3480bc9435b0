"""What comes in: datasets, the field's file formats, text turned into features, splits and generators.

Names are loaded on first use, so that importing the package costs nothing and reading a sparse file never loads polars.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longtail.data.dataset import Dataset as Dataset
    from longtail.data.reading import read as read
    from longtail.data.text import TextVectorizer as TextVectorizer
    from longtail.data.writing import write as write

_HOME = {
    "Dataset": "longtail.data.dataset",
    "TextVectorizer": "longtail.data.text",
    "read": "longtail.data.reading",
    "write": "longtail.data.writing",
}

__all__ = ["Dataset", "TextVectorizer", "read", "write"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
