"""Matrix products in parts, and BLAS kept to one thread."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from longtail.kernels.blas import _controller, product, single_threaded


def blas_threads() -> int:
    return max(library["num_threads"] for library in _controller().info())  # NumPy's; others may be loaded later


@pytest.mark.parametrize("shape", [(3, 4, 5), (700, 64, 90), (90, 64, 700), (1, 300, 9000), (0, 4, 5)])
def test_a_product_is_that_of_numpy_whatever_the_number_of_threads(shape: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal(shape[:2], np.float32), rng.standard_normal(shape[1:], np.float32)
    with single_threaded():
        one, two = product(A, B, 1), product(A, B, 2)
        turned = product(np.asfortranarray(A), np.ascontiguousarray(B.T).T, 2)
    assert one.dtype == np.float32
    assert one.shape == (shape[0], shape[2])
    np.testing.assert_allclose(one, A.astype(np.float64) @ B, atol=1e-4)
    np.testing.assert_allclose(turned, one, atol=1e-4)
    assert np.array_equal(one, two)


def test_a_product_is_written_where_it_is_wanted() -> None:
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((600, 64), np.float32), rng.standard_normal((64, 80), np.float32)
    out = np.empty((600, 80), np.float32)
    assert product(A, B, 2, out) is out
    np.testing.assert_allclose(out, A @ B, atol=1e-4)


def test_blas_gets_its_threads_back() -> None:
    before = blas_threads()
    with single_threaded():
        with single_threaded():
            assert blas_threads() == 1
        assert blas_threads() == 1
    assert blas_threads() == before


def test_a_thread_that_has_limited_blas_does_not_keep_others_from_it() -> None:
    with ThreadPoolExecutor(1) as executor:

        def limit() -> None:
            with single_threaded():
                pass

        executor.submit(limit).result(60)  # the thread lives on
        with single_threaded():
            assert blas_threads() == 1


def test_overlapping_blocks_of_several_threads_leave_blas_as_it_was() -> None:
    before = blas_threads()
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with single_threaded():
            entered.set()
            leave.wait(60)

    thread = threading.Thread(target=other, daemon=True)
    with single_threaded():
        thread.start()
        assert entered.wait(60)
    leave.set()
    thread.join(60)
    assert blas_threads() == before
