"""Blend: several rankers as one, combined by the probability that held-out points show."""

from longtail.models.blend.ranker import Blend

__all__ = ["Blend"]
