"""Prepare texts for the text kernels: encode blocks, make tables of lower case, and keep the table of terms."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache

import numpy as np
from scipy.sparse import csr_array

from longtail.errors import DataError
from longtail.kernels import pool
from longtail.kernels import terms as table
from longtail.kernels import text as kernels
from longtail.kernels.text import Counted, Folding, TermShape
from longtail.sparse import frozen

SAME_COLUMNS = np.empty(0, np.int32)  # used in place of a map from ids to columns if the ids are the columns
_TOKEN_END = "\x01"
_WITHOUT_ENDS = {0: " ", 1: " "}  # translation that removes the ends of texts and tokens from inside a token
BLOCK_CHARACTERS = 1 << 18  # small enough for the caches, large enough to make Python's overhead negligible


def encoded_tokens(texts: list[list[str]]) -> tuple[np.ndarray, Folding]:
    """Encode texts that are lists of tokens as one block. Return also the table that leaves all bytes as they are."""
    cleaned = (_TOKEN_END.join(token.translate(_WITHOUT_ENDS) for token in tokens) for tokens in texts)
    joined = "\0".join([*cleaned, ""])
    return np.frombuffer(joined.encode("utf-8", "surrogatepass"), np.uint8), token_folding()


def encoded_block(texts: list[str], *, marks: bool = False) -> tuple[np.ndarray, Folding]:
    """Encode texts as one UTF-8 block, each followed by a zero byte. Return also the tables that fold its case.

    A zero inside a text becomes a space: both separate words, and neither affects the case of adjacent letters. With
    `marks`, combining marks belong to words, as Thai and the scripts of India use them for vowels.
    """
    joined = "\0".join([*texts, ""])
    if joined.count("\0") != len(texts):
        joined = "\0".join([*(text.replace("\0", " ") for text in texts), ""])
    # The kernel folds case character by character. Two letters need Python's own rule: the capital sigma, whose lower
    # case depends on its neighbours, and the dotted capital I, which becomes two characters.
    if not joined.isascii() and ("Σ" in joined or "İ" in joined):
        joined = joined.lower()
    block = np.frombuffer(joined.encode("utf-8", "surrogatepass"), np.uint8)
    return block, ascii_folding() if joined.isascii() else unicode_folding(marks)


def string_list(texts: Iterable[str], name: str) -> list[str]:
    """Return texts as a list of strings. Refuse a single string, which would be read as a list of its letters."""
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


def text_blocks(texts: list[str], start: int, stop: int) -> Iterator[list[str]]:
    """Cut ``texts[start:stop]`` into consecutive lists of about ``BLOCK_CHARACTERS`` characters each."""
    size, first = 0, start
    for i in range(start, stop):
        size += len(texts[i])
        if size >= BLOCK_CHARACTERS:
            yield texts[first : i + 1]
            size, first = 0, i + 1
    if first < stop:
        yield texts[first:stop]


def text_ranges(texts: list[str], n_jobs: int | None) -> list[tuple[int, int]]:
    """Return ranges of rows with about equal numbers of characters: one per thread, or fewer for little text."""
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
    total = int(ends[-1]) if texts else 0
    parts = min(pool.cores(n_jobs), 1 + total // (4 * BLOCK_CHARACTERS))
    cuts = np.searchsorted(ends, total * np.arange(1, parts) / parts).tolist()
    return list(zip([0, *cuts], [*cuts, len(texts)], strict=True))


@cache
def ascii_folding() -> Folding:
    """Return the tables for a block in ASCII, which does not need the large table."""
    lower = [ord(chr(byte).lower()) if chr(byte).isalnum() or byte == ord("_") else 0 for byte in range(128)]
    return Folding(frozen(np.array(lower + [0] * 128, np.uint8)), frozen(np.empty(0, np.uint32)))


@cache
def token_folding() -> Folding:
    """Return tables that leave all bytes as they are, except for the two that end a token and a text."""
    return Folding(frozen(np.array([0, 0, *range(2, 256)], np.uint8)), frozen(np.empty(0, np.uint32)))


@cache
def unicode_folding(marks: bool = False) -> Folding:
    r"""Return the tables for any block. A code point belongs to a word if its lower case matches ``\w``.

    With `marks`, combining marks belong to words as well.
    """
    codes = np.arange(0x110000, dtype="<u4")
    codes[[ord("Σ"), ord("İ")]] = ord(" ")  # encoded_block replaces them before they reach the kernel
    lower = codes.tobytes().decode("utf-32-le", "surrogatepass").lower()
    folded = np.frombuffer(lower.encode("utf-32-le", "surrogatepass"), "<u4").astype(np.uint32)
    in_word = np.zeros(folded.size, bool)
    for match in re.finditer(r"\w+", lower):
        in_word[match.start() : match.end()] = True
    if marks:
        in_word |= np.fromiter((unicodedata.category(c) in ("Mn", "Mc") for c in lower), bool, len(lower))
    folded[~in_word] = 0
    return Folding(ascii_folding().ascii, frozen(folded))


class Terms:
    """A growing table of distinct terms and their frequencies. Terms are numbered in the order in which they occur.

    Attributes
    ----------
    table : TermTable
        The terms, in arrays with room for more.
    size : int
        Number of terms.
    document_frequency, term_frequency : arrays, at least `size` long
        Number of texts that contain each term, and number of its occurrences in all texts.
    """

    def __init__(self) -> None:
        self.table = table.TermTable(np.zeros(16, np.uint64), np.zeros(table.PAD, np.uint8), np.zeros(1, np.int64))
        self.size = 0
        self.document_frequency = np.zeros(0, np.int64)
        self.term_frequency = np.zeros(0, np.int64)

    def count(self, block: np.ndarray, folding: Folding, n_texts: int, shape: TermShape) -> Counted:
        """Count the terms of a block of texts, and add new terms to the table."""
        sizes = shape.most - shape.fewest + 1
        # An upper bound: an n-gram repeats the bytes of its words, a lower-case letter may take 3 bytes where the
        # upper-case letter takes 2, and character n-grams also repeat the spaces around words.
        n_bytes = (4 if shape.characters else 2) * block.size * shape.most * sizes
        self._reserve(kernels.most_terms(block.size, shape.min_length, shape), n_bytes)
        counted, self.size = kernels.learn_block(block, n_texts, folding, shape, self.table, self.size)
        kernels.count_documents(counted.ids, self.document_frequency)
        kernels.count_occurrences(counted.ids, counted.counts, self.term_frequency)
        return counted

    def merge(self, other: Terms) -> np.ndarray:
        """Add the terms of another table, and return their ids in this one, (other.size,) int32."""
        blob, offsets = other.table.blob, other.table.offsets
        self._reserve(other.size, int(offsets[other.size]))
        ids, self.size = table.add_terms(self.table, self.size, blob, offsets, other.size)
        self.document_frequency[ids] += other.document_frequency[: other.size]
        self.term_frequency[ids] += other.term_frequency[: other.size]
        return ids

    def _reserve(self, n_terms: int, n_bytes: int) -> None:
        """Reserve memory for ``n_terms`` more terms of ``n_bytes`` bytes in total."""
        slots, blob, offsets = self.table
        n_bytes += int(offsets[self.size]) + table.PAD
        if n_bytes > blob.size:
            blob = _grown(blob, 2 * n_bytes)
        n_terms += self.size
        if n_terms > self.document_frequency.size:
            offsets = _grown(offsets, 2 * n_terms + 1)
            self.document_frequency = _grown(self.document_frequency, 2 * n_terms)
            self.term_frequency = _grown(self.term_frequency, 2 * n_terms)
        if 2 * n_terms > slots.size:
            slots = slots_for(blob, offsets, self.size, n_terms)
        self.table = table.TermTable(slots, blob, offsets)


def weighted_rows(
    counted: list[Counted],
    columns: list[np.ndarray],
    idf: np.ndarray,
    sublinear: bool,
    n_columns: int,
    n_jobs: int | None,
) -> csr_array:
    """Return the TF-IDF matrix of counted blocks, with rows of unit length.

    Parameters
    ----------
    counted : list of Counted
        Consecutive blocks of rows.
    columns : list of int32 arrays
        The column of each id, -1 for none, or ``SAME_COLUMNS``; one array per block.
    idf : array, shape (n_columns,) or (0,)
        Inverse document frequency of each column. Empty to leave counts unweighted.
    sublinear : bool
        Whether n occurrences count as 1 + ln n.
    n_columns : int
        Width of the matrix.
    n_jobs : int or None
        Number of threads.
    """
    sizes = [kernels.entries_with_column(*pair) for pair in zip(counted, columns, strict=True)]
    rows = np.cumsum([0, *map(len, sizes)])  # the first row of each block
    indptr = np.zeros(rows[-1] + 1, np.int64)
    np.cumsum(np.concatenate([np.zeros(0, np.int64), *sizes]), out=indptr[1:])
    indices, data = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32)

    def write_block(i: int) -> None:
        out = kernels.WeightedRows(indptr[rows[i] : rows[i + 1] + 1], indices, data)
        kernels.weight_rows(counted[i], columns[i], idf, sublinear, out)

    pool.run(write_block, range(len(counted)), n_jobs)
    return sorted_csr(data, indices, indptr, n_columns)


def sorted_csr(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, n_columns: int) -> csr_array:
    """Return a matrix from arrays of sorted rows without duplicates, with int32 row starts if they fit."""
    if indices.size < 2**31:
        indptr = indptr.astype(np.int32)  # with int64 row starts, SciPy would convert the indices to int64, too
    A = csr_array((data, indices, indptr), shape=(indptr.size - 1, n_columns))
    A.has_canonical_format = True
    return A


def slots_for(blob: np.ndarray, offsets: np.ndarray, n_terms: int, room: int | None = None) -> np.ndarray:
    """Return a hash table of the first ``n_terms`` terms, which is at most half full when it has ``room`` terms."""
    slots = np.zeros(1 << max(4, (2 * (room or n_terms) - 1).bit_length()), np.uint64)
    table.index_terms(slots, blob, offsets, n_terms)
    return slots


def _grown(array: np.ndarray, size: int) -> np.ndarray:
    out = np.zeros(size, array.dtype)
    out[: array.size] = array
    return out
