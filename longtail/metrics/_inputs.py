"""Check truth and scores, and convert them to the form that the kernels take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from longtail.errors import DataError, SettingsError, number_of, warn
from longtail.kernels.metrics import csr_is_in, csr_top_k_scaled, first_repeat, tally
from longtail.kernels.topk import csr_top_k_serial
from longtail.params import LARGEST, value_shown
from longtail.sparse import canonical, malformed_part, with_usual_types

_MAX_K = 10_000  # time and memory of a metric grow with the cut-off
_LISTS_FORM = 'Give a list of names per point: [["a", "b"], ["c"]]'
SparseMatrix: TypeAlias = sparse.sparray | sparse.spmatrix


@dataclass(frozen=True)
class Judged:
    """Truth and predictions of the same points, checked and ready for the kernels.

    The types are always the same (int64 row starts, int32 labels, float64 scores), so that every kernel is compiled
    only once.
    """

    n_labels: int
    true_indptr: np.ndarray  # (N + 1,)
    true_indices: np.ndarray  # sorted and distinct within a row
    indptr: np.ndarray  # (N + 1,)
    indices: np.ndarray  # predicted labels, any order within a row
    scores: np.ndarray

    def top(self, k: int) -> Judged:
        """Keep the k best predictions of each point, best first."""
        indptr, indices, scores = csr_top_k_serial(self.indptr, self.indices, self.scores, k)
        return replace(self, indptr=indptr, indices=indices, scores=scores)

    def count(self, weights: np.ndarray, ks: np.ndarray, factors: np.ndarray | None = None) -> Tally:
        """Rank the predictions by score, or by score times the label's factor, and count the correct ones at each k."""
        if factors is None:
            indptr, indices, _ = csr_top_k_serial(self.indptr, self.indices, self.scores, ks[-1])
        else:
            indptr, indices = csr_top_k_scaled(self.indptr, self.indices, self.scores, factors, ks[-1])
        sums, right_at, n_points, twice = tally(self.true_indptr, self.true_indices, indptr, indices, weights, ks)
        if twice >= 0:
            raise _scored_twice(twice)
        if n_points == 0:
            raise DataError("no test point has a label", remedy="Give test points whose labels are known.")
        right, gained, gained_dcg, best_gain, best_dcg, ndcg, recall = sums.T
        return Tally(
            ks=ks,
            n_points=n_points,
            n_labels=self.n_labels,
            right=right,
            gained=gained,
            gained_dcg=gained_dcg,
            best_gain=best_gain,
            best_dcg=best_dcg,
            ndcg=ndcg,
            recall=recall,
            ranked=indices,
            right_at=right_at,
        )


@dataclass(frozen=True)
class Tally:
    """Counts of correct predictions within each k, summed over the points that have labels."""

    ks: np.ndarray  # (K,)
    n_points: int
    n_labels: int
    right: np.ndarray  # (K,) number of correct predictions
    gained: np.ndarray  # (K,) sum of their weights
    gained_dcg: np.ndarray  # (K,) sum of their weights, discounted by rank
    best_gain: np.ndarray  # (K,) the same sum for the best possible ranking
    best_dcg: np.ndarray  # (K,) the same sum, discounted by rank
    ndcg: np.ndarray  # (K,)
    recall: np.ndarray  # (K,)
    ranked: np.ndarray  # predicted labels, point after point, best first
    right_at: np.ndarray  # rank of each prediction if it is correct, else 0

    def precision(self) -> np.ndarray:
        """Return P@k in percent, (K,)."""
        return 100.0 * self.right / (self.ks * self.n_points)

    def scored_precision(self) -> np.ndarray:
        """Return PSP@k in percent, (K,)."""
        return 100.0 * self.gained / self.best_gain

    def right_by_label(self, k: int) -> np.ndarray:
        """Count how often each label was predicted correctly within the top k, (L,)."""
        chosen = (self.right_at > 0) & (self.right_at <= k)
        return np.bincount(self.ranked[chosen], minlength=self.n_labels)


def judge(Y_true: SparseMatrix, scores: SparseMatrix, ignore: ArrayLike | None = None) -> Judged:
    """Check truth, scores and pairs to ignore, and return them in the form that the kernels take."""
    truth = truth_matrix(Y_true, "Y_true")
    predicted = as_csr(scores, "scores")
    if truth.shape != predicted.shape:
        raise DataError(
            f"Y_true is {_size(truth)} and scores {_size(predicted)}, points x labels",
            remedy="Give scores for the same points and labels, in the same order.",
        )
    _refuse_nan(predicted, "scores")
    judged = Judged(
        n_labels=truth.shape[1],
        true_indptr=truth.indptr.astype(np.int64, copy=False),
        true_indices=truth.indices.astype(np.int32, copy=False),
        indptr=predicted.indptr.astype(np.int64, copy=False),
        indices=predicted.indices.astype(np.int32, copy=False),
        scores=predicted.data.astype(np.float64, copy=False),
    )
    twice = first_repeat(judged.indptr, judged.indices, judged.n_labels)
    if twice >= 0:
        raise _scored_twice(twice)
    return judged if ignore is None else _without(judged, ignore, truth.shape)


