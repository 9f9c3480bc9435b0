"""Constraints of the values in ``model.json``: those of parameters, and further ones for text, records and lists."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from longtail.errors import ModelError
from longtail.params import Anything, Boolean, Constraint, Integer, Number

FINITE = Number(-1e15, 1e15)  # narrow enough that products with scores stay finite
WHOLE = Integer(0)
YES_NO = Boolean()


@dataclass(frozen=True)
class Text:
    """A string."""

    def allows(self, value: Any) -> bool:
        """Return whether the value may be used."""
        return isinstance(value, str)

    def __str__(self) -> str:
        return "text"


@dataclass(frozen=True)
class Record:
    """A JSON object with at least `entries`. Those of `if_there` may be missing, and are checked if they are there."""

    entries: Mapping[str, Constraint] = field(default_factory=dict)
    if_there: Mapping[str, Constraint] = field(default_factory=dict)

    def allows(self, value: Any) -> bool:
        """Return whether the value may be used."""
        return (
            isinstance(value, dict)
            and all(name in value and constraint.allows(value[name]) for name, constraint in self.entries.items())
            and all(constraint.allows(value[name]) for name, constraint in self.if_there.items() if name in value)
        )

    def __str__(self) -> str:
        inner = ", ".join(f"{name}: {constraint}" for name, constraint in self.entries.items())
        return f"a record of {inner}" if inner else "a record"


@dataclass(frozen=True)
class ListOf:
    """A JSON list of `least` to `most` entries that all satisfy one constraint."""

    entry: Constraint = field(default_factory=Anything)
    least: int = 0
    most: int | None = None

    def allows(self, value: Any) -> bool:
        """Return whether the value may be used."""
        return (
            isinstance(value, list)
            and len(value) >= self.least
            and (self.most is None or len(value) <= self.most)
            and all(map(self.entry.allows, value))
        )

    def __str__(self) -> str:
        return f"a list of {self.entry}"


ROWS = ListOf(Record())
"""A table with one record per row, such as the history of a training."""


def check_facts(constraints: Mapping[str, Constraint], facts: Mapping[str, Any], where: str | os.PathLike[str]) -> None:
    """Raise an error for the first value of ``model.json`` that is missing or breaks its constraint."""
    for name, constraint in constraints.items():
        if name not in facts:
            raise ModelError(f"{os.fspath(where)}: model.json lacks {name!r}. Train or copy the model again.")
        if not constraint.allows(facts[name]):
            text = repr(facts[name])
            raise ModelError(
                f"{os.fspath(where)}: {name} in model.json is {text if len(text) <= 80 else text[:77] + '...'}, not "
                f"{constraint}. Train or copy the model again."
            )
