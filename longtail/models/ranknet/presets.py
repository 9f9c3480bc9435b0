"""RankNet's presets and the constraints of its advanced parameters.

"paper" is §3.2: residual blocks alone, trained with the population-aware loss on sampled irrelevant labels, and labels
ranked by what they return. The paper gives neither λ, c, V nor the number of blocks; usual values stand for them.

Two values depend on the loss (`LOSS_DEFAULTS`). The population-aware loss ranks rare labels first by itself, so that
labels are not weighted by propensity once more. It is a sum over pairs, whose gradient does not vanish where a label is
already certain, and takes a much smaller rate than the logistic loss.
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
    "weight": 1.0,
    "margin": 1.0,
    "n_irrelevant": None,
    "trust": 10.0,
    "text": True,
    "epochs": 5,
    "learning_rate": None,
    "decay": 0.0001,
}
_RANKNET_PAPER: dict[str, Any] = {
    "hidden": 0,
    "loss": "population",
    "n_irrelevant": 20,
    "trust": 0.0,
    "text": False,
}
LOSS_DEFAULTS: dict[str, dict[str, float]] = {
    "logistic": {"tail": 0.5, "learning_rate": 0.1},
    "population": {"tail": 0.0, "learning_rate": 0.01},
}
"""Values by loss of parameters that a preset leaves open."""
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
    "learning_rate": optional(POSITIVE),
    "decay": NOT_NEGATIVE,
}
