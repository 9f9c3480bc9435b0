"""Presets: named sets of values for the parameters that a user leaves open.

A parameter that a preset decides has the default None in the constructor; a value that is given always wins, even if
it equals the preset's. Parameters that few users turn have no place in the constructor: they are given by name in
``advanced={"name": value}``, and a value in it always wins too, None included.

>>> from longtail.models.dxml import DXML
>>> DXML(preset="paper").settings().window
5
>>> DXML(preset="paper", advanced={"window": 2}).settings().window
2
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from operator import is_
from types import SimpleNamespace
from typing import Any, ClassVar

from longtail.errors import SettingsError
from longtail.models.base import Ranker
from longtail.params import Anything, Constraint, OneOf, optional, value_shown


class PresetRanker(Ranker):
    """Base of rankers with presets.

    A subclass has the constructor parameters `preset` and `advanced`, and declares

    ``_presets``
        Values by preset and parameter. All presets name the same parameters: those of the constructor that default to
        None, and those of ``_advanced``.
    ``_advanced``
        Constraints of the parameters that may be given in `advanced`.
    """

    preset: str
    advanced: Mapping[str, Any] | None
    _presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    _advanced: ClassVar[Mapping[str, Constraint]] = {}

    def settings(self) -> SimpleNamespace:
        """Return every parameter with its value: as given, or as the preset has it.

        A value of None is left to ``fit``, which chooses by the data.
        """
        given = {name: value for name, value in self.get_params(deep=False).items() if name != "advanced"}
        decided = self._presets[self.preset]
        known = {name: decided.get(name) if value is None else value for name, value in given.items()}
        return SimpleNamespace(**(dict(decided) | known | dict(self.advanced or {})))

    def _setting(self, name: str) -> Any:
        """Return one of :meth:`settings`, fast enough for every prediction of one point."""
        if self.advanced is not None and name in self.advanced:
            return self.advanced[name]
        value = getattr(self, name, None)
        return self._presets[self.preset][name] if value is None else value

    def _check_params_if_changed(self, always: bool = False) -> None:
        """Compare parameters with their constraints, unless none was set since, in `advanced` neither."""
        advanced = self.advanced
        if advanced is None and self._checked and not always:  # a dict in its place would have been noticed
            return
        given = (*advanced, *advanced.values()) if isinstance(advanced, Mapping) else (advanced,)
        before = self.__dict__.get("_advanced_checked", ())
        changed = len(given) != len(before) or not all(map(is_, given, before))
        super()._check_params_if_changed(always or changed)
        self._advanced_checked = given

    def check_params(self) -> None:
        """Compare every parameter, those in `advanced` too, with its constraint."""
        super().check_params()
        if self.advanced is None:
            return
        if not isinstance(self.advanced, Mapping):
            raise SettingsError(
                f'advanced is {value_shown(self.advanced)}; give a dict such as {{"{next(iter(self._advanced))}": …}}'
            )
        for name, value in self.advanced.items():
            if name not in self._advanced:
                raise SettingsError(f"advanced has {name!r}, which {self._where(name)}")
            if not self._advanced[name].allows(value):
                raise SettingsError(f"{name} is {value_shown(value)}; give {self._advanced[name]}")

    def _where(self, name: str) -> str:
        """Return where a name belongs that `advanced` cannot hold."""
        if name in self._defaults():
            return f"is a parameter of its own: {type(self).__name__}({name}=…)"
        close = difflib.get_close_matches(str(name), list(self._advanced), n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        return f"is not a parameter of {type(self).__name__}.{hint} It may have: {', '.join(sorted(self._advanced))}"

    @classmethod
    def _all_constraints(cls) -> dict[str, Constraint]:
        """Add that `preset` is a known one, and that None leaves a parameter to the preset."""
        constraints = super()._all_constraints()
        decided = next(iter(cls._presets.values()), {})
        open_ones = {name for name, default in cls._defaults().items() if default is None and name in decided}
        constraints = {name: optional(rule) if name in open_ones else rule for name, rule in constraints.items()}
        named: dict[str, Constraint] = {"preset": OneOf(*cls._presets), "advanced": Anything("a dict, or None")}
        return named | constraints
