"""Read and write rows of ``l1,l2 f:v f:v …`` in blocks of bytes.

One kernel reads all sparse text formats: rows of the XMC repository (labels, then pairs), svmlight rows, and rows of a
matrix (pairs only). Rows are sorted, and have no duplicates and no zeros.

Values are correctly rounded to float32. If a decimal ``m · 10^e`` is computed in float64, its relative error is below
2^-50. The result is certain if both ends of that interval round to the same float32. Otherwise (about one value in a
hundred million) the position is recorded, the caller computes the exact value, and the block is read again with it.
"""

from __future__ import annotations

import numpy as np
from numba import types

from longtail.kernels.compiling import njit

# Kinds of errors of a token. The caller makes a message from the kind and the position.
OK, NOT_INDEX, NOT_PAIR, NOT_NUMBER, TOO_LARGE, LABEL_RANGE, FEATURE_RANGE = range(7)

# Positions in `found`, the further results of parse_rows.
N_ROWS, FILLED, N_LABELS, N_VALUES, N_UNSURE, AT = range(6)

_LOWEST, _HIGHEST = -65, 39  # as m < 10^18: with smaller e every float32 is 0, with e from 39 on none is finite
_POWERS = np.array([float(f"1e{e}") for e in range(_LOWEST, _HIGHEST)])
_FULL = 10**17  # digits after the 18th change m by less than the margin
_MARGIN = 2.0**-50
_TAB, _NEWLINE, _RETURN, _SPACE, _HASH, _PLUS, _COMMA, _MINUS, _DOT, _ZERO, _NINE, _COLON = b"\t\n\r #+,-.09:"

_bytes = types.Array(types.uint8, 1, "C", readonly=True)
_i32, _i64, _f32, _u8 = types.int32[::1], types.int64[::1], types.float32[::1], types.uint8[::1]
_bool, _int = types.boolean, types.int64


@njit(types.UniTuple(_int, 3)(_bytes), cache=True, nogil=True)
def count(text: np.ndarray) -> tuple[int, int, int]:
    """Count the lines, colons and commas of a block: upper bounds for its rows, pairs and additional labels."""
    lines, colons, commas = 0, 0, 0
    for c in text:
        lines += c == _NEWLINE
        colons += c == _COLON
        commas += c == _COMMA
    return lines, colons, commas


@njit(types.void(_i64), cache=True, nogil=True, no_cpython_wrapper=False)
def _sort(keys: np.ndarray) -> None:
    """Sort in place: runs of 16 by insertion, then by merging runs between two buffers."""
    n = keys.size
    for lo in range(0, n, 16):
        for i in range(lo + 1, min(lo + 16, n)):
            key, j = keys[i], i - 1
            while j >= lo and keys[j] > key:
                keys[j + 1] = keys[j]
                j -= 1
            keys[j + 1] = key
    width, source, target = 16, keys, np.empty_like(keys)
    while width < n:
        for lo in range(0, n, 2 * width):
            mid, hi = min(lo + width, n), min(lo + 2 * width, n)
            a, b = lo, mid
            for k in range(lo, hi):
                if a < mid and (b >= hi or source[a] <= source[b]):
                    target[k] = source[a]
                    a += 1
                else:
                    target[k] = source[b]
                    b += 1
        source, target = target, source
        width *= 2
    for k in range(n):  # a slice assignment would take two seconds more to compile
        keys[k] = source[k]


@njit(_int(_i32, _f32, _int, _int, _bool), cache=True, nogil=True)
def _tidy(index: np.ndarray, value: np.ndarray, lo: int, hi: int, add: bool) -> int:
    """Sort index[lo:hi] with its values, merge duplicates (sum or largest), and drop zeros. Return the new end."""
    keys, old = np.empty(hi - lo, np.int64), np.empty(hi - lo, np.float32)
    for j in range(hi - lo):
        keys[j] = (np.int64(index[lo + j]) << 32) | j  # with the position, duplicates stay in the order of the file
        old[j] = value[lo + j]
    _sort(keys)
    end, last, total = lo, np.int64(-1), np.float32(0)
    for key in keys:
        k, v = key >> 32, old[key & 0xFFFFFFFF]
        if k == last:
            total = total + v if add else max(total, v)
        else:
            if total != 0:
                index[end], value[end] = last, total
                end += 1
            last, total = k, v
    if total != 0:
        index[end], value[end] = last, total
        end += 1
    return end


