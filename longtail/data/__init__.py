"""Datasets, readers and writers of the field's file formats, text features, splits and synthetic data.

Names are imported when they are first used, so that importing the package is instant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from longtail.lazy import lazy_names

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

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
