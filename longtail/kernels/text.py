"""Kernels that turn UTF-8 text into weighted rows: cut words, match or learn terms, count, weigh, sort.

A *block* is a run of texts encoded as UTF-8, each closed by a zero byte. A *term* is one word, or several consecutive
words of a text joined by single spaces; the known ones are in a table of ``longtail.kernels.terms``.

All kernels are serial and release the GIL: the caller splits batches over Python threads, and may itself be called from
several threads at once.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from longtail.kernels.terms import GOLDEN, LOW, ONE, PAD, ZERO, append_term, find_slot, hash_bytes

SPACE = np.uint8(32)


@njit(cache=True, nogil=True)
def _decode(block: np.ndarray, at: np.uint64, lead: np.uint8) -> tuple[np.uint32, np.uint64]:
    """The code point that ``lead``, found before ``at``, begins, and the position after it."""
    extra = 1 if lead < 0xE0 else 2 if lead < 0xF0 else 3
    code = np.uint32(lead & (0x3F >> extra))
    for _ in range(extra):
        code = np.uint32(code << 6) | np.uint32(block[at] & 0x3F)
        at += ONE
    return code, at


@njit(cache=True, nogil=True)
def _encode(code: np.uint32, line: np.ndarray, size: np.uint64) -> np.uint64:
    """Write a code point as UTF-8 at ``line[size]``; returns the position after it."""
    if code < 0x80:  # a few letters beyond ASCII have their lower case in it: the Kelvin sign
        line[size] = code
        return size + ONE
    extra = 1 if code < 0x800 else 2 if code < 0x10000 else 3
    line[size] = ((0xFF00 >> (extra + 1)) & 0xFF) | (code >> (6 * extra))
    size += ONE
    for left in range(extra - 1, -1, -1):
        line[size] = 0x80 | ((code >> (6 * left)) & 0x3F)
        size += ONE
    return size


@njit(cache=True, nogil=True)
def _words(
    block: np.ndarray,
    start: int,
    ascii_fold: np.ndarray,
    unicode_fold: np.ndarray,
    min_length: int,
    line: np.ndarray,
    begins: np.ndarray,
    ends: np.ndarray,
) -> tuple[int, int]:
    """Fold the text at ``block[start]`` to lower case and write its words to ``line``, joined by spaces.

    ``ascii_fold[b]`` is the folded byte of a word character, 0 for any other; ``unicode_fold[c]`` the same for code
    points. Returns the number of words and the position after the text's zero byte.
    """
    at = np.uint64(start)
    n_words = ZERO
    size = ZERO  # bytes written to line
    begin = ZERO  # where the current word begins in line
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
        # Not a word character: the word, if there was one, is over.
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


@njit(cache=True, nogil=True)
def fold_repeats(ids: np.ndarray, counts: np.ndarray, first: int, end: int, bag: np.ndarray) -> tuple:
    """Leave each id of ``ids[first:end]`` once, in place, with its count. Returns the new end and the bag, maybe grown.

    ``bag`` maps an id to 1 + its place in the row: a table per text, which unlike one per vocabulary stays in cache.
    """
    bits = 6
    while (1 << bits) < 2 * (end - first):
        bits += 1
    room = 1 << bits
    if bag.size < room:
        bag = np.empty(room, np.int32)
    bag[:room] = 0
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
    return last, bag


def most_words(n_bytes: int, min_length: int) -> int:
    """Upper bound of the words in a block of ``n_bytes``: a word takes its characters and one byte behind it."""
    return n_bytes // (min_length + 1) + 1


_most_words = njit(cache=True, nogil=True)(most_words)


@njit(cache=True, nogil=True)
def match_block(
    block: np.ndarray,
    n_texts: int,
    ascii_fold: np.ndarray,
    unicode_fold: np.ndarray,
    min_length: int,
    shortest: int,
    longest: int,
    n_bins: int,
    slots: np.ndarray,
    blob: np.ndarray,
    offsets: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count the known terms, of ``shortest`` to ``longest`` words, of every text of a block.

    With ``n_bins`` > 0 every term is known: its id is its hash modulo ``n_bins`` and the table is not looked at.

    Returns
    -------
    indptr : (n_texts + 1,) int64
    ids, counts : (nnz,) int32
        Distinct terms of each text in no particular order, and how often each occurs.
    """
    # Sized for the worst case: memory that is never touched costs nothing.
    n_words = _most_words(block.size, min_length)
    begins, ends = np.empty(n_words, np.uint64), np.empty(n_words, np.uint64)
    line = np.empty(block.size * 2 + PAD, np.uint8)  # lower case may take 3 bytes where upper case took 2
    ids = np.empty(n_words * (longest - shortest + 1), np.int32)
    counts = np.empty(ids.size, np.int32)
    indptr = np.zeros(n_texts + 1, np.int64)
    bag = np.empty(64, np.int32)
    at = 0
    for text in range(n_texts):
        n_words, at = _words(block, at, ascii_fold, unicode_fold, min_length, line, begins, ends)
        first = indptr[text]
        end = first
        for n in range(shortest, longest + 1):
            for w in range(n_words - n + 1):
                start, stop = begins[w], ends[w + n - 1]
                h = hash_bytes(line, start, stop)
                if n_bins > 0:
                    ids[end] = np.int32(h % np.uint64(n_bins))
                    end += 1
                else:
                    slot = slots[find_slot(slots, blob, offsets, line, start, stop, h)]
                    if slot != ZERO:
                        ids[end] = np.int32(np.int64(slot & LOW) - 1)
                        end += 1
        indptr[text + 1], bag = fold_repeats(ids, counts, first, end, bag)
    nnz = indptr[n_texts]
    return indptr, ids[:nnz].copy(), counts[:nnz].copy()


