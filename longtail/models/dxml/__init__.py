"""DXML: nearest neighbours in a space of label vectors learnt from a label graph."""

from longtail.models.dxml.ranker import DXML

__all__ = ["DXML"]
