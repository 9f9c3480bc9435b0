"""The text kernels against plain Python."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.data.vocabulary import Terms, ascii_folding, encoded_block, slots_for, unicode_folding
from longtail.kernels import terms as table
from longtail.kernels import text as kernels
from longtail.kernels.compiling import njit
from longtail.kernels.text import TermShape
from longtail.sparse import frozen

WORDS = st.text("abcdefgß漢_0", min_size=1, max_size=20)
NO_TABLE = table.TermTable(
    frozen(np.zeros(16, np.uint64)), frozen(np.zeros(0, np.uint8)), frozen(np.zeros(1, np.int64))
)


def pack(words: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Blob and offsets of some words."""
    parts = [word.encode() for word in words]
    return np.frombuffer(b"".join(parts) + bytes(table.PAD), np.uint8).copy(), np.cumsum([0, *map(len, parts)])


def unpack(blob: np.ndarray, offsets: np.ndarray, size: int) -> list[str]:
    return [blob[offsets[i] : offsets[i + 1]].tobytes().decode() for i in range(size)]


def plain_terms(text: str, shape: TermShape) -> Counter[str]:
    """The twin: terms of a text by regular expression."""
    words = [word for word in re.findall(r"\w+", text.lower()) if len(word) >= shape.min_length]
    sizes = range(shape.fewest, shape.most + 1)
    return Counter(" ".join(words[i : i + n]) for n in sizes for i in range(len(words) - n + 1))


def plain_hash(data: bytes) -> int:
    """The twin: length, then 8 bytes at a time."""
    h = len(data) * 0x9E3779B97F4A7C15 % 2**64
    for i in range(0, len(data), 8):
        h = (h ^ int.from_bytes(data[i : i + 8], "little")) * 0x9E3779B97F4A7C15 % 2**64
        h ^= h >> 32
    h = h * 0xFF51AFD7ED558CCD % 2**64
    return h ^ (h >> 32)


@njit
def hash_bytes(data, start, stop):  # type: ignore[no-untyped-def]
    return table.hash_bytes(data, start, stop)


@njit
def find_slot(terms, data, start, stop, h):  # type: ignore[no-untyped-def]
    return table.find_slot(terms, data, start, stop, h)


@pytest.mark.parametrize("word", ["a", "fox", "longtail", "größe 漢字", "x" * 16, "x" * 17])
def test_hash_equals_plain_python(word: str) -> None:
    data = np.frombuffer(b"?" + word.encode() + b"!" * table.PAD, np.uint8)
    assert int(hash_bytes(data, np.uint64(1), np.uint64(data.size - table.PAD))) == plain_hash(word.encode())


def test_hash_stays_what_saved_models_rely_on() -> None:
    assert plain_hash(b"longtail") == 0x7A9AF9533FA4B2D8


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.text("aAbB1_ ,éÉ漢\0", max_size=25) | st.text(max_size=12), min_size=1, max_size=6),
    st.sampled_from([TermShape(1, 1, 1), TermShape(2, 1, 2), TermShape(1, 2, 3)]),
)
def test_learn_and_match_equal_regular_expressions(texts: list[str], shape: TermShape) -> None:
    expected = [plain_terms(text, shape) for text in texts]
    learnt = Terms()
    indptr, ids, counts = learnt.count(*encoded_block(texts), len(texts), shape)
    names = unpack(learnt.table.blob, learnt.table.offsets, learnt.size)
    assert len(set(names)) == learnt.size
    for row, terms in enumerate(expected):
        part = slice(indptr[row], indptr[row + 1])
        assert {names[i]: n for i, n in zip(ids[part], counts[part], strict=True)} == terms
    totals = sum(expected, Counter())
    assert dict(zip(names, learnt.term_frequency.tolist(), strict=False)) == totals
    in_texts = Counter(term for terms in expected for term in terms)
    assert dict(zip(names, learnt.document_frequency.tolist(), strict=False)) == in_texts

    # Every other term known: the others are skipped.
    blob, offsets = table.take_terms(learnt.table.blob, learnt.table.offsets, np.arange(0, learnt.size, 2))
    held = table.TermTable(frozen(slots_for(blob, offsets, offsets.size - 1)), frozen(blob), frozen(offsets))
    block, fold = encoded_block(texts)
    indptr, ids, counts = kernels.match_block(block, len(texts), fold, shape, 0, held)
    for row, terms in enumerate(expected):
        part = slice(indptr[row], indptr[row + 1])
        found = {names[2 * i]: n for i, n in zip(ids[part], counts[part], strict=True)}
        assert found == {term: n for term, n in terms.items() if names.index(term) % 2 == 0}

    # No table: ids are hashes, of which 2**31 - 1 leave no chance of a collision here.
    bins = 2**31 - 1
    indptr, ids, counts = kernels.match_block(block, len(texts), fold, shape, bins, NO_TABLE)
    for row, terms in enumerate(expected):
        part = slice(indptr[row], indptr[row + 1])
        found = dict(zip(ids[part].tolist(), counts[part].tolist(), strict=True))
        assert found == {plain_hash(term.encode()) % bins: n for term, n in terms.items()}


