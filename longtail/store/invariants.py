"""Rules for the arrays of a model folder, declared by each class and checked before any kernel uses the arrays.

Kernels use the values of some arrays as indices without checking bounds: one wrong index would make them read or write
memory that is not theirs. Each class therefore declares its arrays as :class:`Rules`: the type and shape of each, and
which values it may hold. Sizes have names. A name that occurs in several shapes stands for the same size in all:

>>> rules = Rules({"ptr": pointers("rows+1", into="entries"), "labels": indices("entries", below="L")})
>>> arrays = {"ptr": np.array([0, 1, 3]), "labels": np.array([0, 4, 2], np.int32)}
>>> check_arrays(rules, arrays, {"L": 5}, "m")["rows"]
2
>>> check_arrays(rules, arrays, {"L": 4}, "m")
Traceback (most recent call last):
longtail.errors.ModelError: m: labels.npy holds 4, but its values must be below 4. Train or copy the model again.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

from longtail.errors import ModelError
from longtail.kernels import check, pool
from longtail.sparse import frozen

Sizes = dict[str, int]
Read = Callable[[int], None]
_BLOCK = 1 << 18  # bytes that are checked together: few enough to stay in the cache
_ONE_THREAD_BYTES = 1 << 21  # one thread checks so much before other threads have even started
_SIZE = re.compile(r"(?:(\d+)\*)?([A-Za-z_][\w.]*)(?:\+(\d+))?")
_NOT_ASCII = 0x80  # smaller bytes are ASCII characters
_PIECE = 2048  # bytes of a text that are checked together; pieces of nothing but ASCII are not decoded
_LARGEST = 1e18  # larger than any weight that training can produce
_POINTERS, _INDICES = "i4 i8", "i4"
_ALL_BITS, _WITHOUT_SIGN = np.uint32(0xFFFFFFFF), np.uint32(0x7FFFFFFF)
CHANGED = "has changed since the model was saved"
REMEDY = "Train or copy the model again."


@dataclass(frozen=True)
class Array:
    """The rule for one array. Make it with :func:`floats`, :func:`indices`, :func:`pointers`, :func:`flags` and so on.

    Parameters
    ----------
    dtypes : str
        Allowed types, separated by spaces: "f4", "i4 i8".
    shape : str
        Sizes, separated by spaces: numbers, names, or names with a factor and a summand, such as "T 2*D+1".
    finite : bool
        Refuse NaN and infinity.
    least, above : float, optional
        Lower bound of the values: `least` is allowed itself, `above` is not.
    most : float, optional
        Largest allowed value.
    below : str, optional
        Name of a size. All values must be smaller than it.
    into : str, optional
        Name of a size. Values must start at 0, never descend, and end at this size.
    distinct : bool
        Refuse values that occur twice.
    """

    dtypes: str
    shape: str
    finite: bool = False
    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: str | None = None
    into: str | None = None
    distinct: bool = False


@dataclass(frozen=True)
class Relation:
    """A rule for several arrays together.

    Parameters
    ----------
    holds : callable
        Function of the arrays (named without `prefix`), of all sizes by name, and of a function `read`. It returns
        whether the arrays satisfy the rule.
    problem : str
        What is wrong otherwise: the end of a sentence that begins with "the arrays".
    over : str, optional
        Name of a large array. While `holds` checks it, its checksum is computed piece by piece: `holds` must call
        ``read(stop)`` before it uses the values before `stop`, which are then in the cache. Other arrays may still be
        unchecked at that time, so `holds` must not rely on their values.
    prefix : str
        Beginning of the names of the arrays.
    """

    holds: Callable[[Mapping[str, np.ndarray], Sizes, Read], bool]
    problem: str
    over: str | None = None
    prefix: str = ""


@dataclass(frozen=True)
class Rules:
    """All arrays of a model, and the relations between them. A folder must hold exactly these arrays."""

    arrays: Mapping[str, Array] = field(default_factory=dict)
    relations: tuple[Relation, ...] = ()

    def __or__(self, other: Rules) -> Rules:
        return Rules({**self.arrays, **other.arrays}, self.relations + other.relations)

    def prefixed(self, prefix: str) -> Rules:
        """Return the same rules for arrays whose names begin with `prefix`."""
        arrays = {f"{prefix}{name}": rule for name, rule in self.arrays.items()}
        return Rules(arrays, tuple(replace(r, prefix=f"{prefix}{r.prefix}") for r in self.relations))


@dataclass(frozen=True)
class Checksum:
    """The CRC-32 that the file of an array must have, and the header of the file, which precedes the values."""

    header: np.ndarray
    crc32: int

    def matches(self, array: np.ndarray) -> bool:
        """Return whether header and values are the ones that were saved."""
        return zlib.crc32(array.reshape(-1).data, zlib.crc32(self.header.data)) == self.crc32


class _Reading:
    """Compute the checksum of an array piece by piece, each piece just before its values are checked.

    Reading memory takes longer than the checks. This way every value is read into the cache only once.
    """

    def __init__(self, array: np.ndarray, checksum: Checksum | None) -> None:
        self.flat = np.asarray(array).reshape(-1)  # a plain array: slices of numpy.memmap are slow
        self.checksum, self.position = checksum, 0
        self.crc = 0 if checksum is None else zlib.crc32(checksum.header.data)

    def __call__(self, stop: int) -> None:
        """Add the values up to `stop` to the checksum."""
        if self.checksum is not None and stop > self.position:
            self.crc = zlib.crc32(self.flat[self.position : stop].data, self.crc)
            self.position = stop

    def is_unchanged(self) -> bool:
        """Add the remaining values, and return whether the array is the one that was saved."""
        self(len(self.flat))
        return self.checksum is None or self.crc == self.checksum.crc32


def floats(
    shape: str, dtypes: str = "f4", *, least: float = -_LARGEST, above: float | None = None, most: float = _LARGEST
) -> Array:
    """Declare an array of finite numbers, small enough that the product of two does not overflow."""
    return Array(dtypes, shape, finite=True, least=least, above=above, most=most)


def cosines(shape: str) -> Array:
    """Declare an array of coordinates of unit vectors: numbers from -1 to 1, with a margin for rounding."""
    return floats(shape, least=-1.01, most=1.01)


def indices(shape: str, below: str, *, distinct: bool = False, dtypes: str = _INDICES) -> Array:
    """Declare an array of indices: whole numbers from 0 that are smaller than the size `below`."""
    return Array(dtypes, shape, least=0, below=below, distinct=distinct)


def pointers(shape: str, into: str, dtypes: str = _POINTERS) -> Array:
    """Declare row starts: they begin at 0, never descend, and end at the length of the array that they point into."""
    return Array(dtypes, shape, into=into)


def counts(shape: str) -> Array:
    """Declare an array of whole numbers from 0."""
    return Array("i4 i8", shape, least=0)


def flags(shape: str) -> Array:
    """Declare an array of booleans."""
    return Array("b1", shape)


def codes(shape: str, dtypes: str = "i1") -> Array:
    """Declare an array that may hold any value of its type."""
    return Array(dtypes, shape)


def csr(name: str, rows: str, columns: str, *, data: bool = True, unit: bool = False) -> Rules:
    """Declare the arrays of a sparse matrix, with the names of :func:`longtail.sparse.csr_arrays`.

    Without `data` its values are not stored. With `unit` its rows have length 1.
    """
    entries = f"{name}.entries"
    arrays = {
        f"{name}_indptr": pointers(f"{rows}+1", into=entries),
        f"{name}_indices": indices(entries, below=columns, dtypes="i4 i8"),  # i8 after rows were appended
    }
    return Rules(arrays | ({f"{name}_data": cosines(entries) if unit else floats(entries)} if data else {}))


def packed_names(blob: str, offsets: str, n: str, *, decoded: bool = True) -> Rules:
    """Declare strings packed into one block: their bytes, and where each string begins.

    Without `decoded`, the bytes are not checked: no kernel uses them, and :class:`longtail.names.Names` raises an error
    when it decodes bytes that are not text. Checking all bytes took half the time of the checks of a small model.
    """

    def are_text(arrays: Mapping[str, np.ndarray], sizes: Sizes, read: Read) -> bool:
        """Return whether the block is UTF-8 and every string begins with a character."""
        return is_text(arrays[blob], arrays[offsets])

    arrays = {blob: codes(f"{blob}.bytes", "u1"), offsets: pointers(f"{n}+1", into=f"{blob}.bytes", dtypes="i8")}
    relations = (Relation(are_text, f"{blob} and {offsets} do not hold text"),)
    return Rules(arrays, relations if decoded else ())


def is_text(content: np.ndarray, offsets: np.ndarray) -> bool:
    """Return whether bytes are UTF-8 and no offset lies inside a character. The offsets must ascend.

    Only pieces that are not pure ASCII are decoded. Surrogates are allowed, as with Python's "surrogatepass". Python's
    decoder is as fast as a kernel, and a kernel would have to be compiled before the first prediction.
    """
    content, offsets = np.asarray(content), np.asarray(offsets)  # plain arrays: slices of numpy.memmap are slow
    size = len(content) // _PIECE * _PIECE
    pieces = content[:size].reshape(-1, _PIECE).max(axis=1) >= _NOT_ASCII
    rest = size < len(content) and content[size:].max() >= _NOT_ASCII
    not_ascii = np.concatenate([[False], pieces, [rest], [False]])
    edges = np.minimum(np.flatnonzero(not_ascii[1:] != not_ascii[:-1]) * _PIECE, len(content))
    if not len(edges):
        return True
    positions = np.searchsorted(offsets, edges).tolist()
    starts = np.concatenate([offsets[slice(*pair)] for pair in zip(positions[::2], positions[1::2], strict=True)])
    runs = [content[slice(*pair)] for pair in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)]
    joined = b" ".join([run.tobytes() for run in runs])  # no character extends beyond its run: ASCII is on both sides
    return _is_utf8(np.frombuffer(joined, np.uint8)) and not _is_continuation(content[starts]).any()


def _is_utf8(content: np.ndarray) -> bool:
    """Return whether Python's decoder accepts all bytes."""
    begin = 0
    while begin < len(content):
        end = min(begin + _BLOCK, len(content))
        while begin + _BLOCK - 4 < end < len(content) and _is_continuation(content[end]):
            end -= 1  # cut between two characters; a run of more than 3 such bytes is an error for the decoder
        try:
            content[begin:end].tobytes().decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return False
        begin = end
    return True


