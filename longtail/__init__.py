"""longtail: the few right labels out of thousands to millions, rare ones included, on ordinary CPUs.

>>> import longtail
>>> data = longtail.read(longtail.DEMO)                                            # doctest: +SKIP
>>> tagger = longtail.Tagger("bonsai").fit_dataset(data)                           # doctest: +SKIP
>>> tagger.suggest("a web browser for the console")                                # doctest: +SKIP

The names below are imported when they are first used, so that ``import longtail`` costs nothing.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longtail._version import __version__

if TYPE_CHECKING:
    from longtail.data import Dataset as Dataset
    from longtail.data import TextVectorizer as TextVectorizer
    from longtail.data import read as read
    from longtail.data import write as write
    from longtail.metrics import evaluate as evaluate
    from longtail.models.auto import best as best
    from longtail.registry import load as load
    from longtail.registry import make as make
    from longtail.tagger import Tagger as Tagger

DEMO = Path(__file__).parent / "data" / "demo"
"""The data that ships with longtail: Debian packages and what they depend on."""

_HOME = {
    "Dataset": "longtail.data",
    "Tagger": "longtail.tagger",
    "TextVectorizer": "longtail.data",
    "best": "longtail.models.auto",
    "evaluate": "longtail.metrics",
    "load": "longtail.registry",
    "make": "longtail.registry",
    "read": "longtail.data",
    "write": "longtail.data",
}

__all__ = ["DEMO", "__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
