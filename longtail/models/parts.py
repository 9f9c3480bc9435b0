"""The rankers inside a ranker: the base of a wrapper, the members of a blend, both sides of TAug."""

from __future__ import annotations

from collections.abc import Iterator

from longtail.models.base import Ranker

_ATTRIBUTES = ("base_", "tail_", "members_", "ranker_")  # in which rankers keep the rankers in them


def rankers_inside(ranker: Ranker) -> list[Ranker]:
    """Return the rankers that a ranker holds itself."""
    held = [getattr(ranker, name, None) for name in _ATTRIBUTES]
    flat = [one for part in held for one in (part if isinstance(part, list) else [part])]
    return [one for one in flat if isinstance(one, Ranker)]


def rankers_within(ranker: Ranker) -> Iterator[Ranker]:
    """Yield a ranker and all rankers in it, the outermost first."""
    yield ranker
    for part in rankers_inside(ranker):
        yield from rankers_within(part)
