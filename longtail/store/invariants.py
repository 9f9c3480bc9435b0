"""What the arrays of a model folder must be, declared by each class and checked before any kernel sees them.

Kernels use numbers of an array as addresses, so that one wrong index would make them read or write out of bounds. A
class therefore declares its arrays as :class:`Rules`: type and shape of each, and what its values may be. Sizes have
names. A name that occurs in several shapes is the same size in all of them:

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
_BLOCK = 1 << 18  # bytes looked at together: few enough to stay in the cache
_ON_ONE_THREAD = 1 << 21  # bytes that are looked at before other threads have begun
_SIZE = re.compile(r"(?:(\d+)\*)?([A-Za-z_][\w.]*)(?:\+(\d+))?")
_FIRST_OF_SEVERAL = 0x80  # bytes below are characters of their own
_PIECE = 2048  # bytes of a text that are looked at together; those that are ASCII are not decoded
_LARGEST = 1e18  # beyond what training can give a weight
_POINTERS, _INDICES = "i4 i8", "i4"
_ALL_BITS, _MAGNITUDE = np.uint32(0xFFFFFFFF), np.uint32(0x7FFFFFFF)  # the latter without the sign
CHANGED = "has changed since the model was saved"
REMEDY = "Train or copy the model again."


@dataclass(frozen=True)
class Array:
    """What one array must be; see :func:`floats`, :func:`indices`, :func:`pointers`, :func:`flags`, :func:`codes`.

    Parameters
    ----------
    dtypes : str
        Types it may have, separated by spaces: "f4", "i4 i8".
    shape : str
        Its sizes, separated by spaces: numbers, names, or names with a factor and a summand, such as "T 2*D+1".
    finite : bool
        Whether NaN and infinity are refused.
    least, above : float, optional
        Smallest value, included or not.
    most : float, optional
        Largest value.
    below : str, optional
        The size that all values are smaller than.
    into : str, optional
        The size that the last value equals; the first is 0, and values never descend.
    distinct : bool
        Whether no value occurs twice.
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
    """What several arrays must be together.

    Parameters
    ----------
    holds : callable
        Takes the arrays (without `prefix`), all sizes by name, and a function `read`; returns whether the relation
        holds.
    problem : str
        What is wrong otherwise, as it continues "the arrays … ".
    over : str, optional
        A large array whose checksum is computed piece by piece: `holds` calls ``read(stop)`` before it looks at the
        values before `stop`, which are in the cache then. Other arrays may still be unchecked meanwhile, so that
        `holds` must not rely on any of their values.
    prefix : str
        How the names of the arrays begin.
    """

    holds: Callable[[Mapping[str, np.ndarray], Sizes, Read], bool]
    problem: str
    over: str | None = None
    prefix: str = ""


@dataclass(frozen=True)
class Rules:
    """The arrays of a model: exactly these, and how they fit together."""

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
    """The CRC-32 that the file of an array must have, and the header that comes before its values."""

    header: np.ndarray
    crc32: int

    def matches(self, array: np.ndarray) -> bool:
        """Return whether header and values are what was saved."""
        return zlib.crc32(array.reshape(-1).data, zlib.crc32(self.header.data)) == self.crc32


class _Reading:
    """Compute a checksum piece by piece, each before its values are looked at: memory is slower than comparisons."""

    def __init__(self, array: np.ndarray, checksum: Checksum | None) -> None:
        self.flat = np.asarray(array).reshape(-1)  # of no subclass, which would slow down each step
        self.checksum, self.at = checksum, 0
        self.crc = 0 if checksum is None else zlib.crc32(checksum.header.data)

    def __call__(self, stop: int) -> None:
        """Read the values before `stop`."""
        if self.checksum is not None and stop > self.at:
            self.crc = zlib.crc32(self.flat[self.at : stop].data, self.crc)
            self.at = stop

    def is_unchanged(self) -> bool:
        """Read the rest, and return whether all is what was saved."""
        self(len(self.flat))
        return self.checksum is None or self.crc == self.checksum.crc32


def floats(
    shape: str, dtypes: str = "f4", *, least: float = -_LARGEST, above: float | None = None, most: float = _LARGEST
) -> Array:
    """Declare an array of finite numbers, none so large that products of two overflow."""
    return Array(dtypes, shape, finite=True, least=least, above=above, most=most)


def cosines(shape: str) -> Array:
    """Declare an array of numbers from -1 to 1, but for rounding: coordinates of vectors of length 1."""
    return floats(shape, least=-1.01, most=1.01)


def indices(shape: str, below: str, *, distinct: bool = False, dtypes: str = _INDICES) -> Array:
    """Declare an array of whole numbers from 0 that are smaller than a size."""
    return Array(dtypes, shape, least=0, below=below, distinct=distinct)


def pointers(shape: str, into: str, dtypes: str = _POINTERS) -> Array:
    """Declare the starts of rows: from 0, never descending, to the length of the array that they point into."""
    return Array(dtypes, shape, into=into)


