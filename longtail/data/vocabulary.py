"""What lies between Python strings and the text kernels: encoded blocks, case folding tables, the table of terms."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import NamedTuple, TypeVar

import numpy as np
from scipy.sparse import csr_array

from longtail.errors import DataError, SettingsError
from longtail.kernels import terms as table
from longtail.kernels import text as kernels

Counted = tuple[np.ndarray, np.ndarray, np.ndarray]  # indptr, ids, counts of a block

Item = TypeVar("Item")
Out = TypeVar("Out")
SAME_COLUMNS = np.empty(0, np.int32)  # "ids are columns already"
BLOCK_CHARACTERS = 1 << 18  # small enough for the caches, large enough to forget Python's overhead


def encode(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Texts as one UTF-8 block, each text closed by a zero byte, and the table that folds its characters beyond ASCII.

    A zero inside a text becomes a space: both separate words and neither touches its neighbours' case.
    """
    joined = "\0".join([*texts, ""])
    if joined.count("\0") != len(texts):
        joined = "\0".join([*(text.replace("\0", " ") for text in texts), ""])
    # The kernel folds case character by character. Two letters need Python's own rule: the capital sigma, whose lower
    # case depends on its neighbours, and the dotted capital I, which becomes two characters.
    if not joined.isascii() and ("Σ" in joined or "İ" in joined):
        joined = joined.lower()
    block = np.frombuffer(joined.encode("utf-8", "surrogatepass"), np.uint8)
    return block, _NO_FOLD if joined.isascii() else unicode_fold()


def listed(texts: Iterable[str], name: str) -> list[str]:
    """The texts as a list of strings, whatever held them. A lone string is refused: it would pass for its letters."""
    if isinstance(texts, str | bytes):
        raise DataError(f"{name} must be a list of strings, not one string", remedy="Put it into a list: [text]")
    try:
        texts = texts if isinstance(texts, list) else list(texts)
    except TypeError:
        raise DataError(f"{name} must be a list of strings, found {type(texts).__name__}") from None
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(
                f"{name} must be strings, found {type(text).__name__}",
                row=row,
                remedy='Decode bytes; for a missing text put ""',
            )
    return texts


def blocks(texts: list[str], start: int, stop: int) -> Iterator[list[str]]:
    """Runs of ``texts[start:stop]`` of about ``BLOCK_CHARACTERS`` characters each."""
    size, first = 0, start
    for i in range(start, stop):
        size += len(texts[i])
        if size >= BLOCK_CHARACTERS:
            yield texts[first : i + 1]
            size, first = 0, i + 1
    if first < stop:
        yield texts[first:stop]


def spans(texts: list[str], n_jobs: int) -> list[tuple[int, int]]:
    """Ranges of rows with about as many characters each, one a thread; fewer where a thread would not pay."""
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
    total = int(ends[-1]) if texts else 0
    parts = min(n_threads(n_jobs), 1 + total // (4 * BLOCK_CHARACTERS))
    cuts = np.searchsorted(ends, total * np.arange(1, parts) / parts).tolist()
    return list(zip([0, *cuts], [*cuts, len(texts)], strict=True))


def n_threads(n_jobs: int) -> int:
    """Number of threads that ``n_jobs`` asks for."""
    if n_jobs == -1:
        return os.cpu_count() or 1
    if n_jobs < 1:
        raise SettingsError(f"n_jobs={n_jobs} must be a number of threads, or -1 for one a core")
    return n_jobs


def on_threads(function: Callable[[Item], Out], items: Iterable[Item], threads: int | None = None) -> list[Out]:
    """``[function(item) for item in items]`` on one thread an item, or on so many."""
    items = list(items)
    threads = len(items) if threads is None else threads
    if threads <= 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, items))


@cache
def ascii_fold() -> np.ndarray:
    """(256,) uint8: the lower case of an ASCII word character, 0 for any other byte."""
    table = [ord(chr(byte).lower()) if chr(byte).isalnum() or byte == ord("_") else 0 for byte in range(128)]
    return frozen(np.array(table + [0] * 128, np.uint8))


@cache
def unicode_fold() -> np.ndarray:
    """(0x110000,) uint32: the lower case of each code point that is a word character (``\\w``) then, 0 for others."""
    codes = np.arange(0x110000, dtype="<u4")
    codes[[ord("Σ"), ord("İ")]] = ord(" ")  # never seen by the kernel, see encode
    lower = codes.tobytes().decode("utf-32-le", "surrogatepass").lower()
    table = np.frombuffer(lower.encode("utf-32-le", "surrogatepass"), "<u4").astype(np.uint32)
    word = np.zeros(table.size, bool)
    for match in re.finditer(r"\w+", lower):
        word[match.start() : match.end()] = True
    table[~word] = 0
    return frozen(table)


class Cut(NamedTuple):
    """How texts are cut into terms: shortest word in characters, fewest and most words of a term."""

    min_length: int
    shortest: int
    longest: int


