"""Faster versions of some steps of Numba's compiler, with the same result.

Most of the time of compiling a kernel is spent in Python, not in LLVM, and it is roughly proportional to the number of
LLVM instructions that Numba writes. While a kernel of longtail is compiled, the functions in :data:`REPLACED` replace
Numba's own (see :mod:`longtail.kernels.code_library`):

- Reading or writing one element of an array takes 5 to 8 instructions instead of 30 to 50. LLVM makes the same machine
  code of both. (Fewer instructions for loops over ranges, and for the ends of variables' lives, gained nothing.)
- The live variables of each block are computed when they are needed, not after every pass.
- Passes that have nothing to do are skipped, and the sizes of types are computed only once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir as llvm
from numba.core import errors, ir, ir_utils, lowering, postproc, transforms, typed_passes, types, untyped_passes
from numba.np import arrayobj

_NUMBERS = (types.Number, types.Boolean)
_MAKING = ("call", "binop", "inplace_binop", "unary")  # expressions that can create an array

# Elements of arrays -------------------------------------------------------------------------------------------------


def _is_element(array: Any, index: Any, context: Any) -> bool:
    """Return whether an index selects one number of a contiguous array, and bounds are not checked."""
    if context.enable_boundscheck or type(array) is not types.Array or array.layout != "C":
        return False
    if not isinstance(array.dtype, _NUMBERS):
        return False
    if isinstance(index, types.Integer):
        return array.ndim == 1
    return isinstance(index, types.BaseTuple) and [isinstance(i, types.Integer) for i in index] == [True] * array.ndim


def _element(lower: Any, kind: Any, index_kind: Any, array: Any, index: Any) -> Any:
    """Return the address of an element. Negative indices count from the end, as in Python."""
    context, builder = lower.context, lower.builder
    model = context.data_model_manager[kind]
    shape = model.get_field_position("shape")
    one = isinstance(index_kind, types.Integer)
    kinds = (index_kind,) if one else tuple(index_kind)
    place = None
    for axis, own in enumerate(kinds):
        at = index if one else builder.extract_value(index, axis)
        size = builder.extract_value(array, [shape, axis]) if own.signed or axis > 0 else None
        at = arrayobj.fix_integer_index(context, builder, own, at, size)
        place = at if place is None else builder.add(builder.mul(place, size), at)
    return builder.gep(builder.extract_value(array, model.get_field_position("data")), [place])


_usual_getitem, _usual_setitem = lowering.Lower.lower_getitem, lowering.Lower.lower_setitem


def _lower_getitem(self: Any, result: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
    """Generate code that reads an element of an array."""
    array_kind, index_kind = signature.args
    if not _is_element(array_kind, index_kind, self.context):
        return _usual_getitem(self, result, expr, value, index, signature)
    at = self.context.cast(self.builder, self.loadvar(index.name), self.typeof(index.name), index_kind)
    address = _element(self, array_kind, index_kind, self.loadvar(value.name), at)
    element = arrayobj.load_item(self.context, self.builder, array_kind, address)
    return self.context.cast(self.builder, element, signature.return_type, result)


def _lower_setitem(self: Any, target: Any, index: Any, value: Any, signature: Any) -> Any:
    """Generate code that writes an element of an array."""
    array_kind, index_kind, value_kind = signature.args
    if not (_is_element(array_kind, index_kind, self.context) and isinstance(value_kind, _NUMBERS)):
        return _usual_setitem(self, target, index, value, signature)
    context, builder = self.context, self.builder
    at = context.cast(builder, self.loadvar(index.name), self.typeof(index.name), index_kind)
    element = context.cast(builder, self.loadvar(value.name), self.typeof(value.name), value_kind)
    element = context.cast(builder, element, value_kind, array_kind.dtype)
    address = _element(self, array_kind, index_kind, self.loadvar(target.name), at)
    return arrayobj.store_item(context, builder, array_kind, element, address)


# Passes -------------------------------------------------------------------------------------------------------------

_usual_postprocess = postproc.PostProcessor.run
_usual_closures = untyped_passes.InlineClosureLikes.run_pass
_usual_rewrites = typed_passes.NopythonRewrites.run_pass


def _postprocess(self: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
    """Sort the blocks. Only generators need the live variables of each block at this point."""
    if self.func_ir.is_generator:
        _usual_postprocess(self, emit_dels, extend_lifetimes)
        return
    self.func_ir.blocks = transforms.canonicalize_cfg(self.func_ir.blocks)
    self.func_ir.variable_lifetime = postproc.VariableLifetime(self.func_ir.blocks)
    self.func_ir.generator_info = None
    if emit_dels:
        self._insert_var_dels(extend_lifetimes=extend_lifetimes)


def _expressions(blocks: Any) -> Any:
    for block in blocks.values():
        for statement in block.body:
            if isinstance(statement, ir.Assign) and isinstance(statement.value, ir.Expr):
                yield statement


def _inline_closures(self: Any, state: Any) -> Any:
    """Inline closures and list comprehensions, if the function has any."""
    made = {statement.value.op for statement in _expressions(state.func_ir.blocks)}
    if made & {"make_function", "build_list"} or _calls_reduce(state.func_ir):
        return _usual_closures(self, state)
    ir_utils.fixup_var_define_in_scope(state.func_ir.blocks)
    return True


def _calls_reduce(func_ir: Any) -> bool:
    return "reduce" in func_ir.func_id.code.co_names


def _rewrite(self: Any, state: Any) -> Any:
    """Fuse operations on whole arrays, if a function creates an array at all."""
    for statement in _expressions(state.func_ir.blocks):
        if statement.value.op in _MAKING and isinstance(state.typemap[statement.target.name], types.Array):
            return _usual_rewrites(self, state)
    return False


# Small functions that are called very often -------------------------------------------------------------------------


def _list_vars(self: Any, value: Any) -> list[Any]:
    """Return the variables in an instruction."""
    found: list[Any] = []
    _collect_vars(value, found)
    return found


def _collect_vars(value: Any, found: list[Any]) -> None:
    kind = type(value)
    if kind is ir.Var:
        found.append(value)
    elif kind is ir.Expr:
        for part in value._kws.values():
            _collect_vars(part, found)
    elif kind is list or kind is tuple:
        for part in value:
            _collect_vars(part, found)
    elif kind is dict:
        for part in value.values():
            _collect_vars(part, found)
    elif kind is not str and kind is not ir.Loc:
        found += _usual_list_vars(None, value)


_usual_list_vars = ir.Inst._rec_list_vars


def _with_memory(usual: Callable[..., int]) -> Callable[..., int]:
    known: dict[Any, int] = {}

    def get_abi_size(self: Any, target_data: Any, context: Any = None) -> int:
        if context is not None:
            return usual(self, target_data, context)
        if self not in known:  # there is one target for kernels
            known[self] = usual(self, target_data)
        return known[self]

    return get_abi_size


def _plain(self: Any, message: str) -> str:
    """Return a message without colours. Numba formats messages for every statement, in case it is wrong."""
    return message


_COLOURS = type(errors.termcolor())

REPLACED: list[tuple[Any, str, Any]] = [
    (lowering.Lower, "lower_getitem", _lower_getitem),
    (lowering.Lower, "lower_setitem", _lower_setitem),
    (postproc.PostProcessor, "run", _postprocess),
    (untyped_passes.InlineClosureLikes, "run_pass", _inline_closures),
    (typed_passes.NopythonRewrites, "run_pass", _rewrite),
    (ir.Inst, "_rec_list_vars", _list_vars),
    (llvm.Type, "get_abi_size", _with_memory(llvm.Type.get_abi_size)),
    *[(_COLOURS, kind, _plain) for kind in ("code", "errmsg", "filename", "highlight", "indicate")],
]
"""Owner, name and replacement of each attribute that is replaced while a kernel is compiled."""
