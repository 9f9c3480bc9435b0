"""longtail: extreme multi-label classification on CPUs.

It finds the few correct labels of a text among thousands or millions, rare ones included:

>>> import longtail
>>> data = longtail.read(longtail.DEMO)                                            # doctest: +SKIP
>>> tagger = longtail.Tagger("bonsai").fit_dataset(data)                           # doctest: +SKIP
>>> tagger.suggest("a web browser for the console")                                # doctest: +SKIP

Public names, those of all rankers included, are imported when they are first used, so that ``import longtail`` is
instant.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from longtail._version import __version__
from longtail.lazy import lazy_names
from longtail.models import CLASSES as _RANKERS

if TYPE_CHECKING:  # for type checkers and editors; tests/test_imports.py compares it with _LAZY
    from longtail.data import Dataset as Dataset
    from longtail.data import TextVectorizer as TextVectorizer
    from longtail.data import read as read
    from longtail.data import write as write
    from longtail.metrics import evaluate as evaluate
    from longtail.models import DECAF as DECAF
    from longtail.models import DXML as DXML
    from longtail.models import KNN as KNN
    from longtail.models import MNN as MNN
    from longtail.models import Blend as Blend
    from longtail.models import Bonsai as Bonsai
    from longtail.models import Calibrated as Calibrated
    from longtail.models import DiSMEC as DiSMEC
    from longtail.models import FastXML as FastXML
    from longtail.models import GLaS as GLaS
    from longtail.models import LabelText as LabelText
    from longtail.models import Parabel as Parabel
    from longtail.models import PfastreXML as PfastreXML
    from longtail.models import Popular as Popular
    from longtail.models import RankNet as RankNet
    from longtail.models import TAug as TAug
    from longtail.models import TextMatch as TextMatch
    from longtail.models import VectorKNN as VectorKNN
    from longtail.models import VectorMatch as VectorMatch
    from longtail.registry import load as load
    from longtail.registry import make as make
    from longtail.tagger import Tagger as Tagger

logging.getLogger("longtail").addHandler(logging.NullHandler())  # silent unless the user configures logging

DEMO = Path(__file__).parent / "data" / "demo"
"""Folder of the dataset that ships with longtail: Debian packages and the packages they depend on."""

_LAZY = {
    "Dataset": "longtail.data",
    "Tagger": "longtail.tagger",
    "TextVectorizer": "longtail.data",
    "evaluate": "longtail.metrics",
    "load": "longtail.registry",
    "make": "longtail.registry",
    "read": "longtail.data",
    "write": "longtail.data",
    **_RANKERS,
}

__all__ = ["DEMO", "__version__", *sorted(_LAZY)]

__getattr__, __dir__ = lazy_names(__name__, _LAZY)