def _scored_twice(row: int) -> DataError:
    return DataError("a label is scored twice", row=row, remedy="Store one score per label in a row.")


def truth_matrix(Y: SparseMatrix, name: str) -> sparse.csr_array:
    """Return a label matrix as CSR with sorted rows, without duplicates or stored zeros. Copy it only if needed."""
    matrix = as_csr(Y, name)
    _refuse_nan(matrix, name)
    matrix = canonical(matrix)
    if np.count_nonzero(matrix.data) < matrix.nnz:
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    return matrix


def check_ks(ks: Sequence[int]) -> np.ndarray:
    """Return the cut-offs in ascending order, without duplicates, or raise an error if one is not allowed."""
    try:
        values = np.atleast_1d(np.asarray(ks))
    except ValueError:  # lists of different lengths
        values = np.empty(0)
    whole = values.ndim == 1 and values.size > 0 and values.dtype.kind in "iu"
    if not whole or values.min() < 1 or values.max() > _MAX_K:
        raise SettingsError(f"ks must be whole numbers from 1 to {_MAX_K}, such as (1, 3, 5); got {value_shown(ks)}.")
    return np.unique(values).astype(np.int64)


def check_weights(inv_propensity: ArrayLike, n_labels: int) -> np.ndarray:
    """Return inverse propensities as float64, after checking that there is a positive finite one for each label."""
    weights = np.ascontiguousarray(inv_propensity, np.float64)
    if weights.shape != (n_labels,):
        raise DataError(
            f"inv_propensity has shape {weights.shape} for {n_labels:,} labels",
            remedy="Give one weight per label: inverse_propensity(Y_train).",
        )
    if not (np.isfinite(weights).all() and (weights > 0).all()):
        raise DataError(
            "inv_propensity has a weight that is not positive and finite",
            remedy="Compute them with inverse_propensity(Y_train).",
        )
    return weights


def as_csr(matrix: SparseMatrix, name: str) -> sparse.csr_array:
    """Return any sparse matrix as CSR, or raise an error if its arrays are not valid."""
    loose: Any = matrix  # scipy's type stubs, where installed, give the base classes no shape
    if not sparse.issparse(matrix) or loose.ndim != 2:
        raise DataError(
            f"{name} must be a scipy sparse matrix, points x labels, not {type(matrix).__name__}",
            remedy="Wrap it: scipy.sparse.csr_array(...).",
        )
    malformed = malformed_part(loose)
    if malformed is not None:
        raise DataError(f"{name} has an array {malformed!r} that is no plain vector", remedy="Rebuild it.")
    if loose.dtype.kind not in "biuf":
        raise DataError(f"{name} holds {loose.dtype}, not numbers", remedy="Give a matrix of real numbers.")
    if max(loose.shape) > LARGEST:
        raise DataError(f"{name} is {_size(loose)}, more than {LARGEST:,} each way", remedy="Number labels from 0.")
    try:
        checked: sparse.csr_array = sparse.csr_array(with_usual_types(loose))  # shares the arrays if it was CSR
        checked.check_format(full_check=True)  # the kernels do not check bounds
    except (ValueError, IndexError) as error:
        raise DataError(f"{name} is not a valid CSR matrix: {error}", remedy="Rebuild it.") from error
    return checked


def _refuse_nan(matrix: sparse.csr_array, name: str) -> None:
    bad = np.isnan(matrix.data)
    if bad.any():
        at = int(bad.argmax())
        row = int(np.searchsorted(matrix.indptr, at, side="right")) - 1
        raise DataError(
            f"{name} holds NaN for label {matrix.indices[at]}",
            row=row,
            remedy="Remove or replace it: it cannot be ranked.",
        )