@njit(_int(_i32, _int, _int), cache=True, nogil=True)
def _tidy_labels(labels: np.ndarray, lo: int, hi: int) -> int:
    """Sort labels[lo:hi] and drop duplicates. Return the new end."""
    keys = np.empty(hi - lo, np.int64)
    for j in range(hi - lo):
        keys[j] = labels[lo + j]
    _sort(keys)
    end = lo
    for j in range(keys.size):
        if j == 0 or keys[j] != keys[j - 1]:
            labels[end] = keys[j]
            end += 1
    return end


@njit(types.Tuple((_int, _int, _int, _bool))(_bytes, _int), cache=True, nogil=True)
def _decimal(text: np.ndarray, i: int) -> tuple[int, int, int, bool]:
    """Read an unsigned decimal at text[i]. Return the position after it, m and e of m · 10^e, and if it is valid."""
    m, e, seen = np.int64(0), np.int64(0), False
    while _ZERO <= text[i] <= _NINE:
        if m < _FULL:
            m = m * 10 + (np.int64(text[i]) - _ZERO)
        else:
            e += 1
        seen = True
        i += 1
    if text[i] == _DOT:
        i += 1
        while _ZERO <= text[i] <= _NINE:
            if m < _FULL:
                m = m * 10 + (np.int64(text[i]) - _ZERO)
                e -= 1
            seen = True
            i += 1
    if seen and (text[i] == 101 or text[i] == 69):  # e, E
        i += 1
        down = text[i] == _MINUS
        if down or text[i] == _PLUS:
            i += 1
        power, seen = np.int64(0), False
        while _ZERO <= text[i] <= _NINE:
            power = min(power * 10 + (np.int64(text[i]) - _ZERO), np.int64(1 << 40))
            seen = True
            i += 1
        e += -power if down else power
    return i, m, e, seen  # type: ignore[return-value]


@njit(types.Tuple((types.float32, _bool))(_int, _int), cache=True, nogil=True)
def _rounded(m: int, e: int) -> tuple[np.float32, bool]:
    """Return m · 10^e as float32 (infinite if it is too large), and whether the rounding is certainly correct."""
    if m == 0 or e < _LOWEST:
        return np.float32(0), True
    if e >= _HIGHEST:
        return np.float32(np.inf), True
    d = np.float64(m) * _POWERS[e - _LOWEST]
    v = np.float32(d * (1 - _MARGIN))
    return v, v == np.float32(d * (1 + _MARGIN))


@njit(
    _int(_bytes, _bool, _bool, _bool, _int, _int, _i64, _i32, _i64, _i32, _f32, _f32, _i64, _i64),
    cache=True,
    nogil=True,
)
def parse_rows(
    text: np.ndarray,
    with_labels: bool,
    loose: bool,
    add: bool,
    n_labels: int,
    n_features: int,
    label_ptr: np.ndarray,
    labels: np.ndarray,
    ptr: np.ndarray,
    index: np.ndarray,
    value: np.ndarray,
    exact: np.ndarray,
    unsure: np.ndarray,
    found: np.ndarray,
) -> int:
    """Read the rows of a block.

    Parameters
    ----------
    text : uint8 array
        Complete lines. The last byte is a newline.
    with_labels : bool
        Whether rows begin with labels. Otherwise they have only pairs.
    loose : bool
        Allow what svmlight allows: blank lines are skipped, and ``#`` starts a comment.
    add : bool
        Sum the values of duplicate pairs. Otherwise keep the largest value.
    n_labels, n_features : int
        Upper bounds of the indices.
    label_ptr, labels, ptr, index, value : arrays
        Output: offsets of the rows (one more than rows), and contents. They must be as large as `count` requires.
    exact : float32 array
        The exact values of those that could not be rounded with certainty, in order. Empty at the first reading.
    unsure : int64 array
        Output: the positions of such values, as many as fit.
    found : int64 array
        Output: N_ROWS, FILLED (rows up to the last one not blank), N_LABELS, N_VALUES, N_UNSURE, AT (error position).

    Returns
    -------
    int
        OK or the kind of error.
    """
    i, n = 0, text.size
    rows, filled, nl, nv, n_unsure = 0, 0, 0, 0, 0
    label_ptr[0] = ptr[0] = 0
    code = OK
    while i < n and code == OK:
        while text[i] == _SPACE or text[i] == _TAB or text[i] == _RETURN:
            i += 1
        blank = text[i] == _NEWLINE
        if loose and (blank or text[i] == _HASH):
            while text[i] != _NEWLINE:
                i += 1
            i += 1
            continue
        row_l, row_v, last_l, last_v = nl, nv, np.int64(-1), np.int64(-1)
        messy_l, messy_v, label_next = False, False, with_labels
        while text[i] != _NEWLINE:
            at, k = i, np.int64(0)
            while _ZERO <= text[i] <= _NINE:
                if i - at < 18:  # with more digits, the number is out of range anyway
                    k = k * 10 + (np.int64(text[i]) - _ZERO)
                i += 1
            c = text[i]
            if i == at:
                if loose and c == _HASH:
                    while text[i] != _NEWLINE:
                        i += 1
                    break
                code = NOT_INDEX
                break
            if c == _COLON:
                label_next = False
                if k >= n_features or i - at > 18:
                    code = FEATURE_RANGE
                    break
                i += 1
                number = i
                negative = text[i] == _MINUS
                if negative or text[i] == _PLUS:
                    i += 1
                i, m, e, seen = _decimal(text, i)
                c = text[i]
                if not seen or (c != _SPACE and c != _NEWLINE and c != _TAB and c != _RETURN):
                    code = NOT_NUMBER
                    break
                v, certain = _rounded(m, e)
                if not certain:
                    if n_unsure < exact.size:
                        v = exact[n_unsure]
                    if n_unsure < unsure.size:
                        unsure[n_unsure] = number
                    n_unsure += 1
                if v == np.inf:
                    code = TOO_LARGE
                    break
                if k <= last_v or v == 0:
                    messy_v = True
                last_v = k
                index[nv] = k
                value[nv] = -v if negative else v
                nv += 1
            elif not label_next:
                code = NOT_PAIR
                break
            elif c in (_COMMA, _SPACE, _NEWLINE, _TAB, _RETURN):
                if k >= n_labels or i - at > 18:
                    code = LABEL_RANGE
                    break
                if k <= last_l:
                    messy_l = True
                last_l = k
                labels[nl] = k
                nl += 1
                label_next = c == _COMMA
                if label_next:
                    i += 1
            else:
                code = NOT_INDEX
                break
            while text[i] == _SPACE or text[i] == _TAB or text[i] == _RETURN:
                i += 1
        if code != OK:
            found[AT] = at
            break
        i += 1
        if messy_l:
            nl = _tidy_labels(labels, row_l, nl)
        if messy_v:
            nv = _tidy(index, value, row_v, nv, add)
            for j in range(row_v, nv):
                if not np.isfinite(value[j]):
                    code, found[AT] = TOO_LARGE, at
        rows += 1
        if not blank:
            filled = rows
        label_ptr[rows], ptr[rows] = nl, nv
    found[N_ROWS], found[FILLED], found[N_LABELS], found[N_VALUES], found[N_UNSURE] = rows, filled, nl, nv, n_unsure
    return code