def test_fold_tables_hold_every_character() -> None:
    codes = [code for code in range(0x110000) if code not in (ord("Σ"), ord("İ"))]
    lower = [chr(code).lower() for code in codes]
    expected = [ord(c) if c.isalnum() or c == "_" else 0 for c in lower]
    np.testing.assert_array_equal(unicode_folding().unicode[codes], expected)
    np.testing.assert_array_equal(ascii_folding().ascii[:128], unicode_folding().unicode[:128])
    assert not ascii_folding().ascii[128:].any()


@settings(max_examples=100, deadline=None)
@given(st.lists(WORDS, unique=True, max_size=60))
def test_sort_is_by_code_points(words: list[str]) -> None:
    blob, offsets = pack(words)
    chosen = np.arange(len(words))[::-1].copy()
    order = table.sort_terms(blob, offsets, chosen)
    assert [words[chosen[i]] for i in order] == sorted(words)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(WORDS, max_size=40), min_size=1, max_size=4))
def test_merged_tables_hold_each_term_once(lists: list[list[str]]) -> None:
    shape = TermShape(1, 1, 1)
    merged, places = Terms(), []
    parts = []
    for words in lists:
        part = Terms()
        part.count(*encoded_block([" ".join(words)]), 1, shape)
        parts.append(part)
        places.append(merged.merge(part))
    names = unpack(merged.table.blob, merged.table.offsets, merged.size)
    assert sorted(names) == sorted({word for words in lists for word in words})
    for part, ids in zip(parts, places, strict=True):
        assert [names[i] for i in ids] == unpack(part.table.blob, part.table.offsets, part.size)
    totals = Counter(word for words in lists for word in words)
    assert dict(zip(names, merged.term_frequency.tolist(), strict=False)) == totals


def test_terms_of_equal_hash_are_told_apart() -> None:
    """Two terms forced into one hash: the table must compare their bytes."""
    blob, offsets = pack(["fox", "dog", "dogs"])
    ends, slots = offsets.astype(np.uint64), np.zeros(8, np.uint64)
    h = np.uint64(0xABCDEF0000000003)
    terms = table.TermTable(slots, blob, offsets)
    for term in range(3):
        at = find_slot(terms, blob, *ends[term : term + 2], h)
        assert slots[at] == 0
        slots[at] = (h & table.HIGH) | np.uint64(term + 1)
    for term in range(3):
        at = find_slot(terms, blob, *ends[term : term + 2], h)
        assert int(slots[at] & table.LOW) == term + 1


@settings(max_examples=100, deadline=None)
@given(st.data(), st.booleans(), st.booleans(), st.booleans())
def test_weigh_equals_plain_numpy(data: st.DataObject, with_idf: bool, sublinear: bool, with_columns: bool) -> None:
    n_terms = 90
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    rows = [rng.permutation(n_terms)[: rng.integers(0, n_terms)] for _ in range(4)]
    indptr = np.cumsum([0, *map(len, rows)])
    ids = np.concatenate(rows).astype(np.int32)
    counts = rng.integers(1, 9, ids.size).astype(np.int32)
    columns = rng.permutation(n_terms).astype(np.int32) if with_columns else np.empty(0, np.int32)
    columns[columns % 3 == 0] = -1
    idf = rng.uniform(1, 5, n_terms if with_idf else 0).astype(np.float32)

    dense = np.zeros((4, n_terms))
    for row in range(4):
        for i in range(indptr[row], indptr[row + 1]):
            column = columns[ids[i]] if with_columns else ids[i]
            if column >= 0:
                tf = 1 + np.log(counts[i]) if sublinear else counts[i]
                dense[row, column] = tf * (idf[column] if with_idf else 1)
    lengths = np.linalg.norm(dense, axis=1, keepdims=True)
    dense /= np.where(lengths > 0, lengths, 1)

    block = kernels.Counted(indptr, ids, counts)
    sizes = kernels.entries_with_column(block, columns)
    np.testing.assert_array_equal(sizes, (dense > 0).sum(axis=1))
    out_indptr = np.cumsum([0, *sizes])
    indices, values = np.empty(sizes.sum(), np.int32), np.empty(sizes.sum(), np.float32)
    rows_out = kernels.WeightedRows(out_indptr, indices, values)
    kernels.weight_rows(block, columns, frozen(idf), sublinear, rows_out)
    where = np.nonzero(dense)
    np.testing.assert_array_equal(indices, where[1])
    np.testing.assert_allclose(values, dense[where], rtol=1e-6)
