"""RankNet: re-ranks the labels of any ranker to rank rare labels higher."""

from longtail.models.ranknet.ranker import RankNet

__all__ = ["RankNet"]
