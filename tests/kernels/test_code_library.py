"""Kernels are compiled with less work, and Numba is left as it was."""

from __future__ import annotations

import re
import sys

import numba
import numpy as np
import pytest
from numba.core.codegen import JITCodeLibrary
from numba.core.registry import cpu_target
from numba.core.types.functions import BaseFunction

from longtail.kernels.code_library import CodeLibrary
from longtail.kernels.compiling import inner, njit
from longtail.kernels.lean_compiler import REPLACED


@inner(borrows=True)
def _add(values, n):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(n):
        total += values[i]
    return total


@inner
def _checked(values, n):  # type: ignore[no-untyped-def]
    if n > len(values):
        raise ValueError("too many")
    return _add(values, n)


@njit
def add_copy(values, n):  # type: ignore[no-untyped-def]
    return _checked(values.copy(), n)


def test_functions_of_kernels_only_get_no_machine_code() -> None:
    values = np.arange(5.0)
    assert add_copy(values, 4) == 6.0
    kernel, helper = (next(iter(f.overloads.values())).library for f in (add_copy, _add))
    assert isinstance(kernel, CodeLibrary)
    assert isinstance(helper, CodeLibrary)
    assert kernel._compiled_object is not None
    assert helper._compiled_object is None


@inner(borrows=True, apart=True)
def _add_apart(values, n):  # type: ignore[no-untyped-def]
    return _add(values, n)


@njit(borrows=True)
def add_apart(values, n):  # type: ignore[no-untyped-def]
    return _add_apart(values, n)


def test_functions_that_stay_apart_are_called() -> None:
    assert add_apart(np.arange(5.0), 4) == 6.0
    (code,) = add_apart.inspect_llvm().values()
    assert re.search(r"call [^\n]*10_add_apart", code)
    assert not re.search(r"call [^\n]*4_addB", code)  # a copy in its caller


@njit(borrows=True, slp=True)
def double_four(values):  # type: ignore[no-untyped-def]
    a, b, c, d = values[0], values[1], values[2], values[3]
    values[0], values[1], values[2], values[3] = a + a, b + b, c + c, d + d


def test_neighbouring_numbers_share_an_instruction() -> None:
    values, before = np.arange(4, dtype=np.float32), numba.config.SLP_VECTORIZE
    double_four(values)
    assert values.tolist() == [0, 2, 4, 6]
    (code,) = double_four.inspect_llvm().values()
    assert re.search(r"fadd [^\n]*<4 x float>", code)
    assert before == numba.config.SLP_VECTORIZE


def test_only_wrappers_are_not_optimised() -> None:
    assert add_copy(np.arange(5.0), 4) == 6.0
    library = next(iter(add_copy.overloads.values())).library
    plain = [
        function.name for function in library._final_module.functions if b"optnone" in b"".join(function.attributes)
    ]
    assert [name.startswith("_ZN7cpython") for name in plain] == [True]


def test_errors_come_through() -> None:
    with pytest.raises(ValueError, match="too many"):
        add_copy(np.arange(5.0), 6)


def test_other_functions_are_compiled_as_usual() -> None:
    before = BaseFunction.get_call_type, [getattr(owner, name) for owner, name, _ in REPLACED]

    @numba.njit
    def twice(x):  # type: ignore[no-untyped-def]
        return np.zeros(x, np.float32).size + x

    assert add_copy(np.arange(3.0, dtype=np.float32), 3) == 3.0
    assert twice(4) == 8
    assert (BaseFunction.get_call_type, [getattr(owner, name) for owner, name, _ in REPLACED]) == before
    assert cpu_target.target_context.codegen()._library_class is JITCodeLibrary
    assert type(next(iter(twice.overloads.values())).library) is JITCodeLibrary


def test_what_borrows_returns_no_array() -> None:
    @njit(borrows=True)
    def rest(values):  # type: ignore[no-untyped-def]
        return 1, values[1:]

    with pytest.raises(TypeError, match="borrows its arrays"):
        rest(np.arange(3.0))


def test_borrowed_arrays_are_not_released() -> None:
    values = np.arange(4.0)
    before = sys.getrefcount(values)
    for _ in range(100):
        add_copy(values, 4)
    assert sys.getrefcount(values) == before


@njit
def reverse_rows(table, steps, out):  # type: ignore[no-untyped-def]
    """Read and write elements with all kinds of indices: negative, without a sign, and pairs."""
    n = table.shape[0]
    for i in range(n):
        for j in range(table.shape[1]):
            out[i, j] = table[-1 - i, np.uint32(j)] + steps[np.int8(i) - n]
        steps[i] = i > 1
    return [x + 1 for x in (n, n)][1]


def test_elements_are_those_that_python_reads_and_writes() -> None:
    table, steps = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([3, -1, 0, 2], np.int16)
    table.flags.writeable = False
    out, steps_there = np.zeros((4, 3)), steps.copy()
    expected, steps_here = np.zeros((4, 3)), steps.copy()
    assert reverse_rows(table, steps_there, out) == reverse_rows.py_func(table, steps_here, expected) == 5
    assert (out == expected).all()
    assert (steps_there == steps_here).all()
    assert steps_there.tolist() == [0, 0, 1, 1]
