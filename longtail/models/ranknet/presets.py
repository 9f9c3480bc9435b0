"""RankNet's presets and the constraints of its advanced parameters.

"paper" is §3.2: residual blocks alone, trained with the population-aware loss on sampled irrelevant labels. Labels are
ranked by the output of the blocks. The paper does not give λ, c, V or the number of blocks; usual values are used.

The population-aware loss ranks rare labels higher by itself, so that with it `TAILS` does not weight labels by
propensity again. λ is 3: on held-out points of tate and eurlex57k (12,000 training points) PSP@1 rises by 4.6 and 5.0
while P@1 falls by 1.1 and 1.6, which is about the trade-off of the paper. With λ = 1, the same gain of PSP@1 costs
twice as much P@1.
"""

from __future__ import annotations

from typing import Any

from longtail.params import NOT_NEGATIVE, POSITIVE, Constraint, Integer, OneOf, optional

RERANK_LOSSES = ("logistic", "population")

_RANKNET_FAST: dict[str, Any] = {
    "tail": None,
    "n_candidates": 50,
    "n_blocks": 1,
    "bottleneck": 16,
    "hidden": 16,
    "loss": "logistic",
    "population": 0.5,
    "weight": 3.0,
    "margin": 1.0,
    "n_irrelevant": None,
    "trust": 30.0,
    "text": True,
    "epochs": 5,
    "learning_rate": 0.1,
    "decay": 0.0001,
}
_RANKNET_PAPER: dict[str, Any] = {
    "hidden": 0,
    "loss": "population",
    "n_irrelevant": 20,
    "trust": 0.0,
    "text": False,
}
TAILS = {"logistic": 0.5, "population": 0.0}
"""Default of `tail` for each loss."""
RANKNET_PRESETS = {"fast": _RANKNET_FAST, "paper": _RANKNET_FAST | _RANKNET_PAPER}
RANKNET_ADVANCED: dict[str, Constraint] = {
    "bottleneck": optional(Integer(1)),
    "hidden": Integer(0),
    "loss": OneOf(*RERANK_LOSSES),
    "population": NOT_NEGATIVE,
    "weight": NOT_NEGATIVE,
    "margin": NOT_NEGATIVE,
    "n_irrelevant": optional(Integer(1)),
    "trust": NOT_NEGATIVE,
    "learning_rate": POSITIVE,
    "decay": NOT_NEGATIVE,
}
