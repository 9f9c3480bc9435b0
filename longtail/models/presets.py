"""Presets: named sets of values for the parameters that a user does not give.

A parameter that presets have a value for is None by default in the constructor. A value that the user gives always
takes precedence over the preset. Parameters that few users change are not in the constructor. They are given by name in
``advanced={"name": value}``, and also take precedence, even if the value is None.

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
        """Return every parameter with its value, as given or from the preset.

        A value of None means that ``fit`` chooses by the data.
        """
        given = {name: value for name, value in self.get_params(deep=False).items() if name != "advanced"}
        preset = self._presets[self.preset]
        resolved = {name: preset.get(name) if value is None else value for name, value in given.items()}
        return SimpleNamespace(**(dict(preset) | resolved | dict(self.advanced or {})))

    def _setting(self, name: str) -> Any:
        """Return one of :meth:`settings`, fast enough for every prediction of one point."""
        if self.advanced is not None and name in self.advanced:
            return self.advanced[name]
        value = getattr(self, name, None)
        return self._presets[self.preset][name] if value is None else value

    def _check_params_if_changed(self, always: bool = False) -> None:
        """Compare the parameters with their constraints, if one was set since the last time, also in `advanced`."""
        advanced = self.advanced
        if advanced is None and self._checked and not always:  # setting `advanced` would have reset `_checked`
            return
        given = (*advanced, *advanced.values()) if isinstance(advanced, Mapping) else (advanced,)
        before = self.__dict__.get("_advanced_checked", ())
        changed = len(given) != len(before) or not all(map(is_, given, before))
        super()._check_params_if_changed(always or changed)
        self._advanced_checked = given

    def check_params(self) -> None:
        """Compare every parameter, also those in `advanced`, with its constraint."""
        super().check_params()
        if self.advanced is None:
            return
        if not isinstance(self.advanced, Mapping):
            raise SettingsError(
                f'advanced is {value_shown(self.advanced)}; give a dict such as {{"{next(iter(self._advanced))}": …}}'
            )
        for name, value in self.advanced.items():
            if name not in self._advanced:
                raise SettingsError(f"advanced has {name!r}, which {self._why_not_advanced(name)}")
            if not self._advanced[name].allows(value):
                raise SettingsError(f"{name} is {value_shown(value)}; give {self._advanced[name]}")

    def _why_not_advanced(self, name: str) -> str:
        """Complete the error message for a name that is not an advanced parameter."""
        if name in self._defaults():
            return f"is a parameter of its own: {type(self).__name__}({name}=…)"
        close = difflib.get_close_matches(str(name), list(self._advanced), n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        return f"is not a parameter of {type(self).__name__}.{hint} It may have: {', '.join(sorted(self._advanced))}"

    @classmethod
    def _all_constraints(cls) -> dict[str, Constraint]:
        """Return all constraints; parameters that presets have a value for may also be None."""
        constraints = super()._all_constraints()
        preset = next(iter(cls._presets.values()), {})
        in_presets = {name for name, default in cls._defaults().items() if default is None and name in preset}
        constraints = {name: optional(rule) if name in in_presets else rule for name, rule in constraints.items()}
        own: dict[str, Constraint] = {"preset": OneOf(*cls._presets), "advanced": Anything("a dict, or None")}
        return own | constraints
