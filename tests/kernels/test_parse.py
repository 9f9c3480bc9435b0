"""The parsing kernel against plain Python: exact rounding, tidy rows, and text written and read back."""

from __future__ import annotations

import struct
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from longtail.data.sparse_text import _Kind, _nearest_float32, _parse_block, _ParseError
from longtail.kernels import parse

KIND = _Kind("x", True, False, True, 2**31 - 1, 2**31 - 1)


def block_of(text: str, kind: _Kind = KIND):
    return _parse_block(text.encode(), kind)


def value_of(number: str) -> np.float32:
    block = block_of(f"1 7:{number}\n")
    assert not isinstance(block, _ParseError), (number, block)
    return block.value[0] if len(block.value) else np.float32(0)


def twin(number: str) -> np.float32:
    """The nearest float32 by exact arithmetic over all that are near, ties to even."""
    exact = Fraction(Decimal(number))
    with np.errstate(over="ignore"):
        guess = np.float32(float(exact))
    near = [np.float32(guess)]
    with np.errstate(over="ignore", under="ignore"):
        near += [np.nextafter(guess, np.float32(np.inf)), np.nextafter(guess, np.float32(-np.inf))]
    ulp = {f: Fraction(float(f)) if np.isfinite(f) else Fraction(2) ** 128 * (1 if f > 0 else -1) for f in near}
    return min(near, key=lambda f: (abs(ulp[f] - exact), f.view(np.int32) & 1))


decimals = st.from_regex(r"[+-]?(0|[1-9][0-9]{0,24})(\.[0-9]{0,24})?([eE][+-]?[0-9]{1,2})?", fullmatch=True)


@settings(deadline=None, max_examples=600)
@given(decimals)
@example("16777217")  # exactly between two floats
@example("16777217.0000000000000000000000001")
@example("16777219")
@example(
    "0.000000000000000000000000000000000000000000000700649232162408535461864791644958065640130970938257885878534141944895541342930300743319094181060791015625"
)
@example("7.006492321624085e-46")
@example("3.4028235e38")
@example("3.40282356779733e38")  # just below the point that rounds to infinity
@example("1e-400")
@example("16777217." + "0" * 5000 + "1")
@example("00000000000000000000000000000000001.5")
@example("1.17549435e-38")
def test_values_round_to_the_nearest_float32(number):
    expected = twin(number)
    if np.isinf(expected):
        assert block_of(f"1 7:{number}\n").code == parse.TOO_LARGE
    else:
        assert value_of(number) == expected


@pytest.mark.parametrize(
    ("number", "code"),
    [
        ("0e99999999999999999999", parse.OK),
        ("1e-99999999999999999999", parse.OK),
        ("1e99999999999999999999", parse.TOO_LARGE),
    ],
)
def test_absurd_exponents(number, code):
    block = block_of(f"1 7:{number}\n")
    assert (block.code if isinstance(block, _ParseError) else len(block.value)) == code


@settings(deadline=None, max_examples=300)
@given(st.integers(1, 2**31 - 2**23 - 2), st.sampled_from(["", "1", "000001"]), st.booleans())
def test_values_at_and_beside_the_middle_of_two_floats(bits, beyond, below):
    low, high = (struct.unpack("<f", struct.pack("<I", b))[0] for b in (bits, bits + 1))
    middle = (Fraction(low) + Fraction(high)) / 2
    digits = f"{middle.numerator * 10**200 // middle.denominator:d}"  # exact: the denominator is a power of two ≤ 2^150
    number = f"{digits}e-200"
    if beyond:
        number = f"{int(digits) * 10**6 + (-1 if below else 1) * int(beyond)}e-206"
    assert value_of(number) == twin(number) == _nearest_float32(number)


@settings(deadline=None, max_examples=300)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_float32_survives_any_way_of_writing_it(value):
    for text in (repr(np.float32(value).item()), str(np.float32(value)), f"{value:.9g}", f"{value:.60f}"):
        assert value_of(text) == np.float32(value)


def test_block_full_of_unsure_values_is_read_exactly():
    numbers = [f"{16777217 + 2 * i}" for i in range(300)]
    block = block_of("".join(f"1 7:{number}\n" for number in numbers))
    np.testing.assert_array_equal(block.value, [twin(number) for number in numbers])


