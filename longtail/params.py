"""Constructor parameters the scikit-learn way, without importing scikit-learn.

``sklearn.base`` costs about a second to import, which is most of the time a single prediction from the command line
may take. The protocol is small: parameters are the constructor's arguments, stored untouched under their own names.
``clone``, ``GridSearchCV`` and the estimator checks accept any class that follows it; the tests hold us to that.
"""

from __future__ import annotations

import inspect
from typing import Any, Self

from longtail.errors import SettingsError


class Params:
    """``get_params``, ``set_params`` and ``repr`` over the constructor's arguments."""

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        signature = inspect.signature(cls.__init__)
        return {name: p.default for name, p in signature.parameters.items() if name != "self"}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with `deep`, those of nested rankers too, as ``outer__inner``."""
        found = {name: getattr(self, name) for name in self._defaults()}
        if deep:
            nested = {
                f"{name}__{inner}": value
                for name, part in found.items()
                if isinstance(part, Params)
                for inner, value in part.get_params().items()
            }
            found |= nested
        return dict(sorted(found.items()))

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; ``outer__inner`` reaches into a nested ranker."""
        known = self._defaults()
        for name, value in params.items():
            outer, _, inner = name.partition("__")
            if outer not in known:
                raise SettingsError(
                    f"{type(self).__name__} has no parameter {outer!r}. It has: {', '.join(sorted(known))}"
                )
            if inner:
                getattr(self, outer).set_params(**{inner: value})
            else:
                setattr(self, outer, value)
        return self

    def unfitted(self) -> Self:
        """A copy with the same parameters, those of nested rankers too, and nothing learnt."""
        return type(self)(**{name: _copied(value) for name, value in self.get_params(deep=False).items()})

    def __repr__(self) -> str:
        changed = [
            f"{name}={value!r}"
            for name, default in self._defaults().items()
            if not _same(value := getattr(self, name), default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=True, multi_output=True, single_output=False, two_d_labels=True),
            input_tags=InputTags(sparse=True),
        )


def _copied(value: Any) -> Any:
    if isinstance(value, Params):
        return value.unfitted()
    if isinstance(value, list | tuple) and any(isinstance(part, Params) for part in value):
        return [_copied(part) for part in value]
    return value


def _same(value: Any, default: Any) -> bool:
    return value is default or (
        type(value) is type(default) and isinstance(value, int | float | str) and value == default
    )
