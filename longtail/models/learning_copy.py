"""Make a method that learns succeed completely or change nothing.

A fit may end early: a memory limit, diverging training, Ctrl-C. A ranker left with the arrays of one fit and the sizes
of another would be dangerous, because kernels use arrays as addresses and would read memory that is not theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import wraps
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])


def learns_on_a_copy(method: Method) -> Method:
    """Run a method that learns on a shallow copy; the object takes over the copy's attributes in one step at the end.

    A method that fails or is interrupted leaves the object unchanged. Object and copy share the values of their
    attributes, so the method must assign new values and must not change values in place. No array is copied, but an
    earlier model stays in memory until the new one is complete.
    """

    @wraps(method)
    def learn(self: Any, *args: Any, **kwargs: Any) -> Any:
        learner = copy(self)
        method(learner, *args, **kwargs)
        self.__dict__ = learner.__dict__
        return self

    return learn  # type: ignore[return-value]
