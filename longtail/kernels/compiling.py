"""Decorators for Numba functions, designed so that little is compiled and nothing twice.

Numba compiles a function for every combination of argument types, and by default with two wrappers: one that unpacks
Python objects, and one for C callers. If a function takes tuples of arrays, compiling its wrappers takes longer than
compiling the function itself. Functions that only other kernels call therefore have no wrappers.

For Numba, a literal such as ``0`` in a call has a type of its own, but ``np.int64(0)`` has not. Kernels that are needed
for the first prediction therefore pass constants as NumPy numbers, so that no further version is compiled.

Compiled functions are stored on disk by :mod:`longtail.kernels.compiled_cache`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numba

_TRIED_NUMBA = ("0.68.",)  # tested versions: the tests of kernels pass, and results are the same to the last bit
_LEAN = numba.__version__.startswith(_TRIED_NUMBA)

if _LEAN:  # this and the next import use private parts of Numba; other versions compile in the usual way
    from longtail.kernels.code_library import compile_lean
try:
    from longtail.kernels.compiled_cache import CompiledCache
except ImportError:  # a version of Numba with other classes
    CompiledCache = None  # type: ignore[assignment, misc]


def njit(
    *args: Any, cache: bool = False, borrows: bool = False, apart: bool = False, slp: bool = False, **options: Any
) -> Any:
    """Compile a function as :func:`numba.njit` does. With `cache`, store the result on disk if possible.

    `borrows` states that the function, and the functions it calls, neither create nor return arrays or views. It is
    then compiled without reference counts, which reduces the code by about a third.

    `apart` prevents the compiler from inlining the function into its callers. Use it for long functions: inlining them
    takes long to compile, and a call is cheap compared with the work they do.

    `slp` makes a vector instruction of the same operation on several neighbouring numbers, written out one by one.
    Numba leaves this step of LLVM out.

    A function whose name begins with an underscore is only called by kernels. It has no wrappers and no entry on disk,
    unless ``no_cpython_wrapper=False`` is given.
    """
    if args and callable(args[0]):
        return njit(cache=cache, borrows=borrows, apart=apart, slp=slp, **options)(args[0])

    def compiled(function: Callable[..., Any]) -> Any:
        private = function.__name__.startswith("_") and options.get("no_cpython_wrapper", True)
        wrappers = {"no_cfunc_wrapper": True, "no_cpython_wrapper": private}
        counting = {"_nrt": False} if borrows and _LEAN else {}
        dispatcher = numba.njit(*args, **(wrappers | counting | options))(function)
        if not hasattr(dispatcher, "py_func"):  # with NUMBA_DISABLE_JIT it is the plain function
            return dispatcher
        if _LEAN:
            compile_lean(dispatcher, borrows, apart, slp)
        if cache and not private:
            _keep_on_disk(dispatcher, function)
        return dispatcher

    return compiled


def _keep_on_disk(dispatcher: Any, function: Callable[..., Any]) -> None:
    """Store compiled versions of a function on disk, in Numba's own cache if ours does not work with this version."""
    if CompiledCache is not None:
        dispatcher._cache = CompiledCache(function)
        return
    with suppress(RuntimeError):  # no folder is writable
        dispatcher.enable_caching()


kernel = partial(njit, cache=True, nogil=True, no_cfunc_wrapper=True)
"""Decorator for a function that Python calls: it is cached on disk and releases the interpreter lock."""
inner = partial(njit, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""Decorator for a function that only kernels call."""
