"""MNN: features and label sets matched in one space."""

from longtail.models.mnn.ranker import MNN

__all__ = ["MNN"]
