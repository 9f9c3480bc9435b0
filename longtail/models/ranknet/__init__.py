"""RankNet: re-ranks the labels that any ranker finds, so that rare ones are ranked where they belong."""

from longtail.models.ranknet.ranker import RankNet

__all__ = ["RankNet"]
