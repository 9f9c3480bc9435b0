"""DECAF: label text inside one-vs-all classifiers (Mittal et al., WSDM 2021)."""

from longtail.models.decaf.ranker import DECAF

__all__ = ["DECAF"]
