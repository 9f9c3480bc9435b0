"""The same input gives the same bits, wherever its arrays lie in memory.

A compiler guards a vectorised loop by a comparison of addresses, and takes a scalar loop where arrays might overlap.
With fast maths the two may round differently if the loop both sums and writes, so that a prediction depends on where
its scratch memory lies. Here the result lies in the midst of the table it is computed from, and apart from it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from longtail.kernels import rows
from longtail.kernels.compiling import njit
from longtail.kernels.encode import SparseRows, encode_whole
from longtail.kernels.rows import encode
from longtail.neural.optimizers import RowOptimizer

D = 45  # no multiple of the width of a vector register
ROWS = 40


def interleaved(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a table, and two places for results: one between rows of the table that no point uses, and one apart."""
    memory = rng.normal(size=(ROWS, D)).astype(np.float32)
    return memory, memory[ROWS // 2 : ROWS // 2 + 3], np.empty((3, D), np.float32)


def points(rng: np.random.Generator) -> SparseRows:
    """Return three points whose features lie on both sides of the result."""
    unused = range(ROWS // 2, ROWS // 2 + 3)
    features = np.array([f for f in rng.permutation(ROWS) if f not in unused][:30], np.int32)
    return SparseRows(np.array([0, 7, 18, 30], np.int32), features, rng.normal(size=30).astype(np.float32))


@pytest.mark.parametrize("seed", range(5))
def test_points_through_a_table(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table, inside, apart = interleaved(rng)
    x, bias = points(rng), rng.normal(size=D).astype(np.float32)
    for unit in (True, False):
        encode_whole(x.ptr, x.idx, x.val, table, bias, unit, 0, 3, apart)
        encode_whole(x.ptr, x.idx, x.val, table, bias, unit, 0, 3, inside)
        np.testing.assert_array_equal(inside, apart)
    features = np.arange(ROWS, dtype=np.int32)
    encode(x.ptr, x.idx, x.val, features, table, bias, 0, 3, apart)
    encode(x.ptr, x.idx, x.val, features, table, bias, 0, 3, inside)
    np.testing.assert_array_equal(inside, apart)


@pytest.mark.parametrize("name", ["ranknet", "glas", "dxml", "decaf", "mnn"])
def test_predictions_do_not_depend_on_addresses(name: str) -> None:
    """Predict with other things in memory each time, so that scratch arrays come to lie elsewhere."""
    import longtail
    from tests.fuzz.models import KINDS, data

    drawn, (expression, settings) = data(), KINDS[name]
    model = longtail.make(expression, settings).fit(drawn.X, drawn.Y, label_features=drawn.Z)
    first, held = model.predict(drawn.X, 5), []
    for size in range(1, 40):
        held.append(np.empty(size * 37, np.uint8))
        again = model.predict(drawn.X.copy(), 5)
        np.testing.assert_array_equal(again.indices, first.indices)
        np.testing.assert_array_equal(again.data, first.data)


@pytest.mark.parametrize("kind", ["sgd", "adagrad", "adam", "momentum", "row_adagrad"])
def test_steps_compiled_here_and_steps_from_the_cache(kind: str) -> None:
    """A function that another kernel calls exists twice in a process that compiles: alone, and inside its caller."""
    compiled_here = njit(nogil=True, fastmath=rows.learn_dense.targetoptions["fastmath"])(rows.learn_dense.py_func)

    def trained(learn: Callable[..., None]) -> np.ndarray:
        rng = np.random.default_rng(0)
        table = rng.normal(size=(10, D)).astype(np.float32)
        optimizer = RowOptimizer(kind, table.shape, 0.0, 1)
        for _ in range(20):
            gradient = rng.normal(size=table.shape).astype(np.float32)
            learn(table, np.arange(10), gradient, optimizer._steps(0.1), 0, 10)
        return table

    trained(rows.learn_dense)  # in the cache from now on, if it was not
    np.testing.assert_array_equal(trained(compiled_here), trained(rows.learn_dense))