entries = st.lists(st.tuples(st.integers(0, 60), st.integers(-8, 8)), max_size=80)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.lists(st.integers(0, 40), max_size=40), entries), max_size=5), st.booleans())
def test_rows_come_out_sorted_merged_and_without_zeros(rows, add):
    text = "".join(
        ",".join(map(str, labels)) + "".join(f" {k}:{v / 4}" for k, v in pairs) + "\n" for labels, pairs in rows
    )
    block = block_of(text, _Kind("x", True, False, add, 100, 100))
    for i, (labels, pairs) in enumerate(rows):
        merged: dict[int, float] = {}
        for k, v in pairs:
            merged[k] = v / 4 if k not in merged else merged[k] + v / 4 if add else max(merged[k], v / 4)
        expected = sorted((k, v) for k, v in merged.items() if v != 0)
        where = slice(block.ptr[i], block.ptr[i + 1])
        assert list(zip(block.index[where].tolist(), block.value[where].tolist(), strict=True)) == expected
        assert block.labels[block.label_ptr[i] : block.label_ptr[i + 1]].tolist() == sorted(set(labels))
    assert block.rows == len(rows)


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_give_rows_or_an_error_in_the_block(noise):
    text = noise + b"\n"
    for kind in (KIND, _Kind("x", False, True, True, 10, 10)):
        result = _parse_block(text, kind)
        assert 0 <= result.position < len(text) if isinstance(result, _ParseError) else result.rows <= text.count(b"\n")


@settings(deadline=None)
@given(st.text("0123456789:., eE+-\n#", max_size=80))
def test_any_near_miss_gives_what_plain_python_gives(text):
    text += "\n"
    result = _parse_block(text.encode(), _Kind("x", True, False, True, 10**6, 10**6))
    try:
        expected = [_plain_row(line) for line in text.split("\n")[:-1]]
    except ValueError:
        assert isinstance(result, _ParseError)
        return
    assert not isinstance(result, _ParseError)
    assert result.rows == len(expected)
    for i, (labels, pairs) in enumerate(expected):
        assert result.labels[result.label_ptr[i] : result.label_ptr[i + 1]].tolist() == labels
        assert result.index[result.ptr[i] : result.ptr[i + 1]].tolist() == pairs


def _plain_row(line: str) -> tuple[list[int], list[int]]:
    """Labels and feature columns of one row; ValueError where it is not one."""
    labels: list[int] = []
    sums: dict[int, np.float32] = {}
    rest = line.strip(" ")
    more = True
    while rest and more and not rest.split(" ")[0].split(",")[0].count(":"):
        token = rest.split(" ")[0].split(",")[0]
        if not token.isdigit() or int(token) >= 10**6:
            raise ValueError
        labels.append(int(token))
        more = rest[len(token) :].startswith(",")
        rest = rest[len(token) + more :].lstrip(" ")
    for token in rest.split():
        key, value = token.split(":")
        if not key.isdigit() or int(key) >= 10**6 or value.startswith(("e", "E")):
            raise ValueError
        with np.errstate(over="ignore"):
            number = np.float32(float(value))
            sums[int(key)] = sums.get(int(key), np.float32(0)) + number
        if not np.isfinite(number) or not np.isfinite(sums[int(key)]):
            raise ValueError
    return sorted(set(labels)), sorted(k for k, v in sums.items() if v != 0)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 33, 1000])
def test_sort(size):
    keys = np.random.default_rng(size).integers(0, 50, size)
    expected = np.sort(keys)
    parse._sort(keys)
    np.testing.assert_array_equal(keys, expected)


def test_count():
    text = b"1,2 3:4\n\n5 6:7 8:9\n"
    assert parse.count(np.frombuffer(text, np.uint8)) == (3, 3, 1)


def test_format_rows():
    out = np.empty(100, np.uint8)
    offsets = np.array([0, 2, 2]), np.array([0, 1, 3])
    labels, index = np.array([3, 10], np.int32), np.array([0, 5, 2147483646], np.int32)
    numbers = np.frombuffer(b"[1.0,-0.5,1e-10]", np.uint8)
    size = parse.format_rows(out, offsets[0], labels, offsets[1], index, numbers, True)
    assert out[:size].tobytes() == b"3,10 0:1\n 5:-0.5 2147483646:1e-10\n"
    empty = np.zeros(3, np.int64)
    size = parse.format_rows(out, empty, labels[:0], offsets[1], index, numbers, False)
    assert out[:size].tobytes() == b"0:1\n5:-0.5 2147483646:1e-10\n"
