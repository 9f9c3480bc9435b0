"""Decorators for Numba functions, chosen so that little is compiled and nothing twice.

Numba compiles a function anew for every combination of argument types, and by default with two wrappers: one that
unpacks Python objects and one for C callers. For a function that takes tuples of arrays the wrappers take longer than
the function itself, so functions that only other kernels call go without.

A plain number such as ``0`` in a call is a type of its own to Numba; ``np.int64(0)`` is not. Kernels that are compiled
before the first answer therefore pass their constants as NumPy numbers.

Compiled functions are kept on disk by :mod:`longtail.kernels.compiled_cache`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numba

from longtail.kernels.code_library import compile_lean
from longtail.kernels.compiled_cache import CompiledCache


def njit(*args: Any, cache: bool = False, borrows: bool = False, apart: bool = False, **options: Any) -> Any:
    """Compile a function as :func:`numba.njit` does; with `cache`, keep the result on disk where that is possible.

    With `borrows`, the function and those that it calls neither make arrays nor return them, views included. It is
    then compiled without reference counts, to about two thirds of the code.

    With `apart`, the compiler makes no copies of the function in its callers. That is for long functions, where a copy
    takes long to compile and a call costs little beside what it does.

    A function whose name begins with an underscore is one that only kernels call: it gets no wrappers and no entry on
    disk of its own, unless ``no_cpython_wrapper=False`` asks for them.
    """
    if args and callable(args[0]):
        return njit(cache=cache, borrows=borrows, apart=apart, **options)(args[0])

    def compiled(function: Callable[..., Any]) -> Any:
        private = function.__name__.startswith("_") and options.get("no_cpython_wrapper", True)
        wrappers = {"no_cfunc_wrapper": True, "no_cpython_wrapper": private}
        counting = {"_nrt": False} if borrows else {}
        dispatcher = numba.njit(*args, **(wrappers | counting | options))(function)
        if hasattr(dispatcher, "_compiler"):  # not where NUMBA_DISABLE_JIT leaves a plain function
            compile_lean(dispatcher, borrows, apart)
        if (
            cache and not private and hasattr(dispatcher, "_cache")
        ):  # not where NUMBA_DISABLE_JIT leaves a plain function
            dispatcher._cache = CompiledCache(function)
        return dispatcher

    return compiled


kernel = partial(njit, cache=True, nogil=True, no_cfunc_wrapper=True)
"""A function that Python calls: cached on disk, and without the interpreter lock."""
inner = partial(njit, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""A function that only kernels call."""
inlined = partial(njit, inline="always", no_cpython_wrapper=False)
"""A small function, or one with a single caller, that becomes part of its caller before anything is compiled."""
