"""Compile kernels in less than half of Numba's time, to the same code.

Five things are left out or done once:

- Numba optimises every function and generates machine code for it, links what it has optimised into each caller, and
  optimises that again. A function without a wrapper for Python is only ever called from there. Here it stays as it is
  until it is part of a kernel (:class:`CodeLibrary`).
- Numba looks for the type of ``a + b`` among dozens of candidates, and words a message about each that does not fit,
  whenever two integers are added. Here an answer is kept (:func:`_with_memory`).
- Wrappers, which only unpack their arguments, are not optimised, except the longest
  (:meth:`CodeLibrary._optimize_functions`).
- A function that borrows its arrays needs no reference counts (``borrows`` of :func:`longtail.kernels.compiling.njit`).
- Single elements of arrays take fewer instructions, and passes without work are passed over
  (:mod:`longtail.kernels.lean_compiler`).

All of it holds only while a kernel of longtail is compiled. It changes parts of Numba that are not public, so that
:mod:`longtail.kernels.compiling` imports it only with versions of Numba with which it was tried.
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
_LONG = 150  # blocks of a wrapper of about 25 arrays; unpacking more of them without optimised code takes a microsecond


class CodeLibrary(JITCodeLibrary):
    """The code of one function and of those that it calls; without a wrapper, a part of other functions only."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """Optimise functions one by one only if they count references: most counts must go before loops are looked at.

        Others are optimised with all that they call, in the module that they become part of. Wrappers stay as
        they are: of a first prediction, their optimisation took 0.1 s.
        """
        ll_module.data_layout = self._codegen._data_layout
        for function in ll_module.functions:
            if function.name.startswith(_WRAPPER) and 0 < sum(1 for _ in function.blocks) < _LONG:
                for attribute in ("noinline", "optnone"):  # LLVM takes the second only with the first
                    function.add_function_attribute(attribute)
        if any(function.name.startswith(_COUNTING) for function in ll_module.functions):
            for function in ll_module.functions:
                if not function.is_declaration:
                    manager, builder = self._codegen._function_pass_manager()
                    manager.run(function, builder)

    def finalize(self) -> None:
        """Link the code of what is called, and generate machine code if Python calls this function."""
        if self._has_wrapper():
            super().finalize()
            return
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True

    def _finalize_final_module(self) -> None:
        """Generate machine code, and set the environments of all functions in it, as Numba does for each of them."""
        super()._finalize_final_module()
        for variable in self._final_module.global_variables:
            environment = lookup_environment(variable.name) if variable.name.startswith(_ENVIRONMENT) else None
            if environment is not None:
                self._codegen.set_env(variable.name, environment)

    @property
    def codegen(self) -> Any:
        """Where Numba sets the environment of a function; one without machine code has no place for it."""
        return self._codegen if self._has_wrapper() or self._compiled_object is not None else _NoCode

    def _has_wrapper(self) -> bool:
        return any(function.name.startswith(_WRAPPER) for function in self._final_module.functions)


class _NoCode:
    """In the place of Numba's object that holds all machine code."""

    @staticmethod
    def set_env(name: str, environment: Any) -> None:
        """Do nothing: the environment is set in the kernels that the function is part of."""


def _with_memory(usual: Callable[..., Any]) -> Callable[..., Any]:
    """Return `BaseFunction.get_call_type` with a memory of what it has found.

    Only signatures of Numba's own templates are kept. What is found by an ``@overload`` depends on compiler flags.
    """
    known: dict[Any, Any] = {}

    def get_call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
        key = id(self), args
        if not kws and key in known:
            return known[key][0]
        signature = usual(self, context, args, kws)
        if not kws and self.get_impl_key(signature) is self.typing_key:
            known[key] = signature, self  # the function too, or another might get its id
        return signature

    return get_call_type


_USUAL_CALL_TYPE = BaseFunction.get_call_type
_call_type = _with_memory(_USUAL_CALL_TYPE)


def _has_arrays(kind: types.Type) -> bool:
    return isinstance(kind, types.Array) or (isinstance(kind, types.BaseTuple) and any(map(_has_arrays, kind)))


def compile_lean(dispatcher: Any, borrows: bool, apart: bool = False, slp: bool = False) -> None:
    """Let a dispatcher, and what is compiled on its behalf, be compiled as this module says.

    A function that `borrows` its arrays must not return one: its caller would release what nobody has counted. One that
    stays `apart` is not copied into its callers. With `slp`, LLVM joins scalar instructions into vector instructions.
    """
    usual = dispatcher._compiler.compile

    def lean(*args: Any) -> Any:
        codegen = dispatcher.targetctx.codegen()
        replaced = [(codegen, "_library_class", CodeLibrary), (BaseFunction, "get_call_type", _call_type), *REPLACED]
        if slp:
            replaced.append((config, "SLP_VECTORIZE", 1))
        before = [getattr(owner, name) for owner, name, _ in replaced]
        for owner, name, lean_one in replaced:  # Numba holds its lock meanwhile
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
