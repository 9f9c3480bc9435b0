"""GLaS: the contract with each of its alternatives, checkpoints, and what it must refuse."""

from __future__ import annotations

from longtail.models.base import Ranker
from longtail.models.glas import GLaS
from tests.contract import RankerContract

SMALL = {"dim": 32, "epochs": 12, "batch_size": 32, "learning_rate": 0.03, "weight": 1.0, "keep": 0.9}


class Glas(RankerContract):
    exact_rows = False

    def make(self, **params: object) -> Ranker:
        return GLaS(**{**SMALL, **params})  # type: ignore[arg-type]


class TestGlas(Glas):
    pass
