"""Turn UTF-8 text into TF-IDF rows: cut words, look up or learn terms, count, weight and sort them.

A *block* is a sequence of texts encoded as UTF-8, each followed by a zero byte. A *term* is one word, or several
consecutive words of a text joined by single spaces. Known terms are in a `TermTable` of ``longtail.kernels.terms``.

All kernels are serial and release the interpreter lock. The caller distributes blocks over threads.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np

from longtail.kernels.compiling import inner, kernel, njit
from longtail.kernels.terms import GOLDEN, LOW, ONE, PAD, ZERO, TermTable, find_or_append, find_slot, hash_bytes

SPACE = np.uint8(32)
_SHORT = 4096  # each thread keeps memory for one text of up to so many bytes
_SORTED_BY_INSERTION = 32  # rows with at most so many entries are sorted by insertion


class Folding(NamedTuple):
    """Tables of lower case: the lower-case form of each character that belongs to a word, and 0 for all others."""

    ascii: np.ndarray  # (256,) uint8, by byte
    unicode: np.ndarray  # (0x110000,) uint32, by code point; empty for a block in ASCII


class TermShape(NamedTuple):
    """Settings for cutting texts into terms."""

    min_length: int  # characters of the shortest word
    fewest: int  # words of the shortest term
    most: int  # words of the longest term
    characters: bool = False  # whether terms are made of the characters of a word, and spaces around it, not of words


class Counted(NamedTuple):
    """The distinct terms of each text of a block, in no particular order, and the number of their occurrences."""

    indptr: np.ndarray  # (n_texts + 1,) int64
    ids: np.ndarray  # (nnz,) int32
    counts: np.ndarray  # (nnz,) int32


class WeightedRows(NamedTuple):
    """The output of `weight_rows`. `indptr` has the first position of each row in the other two arrays."""

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray


class Words(NamedTuple):
    """The words of one text in lower case, joined by spaces in `line`. Word i is line[begins[i] : ends[i]]."""

    line: np.ndarray
    begins: np.ndarray
    ends: np.ndarray


class Places(NamedTuple):
    """The positions of the terms of one text. Term i is line[begins[i] : ends[i]] of its words."""

    marks: np.ndarray  # the position of each character of the current word
    begins: np.ndarray
    ends: np.ndarray


class _Kept(threading.local):
    """The memory that each thread keeps between calls."""

    def __init__(self) -> None:
        self.rooms: dict[TermShape, Room] = {}


_kept = _Kept()


class Room(NamedTuple):
    """Memory for counting the terms of a block, large enough for any texts of its size.

    With it, kernels allocate no arrays, so that they compile faster. Memory that is never written costs nothing.
    """

    words: Words
    places: Places
    indptr: np.ndarray  # the next three become Counted
    ids: np.ndarray
    counts: np.ndarray
    bag: np.ndarray  # see fold_repeats

    @classmethod
    def for_block(cls, n_bytes: int, n_texts: int, shape: TermShape) -> Room:
        """Return memory for `n_texts` texts of `n_bytes` in total. The thread keeps the memory for one short text."""
        if n_texts != 1 or n_bytes > _SHORT:
            return cls.empty(n_bytes, n_texts, shape)
        if shape not in _kept.rooms:
            _kept.rooms[shape] = cls.empty(_SHORT, n_texts, shape)
        return _kept.rooms[shape]

    @classmethod
    def empty(cls, n_bytes: int, n_texts: int, shape: TermShape) -> Room:
        """Allocate new memory."""
        n_words, n_ids = most_words(n_bytes, shape.min_length), most_terms(n_bytes, shape.min_length, shape)
        line = np.empty(n_bytes * 2 + 1 + PAD, np.uint8)  # lower case may take 3 bytes where upper case takes 2
        return cls(
            Words(line, np.empty(n_words, np.uint64), np.empty(n_words, np.uint64)),
            Places(np.empty(n_bytes + 3, np.uint64), np.empty(n_ids, np.uint64), np.empty(n_ids, np.uint64)),
            np.empty(n_texts + 1, np.int64),
            np.empty(n_ids, np.int32),
            np.empty(n_ids, np.int32),
            np.empty(bag_size(n_ids), np.int32),
        )

    def counted(self) -> Counted:
        """Return a copy of the counts without the unused memory."""
        n = int(self.indptr[-1])
        return Counted(self.indptr.copy(), self.ids[:n].copy(), self.counts[:n].copy())


@njit(cache=True, nogil=True, borrows=True)
def _decode(block: np.ndarray, at: np.uint64, lead: np.uint8) -> tuple[np.uint32, np.uint64]:
    """Return the code point whose first byte, just before ``at``, is ``lead``, and the position after it."""
    extra = 1 if lead < 0xE0 else 2 if lead < 0xF0 else 3
    code = np.uint32(lead & (0x3F >> extra))
    for _ in range(extra):
        code = np.uint32(code << 6) | np.uint32(block[at] & 0x3F)
        at += ONE
    return code, at


@njit(cache=True, nogil=True, borrows=True)
def _encode(code: np.uint32, line: np.ndarray, size: np.uint64) -> np.uint64:
    """Write a code point as UTF-8 at ``line[size]``, and return the position after it."""
    if code < 0x80:  # a few letters beyond ASCII have a lower case in ASCII: the Kelvin sign
        line[size] = code
        return size + ONE
    extra = 1 if code < 0x800 else 2 if code < 0x10000 else 3
    line[size] = ((0xFF00 >> (extra + 1)) & 0xFF) | (code >> (6 * extra))
    size += ONE
    for left in range(extra - 1, -1, -1):
        line[size] = 0x80 | ((code >> (6 * left)) & 0x3F)
        size += ONE
    return size


@njit(cache=True, nogil=True, borrows=True)
def _cut_words(block: np.ndarray, start: int, fold: Folding, min_length: int, words: Words) -> tuple[int, int]:
    """Write the words of the text at ``block[start]`` to ``words``.

    Return the number of words, and the position after the zero byte that ends the text.
    """
    ascii_fold, unicode_fold = fold
    line, begins, ends = words
    at = np.uint64(start)
    n_words = ZERO
    line[0] = SPACE  # every word is between spaces
    size = ONE  # bytes written to line
    begin = ONE  # where the current word begins in line
    length = 0  # characters of the current word
    while True:
        byte = block[at]
        at += ONE
        folded = ascii_fold[byte]
        if folded != 0:
            line[size] = folded
            size += ONE
            length += 1
            continue
        if byte >= 0x80:
            code, at = _decode(block, at, byte)
            code = unicode_fold[code]
            if code != 0:
                size = _encode(code, line, size)
                length += 1
                continue
        # Not a word character: the current word, if any, ends here.
        if length >= min_length:
            begins[n_words] = begin
            ends[n_words] = size
            n_words += ONE
            line[size] = SPACE
            size += ONE
            begin = size
        else:
            size = begin
        length = 0
        if byte == 0:
            return np.int64(n_words), np.int64(at)  # type: ignore[return-value]


@njit(cache=True, nogil=True, borrows=True)
def _cut_terms(words: Words, n_words: int, shape: TermShape, places: Places) -> int:
    """Write the positions of all terms of a text (n-grams of words or characters) to ``places``. Return their number.

    For characters, a word includes a space on either side. A word that is shorter than n is one term. A single space is
    not a term.
    """
    marks, begins, ends = places
    n_terms = 0
    if not shape.characters:
        for n in range(shape.fewest, shape.most + 1):
            for w in range(n_words - n + 1):
                begins[n_terms] = words.begins[w]
                ends[n_terms] = words.ends[w + n - 1]
                n_terms += 1
        return n_terms
    for w in range(n_words):
        size = 0  # characters of the word with its spaces
        stop = words.ends[w] + ONE
        for at in range(words.begins[w] - ONE, stop):
            if words.line[at] & 0xC0 != 0x80:  # the first byte of a character
                marks[size] = at
                size += 1
        marks[size] = stop
        for n in range(shape.fewest, shape.most + 1):
            if n >= size:
                begins[n_terms] = marks[0]
                ends[n_terms] = stop
                n_terms += 1
                break
            edge = 1 if n == 1 else 0
            for i in range(edge, size - n + 1 - edge):
                begins[n_terms] = marks[i]
                ends[n_terms] = marks[i + n]
                n_terms += 1
    return n_terms


def bag_size(n_ids: int) -> int:
    """Return the size of the table that :func:`fold_repeats` needs for rows of at most `n_ids` ids."""
    return 1 << max(6, (2 * n_ids - 1).bit_length())


@inner(borrows=True)
def fold_repeats(ids: np.ndarray, counts: np.ndarray, first: int, end: int, bag: np.ndarray) -> int:
    """Merge repeated ids in ``ids[first:end]`` in place, and count them. Return the new end.

    ``bag``, of at least :func:`bag_size`, is a hash table from ids to 1 + their position in the row. A table per text
    fits into the cache, while a table of the whole vocabulary would not.
    """
    bits = 6
    while (1 << bits) < 2 * (end - first):
        bits += 1
    room = 1 << bits
    for i in range(np.uint64(room)):
        bag[i] = 0
    shift = np.uint64(64 - bits)
    last = first
    for hit in range(first, end):
        term = ids[hit]
        at = np.int64((np.uint64(term) * GOLDEN) >> shift)
        while bag[at] != 0 and ids[first + bag[at] - 1] != term:
            at = (at + 1) & (room - 1)
        if bag[at] == 0:
            ids[last] = term
            counts[last] = 1
            last += 1
            bag[at] = last - first
        else:
            counts[first + bag[at] - 1] += 1
    return last


def most_words(n_bytes: int, min_length: int) -> int:
    """Return an upper bound of the number of words in ``n_bytes``: a word takes its characters and one more byte."""
    return n_bytes // (min_length + 1) + 1


def most_terms(n_bytes: int, min_length: int, shape: TermShape) -> int:
    """Return an upper bound of the number of terms in ``n_bytes``."""
    n_words = most_words(n_bytes, min_length)
    sizes = shape.most - shape.fewest + 1
    return (n_bytes + 2 * n_words) * sizes if shape.characters else n_words * sizes


def match_block(
    block: np.ndarray, n_texts: int, fold: Folding, shape: TermShape, n_bins: int, terms: TermTable
) -> Counted:
    """Count the known terms of each text of a block.

    With ``n_bins`` > 0, the table is not used: the id of any term is its hash modulo ``n_bins``.
    """
    room = Room.for_block(block.size, n_texts, shape)
    match_texts(block, fold, shape, n_bins, terms, room)
    return room.counted()


@kernel(borrows=True)
def match_texts(block: np.ndarray, fold: Folding, shape: TermShape, n_bins: int, terms: TermTable, room: Room) -> None:
    """Count the known terms of each text of a block, like :func:`match_block`, with the memory of ``room``."""
    words, places, indptr, ids, counts, bag = room
    at = np.int64(0)
    indptr[0] = 0
    for text in range(len(indptr) - 1):
        n_words, at = _cut_words(block, at, fold, shape.min_length, words)
        first = indptr[text]
        end = first
        for i in range(_cut_terms(words, n_words, shape, places)):
            start, stop = places.begins[i], places.ends[i]
            h = hash_bytes(words.line, start, stop)
            if n_bins > 0:
                ids[end] = np.int32(h % np.uint64(n_bins))
                end += 1
            else:
                slot = terms.slots[find_slot(terms, words.line, start, stop, h)]
                if slot != ZERO:
                    ids[end] = np.int32(np.int64(slot & LOW) - 1)
                    end += 1
        indptr[text + 1] = fold_repeats(ids, counts, first, end, bag)


def learn_block(
    block: np.ndarray, n_texts: int, fold: Folding, shape: TermShape, terms: TermTable, n_terms: int
) -> tuple[Counted, int]:
    """Count the terms of each text of a block, and append new ones to the table, which has ``n_terms`` terms.

    The caller must have reserved the memory for ``most_words`` times the number of n-gram sizes new terms, and for
    their bytes. Return the counts, and the number of terms in the table afterwards.
    """
    room = Room.for_block(block.size, n_texts, shape)
    n_terms = learn_texts(block, fold, shape, terms, n_terms, room)
    return room.counted(), n_terms


@kernel(borrows=True)
def learn_texts(block: np.ndarray, fold: Folding, shape: TermShape, terms: TermTable, n_terms: int, room: Room) -> int:
    """Count the terms of each text of a block, like :func:`learn_block`, with the memory of ``room``."""
    words, places, indptr, ids, counts, bag = room
    at = np.int64(0)
    indptr[0] = 0
    for text in range(len(indptr) - 1):
        n_words, at = _cut_words(block, at, fold, shape.min_length, words)
        first = indptr[text]
        end = first
        for i in range(_cut_terms(words, n_words, shape, places)):
            ids[end], n_terms = find_or_append(terms, n_terms, words.line, places.begins[i], places.ends[i])
            end += 1
        indptr[text + 1] = fold_repeats(ids, counts, first, end, bag)
    return n_terms


@njit(cache=True, nogil=True, borrows=True)
def count_documents(ids: np.ndarray, document_frequency: np.ndarray) -> None:
    """Add the entries of a block, one per text and term, to the document frequencies of the terms."""
    for i in range(ids.size):
        document_frequency[ids[i]] += 1


@njit(cache=True, nogil=True, borrows=True)
def count_occurrences(ids: np.ndarray, counts: np.ndarray, term_frequency: np.ndarray) -> None:
    """Add the counts of a block to the frequencies of the terms over all texts."""
    for i in range(ids.size):
        term_frequency[ids[i]] += counts[i]


@njit(cache=True, nogil=True)
def entries_with_column(block: Counted, columns: np.ndarray) -> np.ndarray:
    """Return the number of entries of each row whose term has a column, (n_texts,) int64; see ``weight_rows``."""
    out = np.zeros(block.indptr.size - 1, np.int64)
    if columns.size == 0:
        for row in range(out.size):
            out[row] = block.indptr[row + 1] - block.indptr[row]
        return out
    for row in range(out.size):
        for i in range(block.indptr[row], block.indptr[row + 1]):
            if columns[block.ids[i]] >= 0:
                out[row] += 1
    return out


@njit(cache=True, nogil=True, borrows=True)
def _sort_by_column(keys: np.ndarray, counts: np.ndarray, n: np.int64) -> np.int64:
    """Sort the first n keys in row 0 of ``keys`` by their column, which is in the upper 32 bits.

    Return the row of ``keys`` that has the result. Row 1 and ``counts`` are scratch. Few keys are sorted by insertion,
    many by a radix sort. NumPy's sort inside a kernel would take a second to compile.
    """
    if n <= _SORTED_BY_INSERTION:
        for a in range(1, n):
            key, b = keys[0, a], a
            while b > 0 and keys[0, b - 1] > key:
                keys[0, b] = keys[0, b - 1]
                b -= 1
            keys[0, b] = key
        return np.int64(0)
    largest, shift, at = keys[0, 0], np.int64(32), np.int64(0)
    for i in range(n):
        if keys[0, i] > largest:
            largest = keys[0, i]
    while largest >> shift > 0:
        for digit in range(256):
            counts[digit] = 0
        for i in range(n):
            counts[(keys[at, i] >> shift) & 255] += 1
        total = 0
        for digit in range(256):
            total += counts[digit]
            counts[digit] = total - counts[digit]
        for i in range(n):
            digit = (keys[at, i] >> shift) & 255
            keys[1 - at, counts[digit]] = keys[at, i]
            counts[digit] += 1
        at = 1 - at
        shift += 8
    return at


def weight_rows(block: Counted, columns: np.ndarray, idf: np.ndarray, sublinear: bool, out: WeightedRows) -> None:
    """Write the TF-IDF rows of a block, with ascending columns and rows of unit length.

    Parameters
    ----------
    block : Counted
        Counted terms.
    columns : int32 array
        Column of each term id, -1 for none. Empty if ids are columns already.
    idf : float32 array
        Inverse document frequency of each column. Empty to leave counts unweighted.
    sublinear : bool
        Whether n occurrences count as 1 + ln n.
    out : WeightedRows
        Output.
    """
    longest = len(block.ids) if len(block.indptr) == 2 else int(np.diff(block.indptr).max(initial=0))
    fill_rows(block, columns, idf, sublinear, np.empty((2, longest), np.int64), np.empty(256, np.int64), out)


@kernel(borrows=True)
def fill_rows(
    block: Counted,
    columns: np.ndarray,
    idf: np.ndarray,
    sublinear: bool,
    keys: np.ndarray,
    digits: np.ndarray,
    out: WeightedRows,
) -> None:
    """Write the rows of :func:`weight_rows`. Scratch: `keys` (2, entries of the longest row) and `digits` (256,)."""
    indptr, ids, counts = block
    for row in range(indptr.size - 1):
        n = np.int64(0)
        for i in range(indptr[row], indptr[row + 1]):
            column = columns[ids[i]] if columns.size > 0 else ids[i]
            if column >= 0:
                keys[0, n] = (np.int64(column) << 32) | np.int64(counts[i])
                n += 1
        at = _sort_by_column(keys, digits, n)
        base = out.indptr[row]
        squares = 0.0
        for i in range(n):
            column = keys[at, i] >> 32
            count = keys[at, i] & 0xFFFFFFFF
            value = np.float64(count)
            if sublinear and count > 1:
                value = 1.0 + np.log(value)
            if idf.size > 0:
                value *= idf[column]
            squares += value * value
            out.indices[base + i] = np.int32(column)
            out.data[base + i] = np.float32(value)
        if n > 0:
            scale = 1.0 / np.sqrt(squares)
            for i in range(n):
                out.data[base + i] = np.float32(out.data[base + i] * scale)
