"""Constructor parameters as scikit-learn has them, each declared once with its constraint.

Parameters are the constructor's arguments, stored untouched under their own names. ``clone``, ``GridSearchCV`` and the
estimator checks accept any class that does so. scikit-learn itself is not imported: its import takes about a second,
as long as a whole prediction from the command line should take.

A class declares what its parameters may be in ``_constraints``; ``check_params`` compares all of them before any work:

>>> class Model(Params):
...     _constraints = {"n_trees": Integer(1), "cost": optional(Number(0, above=True))}
...     def __init__(self, n_trees=3, cost=None):
...         self.n_trees, self.cost = n_trees, cost
>>> Model(n_trees=0).check_params()
Traceback (most recent call last):
longtail.errors.SettingsError: n_trees is 0; give a whole number from 1
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from longtail.errors import SettingsError

LARGEST = 2**31 - 1  # counts are stored in 32 bits
LARGEST_SEED = 2**63 - 1
MOST_NESTED = 20  # models inside models; nothing useful comes near it
DEEPEST_FOLDER = MOST_NESTED + 4  # parts inside parts of a model folder: a tagger and inner models add some levels


class Constraint(Protocol):
    """What a parameter may be."""

    def allows(self, value: Any) -> bool:
        """Return whether the value may be used."""

    def __str__(self) -> str:
        """Return the words that complete the sentence "give …" in an error message."""


@dataclass(frozen=True)
class Integer:
    """A whole number from `least` to `most`. NumPy integers are allowed, booleans are not."""

    least: int = 1
    most: int = LARGEST

    def allows(self, value: Any) -> bool:
        """Return whether the value may be used."""
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        return whole and self.least <= int(value) <= self.most

    def __str__(self) -> str:
        return f"a whole number from {self.least}" + (f" to {self.most}" if self.most < LARGEST else "")


@dataclass(frozen=True)
class Number:
    """A finite number from `least` to `most`. `above` excludes the lower bound itself, `below` the upper bound."""

    least: float = -math.inf
    most: float = math.inf
    above: bool = False
    below: bool = False

    def allows(self, value: Any) -> bool:
        """Return whether the value may be used."""
        if not isinstance(value, int | float | np.integer | np.floating) or isinstance(value, bool):
            return False
        try:
            value = float(value)
        except OverflowError:  # a whole number of more than 308 digits
            return False
        high_enough = value > self.least if self.above else value >= self.least
        low_enough = value < self.most if self.below else value <= self.most
        return math.isfinite(value) and high_enough and low_enough

    def __str__(self) -> str:
        low = "" if self.least == -math.inf else f" {'above' if self.above else 'from'} {self.least:g}"
        high = "" if self.most == math.inf else f" {'below' if self.below else 'up to'} {self.most:g}"
        return f"a number{low}{' and' if low and high else ''}{high}"


@dataclass(frozen=True, init=False)
class OneOf:
    """One of some words or values."""

    values: tuple[Any, ...]

    def __init__(self, *values: Any) -> None:
        object.__setattr__(self, "values", values)

    def allows(self, value: Any) -> bool:
        """Return whether the value may be used."""
        return any(type(value) is type(known) and value == known for known in self.values)

    def __str__(self) -> str:
        return f"one of {', '.join(map(str, self.values))}"


@dataclass(frozen=True)
class Boolean:
    """True or False."""

    def allows(self, value: Any) -> bool:
        """Return whether the value may be used."""
        return isinstance(value, bool | np.bool_)

    def __str__(self) -> str:
        return "True or False"


@dataclass(frozen=True)
class PathName:
    """A path of a file or folder."""

    def allows(self, value: Any) -> bool:
        """Return whether the value may be used."""
        return isinstance(value, str | os.PathLike) and bool(os.fspath(value))

    def __str__(self) -> str:
        return "a path"


@dataclass(frozen=True)
class Seed:
    """A source of random numbers: None, a whole number from 0, a NumPy Generator or a RandomState."""

    def allows(self, value: Any) -> bool:
        """Return whether the value may be used."""
        if value is None or isinstance(value, np.random.Generator | np.random.RandomState):
            return True
        return Integer(0, LARGEST_SEED).allows(value)

    def __str__(self) -> str:
        return "None, a whole number from 0, a NumPy Generator or a RandomState"


@dataclass(frozen=True)
class Jobs:
    """Number of threads: None or -1 for all cores, -2 for all but one, or a whole number from 1."""

    def allows(self, value: Any) -> bool:
        """Return whether the value may be used."""
        return value is None or (Integer(-LARGEST).allows(value) and value != 0)

    def __str__(self) -> str:
        return "None or -1 for all cores, -2 for all but one, or a whole number from 1"


@dataclass(frozen=True)
class Optional:
    """None, or what another constraint allows."""

    inner: Constraint

    def allows(self, value: Any) -> bool:
        """Return whether the value may be used."""
        return value is None or self.inner.allows(value)

    def __str__(self) -> str:
        return f"{self.inner}, or None"


@dataclass(frozen=True)
class Allowed:
    """A value that passes a test, for a constraint that only one parameter has. `text` is shown in the error."""

    test: Callable[[Any], bool]
    text: str

    def allows(self, value: Any) -> bool:
        """Return whether the value may be used."""
        return self.test(value)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Anything:
    """A value that the class checks by itself, such as a wrapped ranker."""

    description: str = "any value"

    def allows(self, value: Any) -> bool:
        """Return whether the value may be used."""
        return True

    def __str__(self) -> str:
        return self.description


def optional(inner: Constraint) -> Optional:
    """Return a constraint that allows None and everything that `inner` allows."""
    return inner if isinstance(inner, Optional) else Optional(inner)


SHARE = Number(0, 1)
"""A fraction from 0 to 1, both included."""
DROPOUT = Number(0, 1, below=True)
"""A fraction that is left out: from 0, and below 1, so that something remains."""
KEEP = Number(0, 1, above=True)
"""A fraction that is kept: above 0, so that something remains, and up to 1."""
POSITIVE = Number(0, above=True)
NOT_NEGATIVE = Number(0)
SHARPNESS = Number(0, 1e6)
"""A factor in an exponent. Larger factors have no further effect, and would overflow in 32 bits."""


def seed_of(random_state: Any) -> int:
    """Return `random_state` if it is a number, else a seed drawn from it. None gives a new seed at each call."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if random_state is None:
        return int(np.random.default_rng().integers(2**31))
    return int(random_state)


