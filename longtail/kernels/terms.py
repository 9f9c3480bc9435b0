"""A hash table of distinct terms in plain arrays, with functions to find, append, merge and sort terms.

The table uses open addressing and is at most half full. Terms with equal hashes are compared by their bytes, so that
two terms are never confused. Inner loops use uint64 counters: for an index that cannot be negative, Numba generates no
check for counting from the end.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import config
from numba.extending import intrinsic

from longtail.kernels.compiling import inner, njit

PAD = 8  # readable bytes that must follow any bytes hashed or compared here: they are read 8 at a time
HIGH = np.uint64(0xFFFFFFFF00000000)
LOW = np.uint64(0x00000000FFFFFFFF)
ALL_BITS = np.uint64(0xFFFFFFFFFFFFFFFF)
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX = np.uint64(0xFF51AFD7ED558CCD)
ZERO, ONE, EIGHT, HALF = np.uint64(0), np.uint64(1), np.uint64(8), np.uint64(32)


class TermTable(NamedTuple):
    """Terms with their numbers; ``PAD`` bytes follow the last term."""

    slots: np.ndarray  # (power of two,) uint64: high half the upper bits of a term's hash, low half its id + 1; 0: free
    blob: np.ndarray  # uint8: the bytes of term i are blob[offsets[i] : offsets[i + 1]]
    offsets: np.ndarray  # int64


@inner(borrows=True)
def _eight(data: np.ndarray, at: np.uint64) -> np.uint64:
    """Return ``data[at:at + 8]`` as one little-endian number."""
    return (
        np.uint64(data[at])
        | np.uint64(data[at + np.uint64(1)]) << np.uint64(8)
        | np.uint64(data[at + np.uint64(2)]) << np.uint64(16)
        | np.uint64(data[at + np.uint64(3)]) << np.uint64(24)
        | np.uint64(data[at + np.uint64(4)]) << np.uint64(32)
        | np.uint64(data[at + np.uint64(5)]) << np.uint64(40)
        | np.uint64(data[at + np.uint64(6)]) << np.uint64(48)
        | np.uint64(data[at + np.uint64(7)]) << np.uint64(56)
    )


def _generate_load(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, args[0])
    address = builder.bitcast(builder.gep(array.data, [args[1]]), ir.IntType(64).as_pointer())
    return builder.load(address, align=1)


if not config.DISABLE_JIT and not config.BOUNDSCHECK and sys.byteorder == "little":

    @intrinsic
    def _eight(typing_context: Any, data: Any, at: Any) -> Any:
        """Load ``data[at:at + 8]`` as one number. LLVM makes the same of the function above, but that takes time."""
        return types.uint64(data, types.uint64), _generate_load


@inner(borrows=True)
def hash_bytes(data: np.ndarray, start: np.uint64, stop: np.uint64) -> np.uint64:
    """Return a 64-bit hash of ``data[start:stop]`` (not empty). Saved models with hashing rely on its values."""
    h = (stop - start) * GOLDEN
    while stop - start > EIGHT:
        h = (h ^ _eight(data, start)) * GOLDEN
        h ^= h >> HALF
        start += EIGHT
    h = (h ^ (_eight(data, start) & (ALL_BITS >> EIGHT * (EIGHT + start - stop)))) * GOLDEN
    h = (h ^ (h >> HALF)) * MIX
    return h ^ (h >> HALF)


@inner(borrows=True)
def _equal(a: np.ndarray, at_a: np.uint64, b: np.ndarray, at_b: np.uint64, size: np.uint64) -> bool:
    while size > EIGHT:
        if _eight(a, at_a) != _eight(b, at_b):
            return False
        at_a += EIGHT
        at_b += EIGHT
        size -= EIGHT
    return (_eight(a, at_a) ^ _eight(b, at_b)) & (ALL_BITS >> EIGHT * (EIGHT - size)) == ZERO


@inner(borrows=True)
def find_slot(terms: TermTable, data: np.ndarray, start: np.uint64, stop: np.uint64, h: np.uint64) -> np.uint64:
    """Return the slot of the term ``data[start:stop]`` with hash ``h``, or the free slot for it."""
    slots, blob, offsets = terms
    mask = np.uint64(slots.size - 1)
    at = h & mask
    while True:
        slot = slots[at]
        if slot == ZERO:
            return at
        if (slot ^ h) & HIGH == ZERO:
            term = (slot & LOW) - ONE
            begin = np.uint64(offsets[term])
            size = np.uint64(offsets[term + ONE]) - begin
            if size == stop - start and _equal(blob, begin, data, start, size):
                return at
        at = (at + ONE) & mask


@inner(borrows=True)
def find_or_append(
    terms: TermTable, n_terms: int, data: np.ndarray, start: np.uint64, stop: np.uint64
) -> tuple[np.int32, int]:
    """Find the term ``data[start:stop]``, or append it. Return its id, and the number of terms afterwards.

    The caller must have reserved the memory for it.
    """
    slots, blob, offsets = terms
    h = hash_bytes(data, start, stop)
    slot = find_slot(terms, data, start, stop, h)
    if slots[slot] == ZERO:
        begin = np.uint64(offsets[n_terms])
        for i in range(stop - start):
            blob[begin + i] = data[start + i]
        offsets[n_terms + 1] = begin + stop - start
        slots[slot] = (h & HIGH) | np.uint64(n_terms + 1)
        n_terms += 1
    return np.int32(np.int64(slots[slot] & LOW) - 1), n_terms


@njit(cache=True, nogil=True)
def add_terms(
    terms: TermTable, n_terms: int, other_blob: np.ndarray, other_offsets: np.ndarray, n_other: int
) -> tuple[np.ndarray, int]:
    """Add the terms of another table to this one. The caller must have reserved the memory.

    Returns
    -------
    ids : (n_other,) int32
        The id in this table of each term of the other table.
    n_terms : int
        The number of terms in the table afterwards.
    """
    ids = np.empty(n_other, np.int32)
    for term in range(n_other):
        start, stop = np.uint64(other_offsets[term]), np.uint64(other_offsets[term + 1])
        ids[term], n_terms = find_or_append(terms, n_terms, other_blob, start, stop)
    return ids, n_terms


@njit(cache=True, nogil=True, borrows=True)
def index_terms(slots: np.ndarray, blob: np.ndarray, offsets: np.ndarray, n_terms: int) -> None:
    """Fill the all-zero ``slots`` with ``n_terms`` distinct terms."""
    mask = np.uint64(slots.size - 1)
    for term in range(n_terms):
        h = hash_bytes(blob, np.uint64(offsets[term]), np.uint64(offsets[term + 1]))
        at = h & mask
        while slots[at] != ZERO:
            at = (at + ONE) & mask
        slots[at] = (h & HIGH) | np.uint64(term + 1)


@njit(cache=True, nogil=True, borrows=True)
def _in_order(prefixes: np.ndarray, blob: np.ndarray, offsets: np.ndarray, terms: np.ndarray, a: int, b: int) -> bool:
    """Return whether ``terms[a]`` comes before ``terms[b]`` in byte order."""
    if prefixes[a] != prefixes[b]:
        return prefixes[a] < prefixes[b]
    i, j = offsets[terms[a]], offsets[terms[b]]
    i_end, j_end = offsets[terms[a] + 1], offsets[terms[b] + 1]
    while i < i_end and j < j_end:
        if blob[i] != blob[j]:
            return blob[i] < blob[j]
        i += 1
        j += 1
    return i == i_end


@njit(cache=True, nogil=True)
def sort_terms(blob: np.ndarray, offsets: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """Return the order that sorts terms by their bytes, which in UTF-8 is the order of code points.

    It is computed by a merge sort, which compares the first 8 bytes of two terms as one number.
    """
    n = terms.size
    prefixes = np.zeros(n, np.uint64)
    for k in range(n):
        for i in range(offsets[terms[k]], offsets[terms[k]] + 8):
            byte = np.uint64(blob[i]) if i < offsets[terms[k] + 1] else ZERO
            prefixes[k] = (prefixes[k] << np.uint64(8)) | byte
    order = np.arange(n)
    spare = np.empty(n, np.int64)
    width = 1
    while width < n:
        for low in range(0, n, 2 * width):
            middle, high = min(low + width, n), min(low + 2 * width, n)
            i, j = low, middle
            for k in range(low, high):
                if i < middle and (j >= high or _in_order(prefixes, blob, offsets, terms, order[i], order[j])):
                    spare[k] = order[i]
                    i += 1
                else:
                    spare[k] = order[j]
                    j += 1
        order, spare = spare, order
        width *= 2
    return order


@njit(cache=True, nogil=True)
def take_terms(blob: np.ndarray, offsets: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the padded blob and the offsets of the chosen terms, in the given order."""
    out_offsets = np.empty(chosen.size + 1, np.int64)
    out_offsets[0] = 0
    for i in range(chosen.size):
        out_offsets[i + 1] = out_offsets[i] + offsets[chosen[i] + 1] - offsets[chosen[i]]
    out = np.zeros(out_offsets[-1] + PAD, np.uint8)
    for i in range(chosen.size):
        begin = offsets[chosen[i]]
        for j in range(out_offsets[i + 1] - out_offsets[i]):
            out[out_offsets[i] + j] = blob[begin + j]
    return out, out_offsets
