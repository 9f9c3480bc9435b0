"""Decorators for Numba functions, chosen so that little is compiled and nothing twice.

Numba compiles a function anew for every combination of argument types, and by default with two wrappers: one that
unpacks Python objects and one for C callers. Compiling the wrappers of a function
that takes tuples of arrays takes longer than compiling the function itself, so functions that only other kernels call
go without.

A plain number such as ``0`` in a call is a type of its own to Numba; ``np.int64(0)`` is not. Kernels that are compiled
before the first answer therefore pass their constants as NumPy numbers.

Compiled functions are kept on disk by :mod:`longtail.kernels.compiled_cache`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numba

_TRIED_NUMBA = ("0.68.",)  # versions of Numba: the tests of kernels pass, and compiled kernels give the same bits
_LEAN = numba.__version__.startswith(_TRIED_NUMBA)

if _LEAN:  # both change or extend parts of Numba that are not public; another version compiles as usual
    from longtail.kernels.code_library import compile_lean
try:
    from longtail.kernels.compiled_cache import CompiledCache
except ImportError:  # a version of Numba with other classes
    CompiledCache = None  # type: ignore[assignment, misc]


def njit(
    *args: Any, cache: bool = False, borrows: bool = False, apart: bool = False, slp: bool = False, **options: Any
) -> Any:
    """Compile a function as :func:`numba.njit` does; with `cache`, keep the result on disk where that is possible.

    With `borrows`, the function and those that it calls neither make arrays nor return them, views included. It is
    then compiled without reference counts, to about two thirds of the code.

    With `apart`, the compiler makes no copies of the function in its callers. That is for long functions, where a copy
    takes long to compile and a call costs little beside what it does.

    With `slp`, the same operation on several neighbouring numbers, written out one by one, becomes a vector
    instruction. Numba leaves this step of LLVM out.

    A function whose name begins with an underscore is one that only kernels call: it gets no wrappers and no entry on
    disk of its own, unless ``no_cpython_wrapper=False`` asks for them.
    """
    if args and callable(args[0]):
        return njit(cache=cache, borrows=borrows, apart=apart, slp=slp, **options)(args[0])

    def compiled(function: Callable[..., Any]) -> Any:
        private = function.__name__.startswith("_") and options.get("no_cpython_wrapper", True)
        wrappers = {"no_cfunc_wrapper": True, "no_cpython_wrapper": private}
        counting = {"_nrt": False} if borrows and _LEAN else {}
        dispatcher = numba.njit(*args, **(wrappers | counting | options))(function)
        if not hasattr(dispatcher, "py_func"):  # NUMBA_DISABLE_JIT leaves a plain function
            return dispatcher
        if _LEAN:
            compile_lean(dispatcher, borrows, apart, slp)
        if cache and not private:
            _keep_on_disk(dispatcher, function)
        return dispatcher

    return compiled


def _keep_on_disk(dispatcher: Any, function: Callable[..., Any]) -> None:
    """Keep compiled versions of a function, in Numba's own cache where ours cannot be had."""
    if CompiledCache is not None:
        dispatcher._cache = CompiledCache(function)
        return
    with suppress(RuntimeError):  # no folder can be written
        dispatcher.enable_caching()


kernel = partial(njit, cache=True, nogil=True, no_cfunc_wrapper=True)
"""A function that Python calls: cached on disk, and without the interpreter lock."""
inner = partial(njit, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""A function that only kernels call."""