@cache
def _defaults_of(owner: type) -> tuple[tuple[str, Any], ...]:
    """Return the arguments of a class's constructor and their defaults.

    Cached: inspecting one constructor takes a tenth of the time that a model takes to load.
    """
    signature = inspect.signature(owner.__init__)  # type: ignore[misc]
    return tuple((name, p.default) for name, p in signature.parameters.items() if name != "self")


class Params:
    """``get_params``, ``set_params``, ``check_params`` and ``repr`` over the constructor's arguments."""

    _constraints: ClassVar[Mapping[str, Constraint]] = {}
    _settled: Any  # data-dependent choices that ``tuned`` has made already

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        return dict(_defaults_of(cls))  # type: ignore[arg-type]  # a class can be hashed

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name. With `deep`, include those of nested rankers, as ``outer__inner``."""
        params = {name: getattr(self, name) for name in self._defaults()}
        if deep:
            nested = {
                f"{name}__{inner}": value
                for name, part in params.items()
                if isinstance(part, Params)
                for inner, value in part.get_params().items()
            }
            params |= nested
        return dict(sorted(params.items()))

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name. ``outer__inner`` is the parameter `inner` of a nested ranker."""
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

    def check_params(self) -> None:
        """Raise an error for the first parameter that breaks its constraint, those of nested rankers included."""
        self._check_nesting()
        constraints = self._all_constraints()
        for name in self._defaults():
            value, constraint = getattr(self, name), constraints.get(name)
            if constraint is not None and not constraint.allows(value):
                largest = LARGEST_SEED if isinstance(constraint, Seed) else LARGEST
                limit = f"; the largest is {largest}" if isinstance(value, int) and value > largest else ""
                raise SettingsError(f"{name} is {value_shown(value)}; give {constraint}{limit}")
            for part in value if isinstance(value, list | tuple) else (value,):
                if isinstance(part, Params):
                    part.check_params()

    def _check_nesting(self) -> None:
        """Refuse rankers nested deeper than a model folder may be. A loop counts, as recursion could overflow."""
        level: dict[int, Params] = {id(self): self}
        for _ in range(MOST_NESTED):
            values = [value for model in level.values() for value in model.get_params(deep=False).values()]
            parts = [part for value in values for part in (value if isinstance(value, list | tuple) else (value,))]
            level = {id(part): part for part in parts if isinstance(part, Params)}
            if not level:
                return
        raise SettingsError(
            f"{type(self).__name__} holds models nested more than {MOST_NESTED} deep. Nest fewer models."
        )

    @classmethod
    def _all_constraints(cls) -> dict[str, Constraint]:
        """Return the constraints of the constructor's parameters, including those of parent classes."""
        declared: dict[str, Constraint] = {}
        for ancestor in reversed(cls.__mro__):
            declared |= ancestor.__dict__.get("_constraints", {})
        return {name: declared[name] for name in cls._defaults() if name in declared}

    def unfitted(self) -> Self:
        """Return an unfitted copy with the same parameters, including those of nested rankers.

        Choices that ``tuned`` has made from data are kept.
        """
        copy = type(self)(**{name: _unfitted(value) for name, value in self.get_params(deep=False).items()})
        if "_settled" in self.__dict__:
            copy._settled = self._settled
        return copy

    def __repr__(self) -> str:
        changed = [
            f"{name}={value!r}"
            for name, default in self._defaults().items()
            if not _is_default(value := getattr(self, name), default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=True, multi_output=True, single_output=False, two_d_labels=True),
            input_tags=InputTags(sparse=True),
        )


