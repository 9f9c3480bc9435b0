"""Learning that succeeds as a whole, or changes nothing.

Kernels take what is learnt as addresses. A ranker with the arrays of one fit and the sizes of another, as a refused
memory limit, training that diverges, or Ctrl-C could leave it, would read memory that is not its own.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import wraps
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])


def learns_on_a_copy(method: Method) -> Method:
    """Decorate a method that learns: it runs on a shallow copy, whose attributes the object takes in one step.

    A method that fails or is interrupted leaves the object as it was. What an attribute holds belongs to the object and
    to its copy alike: the method assigns new values and changes none in place. No array is copied, but an earlier model
    stays in memory until the new one is complete.
    """

    @wraps(method)
    def learn(self: Any, *args: Any, **kwargs: Any) -> Any:
        twin = copy(self)
        method(twin, *args, **kwargs)
        self.__dict__ = twin.__dict__
        return self

    return learn  # type: ignore[return-value]