def _without(judged: Judged, ignore: ArrayLike, shape: tuple[int, int]) -> Judged:
    """Remove the (row, label) pairs of ``ignore`` from both truth and predictions."""
    pairs = np.asarray(ignore)
    if pairs.size == 0:
        return judged
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise DataError(
            f"ignore must hold whole numbers in shape (pairs, 2), got {pairs.dtype} {pairs.shape}",
            remedy="Each line is (row, label).",
        )
    outside = (pairs < 0).any(axis=1) | (pairs >= np.array(shape)).any(axis=1)
    if outside.any():
        at = int(outside.argmax())
        raise DataError(
            f"ignore[{at}] = {tuple(pairs[at].tolist())} lies outside {shape[0]:,} points x {shape[1]:,} labels",
            remedy="Give rows and labels of these points, counted from 0.",
        )
    listed = sparse.csr_array((np.ones(len(pairs), np.int8), (pairs[:, 0], pairs[:, 1])), shape=shape)
    listed.sort_indices()
    listed_indptr, listed_indices = listed.indptr.astype(np.int64), listed.indices.astype(np.int32)

    def kept(indptr: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        keep = ~csr_is_in(indptr, indices, listed_indptr, listed_indices)
        before = np.concatenate(([0], np.cumsum(keep)))  # entries kept before each position
        return before[indptr], keep

    true_indptr, keep_true = kept(judged.true_indptr, judged.true_indices)
    indptr, keep = kept(judged.indptr, judged.indices)
    return Judged(
        n_labels=judged.n_labels,
        true_indptr=true_indptr,
        true_indices=judged.true_indices[keep_true],
        indptr=indptr,
        indices=judged.indices[keep],
        scores=judged.scores[keep],
    )


def _size(matrix: Any) -> str:
    return f"{matrix.shape[0]:,} x {matrix.shape[1]:,}"


# Lists of names -------------------------------------------------------------------------------------------------------


def are_lists(values: Any) -> bool:
    """Return whether the values are lists of names rather than a matrix."""
    listed = not hasattr(values, "dtype") or hasattr(values, "to_list")  # a Series has both
    return not sparse.issparse(values) and listed and isinstance(values, Iterable)


def named_matrices(
    truth: Any, suggestions: Any, training: Any
) -> tuple[sparse.csr_array, sparse.csr_array, sparse.csr_array | None]:
    """Return truth, scores and training labels as matrices with one column per name.

    Parameters
    ----------
    truth : list of lists of str
        Correct labels per point.
    suggestions : list of lists
        Suggested labels per point: names, the best first; pairs (name, score); or dicts from name to score.
    training : list of lists of str, or None
        Labels of the training points.
    """
    numbers: dict[str, int] = {}
    true = _entries(truth, "Y_true", numbers)
    suggested = _entries(suggestions, "scores", numbers)
    trained = None if training is None else _entries(training, "train_Y", numbers)
    if len(true[0]) != len(suggested[0]):
        what = f"Y_true has {number_of(len(true[0]) - 1, 'point')} and scores {len(suggested[0]) - 1:,}"
        raise DataError(what, remedy="Give suggestions for the same points, in the same order")

    def matrix(entries: tuple[list[int], list[int], list[float]]) -> sparse.csr_array:
        ends, labels, scores = entries
        arrays = (np.array(scores, np.float32), np.array(labels, np.int32), np.array(ends))
        return sparse.csr_array(arrays, shape=(len(ends) - 1, len(numbers)))

    known, predicted = {*true[1], *(trained[1] if trained else ())}, set(suggested[1])
    if known and predicted and not known & predicted:
        what = f"0 of {len(predicted):,} suggested labels are among the {len(known):,} correct ones"
        warn(f"{what}, so that all metrics are 0. Write labels alike in both.")
    Y, S, T = matrix(true), matrix(suggested), None if trained is None else matrix(trained)
    Y.data[:] = 1
    if T is not None:
        T.data[:] = 1
    return Y, S, T


def _entries(rows: Any, what: str, numbers: dict[str, int]) -> tuple[list[int], list[int], list[float]]:
    """Return row starts, labels and scores of lists. Names without scores are scored by their rank."""
    if not are_lists(rows) or isinstance(rows, str | Mapping):
        raise DataError(f"{what} is not a list of lists, as the other one is", remedy=_LISTS_FORM)
    ends, labels, scores = [0], list[int](), list[float]()
    for number, row in enumerate(rows):
        if row is None or (isinstance(row, float) and row != row):
            row = []  # a missing value of a data frame
        if isinstance(row, str | bytes) or not isinstance(row, Iterable):
            cut = 'Cut the column first, as in df["tags"].str.split("|")'
            remedy = cut if hasattr(rows, "to_list") and isinstance(row, str) else _LISTS_FORM
            raise DataError(f"{what} has {row!r} where a list belongs", row=number, remedy=remedy)
        score_of: dict[int, float] = {}
        for rank, item in enumerate(row.items() if isinstance(row, Mapping) else row):
            name, score = item if isinstance(item, tuple | list) and len(item) == 2 else (item, 1 / (1 + rank))
            score_of.setdefault(numbers.setdefault(str(name), len(numbers)), float(score))
        labels += score_of.keys()
        scores += score_of.values()
        ends.append(len(labels))
    return ends, labels, scores
