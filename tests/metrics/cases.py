"""Small random problems for hypothesis: empty rows, ties, stored zeros, rows in any order, pairs to ignore."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from scipy.sparse import csr_array

from . import oracle


class Case(NamedTuple):
    n_labels: int
    truth: oracle.Rows
    scores: oracle.Rows
    train: oracle.Rows
    ignore: list[tuple[int, int]]

    def matrix(self, rows: oracle.Rows) -> csr_array:
        return to_csr(rows, self.n_labels)


def to_csr(rows: oracle.Rows, n_labels: int, dtype: type = np.float32) -> csr_array:
    """CSR that keeps each row's own order and its stored zeros."""
    indptr = np.cumsum([0] + [len(row) for row in rows])
    indices = np.array([label for row in rows for label in row], np.int32)
    data = np.array([value for row in rows for value in row.values()], dtype)
    return csr_array((data, indices, indptr), shape=(len(rows), n_labels))


# Values that float32 holds exactly, few of them, so that ties are common.
UNIT = st.sampled_from([0.0, 0.125, 0.25, 0.5, 0.75, 1.0])
ANY = st.one_of(UNIT, st.sampled_from([-3.0, -0.5, 2.0, 100.0]))


@st.composite
def cases(draw: st.DrawFn, scores: st.SearchStrategy[float] = ANY) -> Case:
    n_labels = draw(st.integers(1, 12))
    n_points = draw(st.integers(1, 8))

    def rows(n: int, values: st.SearchStrategy[float]) -> oracle.Rows:
        row = st.dictionaries(st.integers(0, n_labels - 1), values, max_size=n_labels)
        return draw(st.lists(row, min_size=n, max_size=n))

    truth = rows(n_points, st.sampled_from([1.0, 1.0, 1.0, 0.0]))
    pair = st.tuples(st.integers(0, n_points - 1), st.integers(0, n_labels - 1))
    case = Case(
        n_labels=n_labels,
        truth=truth,
        scores=rows(n_points, scores),
        train=rows(draw(st.integers(3, 20)), st.sampled_from([1.0, 1.0, 0.0])),
        ignore=draw(st.one_of(st.just([]), st.lists(pair, max_size=10))),
    )
    assume(any(oracle.labels_of(row) for row in oracle.drop(case.truth, case.ignore)))
    return case