def counts(shape: str, dtypes: str = "i4 i8") -> Array:
    """Declare an array of whole numbers from 0."""
    return Array(dtypes, shape, least=0)


def flags(shape: str) -> Array:
    """Declare an array of booleans."""
    return Array("b1", shape)


def codes(shape: str, dtypes: str = "i1") -> Array:
    """Declare an array in which every value of its type is allowed."""
    return Array(dtypes, shape)


def csr(name: str, rows: str, columns: str, *, data: bool = True, unit: bool = False) -> Rules:
    """Declare the arrays of a sparse matrix as :func:`longtail.sparse.csr_arrays` names them.

    Without `data` its values are not stored; with `unit` its rows have length 1.
    """
    entries = f"{name}.entries"
    arrays = {
        f"{name}_indptr": pointers(f"{rows}+1", into=entries),
        f"{name}_indices": indices(entries, below=columns, dtypes="i4 i8"),  # wide after rows were appended
    }
    return Rules(arrays | ({f"{name}_data": cosines(entries) if unit else floats(entries)} if data else {}))


def packed_names(blob: str, offsets: str, n: str, *, decoded: bool = True) -> Rules:
    """Declare strings packed into one block: bytes, and where each string begins.

    Unless `decoded`, the bytes may be anything: :class:`longtail.names.Names` refuses what is not text where it is
    read, and no kernel sees it. Looking at all of it was half the cost of the checks of a small model.
    """

    def are_text(arrays: Mapping[str, np.ndarray], sizes: Sizes, read: Read) -> bool:
        """Return whether the block is UTF-8 and every string begins with a character."""
        return is_text(arrays[blob], arrays[offsets])

    arrays = {blob: codes(f"{blob}.bytes", "u1"), offsets: pointers(f"{n}+1", into=f"{blob}.bytes", dtypes="i8")}
    relations = (Relation(are_text, f"{blob} and {offsets} do not hold text"),)
    return Rules(arrays, relations if decoded else ())


def is_text(content: np.ndarray, offsets: np.ndarray) -> bool:
    """Return whether bytes are UTF-8 and no offset is inside of a character; pieces of ASCII need no closer look.

    Offsets ascend. Surrogates are let through, as Python does with "surrogatepass". Python's own decoder is as fast as
    a kernel, and a kernel would have to be compiled before the first answer.
    """
    content, offsets = np.asarray(content), np.asarray(offsets)  # of no subclass, which would slow down each step
    size = len(content) // _PIECE * _PIECE
    pieces = content[:size].reshape(-1, _PIECE).max(axis=1) >= _FIRST_OF_SEVERAL
    rest = size < len(content) and content[size:].max() >= _FIRST_OF_SEVERAL
    others = np.concatenate([[False], pieces, [rest], [False]])  # whether a piece is more than ASCII
    edges = np.minimum(np.flatnonzero(others[1:] != others[:-1]) * _PIECE, len(content))
    if not len(edges):
        return True
    places = np.searchsorted(offsets, edges).tolist()
    begun = np.concatenate([offsets[slice(*pair)] for pair in zip(places[::2], places[1::2], strict=True)])
    runs = [content[slice(*pair)] for pair in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)]
    joined = b" ".join([run.tobytes() for run in runs])  # no character goes on beyond its run: all around is ASCII
    return _are_characters(np.frombuffer(joined, np.uint8)) and not _continues(content[begun]).any()


def _are_characters(content: np.ndarray) -> bool:
    """Return whether Python's decoder takes all bytes."""
    begin = 0
    while begin < len(content):
        end = min(begin + _BLOCK, len(content))
        while begin + _BLOCK - 4 < end < len(content) and _continues(content[end]):
            end -= 1  # cut between two characters; of more bytes that continue one, the decoder finds the error
        try:
            content[begin:end].tobytes().decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return False
        begin = end
    return True


def _continues(byte: np.ndarray) -> np.ndarray:
    """Return whether bytes are not the first of their character."""
    return (byte & 0xC0) == 0x80