class Terms:
    """A growing table of distinct terms, numbered in the order in which they came, with their frequencies.

    Attributes
    ----------
    slots, blob, offsets : arrays
        The table of ``longtail.kernels.terms``, with room to spare.
    size : int
        Number of terms.
    document_frequency, term_frequency : arrays, shape (room,)
        Texts that hold each term, and how often it occurs in them.
    """

    def __init__(self) -> None:
        self.slots = np.zeros(16, np.uint64)
        self.blob = np.zeros(table.PAD, np.uint8)
        self.offsets = np.zeros(1, np.int64)
        self.size = 0
        self.document_frequency = np.zeros(0, np.int64)
        self.term_frequency = np.zeros(0, np.int64)

    def count(self, texts: list[str], cut: Cut) -> Counted:
        """Count the terms of some texts, learning those that are new."""
        block, unicode_table = encode(texts)
        sizes = cut.longest - cut.shortest + 1
        # An n-gram repeats the bytes of its words, and lower case may take 3 bytes where upper case took 2.
        self._reserve(kernels.most_words(block.size, cut.min_length) * sizes, 2 * block.size * cut.longest * sizes)
        indptr, ids, counts, self.size = kernels.learn_block(
            block, len(texts), ascii_fold(), unicode_table, *cut, self.slots, self.blob, self.offsets, self.size
        )
        kernels.tally(ids, self.document_frequency)
        kernels.tally_counts(ids, counts, self.term_frequency)
        return indptr, ids, counts

    def merge(self, other: Terms) -> np.ndarray:
        """Take in another table. Returns the ids here of the other's terms, (other.size,) int32."""
        self._reserve(other.size, int(other.offsets[other.size]))
        ids, self.size = table.add_terms(
            self.slots, self.blob, self.offsets, self.size, other.blob, other.offsets, other.size
        )
        self.document_frequency[ids] += other.document_frequency[: other.size]
        self.term_frequency[ids] += other.term_frequency[: other.size]
        return ids

    def _reserve(self, n_terms: int, n_bytes: int) -> None:
        """Make room for ``n_terms`` more terms of ``n_bytes`` bytes together."""
        n_bytes += int(self.offsets[self.size]) + table.PAD
        if n_bytes > self.blob.size:
            self.blob = _grown(self.blob, 2 * n_bytes)
        n_terms += self.size
        if n_terms > self.document_frequency.size:
            self.offsets = _grown(self.offsets, 2 * n_terms + 1)
            self.document_frequency = _grown(self.document_frequency, 2 * n_terms)
            self.term_frequency = _grown(self.term_frequency, 2 * n_terms)
        if 2 * n_terms > self.slots.size:
            self.slots = slots_for(self.blob, self.offsets, self.size, n_terms)


def weigh_blocks(
    counted: list[Counted], columns: list[np.ndarray], idf: np.ndarray, sublinear: bool, n_columns: int, threads: int
) -> csr_array:
    """The TF-IDF matrix of counted blocks, rows of unit length.

    Parameters
    ----------
    counted : list of (indptr, ids, counts)
        Consecutive blocks of rows.
    columns : list of int32 arrays
        For each block the column of each id, -1 for none, or ``SAME_COLUMNS``.
    idf : array, shape (n_columns,) or (0,)
        Weight of each column; empty for none.
    sublinear : bool
        Whether n occurrences count as 1 + ln n.
    n_columns, threads : int
        Width of the matrix, and threads to use.
    """
    sizes = [kernels.kept(block[0], block[1], own) for block, own in zip(counted, columns, strict=True)]
    rows = np.cumsum([0, *map(len, sizes)])  # the first row of each block
    indptr = np.zeros(rows[-1] + 1, np.int64)
    np.cumsum(np.concatenate([np.zeros(0, np.int64), *sizes]), out=indptr[1:])
    indices, data = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32)

    def write(i: int) -> None:
        out = indptr[rows[i] : rows[i + 1] + 1]
        kernels.weigh(*counted[i], columns[i], idf, sublinear, out, indices, data)

    on_threads(write, range(len(counted)), threads)
    return canonical(data, indices, indptr, n_columns)


def canonical(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, n_columns: int) -> csr_array:
    """The matrix of these arrays, int32 where that is enough, whose rows are known to be ascending without repeats."""
    if indices.size < 2**31:
        indptr = indptr.astype(np.int32)  # else scipy would widen the indices
    A = csr_array((data, indices, indptr), shape=(indptr.size - 1, n_columns))
    A.has_canonical_format = True
    return A


def slots_for(blob: np.ndarray, offsets: np.ndarray, n_terms: int, room: int | None = None) -> np.ndarray:
    """Slots that index the first ``n_terms`` terms, at most half full once there are ``room`` of them."""
    slots = np.zeros(1 << max(4, (2 * (room or n_terms) - 1).bit_length()), np.uint64)
    table.index_terms(slots, blob, offsets, n_terms)
    return slots


def _grown(array: np.ndarray, size: int) -> np.ndarray:
    out = np.zeros(size, array.dtype)
    out[: array.size] = array
    return out


def frozen(array: np.ndarray) -> np.ndarray:
    """A read-only view as a plain array: kernels then see one type, whether it was learnt or memory-mapped."""
    view = array.view(np.ndarray)
    view.flags.writeable = False
    return view


_NO_FOLD = frozen(np.empty(0, np.uint32))
