"""The kernels of vector search against NumPy; the indexes made of them are tested in tests/index."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.kernels import search


def some(n: int, width: int = 40, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, width)).astype(np.float32)


def test_squares_name_the_first_row_that_cannot_be_used() -> None:
    rows, out = some(5), np.empty(5, np.float32)
    assert search.squares(rows, out) == -1
    np.testing.assert_allclose(out, (rows**2).sum(axis=1), rtol=1e-6)
    for value in (np.nan, np.inf, 1e19):
        rows[2:, 3] = value
        assert search.squares(rows, out) == 2


def test_unit_rows_keep_zero_and_what_is_unit() -> None:
    rows = some(6)
    rows[1] = 0
    rows[2] *= np.float32(1e-30)
    rows[3] /= np.linalg.norm(rows[3])
    out = np.empty_like(rows)
    search.scale_rows(rows, out)
    np.testing.assert_allclose(np.linalg.norm(out, axis=1), [1, 0, 1, 1, 1, 1], rtol=1e-6)
    np.testing.assert_array_equal(out[3], rows[3])
    again = np.empty_like(rows)
    search.scale_rows(out, again)
    np.testing.assert_array_equal(again, out)
    squares = np.empty(6, np.float32)
    search.squares(out, squares)
    assert not search.all_unit(squares)
    assert search.all_unit(np.delete(squares, 1))


@pytest.mark.parametrize(("n", "k"), [(1, 1), (127, 200), (128, 5), (1000, 7)])
def test_scan_equals_a_full_sort(n: int, k: int) -> None:
    vectors, query = some(n), some(1, seed=1)[0]
    scores = vectors @ query
    ids, found = np.empty(k, np.int32), np.empty(k, np.float32)
    size = search.scan(query, vectors, k, ids, found)
    assert size == min(n, k)
    np.testing.assert_array_equal(ids[:size], np.argsort(-scores, kind="stable")[:k])
    np.testing.assert_allclose(found[:size], np.sort(scores)[::-1][:k], rtol=1e-4, atol=1e-4)


def test_codes_are_the_nearest_of_255_steps() -> None:
    vectors = some(20)
    vectors[4] = 0
    order = np.random.default_rng(0).permutation(20).astype(np.int32)
    codes, scales = np.empty((20, 40), np.int8), np.empty(20, np.float32)
    for first, last in ((0, 7), (7, 20)):
        search.encode_int8(vectors, order, first, last, codes, scales)
    expected = vectors[order]
    np.testing.assert_allclose(scales, np.abs(expected).max(axis=1) / 127, rtol=1e-6)
    assert np.abs(codes * scales[:, None] - expected).max() <= scales.max() * 0.5001
    assert (codes[order == 4] == 0).all()
    assert np.abs(codes.astype(int)).max() == 127


@pytest.mark.parametrize("width", [1, 512, 5000])  # the last beyond what the finest steps of a query bear
def test_sums_of_codes_do_not_overflow(width: int) -> None:
    vectors = np.ones((3, width), np.float32)
    vectors[1] *= -1
    vectors[2] *= 2
    order = np.arange(3, dtype=np.int32)
    codes, scales = np.empty((3, width), np.int8), np.empty(3, np.float32)
    search.encode_int8(vectors, order, 0, 3, codes, scales)
    ids, scores = np.empty(1, np.int32), np.empty(1, np.float32)
    centroid = vectors.mean(axis=0)[None]
    parts = search.Partitions(vectors, centroid, np.array([0, 3]), order, codes, scales)
    assert search.probe(vectors[0], parts, search.Effort(1, -np.inf, 1, False), 1, ids, scores) == (1, 1)
    assert (ids[0], scores[0]) == (2, 2 * width)


def test_a_search_ends_where_the_next_centroid_is_too_far() -> None:
    vectors = np.repeat(np.diag([4.0, 2.0, 1.0]).astype(np.float32), 2, axis=0)
    order, codes, scales = np.arange(6, dtype=np.int32), np.empty((6, 3), np.int8), np.empty(6, np.float32)
    search.encode_int8(vectors, order, 0, 6, codes, scales)
    parts = search.Partitions(vectors, vectors[::2].copy(), np.array([0, 2, 4, 6]), order, codes, scales)
    ids, scores = np.empty(1, np.int32), np.empty(1, np.float32)
    for reach, opened in ((0.6, 1), (0.4, 2), (0.2, 3), (-np.inf, 3)):
        effort = search.Effort(3, reach, 1, False)
        assert search.probe(np.ones(3, np.float32), parts, effort, 1, ids, scores) == (1, opened)
        assert (ids[0], scores[0]) == (0, 4)


def test_the_partition_of_the_hubs_is_opened_first() -> None:
    vectors = np.repeat(np.diag([1.0, 2.0, 4.0]).astype(np.float32), 2, axis=0)
    order, codes, scales = np.arange(6, dtype=np.int32), np.empty((6, 3), np.int8), np.empty(6, np.float32)
    search.encode_int8(vectors, order, 0, 6, codes, scales)
    parts = search.Partitions(vectors, vectors[::2].copy(), np.array([0, 2, 4, 6]), order, codes, scales)
    ids, scores = np.empty(1, np.int32), np.empty(1, np.float32)
    for hubs, n_probe, found in ((False, 1, 4), (True, 1, 0), (True, 2, 4)):
        effort = search.Effort(n_probe, -np.inf, 1, hubs)
        assert search.probe(np.ones(3, np.float32), parts, effort, 1, ids, scores) == (1, n_probe)
        assert ids[0] == found


def test_nearest_centroids_and_sums_of_members() -> None:
    vectors, centroids = some(300), some(9, seed=1)
    products = vectors @ centroids.T
    out = np.empty(300, np.int32)
    for first, last in ((0, 100), (100, 300)):
        search.nearest(products, first, last, out)
    np.testing.assert_array_equal(out, products.argmax(axis=1))
    rows = np.arange(0, 300, 2)
    sums, counts = search.sum_members(vectors, rows, out[rows], 10)
    np.testing.assert_array_equal(counts, np.bincount(out[rows], minlength=10))
    expected = np.zeros((10, 40))
    np.add.at(expected, out[rows], vectors[rows])
    np.testing.assert_allclose(sums, expected, rtol=1e-4, atol=1e-4)


def test_rescore_leaves_out_what_was_not_found() -> None:
    vectors, queries = some(50), some(2, seed=1)
    found = np.array([[7, -1, 3, 9], [-1, -1, -1, -1]])
    ids, scores = np.empty((2, 4), np.int32), np.empty((2, 4), np.float32)
    search.rescore(queries, vectors, found, 0, 2, ids, scores)
    expected = sorted((7, 3, 9), key=lambda i: -float(vectors[i] @ queries[0]))
    assert ids.tolist() == [[*expected, -1], [-1, -1, -1, -1]]
    assert (scores[ids < 0] == -np.inf).all()