def check_arrays(
    rules: Rules,
    arrays: Mapping[str, np.ndarray],
    sizes: Mapping[str, int],
    where: str | os.PathLike[str],
    checksums: Mapping[str, Checksum] | None = None,
) -> Sizes:
    """Compare arrays with their rules; return all sizes, those found in shapes too.

    Parameters
    ----------
    rules : Rules
    arrays : dict of arrays
    sizes : dict of str to int
        Sizes that are known already, such as D features and L labels.
    where : path-like
        The folder, for error messages.
    checksums : dict of Checksum, optional
        Checksums of the arrays, compared in the same pass: memory is slower than the comparisons.
    """
    known: Sizes = dict(sizes)
    where = os.fspath(where)
    for name in sorted(rules.arrays.keys() ^ arrays.keys()):
        what = "is missing" if name in rules.arrays else "is no part of such a model"
        raise ModelError(f"{where}: {name}.npy {what}. {REMEDY}")
    for name, rule in rules.arrays.items():
        problem = _form_problem(rule, arrays[name], known)
        if problem:
            raise ModelError(f"{where}: {name}.npy {problem}. {REMEDY}")
    large = sum(array.nbytes for array in arrays.values()) > _ON_ONE_THREAD
    over = {relation.prefix + relation.over: relation for relation in rules.relations if relation.over}
    broken: list[Relation] = []

    def work(name: str) -> str | None:
        reading = _Reading(arrays[name], (checksums or {}).get(name))
        if name in over and not _holds(over[name], arrays, known, reading):
            broken.append(over[name])
        return _problem(rules.arrays[name], reading, known)

    problems = pool.run(work, rules.arrays, None if large else 1)
    for name, problem in zip(rules.arrays, problems, strict=True):
        if problem:
            raise ModelError(f"{where}: {name}.npy {problem}. {REMEDY}")
    for relation in rules.relations:
        if relation in broken or not (relation.over or _holds(relation, arrays, known, lambda stop: None)):
            raise ModelError(f"{where}: the arrays {relation.problem}. {REMEDY}")
    return known


def _holds(relation: Relation, arrays: Mapping[str, np.ndarray], known: Sizes, read: Read) -> bool:
    own = {name.removeprefix(relation.prefix): a for name, a in arrays.items() if name.startswith(relation.prefix)}
    return relation.holds(own, known, read)


def _form_problem(rule: Array, array: np.ndarray, known: Sizes) -> str | None:
    """Compare type and shape, and learn sizes that are not known yet."""
    if array.dtype not in _types(rule.dtypes):
        return f"holds {array.dtype}, not {' or '.join(map(str, _types(rule.dtypes)))}"
    wanted = rule.shape.split()
    if array.ndim != len(wanted):
        return f"has {array.ndim} dimensions, not {len(wanted)}"
    for size, text in zip(array.shape, wanted, strict=True):
        if not _fits(size, text, known):
            return f"is {_times(array.shape)}, not {_times(tuple(_shown(one, known) for one in wanted))}"
    return None


def _fits(size: int, text: str, known: Sizes) -> bool:
    """Compare one size with its declaration; a name that is met for the first time is given the size it then has."""
    if text.isdigit():
        return size == int(text)
    factor, name, more = _parsed(text)
    if name in known:
        return size == factor * known[name] + more
    known[name], rest = divmod(size - more, factor)
    return rest == 0 and size >= more


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
    factor, name, more = _parsed(text)
    return factor * sizes[name] + more


def _shown(text: str, known: Sizes) -> Any:
    return text if not text.isdigit() and _parsed(text)[1] not in known else size_of(text, known)


def _times(shape: tuple[Any, ...]) -> str:
    return " x ".join(map(str, shape))


def _problem(rule: Array, reading: _Reading, known: Sizes) -> str | None:
    """Look at all values, in one pass where nothing is wrong, and return the first problem."""
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
    """Yield blocks of values that stay in the cache, each with where it ends."""
    size = _BLOCK // flat.dtype.itemsize
    return ((start + size, flat[start : start + size]) for start in range(0, len(flat), size))


class _BitBounds(NamedTuple):
    """Bounds of values of 32 bits, of which only the bits of a mask count, as whole numbers without a sign."""

    mask: np.uint32
    least: np.uint32
    extent: int  # from the least to the largest


@lru_cache(maxsize=256)
def _bit_bounds(rule: Array, dtype: np.dtype[Any], below: int | None) -> _BitBounds | Literal[False] | None:
    """Return bounds that surely keep the rule; False where the type keeps it, None where values must be compared.

    Whole numbers from 0, taken as unsigned, have one bound only: a negative one becomes large. The bits of real numbers
    that are not negative have the same order as the numbers, with infinity and NaN above all others.
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
        return _BitBounds(_MAGNITUDE, np.uint32(0), last)
    least = first + (rule.above is not None)
    return _BitBounds(_ALL_BITS, np.uint32(least), last - least)


def _range_problem(rule: Array, flat: np.ndarray, below: int | None) -> str | None:
    """Compare all values with their bounds."""
    for _, block in _blocks(flat):
        low, high = block.min(), block.max()
        if rule.finite and not (np.isfinite(low) and np.isfinite(high)):  # both are NaN where a value is
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
    """Compare values with each other."""
    if flat.dtype.kind == "b" and len(flat) and flat.view(np.uint8).max() > 1:
        return "holds bytes that are neither 0 nor 1"
    if rule.into is not None:
        end = size_of(rule.into, known)
        if not len(flat) or flat[0] != 0 or flat[-1] != end:
            return f"does not go from 0 to {end}"
        if not check.never_descends(frozen(flat)):
            return "descends"
    if rule.distinct and len(flat) and np.bincount(flat).max() > 1:
        return "holds a number twice"
    return None
