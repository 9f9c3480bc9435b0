"""Rankers with presets, made from parameters by name whatever place they have."""

from __future__ import annotations

from typing import Any, TypeVar

from longtail.models.presets import PresetRanker

R = TypeVar("R", bound=PresetRanker)


def arranged(cls: type[R], *args: Any, **params: Any) -> R:
    """Return a ranker; parameters that are not its constructor's are given in `advanced`."""
    advanced = {name: params.pop(name) for name in list(params) if name in cls._advanced}
    return cls(*args, **params, **({"advanced": advanced} if advanced else {}))
