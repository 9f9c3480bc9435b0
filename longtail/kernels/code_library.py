"""Compile kernels to the same code as Numba, in less than half the time.

Work of Numba's compiler is left out, or done only once, in five places:

- Numba optimises every function, generates machine code for it, links it into each caller, and optimises the result
  again. But a function without a wrapper for Python is only called by other kernels. Here it is not optimised until it
  is part of a kernel (:class:`CodeLibrary`).
- Whenever two integers are added, Numba tries dozens of candidates for the type of ``a + b``, and formats a message for
  each that does not fit. Here the result is cached (:func:`_with_memory`).
- Wrappers, which only unpack arguments, are not optimised, except for the longest ones
  (:meth:`CodeLibrary._optimize_functions`).
- A function that borrows its arrays needs no reference counts (``borrows`` of :func:`longtail.kernels.compiling.njit`).
- Access to single elements of arrays takes fewer instructions, and compiler passes with nothing to do are skipped
  (:mod:`longtail.kernels.lean_compiler`).

These changes are active only while a kernel of longtail is compiled. They replace private parts of Numba. Therefore
:mod:`longtail.kernels.compiling` uses this module only with versions of Numba for which it has been tested.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.core import config
from numba.core.codegen import JITCodeLibrary
from numba.core.environment import lookup_environment
from numba.core.types.functions import BaseFunction

from longtail.kernels.lean_compiler import REPLACED

_WRAPPER, _ENVIRONMENT, _COUNTING = "_ZN7cpython", "_ZN08NumbaEnv", "NRT_"  # how Numba's names begin
_LONG = 150  # blocks of a wrapper, about 25 arrays; with more, unoptimised unpacking would take a microsecond


class CodeLibrary(JITCodeLibrary):
    """The code of one function and of the functions that it calls. Without a wrapper, it is only linked into others."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """Optimise functions one by one only if they count references: most counts must go before loops are optimised.

        All others are optimised together with what they call, in the module of a kernel. Wrappers are not optimised at
        all: that took 0.1 s of the first prediction.
        """
        ll_module.data_layout = self._codegen._data_layout
        for function in ll_module.functions:
            if function.name.startswith(_WRAPPER) and 0 < sum(1 for _ in function.blocks) < _LONG:
                for attribute in ("noinline", "optnone"):  # LLVM accepts the second only together with the first
                    function.add_function_attribute(attribute)
        if any(function.name.startswith(_COUNTING) for function in ll_module.functions):
            for function in ll_module.functions:
                if not function.is_declaration:
                    manager, builder = self._codegen._function_pass_manager()
                    manager.run(function, builder)

    def finalize(self) -> None:
        """Link the code of the called functions, and generate machine code if Python calls this function."""
        if self._has_wrapper():
            super().finalize()
            return
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True

    def _finalize_final_module(self) -> None:
        """Generate machine code, and set the environments of all functions in it, as Numba does for each function."""
        super()._finalize_final_module()
        for variable in self._final_module.global_variables:
            environment = lookup_environment(variable.name) if variable.name.startswith(_ENVIRONMENT) else None
            if environment is not None:
                self._codegen.set_env(variable.name, environment)

    @property
    def codegen(self) -> Any:
        """The object on which Numba sets the environment of a function, or a stand-in if there is no machine code."""
        return self._codegen if self._has_wrapper() or self._compiled_object is not None else _NoCode

    def _has_wrapper(self) -> bool:
        return any(function.name.startswith(_WRAPPER) for function in self._final_module.functions)


class _NoCode:
    """Stands in for Numba's object with all machine code."""

    @staticmethod
    def set_env(name: str, environment: Any) -> None:
        """Do nothing. The environment is set in the kernels that the function is linked into."""


def _with_memory(usual: Callable[..., Any]) -> Callable[..., Any]:
    """Return `BaseFunction.get_call_type` with a cache of its results.

    Only signatures of Numba's own templates are cached. Those of an ``@overload`` depend on compiler flags.
    """
    known: dict[Any, Any] = {}

    def get_call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
        key = id(self), args
        if not kws and key in known:
            return known[key][0]
        signature = usual(self, context, args, kws)
        if not kws and self.get_impl_key(signature) is self.typing_key:
            known[key] = signature, self  # keeps the function alive, so that no other one can get its id
        return signature

    return get_call_type


_USUAL_CALL_TYPE = BaseFunction.get_call_type
_call_type = _with_memory(_USUAL_CALL_TYPE)


def _has_arrays(kind: types.Type) -> bool:
    return isinstance(kind, types.Array) or (isinstance(kind, types.BaseTuple) and any(map(_has_arrays, kind)))


def compile_lean(dispatcher: Any, borrows: bool, apart: bool = False, slp: bool = False) -> None:
    """Make a dispatcher compile as this module describes, along with the functions that are compiled for it.

    A function that `borrows` its arrays must not return one, because its caller would release an array that was never
    counted. A function that stays `apart` is not inlined into its callers. With `slp`, LLVM joins scalar instructions
    into vector instructions.
    """
    usual = dispatcher._compiler.compile

    def lean(*args: Any) -> Any:
        codegen = dispatcher.targetctx.codegen()
        replaced = [(codegen, "_library_class", CodeLibrary), (BaseFunction, "get_call_type", _call_type), *REPLACED]
        if slp:
            replaced.append((config, "SLP_VECTORIZE", 1))
        before = [getattr(owner, name) for owner, name, _ in replaced]
        for owner, name, lean_one in replaced:  # safe, because Numba holds its compiler lock
            setattr(owner, name, lean_one)
        try:
            compiled = usual(*args)
        finally:
            for (owner, name, _), usual_one in zip(replaced, before, strict=True):
                setattr(owner, name, usual_one)
        if borrows and _has_arrays(compiled.signature.return_type):
            raise TypeError(f"{dispatcher.py_func.__name__} borrows its arrays, and may not return one")
        if apart:
            name = compiled.fndesc.llvm_func_name
            compiled.library._final_module.get_function(name).add_function_attribute("noinline")
        return compiled

    dispatcher._compiler.compile = lean
