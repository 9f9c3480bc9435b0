"""The larger of two real numbers, in a form that the compiler makes vector instructions of.

Python's `max`, with fast mathematics or without, becomes a comparison and a choice, which LLVM does not vectorise where
a loop finds the maximum of many real numbers: 14,658 of them took 6.7 µs. With LLVM's own maximum they take 0.3 µs.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import config
from numba.extending import intrinsic


def _generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    kind = args[0].type
    function = builder.module.declare_intrinsic("llvm.maxnum", [kind], ir.FunctionType(kind, [kind, kind]))
    return builder.call(function, args, fastmath=("nnan", "nsz"))


def larger(a: Any, b: Any) -> Any:
    """Return the larger of two real numbers of the same type, which are not NaN."""
    return max(a, b)


if not config.DISABLE_JIT:

    @intrinsic
    def larger(typing_context: Any, a: Any, b: Any) -> Any:
        """Return the larger of two real numbers of the same type, which are not NaN."""
        return a(a, a), _generate
