"""Text in, label names out."""

from longtail.tagger.tagger import Suggestion, Tagger

__all__ = ["Suggestion", "Tagger"]
