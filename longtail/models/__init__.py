"""The rankers: ``from longtail.models import Bonsai, DECAF``. Each is imported when it is first used.

One file holds one algorithm; :mod:`longtail.models.base` holds the protocol that all of them share. ``MODELS`` maps the
name of each ranker on the command line and in model folders to its class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from longtail.lazy import lazy_names

if TYPE_CHECKING:  # for type checkers and editors; tests/test_imports.py compares it with MODELS
    from longtail.models.blend import Blend as Blend
    from longtail.models.bonsai import Bonsai as Bonsai
    from longtail.models.calibrated import Calibrated as Calibrated
    from longtail.models.decaf import DECAF as DECAF
    from longtail.models.dismec import DiSMEC as DiSMEC
    from longtail.models.dxml import DXML as DXML
    from longtail.models.fastxml import FastXML as FastXML
    from longtail.models.glas import GLaS as GLaS
    from longtail.models.knn import KNN as KNN
    from longtail.models.labeltext import LabelText as LabelText
    from longtail.models.mnn import MNN as MNN
    from longtail.models.parabel import Parabel as Parabel
    from longtail.models.pfastrexml import PfastreXML as PfastreXML
    from longtail.models.popular import Popular as Popular
    from longtail.models.ranknet import RankNet as RankNet
    from longtail.models.taug import TAug as TAug
    from longtail.models.textmatch import TextMatch as TextMatch
    from longtail.models.vectorknn import VectorKNN as VectorKNN
    from longtail.models.vectormatch import VectorMatch as VectorMatch

MODELS = {
    "blend": "longtail.models.blend:Blend",
    "bonsai": "longtail.models.bonsai:Bonsai",
    "calibrated": "longtail.models.calibrated:Calibrated",
    "decaf": "longtail.models.decaf:DECAF",
    "dismec": "longtail.models.dismec:DiSMEC",
    "dxml": "longtail.models.dxml:DXML",
    "fastxml": "longtail.models.fastxml:FastXML",
    "glas": "longtail.models.glas:GLaS",
    "knn": "longtail.models.knn:KNN",
    "labeltext": "longtail.models.labeltext:LabelText",
    "mnn": "longtail.models.mnn:MNN",
    "parabel": "longtail.models.parabel:Parabel",
    "pfastrexml": "longtail.models.pfastrexml:PfastreXML",
    "popular": "longtail.models.popular:Popular",
    "ranknet": "longtail.models.ranknet:RankNet",
    "taug": "longtail.models.taug:TAug",
    "textmatch": "longtail.models.textmatch:TextMatch",
    "vectorknn": "longtail.models.vectorknn:VectorKNN",
    "vectormatch": "longtail.models.vectormatch:VectorMatch",
}

CLASSES = {target.partition(":")[2]: target.partition(":")[0] for target in MODELS.values()}
"""The module of each class, by the name of the class."""

__all__ = ["CLASSES", "MODELS", *sorted(CLASSES)]

__getattr__, __dir__ = lazy_names(__name__, CLASSES)