@njit(cache=True, nogil=True)
def learn_block(
    block: np.ndarray,
    n_texts: int,
    ascii_fold: np.ndarray,
    unicode_fold: np.ndarray,
    min_length: int,
    shortest: int,
    longest: int,
    slots: np.ndarray,
    blob: np.ndarray,
    offsets: np.ndarray,
    n_terms: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Count the terms of every text of a block, appending new ones to the table of ``n_terms`` terms.

    Room for ``most_words`` times the n-gram sizes more terms, and their bytes, is the caller's duty.
    Returns what ``match_block`` does, then the number of terms now in the table.
    """
    n_words = _most_words(block.size, min_length)
    begins, ends = np.empty(n_words, np.uint64), np.empty(n_words, np.uint64)
    line = np.empty(block.size * 2 + PAD, np.uint8)
    ids = np.empty(n_words * (longest - shortest + 1), np.int32)
    counts = np.empty(ids.size, np.int32)
    indptr = np.zeros(n_texts + 1, np.int64)
    bag = np.empty(64, np.int32)
    at = 0
    for text in range(n_texts):
        n_words, at = _words(block, at, ascii_fold, unicode_fold, min_length, line, begins, ends)
        first = indptr[text]
        end = first
        for n in range(shortest, longest + 1):
            for w in range(n_words - n + 1):
                start, stop = begins[w], ends[w + n - 1]
                h = hash_bytes(line, start, stop)
                slot = find_slot(slots, blob, offsets, line, start, stop, h)
                if slots[slot] == ZERO:
                    append_term(slots, blob, offsets, n_terms, line, start, stop, h, slot)
                    n_terms += 1
                ids[end] = np.int32(np.int64(slots[slot] & LOW) - 1)
                end += 1
        indptr[text + 1], bag = fold_repeats(ids, counts, first, end, bag)
    nnz = indptr[n_texts]
    return indptr, ids[:nnz].copy(), counts[:nnz].copy(), n_terms


@njit(cache=True, nogil=True)
def tally(ids: np.ndarray, document_frequency: np.ndarray) -> None:
    """Count each entry of a block, one a text and term, towards the term's document frequency."""
    for i in range(ids.size):
        document_frequency[ids[i]] += 1


@njit(cache=True, nogil=True)
def tally_counts(ids: np.ndarray, counts: np.ndarray, term_frequency: np.ndarray) -> None:
    """Add a block's counts to the terms' frequencies over all texts."""
    for i in range(ids.size):
        term_frequency[ids[i]] += counts[i]


@njit(cache=True, nogil=True)
def kept(indptr: np.ndarray, ids: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Number of entries in each row whose term has a column, (n_texts,) int64; ``columns`` as in ``weigh``."""
    out = np.zeros(indptr.size - 1, np.int64)
    if columns.size == 0:
        for row in range(out.size):
            out[row] = indptr[row + 1] - indptr[row]
        return out
    for row in range(out.size):
        for i in range(indptr[row], indptr[row + 1]):
            if columns[ids[i]] >= 0:
                out[row] += 1
    return out


@njit(cache=True, nogil=True)
def weigh(
    indptr: np.ndarray,
    ids: np.ndarray,
    counts: np.ndarray,
    columns: np.ndarray,
    idf: np.ndarray,
    sublinear: bool,
    out_indptr: np.ndarray,
    out_indices: np.ndarray,
    out_data: np.ndarray,
) -> None:
    """Write a block's rows of the TF-IDF matrix: columns ascending, each row of unit length.

    ``columns[id]`` is the column of a term, -1 for none; empty where ids already are columns. ``idf`` may be
    empty. ``out_indptr`` says where each row of the block goes in ``out_indices`` and ``out_data``.
    """
    keys = np.empty(64, np.int64)
    for row in range(indptr.size - 1):
        if indptr[row + 1] - indptr[row] > keys.size:
            keys = np.empty(2 * (indptr[row + 1] - indptr[row]), np.int64)
        n = 0
        for i in range(indptr[row], indptr[row + 1]):
            column = columns[ids[i]] if columns.size > 0 else ids[i]
            if column >= 0:
                keys[n] = (np.int64(column) << 32) | np.int64(counts[i])
                n += 1
        keys[:n].sort()
        base = out_indptr[row]
        squares = 0.0
        for i in range(n):
            column = keys[i] >> 32
            count = keys[i] & 0xFFFFFFFF
            value = np.float64(count)
            if sublinear and count > 1:
                value = 1.0 + np.log(value)
            if idf.size > 0:
                value *= idf[column]
            squares += value * value
            out_indices[base + i] = np.int32(column)
            out_data[base + i] = np.float32(value)
        if n > 0:
            scale = 1.0 / np.sqrt(squares)
            for i in range(n):
                out_data[base + i] = np.float32(out_data[base + i] * scale)
