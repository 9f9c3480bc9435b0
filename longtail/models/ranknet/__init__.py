"""RankNet: re-ranks the labels that any ranker finds, so that rare ones get their due."""

from longtail.models.ranknet.ranker import RankNet

__all__ = ["RankNet"]