@njit(_int(_u8, _int, _int), cache=True, nogil=True)
def _put(out: np.ndarray, at: int, k: int) -> int:
    """Write an integer at out[at]. Return the position after it."""
    digits, rest = 1, k
    while rest >= 10:
        rest //= 10
        digits += 1
    for j in range(at + digits - 1, at - 1, -1):
        out[j] = _ZERO + k % 10
        k //= 10
    return at + digits


@njit(_int(_u8, _i64, _i32, _i64, _i32, _bytes, _bool), cache=True, nogil=True)
def format_rows(
    out: np.ndarray,
    label_ptr: np.ndarray,
    labels: np.ndarray,
    ptr: np.ndarray,
    index: np.ndarray,
    numbers: np.ndarray,
    gap: bool,
) -> int:
    """Write rows as text, the inverse of `parse_rows`.

    Parameters
    ----------
    out : uint8 array
        Output. It must be large enough.
    label_ptr, labels : arrays
        Offsets of each row's labels (one more than rows), and the labels.
    ptr, index : arrays
        The same for the pairs.
    numbers : uint8 array
        The values as a JSON array, ``[0.5,1.0]``, with the fewest digits from which float32 can be restored.
    gap : bool
        Whether a row without labels begins with a space, as in formats with labels.

    Returns
    -------
    int
        Number of bytes written.
    """
    at, cursor = 0, 1
    for row in range(ptr.size - 1):
        for j in range(label_ptr[row], label_ptr[row + 1]):
            if j > label_ptr[row]:
                out[at] = _COMMA
                at += 1
            at = _put(out, at, labels[j])
        for j in range(ptr[row], ptr[row + 1]):
            if gap or j > ptr[row]:
                out[at] = _SPACE
                at += 1
            at = _put(out, at, index[j])
            out[at] = _COLON
            at += 1
            start = at
            while numbers[cursor] != _COMMA and numbers[cursor] != 93:  # ]
                out[at] = numbers[cursor]
                at += 1
                cursor += 1
            cursor += 1
            if at - start > 2 and out[at - 1] == _ZERO and out[at - 2] == _DOT:
                at -= 2  # 1.0 is written as 1
        out[at] = _NEWLINE
        at += 1
    return at
