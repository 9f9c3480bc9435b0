"""Read sparse text formats: rows of the XMC repository, svmlight rows, and matrices of ``f:v`` rows.

=================  ======================  ==========================================================
kind               first line              every other line
=================  ======================  ==========================================================
repository         ``N D L``               ``l1,l2 f:v f:v …``; starts with a space if there is no label
svmlight           a row                   the same; blank lines and ``# comments`` are skipped
matrix             ``rows columns``        ``f:v f:v …``
=================  ======================  ==========================================================

A row without labels or features is kept. If a row has a feature twice, the values are summed; if it has a label twice,
it counts once. Zeros are not stored. Several threads parse the file in blocks, so that only a few blocks are in memory
in addition to the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import IO

import numpy as np
from scipy.sparse import csr_array

from longtail.data.files import line_blocks, open_bytes
from longtail.errors import DataError
from longtail.kernels import parse, pool

_INT32_MAX = 2**31 - 1
_LARGEST_BLOCK = 4 << 20
_BOM = b"\xef\xbb\xbf"


@dataclass
class ParsedRows:
    """The content of a sparse text file: labels (if its rows have them) and features, as canonical matrices."""

    labels: csr_array | None
    features: csr_array


@dataclass(frozen=True)
class _Kind:
    """How to read the rows of a file."""

    path: Path
    with_labels: bool
    loose: bool  # whether comments are allowed, and the matrices are as wide as their largest index
    add: bool  # whether duplicate entries are added; otherwise the largest is kept
    n_labels: int
    n_features: int


class _GrowingArray:
    """An array that grows in place as it is filled. Systems that can move memory pages need not copy it."""

    def __init__(self, dtype: type) -> None:
        self._array: np.ndarray = np.empty(1 << 14, dtype)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def extend(self, part: np.ndarray) -> None:
        end = self._size + len(part)
        if end > len(self._array):
            self._array.resize(max(end, len(self._array) * 5 // 4), refcheck=False)
        self._array[self._size : end] = part
        self._size = end

    def finish(self, size: int | None = None) -> np.ndarray:
        self._array.resize(self._size if size is None else size, refcheck=False)
        return self._array


@dataclass
class _Block:
    """The parsed rows of one block of text."""

    lines: int
    rows: int
    filled: int
    label_ptr: np.ndarray
    labels: np.ndarray
    ptr: np.ndarray
    index: np.ndarray
    value: np.ndarray


@dataclass
class _ParseError:
    """The kind and position of an error in a block of text."""

    block: bytes
    code: int
    position: int


def read_repository(path: Path) -> ParsedRows:
    """Read a file whose first line is ``N D L``."""
    with open_bytes(path) as stream:
        n, d, n_labels = _header(stream, path, ("points", "features", "labels"))
        return _read_rows(stream, _Kind(path, True, False, True, n_labels, d), n, 2)


def feature_blocks(path: Path) -> Iterator[csr_array]:
    """Yield the features of a file whose first line is ``N D L``, in blocks of a few thousand rows."""
    with open_bytes(path) as stream:
        n, d, n_labels = _header(stream, path, ("points", "features", "labels"))
        row = 0
        for block in _parsed_blocks(stream, _Kind(path, True, False, True, n_labels, d), 2):
            if row + block.filled > n:
                raise _wrong_count(path, n, row + block.filled)
            stop = min(block.rows, n - row)  # blank lines after the last row are not points
            row += stop
            if stop:
                yield _matrix(block.ptr[: stop + 1], block.index, block.value, (stop, d))
        if row < n:
            raise _wrong_count(path, n, row)


def read_matrix(path: Path, *, add: bool = True) -> csr_array:
    """Read ``f:v`` rows after a line ``rows columns``.

    Duplicate entries are summed. Without `add` the largest is kept.
    """
    with open_bytes(path) as stream:
        n, d = _header(stream, path, ("rows", "columns"))
        return _read_rows(stream, _Kind(path, False, False, add, 0, d), n, 2).features


def read_svmlight(path: Path) -> ParsedRows:
    """Read rows without a header. The matrices are as wide as their largest index."""
    with open_bytes(path) as stream:
        rows = _read_rows(stream, _Kind(path, True, True, True, _INT32_MAX, _INT32_MAX), None, 1)
    if not rows.features.shape[0]:
        raise DataError("the file holds no rows", path=path, remedy="Check that it was written completely")
    return rows


def _header(stream: IO[bytes], path: Path, names: tuple[str, ...]) -> list[int]:
    line = stream.readline(4096).removeprefix(_BOM)
    if not line.strip():
        empty = not line and not stream.read(1)
        raise DataError(
            "the file is empty" if empty else "the first line is blank",
            path=path,
            line=None if empty else 1,
            remedy=f"Its first line should hold the numbers of {', '.join(names)}",
        )
    try:
        counts = [int(token) for token in line.split()]
    except ValueError:
        counts = []
    if len(counts) != len(names) or min(counts) < 0 or max(counts) > _INT32_MAX:
        shown = line.strip()[:60].decode(errors="replace")
        wanted = " ".join(f"<{name}>" for name in names)
        remedy = 'Write the counts in the first line; a file of rows without a header is read with format="svmlight"'
        if b"__label__" in line:
            remedy = "fastText's format is not read. Write a CSV file with the columns text and labels"
        raise DataError(
            f"the header is {shown!r}, expected {len(names)} whole numbers: {wanted}",
            path=path,
            line=1,
            remedy=remedy,
        )
    return counts


def _read_rows(stream: IO[bytes], kind: _Kind, n: int | None, first_line: int) -> ParsedRows:
    """Parse the rest of a stream in blocks, and join the blocks in order."""
    label_ptr, labels = _GrowingArray(np.int64), _GrowingArray(np.int32)
    ptr, index, value = _GrowingArray(np.int64), _GrowingArray(np.int32), _GrowingArray(np.float32)
    zero = np.zeros(1, np.int64)
    label_ptr.extend(zero)
    ptr.extend(zero)
    rows, filled = 0, 0
    for block in _parsed_blocks(stream, kind, first_line):
        label_ptr.extend(block.label_ptr[1:] + len(labels))
        ptr.extend(block.ptr[1:] + len(index))
        labels.extend(block.labels)
        index.extend(block.index)
        value.extend(block.value)
        if block.filled:
            filled = rows + block.filled
        rows += block.rows
        if n is not None and filled > n:
            break
    if n is None:
        n = rows
    elif filled > n or rows < n:
        raise _wrong_count(kind.path, n, max(filled, rows) if filled > n else rows)
    # Blank lines after the last row are not points.
    n_labels, n_features = (kind.n_labels, kind.n_features) if not kind.loose else (_width(labels), _width(index))
    features = _matrix(ptr.finish(n + 1), index.finish(), value.finish(), (n, n_features))
    if not kind.with_labels:
        return ParsedRows(None, features)
    ones = np.ones(len(labels), np.float32)
    return ParsedRows(_matrix(label_ptr.finish(n + 1), labels.finish(), ones, (n, n_labels)), features)


def _wrong_count(path: Path, n: int, rows: int) -> DataError:
    """Return the error for a header that promises another number of rows than the file has."""
    return DataError(
        f"the header promises {n} rows, the file holds {f'more than {n}' if rows > n else rows}",
        path=path,
        line=n + 2 if rows > n else rows + 1,
        remedy="Correct the first line, or copy the file again if it was cut off",
    )


def _width(index: _GrowingArray) -> int:
    columns = index.finish()
    return int(columns.max()) + 1 if len(columns) else 0


def _matrix(ptr: np.ndarray, index: np.ndarray, value: np.ndarray, shape: tuple[int, int]) -> csr_array:
    if ptr[-1] <= _INT32_MAX:
        ptr = ptr.astype(np.int32)
    A = csr_array((value, index, ptr), shape=shape, copy=False)
    A.has_sorted_indices = A.has_canonical_format = True
    return A


def _parsed_blocks(stream: IO[bytes], kind: _Kind, line: int) -> Iterator[_Block]:
    """Yield the parsed blocks in order. This thread reads and decompresses while other threads parse."""
    size = min(max(kind.path.stat().st_size // 64, 1 << 17), _LARGEST_BLOCK)  # small compared with the result
    texts = line_blocks(stream, size)
    if line == 1:
        texts = (block.removeprefix(_BOM) if i == 0 else block for i, block in enumerate(texts))
    for result in pool.run_in_order(lambda block: _parse_block(block, kind), texts, None):
        if isinstance(result, _ParseError):
            raise _error(result, kind, line)
        yield result
        line += result.lines


def _parse_block(block: bytes, kind: _Kind) -> _Block | _ParseError:
    text = np.frombuffer(block, np.uint8)
    n_lines, colons, commas = parse.count(text)
    label_ptr, ptr = np.empty(n_lines + 1, np.int64), np.empty(n_lines + 1, np.int64)
    labels = np.empty(commas + n_lines if kind.with_labels else 0, np.int32)
    index, value = np.empty(colons, np.int32), np.empty(colons, np.float32)
    # The kernel lists the positions of numbers that it cannot round for sure. They are computed here, and the block is
    # parsed again with them.
    exact, unsure, found = np.empty(0, np.float32), np.empty(64, np.int64), np.zeros(6, np.int64)
    while True:
        code = parse.parse_rows(
            text,
            kind.with_labels,
            kind.loose,
            kind.add,
            kind.n_labels,
            kind.n_features,
            label_ptr,
            labels,
            ptr,
            index,
            value,
            exact,
            unsure,
            found,
        )
        if found[parse.N_UNSURE] > len(unsure):
            unsure = np.empty(found[parse.N_UNSURE], np.int64)
        elif found[parse.N_UNSURE] > len(exact):
            exact = np.array(
                [_nearest_float32(_token(block, at).lstrip("+-")) for at in unsure[: found[parse.N_UNSURE]]], np.float32
            )
        else:
            break
    if code != parse.OK:
        return _ParseError(block, code, int(found[parse.AT]))
    rows, n_labels, n_values = (int(found[i]) for i in (parse.N_ROWS, parse.N_LABELS, parse.N_VALUES))
    return _Block(
        n_lines,
        rows,
        int(found[parse.FILLED]),
        label_ptr[: rows + 1],
        labels[:n_labels],
        ptr[: rows + 1],
        index[:n_values],
        value[:n_values],
    )


def _token(block: bytes, at: int) -> str:
    """Return the token that starts at `at`."""
    return block[at : block.index(b"\n", at)].split(None, 1)[0].decode(errors="replace")


def _nearest_float32(number: str) -> np.float32:
    """Return the float32 nearest to a decimal number, with ties to even, or infinity if it is too large."""
    exact = Fraction(Decimal(number))  # Decimal accepts any number of digits, Fraction only 4,300
    guess = np.float32(min(float(exact), float(np.finfo(np.float32).max)))
    best, even = np.float32(0), False
    distance: Fraction | None = None
    with np.errstate(over="ignore"):
        candidates = np.nextafter(guess, np.float32(-np.inf)), guess, np.nextafter(guess, np.float32(np.inf))
    for candidate in candidates:
        size = Fraction(2) ** 128 if np.isinf(candidate) else Fraction(float(candidate))
        off, is_even = abs(size - exact), not candidate.view(np.int32) & 1
        if distance is None or off < distance or (off == distance and is_even and not even):
            best, even, distance = candidate, is_even, off
    return best


def _error(error: _ParseError, kind: _Kind, first_line: int) -> DataError:
    line, code = first_line + error.block.count(b"\n", 0, error.position), error.code
    token = _token(error.block, error.position)
    shown = repr(token if len(token) <= 40 else token[:40] + "…")
    number = token.split(":", 1)[-1]
    remedy = "Write rows as l1,l2 f:v f:v" if kind.with_labels else "Write rows as f:v f:v"
    if code == parse.LABEL_RANGE:
        what = f"label {shown} is out of range: the header promises {kind.n_labels} labels, 0 to {kind.n_labels - 1}"
        remedy = "Labels are counted from 0; correct the header or the label"
    elif code == parse.FEATURE_RANGE:
        what = f"column {token.split(':', 1)[0]} is out of range: the header promises {kind.n_features}, counted from 0"
        remedy = "Correct the header or the row"
    elif code == parse.NOT_NUMBER and number.lower().lstrip("+-") in ("nan", "inf", "infinity"):
        what = f"the value in {shown} is not finite"
        remedy = "Remove the entry or give it a finite value"
    elif code == parse.NOT_NUMBER:
        what, remedy = f"the value in {shown} is not a number", "Write values as decimals, such as 0.25 or 1e-3"
    elif code == parse.TOO_LARGE:
        what, remedy = f"the value at {shown} is too large for float32", "Scale the features"
    elif code == parse.NOT_PAIR:
        what = (
            f"{shown} is neither a label at the start of the row nor an f:v pair"
            if kind.with_labels
            else (f"{shown} is not an f:v pair")
        )
    else:
        what = f"{shown} does not begin with a whole number"
    return DataError(what, path=kind.path, line=line, remedy=remedy)
