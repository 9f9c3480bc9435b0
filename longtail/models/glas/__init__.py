"""GLaS: an embedding classifier regularised towards label co-occurrence (Guo et al., NeurIPS 2019)."""

from longtail.models.glas.ranker import GLaS

__all__ = ["GLaS"]
