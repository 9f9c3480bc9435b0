"""Matrices, labels and points as no model expects them: odd ones with a meaning, and malformed ones without.

A case is what is given and what it means: a dense array, or None where it has no meaning and must be refused. So a
crash, a hang, a foreign exception and a silently wrong answer are all seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csr_array

import longtail
from longtail.errors import LongtailError
from tests.fuzz.models import data

N = 6
_RNG = np.random.Generator


@dataclass(frozen=True)
class Case:
    """What is given, what it means, and how it was made."""

    given: Any
    meaning: np.ndarray | None
    how: str


# Odd, with a meaning --------------------------------------------------------------------------------------------------


def _unsorted(A: csr_array, rng: _RNG) -> Any:
    B = A.copy()
    for row in range(B.shape[0]):
        part = slice(B.indptr[row], B.indptr[row + 1])
        order = rng.permutation(part.stop - part.start)
        B.indices[part], B.data[part] = B.indices[part][order], B.data[part][order]
    return csr_array((B.data, B.indices, B.indptr), shape=B.shape)


def _halved(A: csr_array, rng: _RNG) -> Any:
    """Store every entry twice, at half its value."""
    n = np.diff(A.indptr)
    indptr = np.concatenate([[0], np.cumsum(2 * n)]).astype(np.int32)
    return csr_array((np.repeat(A.data / 2, 2), np.repeat(A.indices, 2), indptr), shape=A.shape)


def _with_zeros(A: csr_array, rng: _RNG) -> Any:
    row = int(rng.integers(A.shape[0]))
    free = np.setdiff1d(np.arange(A.shape[1]), A.indices[A.indptr[row] : A.indptr[row + 1]])
    at, column = A.indptr[row + 1], int(rng.choice(free))
    indptr = A.indptr + (np.arange(A.shape[0] + 1) > row)
    return csr_array((np.insert(A.data, at, 0), np.insert(A.indices, at, column), indptr), shape=A.shape)


def _roomy(A: csr_array, rng: _RNG) -> Any:
    """Leave room at the end of the arrays, filled with what must not be read."""
    B = A.copy()
    B.data, B.indices = np.append(B.data, np.float32(np.nan)), np.append(B.indices, 2**31 - 1).astype(np.int32)
    return B


def _wide(A: csr_array, rng: _RNG) -> Any:
    B = A.copy()
    B.indices, B.indptr = B.indices.astype(np.int64), B.indptr.astype(np.int64)
    return B


def _read_only(A: csr_array, rng: _RNG) -> Any:
    B = A.copy()
    for array in (B.data, B.indices, B.indptr):
        array.flags.writeable = False
    return B


def _strided(A: csr_array, rng: _RNG) -> Any:
    B = A.copy()
    B.data, B.indices = np.repeat(B.data, 2)[::2], np.repeat(B.indices, 3)[::3]
    return B


ODD: dict[str, Callable[[csr_array, _RNG], Any]] = {
    "unsorted": _unsorted,
    "every entry twice": _halved,
    "stored zero": _with_zeros,
    "room at the end": _roomy,
    "64-bit indices": _wide,
    "read-only": _read_only,
    "strided": _strided,
    "float64": lambda A, rng: A.astype(np.float64),
    "csr_matrix": lambda A, rng: sparse.csr_matrix(A),
    "csc": lambda A, rng: A.tocsc(),
    "coo": lambda A, rng: A.tocoo(),
    "lil": lambda A, rng: A.tolil(),
    "dok": lambda A, rng: A.todok(),
    "bsr": lambda A, rng: A.tobsr(),
    "dia": lambda A, rng: A.todia(),
    "dense": lambda A, rng: A.toarray(),
    "dense, by columns": lambda A, rng: np.asfortranarray(A.toarray()),
    "dense, strided": lambda A, rng: np.repeat(A.toarray(), 2, axis=0)[::2],
    "dense, reversed": lambda A, rng: A.toarray()[::-1][::-1],
    "dense objects": lambda A, rng: A.toarray().astype(object),
    "big-endian": lambda A, rng: A.toarray().astype(">f4"),
    "lists": lambda A, rng: A.toarray().tolist(),
}

# Malformed, without a meaning ----------------------------------------------------------------------------------------


def _with(part: str, change: Callable[[np.ndarray, csr_array, _RNG], Any], form: str = "csr") -> Any:
    def damage(A: csr_array, rng: _RNG) -> Any:
        B = A.copy() if form == "csr" else A.tocsc()
        setattr(B, part, change(getattr(B, part).copy(), B, rng))
        return B

    return damage


def _put(value: Callable[[csr_array], Any]) -> Callable[[np.ndarray, csr_array, _RNG], np.ndarray]:
    def change(array: np.ndarray, A: csr_array, rng: _RNG) -> np.ndarray:
        array[rng.integers(len(array))] = value(A)
        return array

    return change


def _descending(array: np.ndarray, A: csr_array, rng: _RNG) -> np.ndarray:
    at = int(rng.integers(1, len(array) - 1))
    array[at] = array[at + 1] + 1 + int(rng.integers(3))
    return array


def _sparse_of(A: csr_array, shape: tuple[int, ...]) -> Any:
    B = A.copy()
    B._shape = shape  # what SciPy itself never allows
    return B


_MAX = 2**31 - 1
_INDICES: dict[str, Callable[[np.ndarray, csr_array, _RNG], Any]] = {
    "negative": _put(lambda A: -1),
    "just outside": _put(lambda A: A.shape[1 if A.format == "csr" else 0]),
    "far outside": _put(lambda A: _MAX),
    "far below": _put(lambda A: -_MAX - 1),
    "all outside": lambda a, A, rng: np.full_like(a, _MAX),
    "counted from 1": lambda a, A, rng: a + (A.shape[1 if A.format == "csr" else 0] - a.max()),
    "wraps in 32 bits": lambda a, A, rng: a.astype(np.int64) + 2**32,
    "wraps in 64 bits": lambda a, A, rng: a.astype(np.uint64) + np.uint64(2**63),
    "one too few": lambda a, A, rng: a[:-1],
    "none": lambda a, A, rng: a[:0],
    "two dimensions": lambda a, A, rng: a[:, None],
    "fractions": lambda a, A, rng: a + 0.7,
    "booleans": lambda a, A, rng: a.astype(bool),
    "complex": lambda a, A, rng: a.astype(complex),
}
_INDPTR: dict[str, Callable[[np.ndarray, csr_array, _RNG], Any]] = {
    "descends": _descending,
    "negative": lambda a, A, rng: np.concatenate([[0, -3], a[2:]]),
    "begins late": lambda a, A, rng: np.concatenate([[1], a[1:]]),
    "ends late": lambda a, A, rng: np.append(a[:-1], a[-1] + 1),
    "ends far out": lambda a, A, rng: np.append(a[:-1], _MAX),
    "one too few": lambda a, A, rng: a[:-1],
    "one too many": lambda a, A, rng: np.append(a, a[-1]),
    "none": lambda a, A, rng: a[:0],
    "wraps": lambda a, A, rng: a.astype(np.uint64) - np.uint64(1),
    "fractions": lambda a, A, rng: a.astype(np.float64),
    "reversed": lambda a, A, rng: a[::-1].copy(),
}
_DATA: dict[str, Callable[[np.ndarray, csr_array, _RNG], Any]] = {
    "NaN": _put(lambda A: np.nan),
    "infinite": _put(lambda A: np.inf),
    "beyond float32": lambda a, A, rng: a.astype(np.float64) * 1e300,
    "complex": lambda a, A, rng: a.astype(complex),
    "one too few": lambda a, A, rng: a[:-1],
    "none": lambda a, A, rng: a[:0],
}
MALFORMED: dict[str, Callable[[csr_array, _RNG], Any]] = {
    **{f"indices {name}": _with("indices", change) for name, change in _INDICES.items()},
    **{f"indptr {name}": _with("indptr", change) for name, change in _INDPTR.items()},
    **{f"data {name}": _with("data", change) for name, change in _DATA.items()},
    **{f"csc indices {name}": _with("indices", change, "csc") for name, change in _INDICES.items()},
    **{f"csc indptr {name}": _with("indptr", change, "csc") for name, change in _INDPTR.items()},
    "shape of more rows": lambda A, rng: _sparse_of(A, (A.shape[0] + 3, A.shape[1])),
    "shape of fewer columns": lambda A, rng: _sparse_of(A, (A.shape[0], max(1, int(A.indices.max())))),
    "fewer columns": lambda A, rng: csr_array(A[:, :-1]),
    "more columns": lambda A, rng: csr_array((A.data, A.indices, A.indptr), shape=(A.shape[0], A.shape[1] + 1)),
    "one dimension": lambda A, rng: A.toarray()[0],
    "three dimensions": lambda A, rng: A.toarray()[None],
    "no dimension": lambda A, rng: 3.0,
    "dense NaN": lambda A, rng: np.where(A.toarray() > 0, np.nan, 0),
    "dense infinity": lambda A, rng: np.where(A.toarray() > 0, -np.inf, 0),
    "dense complex": lambda A, rng: A.toarray() * 1j,
    "dense text": lambda A, rng: A.toarray().astype(str),
    "dense words": lambda A, rng: [["a"] * A.shape[1]] * A.shape[0],
    "dense dates": lambda A, rng: A.toarray().astype("M8[s]"),
    "dense None": lambda A, rng: [[None] * A.shape[1]] * A.shape[0],
    "records": lambda A, rng: np.zeros(A.shape, [("a", "f4")]),
    "ragged lists": lambda A, rng: [[1.0] * (1 + i) for i in range(A.shape[0])],
    "dict": lambda A, rng: {"a": 1},
    "text": lambda A, rng: "a text",
    "None": lambda A, rng: None,
    "object": lambda A, rng: object(),
    "a model": lambda A, rng: longtail.make("popular"),
}


def draw_case(A: csr_array, rng: _RNG) -> Case:
    """Change a sound matrix in one way; a third of the cases keep their meaning."""
    table = ODD if rng.random() < 0.33 else MALFORMED
    how = str(rng.choice(list(table)))
    return Case(table[how](A, rng), A.toarray() if table is ODD else None, how)


# Use -----------------------------------------------------------------------------------------------------------------


class _Reached(Exception):
    """Raised where training would begin, with what would be trained on."""


def _sound(X: Any, meaning: np.ndarray) -> None:
    """Require exactly the matrix that was meant, in the one form that kernels take."""
    assert isinstance(X, csr_array)
    assert X.dtype == np.float32
    assert X.indices.dtype == np.int32
    X.check_format(full_check=True)
    assert X.has_canonical_format
    np.testing.assert_array_equal(X.toarray(), meaning.astype(np.float32))


def _refused(use: Callable[[], Any], case: Case) -> bool:
    """Use a case; return whether it was refused, which a case with a meaning must not be."""
    try:
        use()
    except LongtailError:
        assert case.meaning is None, "a matrix with a meaning was refused"
        return True
    return False


def use_matrix(folder: Path, rng: _RNG) -> str:
    """Give a model one case in every way that takes a matrix: predict, fit, partial_fit, validation, label text."""
    drawn, model = _data(), _loaded(folder)
    X, Y, Z = drawn.X[:N], drawn.Y[:N], drawn.Z
    before = model.predict(X, 3).toarray()
    case = draw_case(X, rng)
    if not _refused(lambda: _same(model.predict(case.given, 3).toarray(), before), case):
        assert case.meaning is not None, f"X {case.how}: predicted from"
    train_with(model, case, X, Y, Z, "X")
    train_with(model, draw_case(Y, rng), X, Y, Z, "Y")
    train_with(model, draw_case(Z, rng), X, Y, Z, "Z")
    how = f"X {case.how}; {_use_point(model, X, rng)}"
    _same(model.predict(X, 3).toarray(), before)
    return how


_data = cache(data)
_models: dict[Path, Any] = {}


def _loaded(folder: Path) -> Any:
    """Return the model of a folder, which a process loads once: cases must not change it."""
    if folder not in _models:
        _models[folder] = longtail.load(folder)
    return _models[folder]


def _same(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def train_with(model: Any, case: Case, X: Any, Y: Any, Z: Any, name: str) -> None:
    """Pass one case to all that trains, up to the point where training would begin."""
    given: dict[str, Any] = {"X": X, "Y": Y, "Z": Z, name: case.given}
    optional = name == "Z" and case.given is None
    recipe = model.unfitted()

    def reached(X: Any, Y: Any, Z: Any, validation: Any) -> None:
        raise _Reached(X, Y, Z)

    recipe._fit = reached

    def fit() -> None:
        recipe.fit(given["X"], given["Y"], label_features=given["Z"])

    def validate() -> None:
        recipe.fit(X, Y, label_features=Z, validation=(given["X"], given["Y"]))

    def learn_on() -> None:
        gate = type(model)._check_further_points

        def stop(X: Any, Y: Any) -> None:
            raise _Reached(*gate(model, X, Y), None)

        model._check_further_points = stop
        try:
            model.partial_fit(given["X"], given["Y"])
        finally:
            del model._check_further_points

    uses = [fit] if name == "Z" else [fit, validate]
    if name != "Z" and hasattr(model, "partial_fit"):
        uses.append(learn_on)
    for use in uses:
        try:
            refused = _refused(use, case)
        except _Reached as end:
            refused = False
            taken = dict(zip("XYZ", end.args, strict=True))[name]
            if use is not validate and case.meaning is not None:
                _sound(taken, (case.meaning != 0) if name == "Y" else case.meaning)
        # Labels may be any number, and any finite value other than 0 means that a point has the label.
        wider = name == "Y" and case.how in ("more columns", "fewer columns", "data beyond float32")
        assert refused == (case.meaning is None) or optional or wider, f"{name} {case.how}: {use.__name__} took it"


def _with_a_zero(indices: np.ndarray, values: np.ndarray, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    free = np.setdiff1d(np.arange(n_features, dtype=np.int32), indices)[0]
    return np.append(indices, free), np.append(values, np.float32(0))


def _use_point(model: Any, X: csr_array, rng: _RNG) -> str:
    """Give a model one point, right or wrong."""
    part = slice(X.indptr[0], X.indptr[1])
    indices, values = X.indices[part], X.data[part]
    expected = model.rank(indices, values, 3)
    order = rng.permutation(len(indices))
    right: dict[str, tuple[Any, Any]] = {
        "lists": (indices.tolist(), values.tolist()),
        "unordered": (indices[order], values[order]),
        "int64": (indices.astype(np.int64), values.astype(np.float64)),
        "twice": (np.repeat(indices, 2), np.repeat(values / 2, 2)),
        "unsigned": (indices.astype(np.uint16), values),
        "strided": (np.repeat(indices, 2)[::2], np.repeat(values, 2)[::2]),
        "zeros": _with_a_zero(indices, values, X.shape[1]),
    }
    wrong: dict[str, tuple[Any, Any]] = {
        "negative": (indices - indices.min() - 1, values),
        "outside": (indices + X.shape[1], values),
        "wraps": (indices.astype(np.int64) + 2**32, values),
        "wraps far": (indices.astype(np.uint64) + np.uint64(2**63), values),
        "fractions": (indices + 0.7, values),
        "NaN": (indices, values * np.float32(np.nan)),
        "infinite": (indices, values * np.float32(np.inf)),
        "beyond float32": (indices, values.astype(np.float64) * 1e300),
        "longer": (indices, np.append(values, 1)),
        "shorter": (indices, values[:-1]),
        "two dimensions": (indices[None], values[None]),
        "no dimension": (indices[0], values[0]),
        "text": (["a"] * len(indices), values),
        "words": (indices, ["a"] * len(indices)),
        "complex": (indices, values * 1j),
        "none": (None, None),
        "objects": ([object()], [object()]),
    }
    how = str(rng.choice([*right, *wrong]))
    if how in right:
        found = model.rank(*right[how], 3)
        np.testing.assert_array_equal(found[0], expected[0])
        _same(found[1], expected[1])
        return f"point {how}"
    try:
        found = model.rank(*wrong[how], 3)
    except LongtailError:
        return f"point {how}"
    raise AssertionError(f"point {how}: ranked")
