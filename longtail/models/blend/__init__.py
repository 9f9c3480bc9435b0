"""Blend: several rankers as one, combined into probabilities that are learnt on held-out points."""

from longtail.models.blend.ranker import Blend

__all__ = ["Blend"]