def _is_continuation(byte: np.ndarray) -> np.ndarray:
    """Return whether bytes are continuation bytes of UTF-8: not the first of their character."""
    return (byte & 0xC0) == 0x80


def check_arrays(
    rules: Rules,
    arrays: Mapping[str, np.ndarray],
    sizes: Mapping[str, int],
    where: str | os.PathLike[str],
    checksums: Mapping[str, Checksum] | None = None,
) -> Sizes:
    """Raise an error if an array breaks its rule. Return all sizes, including those that the shapes give.

    Parameters
    ----------
    rules : Rules
    arrays : dict of arrays
    sizes : dict of str to int
        Sizes that are known beforehand, such as D features and L labels.
    where : path-like
        The folder, for error messages.
    checksums : dict of Checksum, optional
        Checksums of the arrays, compared in the same pass, as reading memory takes longer than the checks.
    """
    known: Sizes = dict(sizes)
    where = os.fspath(where)
    for name in sorted(rules.arrays.keys() ^ arrays.keys()):
        what = "is missing" if name in rules.arrays else "does not belong to such a model"
        raise ModelError(f"{where}: {name}.npy {what}. {REMEDY}")
    for name, rule in rules.arrays.items():
        problem = _shape_problem(rule, arrays[name], known)
        if problem:
            raise ModelError(f"{where}: {name}.npy {problem}. {REMEDY}")
    large = sum(array.nbytes for array in arrays.values()) > _ONE_THREAD_BYTES
    over = {relation.prefix + relation.over: relation for relation in rules.relations if relation.over}
    broken: list[Relation] = []

    def check_values(name: str) -> str | None:
        reading = _Reading(arrays[name], (checksums or {}).get(name))
        if name in over and not _holds(over[name], arrays, known, reading):
            broken.append(over[name])
        return _value_problem(rules.arrays[name], reading, known)

    problems = pool.run(check_values, rules.arrays, None if large else 1)
    for name, problem in zip(rules.arrays, problems, strict=True):
        if problem:
            raise ModelError(f"{where}: {name}.npy {problem}. {REMEDY}")
    for relation in rules.relations:
        if relation in broken or not (relation.over or _holds(relation, arrays, known, lambda stop: None)):
            raise ModelError(f"{where}: the arrays {relation.problem}. {REMEDY}")
    return known