def plain(value: Any) -> Any:
    """Return a parameter as a JSON value: NumPy numbers become Python numbers, paths strings, generators None."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.random.Generator | np.random.RandomState):
        return None
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    return value


def value_shown(value: Any) -> str:
    """Return a short representation of any value, for error messages."""
    try:
        text = repr(plain(value))
    except ValueError:  # Python refuses to print integers of more than 4,300 digits
        text = "a whole number of thousands of digits"
    return text if len(text) <= 80 else f"{text[:77]}..."


def _unfitted(value: Any) -> Any:
    """Return a parameter with the rankers in it replaced by unfitted copies."""
    if isinstance(value, Params):
        return value.unfitted()
    if isinstance(value, list | tuple) and any(isinstance(part, Params) for part in value):
        return [_unfitted(part) for part in value]
    return value


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (
        type(value) is type(default) and isinstance(value, int | float | str) and value == default
    )


class available_if:  # named after scikit-learn's decorator, which is slow to import
    """Decorate a method that exists only on objects for which a condition holds. On others ``hasattr`` is False.

    Parameters
    ----------
    condition : callable
        Function of the object that returns whether it has the method.
    """

    def __init__(self, condition: Callable[[Any], Any]) -> None:
        self.condition = condition

    def __call__(self, method: Callable[..., Any]) -> Self:
        """Decorate a method."""
        self.method, self.__doc__ = method, method.__doc__
        return self

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self.method
        if not self.condition(instance):
            raise AttributeError(f"This {owner.__name__} has no {self.name}.")
        return self.method.__get__(instance, owner)