def _holds(relation: Relation, arrays: Mapping[str, np.ndarray], known: Sizes, read: Read) -> bool:
    prefixed = {name.removeprefix(relation.prefix): a for name, a in arrays.items() if name.startswith(relation.prefix)}
    return relation.holds(prefixed, known, read)


def _shape_problem(rule: Array, array: np.ndarray, known: Sizes) -> str | None:
    """Return what is wrong with the type or shape of an array, or None. Add new sizes to `known`."""
    if array.dtype not in _types(rule.dtypes):
        return f"holds {array.dtype}, not {' or '.join(map(str, _types(rule.dtypes)))}"
    wanted = rule.shape.split()
    if array.ndim != len(wanted):
        return f"has {array.ndim} dimensions, not {len(wanted)}"
    for size, text in zip(array.shape, wanted, strict=True):
        if not _fits(size, text, known):
            return f"is {_times(array.shape)}, not {_times(tuple(_shown(text, known) for text in wanted))}"
    return None


def _fits(size: int, text: str, known: Sizes) -> bool:
    """Return whether one size fits its declaration. A name that occurs for the first time is added to `known`."""
    if text.isdigit():
        return size == int(text)
    factor, name, summand = _parsed(text)
    if name in known:
        return size == factor * known[name] + summand
    known[name], rest = divmod(size - summand, factor)
    return rest == 0 and size >= summand


@lru_cache(maxsize=256)
def _types(names: str) -> tuple[np.dtype[Any], ...]:
    return tuple(map(np.dtype, names.split()))


@lru_cache(maxsize=256)
def _parsed(text: str) -> tuple[int, str, int]:
    match = _SIZE.fullmatch(text)
    assert match, text
    return int(match[1] or 1), match[2], int(match[3] or 0)


def size_of(text: str, sizes: Mapping[str, int]) -> int:
    """Return the value of a size such as "2*D+1"."""
    if text.isdigit():
        return int(text)
    factor, name, summand = _parsed(text)
    return factor * sizes[name] + summand


def _shown(text: str, known: Sizes) -> Any:
    return text if not text.isdigit() and _parsed(text)[1] not in known else size_of(text, known)


def _times(shape: tuple[Any, ...]) -> str:
    return " x ".join(map(str, shape))


def _value_problem(rule: Array, reading: _Reading, known: Sizes) -> str | None:
    """Return what is wrong with the values of an array, or None. If nothing is wrong, one pass is enough."""
    flat = reading.flat
    below = None if rule.below is None else size_of(rule.below, known)
    bounds = _bit_bounds(rule, flat.dtype, below)
    inside = bounds is not None
    if bounds:
        for stop, block in _blocks(frozen(flat.view(np.uint32))):
            reading(stop)
            inside = inside and check.most_above(block, bounds.mask, bounds.least) <= bounds.extent
    if not reading.is_unchanged():
        return CHANGED
    return (None if inside else _range_problem(rule, flat, below)) or _order_problem(rule, flat, known)


def _blocks(flat: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the end of each block of values, and the block, which is small enough to stay in the cache."""
    size = _BLOCK // flat.dtype.itemsize
    return ((start + size, flat[start : start + size]) for start in range(0, len(flat), size))


class _BitBounds(NamedTuple):
    """Bounds of 32-bit values, compared as unsigned integers after masking some of their bits."""

    mask: np.uint32
    least: np.uint32
    extent: int  # largest minus least allowed value


@lru_cache(maxsize=256)
def _bit_bounds(rule: Array, dtype: np.dtype[Any], below: int | None) -> _BitBounds | Literal[False] | None:
    """Return bounds on the bits of values that guarantee the rule.

    Return False if every value of the type satisfies the rule, and None if the values themselves must be compared.

    For integers from 0, one comparison is enough: read as unsigned, negative ones become large. Floats that are not
    negative have the same order as their bits, with infinity and NaN above all others.
    """
    low = rule.least if rule.above is None else rule.above
    high = rule.most if below is None else below - 1
    if low is None and high is None and not rule.finite:
        return False
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        high = limits.max if high is None else min(high, limits.max)
        if (low is None or low <= limits.min) and high == limits.max:
            return False
        return _BitBounds(_ALL_BITS, np.uint32(0), int(high)) if dtype == np.int32 and rule.least == 0 else None
    if dtype != np.float32 or low is None or high is None or (low < 0 and low != -high):
        return None
    first, last = (int(np.float32(limit).view(np.uint32)) for limit in (low, high))
    if low < 0:
        return _BitBounds(_WITHOUT_SIGN, np.uint32(0), last)
    least = first + (rule.above is not None)
    return _BitBounds(_ALL_BITS, np.uint32(least), last - least)


def _range_problem(rule: Array, flat: np.ndarray, below: int | None) -> str | None:
    """Return which bound the values break, or None."""
    for _, block in _blocks(flat):
        low, high = block.min(), block.max()
        if rule.finite and not (np.isfinite(low) and np.isfinite(high)):  # both are NaN if any value is
            return "holds NaN or infinity"
        if rule.least is not None and low < rule.least:
            return f"holds {low}, but its values must be at least {rule.least:g}"
        if rule.above is not None and low <= rule.above:
            return f"holds {low}, but its values must be above {rule.above:g}"
        if rule.most is not None and high > rule.most:
            return f"holds {high}, but its values must be at most {rule.most:g}"
        if below is not None and high >= below:
            return f"holds {high}, but its values must be below {below}"
    return None


def _order_problem(rule: Array, flat: np.ndarray, known: Sizes) -> str | None:
    """Return what is wrong with the order of the values or with repeated values, or None."""
    if flat.dtype.kind == "b" and len(flat) and flat.view(np.uint8).max() > 1:
        return "holds bytes that are neither 0 nor 1"
    if rule.into is not None:
        end = size_of(rule.into, known)
        if not len(flat) or flat[0] != 0 or flat[-1] != end:
            return f"does not go from 0 to {end}"
        if not check.never_descends(frozen(flat)):
            return "descends"
    if rule.distinct and len(flat) and np.bincount(flat).max() > 1:
        return "holds the same number twice"
    return None
