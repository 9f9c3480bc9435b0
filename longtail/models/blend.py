"""One ranking out of several: what LabelText, TAug and Ensemble share.

The candidates of a point are the labels that any of some rankers finds, and those whose text is nearest. Each pair of
point and candidate has a few features: every ranker's log odds, how alike the point is to the label's text and to the
mean of the label's points, and how many points the label has. A small model of chances
(:mod:`longtail.labels.chances`), learnt from held-out points, makes one score of them. Since it is one of chances, the
scores of all labels, frequent and rare, are on one scale, whatever scales the rankers have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array, vstack

from longtail.kernels import match, pool
from longtail.kernels.topk import csr_top_k_serial
from longtail.labels.chances import Chances
from longtail.labels.head_tail import only
from longtail.linear.tree import label_vectors
from longtail.metrics import full_report, inverse_propensity
from longtail.models.base import Arrays
from longtail.models.label_tree import unit_rows

Part = tuple[csr_array, csr_array]  # points and their labels
GOALS = ("P@1", "P@5", "F@1", "F@5")  # what is chosen by: their mean

_LEAST, _MOST = 1e-6, 1 - 1e-6  # chances outside count as these: no ranker knows better
_WIDTH = 64  # strongest features kept of the mean of a label's points; 256 were no better on held-out points
_DEPTH = 50  # scores a point that are measured
_ROWS = 4096  # points whose candidates are held at once
_ODDS = 15.0  # beyond, float32 cannot tell chances apart


@dataclass
class LabelSide:
    """What is known of labels from training: how many points each has, their mean, and the label's text."""

    counts: np.ndarray  # (L,)
    text: csr_array | None = None  # (L, D), unit rows; empty for labels without points, which are never suggested
    centres: csr_array | None = None  # (L, D), unit rows

    @classmethod
    def of(cls, X: csr_array, Y: csr_array, Z: csr_array | None, n_jobs: int | None, centres: bool = True) -> Self:
        """From training points, their labels and label text."""
        counts = np.bincount(Y.indices, minlength=Y.shape[1]).astype(np.int32)
        if Z is not None:
            lengths = np.where(counts > 0, np.diff(Z.indptr), 0)
            known = np.repeat(counts > 0, np.diff(Z.indptr))
            indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(Z.indptr.dtype)
            Z = unit_rows(csr_array((Z.data[known], Z.indices[known], indptr), shape=Z.shape))
        found = label_vectors(X, Y, _WIDTH, n_jobs) if centres else None
        return cls(counts, *(None if m is None else _frozen(m) for m in (Z, found)))

    @cached_property
    def by_feature(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Label text as an inverted index."""
        assert self.text is not None
        turned = _frozen(csr_array(self.text.T))
        return turned.indptr, turned.indices, turned.data

    def nearest(self, X: csr_array, k: int, n_jobs: int | None) -> csr_array:
        """The labels whose text is most like the points', at most `k` a row."""
        n_labels = len(self.counts)
        k = min(k, n_labels)

        def work(block: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            rows = block[1] - block[0]
            found = np.empty((rows, k), np.int32), np.empty((rows, k), np.float32), np.empty(rows, np.int32)
            match.search(X.indptr, X.indices, X.data, *block, *self.by_feature, n_labels, k, *found)
            return found

        jobs = 1 if X.shape[0] < 64 else n_jobs
        parts = pool.run(work, pool.blocks(X.shape[0], jobs) or [(0, 0)], jobs)
        labels, scores, counts = (np.concatenate(side) for side in zip(*parts, strict=True))
        filled = np.arange(k) < counts[:, None]
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        return csr_array((scores[filled], labels[filled], indptr), shape=(X.shape[0], n_labels))

    def likeness(self, X: csr_array, pairs: csr_array, n_jobs: int | None) -> list[np.ndarray]:
        """Features of pairs of point and label: those of the text, of the mean of points, and the count."""
        columns: list[np.ndarray] = []
        for vectors, kept in ((self.text, 3), (self.centres, 1)):
            if vectors is not None:
                columns += list(_products(X, pairs, vectors, n_jobs)[:, :kept].T)
        return [*columns, np.log1p(self.counts[pairs.indices]).astype(np.float32)]

    def arrays(self) -> Arrays:
        """What to store."""
        found = {"counts": self.counts}
        for name in ("text", "centres"):
            if (matrix := getattr(self, name)) is not None:
                found |= {f"{name}_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr")}
        return found

    @classmethod
    def from_arrays(cls, arrays: Arrays, n_features: int) -> Self:
        """What :meth:`arrays` gave."""
        shape = len(arrays["counts"]), n_features
        held = {
            name: _frozen(
                csr_array(tuple(arrays[f"{name}_{part}"] for part in ("data", "indices", "indptr")), shape=shape)
            )
            for name in ("text", "centres")
            if f"{name}_data" in arrays
        }
        return cls(arrays["counts"], **held)


class Blend:
    """Several rankers' scores and what is known of labels, as one score.

    Parameters
    ----------
    side : LabelSide
        Of the points that the rankers were fitted to.
    near : int
        Candidates by label text.
    n_jobs : int, optional
    """

    def __init__(self, side: LabelSide, near: int = 0, n_jobs: int | None = None) -> None:
        self.side = side
        self.near = near
        self.n_jobs = n_jobs
        self.mixer: Chances | None = None

    def pairs(self, X: csr_array, found: Sequence[csr_array]) -> tuple[csr_array, np.ndarray]:
        """All candidates of points, by ascending label, and their features, (pairs, F).

        found : scores of each ranker, (N, L).
        """
        some = list(found)
        if self.near and self.side.text is not None:
            some.append(self.side.nearest(X, self.near, self.n_jobs))
        pairs, keys = union(some)
        columns = [column for scores in found for column in log_odds(scores, pairs, keys)]
        columns += self.side.likeness(X, pairs, self.n_jobs)
        return pairs, np.stack(columns, axis=1)

    def learn(self, X: csr_array, Y: csr_array, found: Sequence[csr_array], *, keep: bool = True) -> csr_array:
        """Learn from held-out points; gives scores for them, each half's by what was learnt from the other half.

        With `keep` false nothing is kept but the scores, which is quicker.
        """
        pairs, features = self.pairs(X, found)
        right = is_in(pairs, Y)
        first = np.repeat(np.random.default_rng(0).permutation(X.shape[0]) < X.shape[0] // 2, np.diff(pairs.indptr))

        def fit(side: np.ndarray) -> tuple[Chances, int]:
            chances = Chances.fit(features[side], right[side])
            return chances, chances.best_size(features[~side], right[~side])

        (one, one_size), (two, two_size) = pool.run(fit, (first, ~first), self.n_jobs)
        size = (one_size + two_size) // 2
        odds = np.empty(len(right))
        odds[~first], odds[first] = (
            chances.first(size).log_odds(features[side]) for chances, side in ((one, ~first), (two, first))
        )
        if keep:
            self.mixer = Chances.fit(features, right, size)
        return ranked(pairs, odds, _DEPTH)

    def predict(self, X: csr_array, found: Sequence[csr_array], k: int) -> csr_array:
        """The best labels of points; by the highest of the rankers' own log odds if nothing could be learnt."""
        pairs, features = self.pairs(X, found)
        if self.mixer is None:
            return ranked(pairs, features[:, : 3 * len(found) : 3].max(axis=1).astype(np.float64), k)
        return ranked(pairs, self.mixer.log_odds(features), k)

    def arrays(self) -> Arrays:
        """What to store."""
        mix = {} if self.mixer is None else self.mixer.arrays()
        return self.side.arrays() | {f"mix_{name}": array for name, array in mix.items()}

    @classmethod
    def from_arrays(cls, arrays: Arrays, n_features: int, near: int, n_jobs: int | None) -> Self:
        """What :meth:`arrays` gave."""
        blend = cls(LabelSide.from_arrays(arrays, n_features), near, n_jobs)
        mix = {name.removeprefix("mix_"): array for name, array in arrays.items() if name.startswith("mix_")}
        blend.mixer = Chances(**mix) if mix else None
        return blend


# Candidates ------------------------------------------------------------------------------------------------------


def union(found: Sequence[csr_array]) -> tuple[csr_array, np.ndarray]:
    """The labels that any of some score matrices holds, as a CSR of zeros with sorted rows, and their keys."""
    n, n_labels = found[0].shape
    keys = np.unique(np.concatenate([_keys(scores) for scores in found]))
    rows, labels = np.divmod(keys, n_labels)
    indptr = np.searchsorted(rows, np.arange(n + 1)).astype(np.int32)
    return csr_array((np.zeros(len(keys), np.float32), labels.astype(np.int32), indptr), shape=(n, n_labels)), keys


def log_odds(scores: csr_array, pairs: csr_array, keys: np.ndarray) -> list[np.ndarray]:
    """Of each pair a ranker's log odds, how far these are below the best of the row, and whether it found the label.

    A label that it did not find gets the lowest of the row.
    """
    chance = np.clip(scores.data.astype(np.float64), _LEAST, _MOST)
    odds = np.log(chance / (1 - chance)).astype(np.float32)
    some, lengths = np.diff(scores.indptr) > 0, np.diff(pairs.indptr)
    lowest = np.full(scores.shape[0], np.log(_LEAST), np.float32)
    best = lowest.copy()
    if some.any():
        lowest[some] = np.minimum.reduceat(odds, scores.indptr[:-1][some])
        best[some] = np.maximum.reduceat(odds, scores.indptr[:-1][some])
    column = np.repeat(lowest, lengths)
    place = np.searchsorted(keys, _keys(scores))
    column[place] = odds
    found = np.zeros(len(keys), np.float32)
    found[place] = 1.0
    return [column, column - np.repeat(best, lengths), found]


def is_in(pairs: csr_array, Y: csr_array) -> np.ndarray:
    """Which pairs are entries of Y."""
    return np.isin(_keys(pairs), _keys(Y))


def ranked(pairs: csr_array, odds: np.ndarray, k: int) -> csr_array:
    """The `k` best pairs of each row, as scores in (0, 1), the best first."""
    indptr, labels, best = csr_top_k_serial(pairs.indptr, pairs.indices, odds, k)
    chance = 1 / (1 + np.exp(-np.clip(best, -_ODDS, _ODDS)))
    return csr_array((chance.astype(np.float32), labels, indptr), shape=pairs.shape)


def in_blocks(X: csr_array, work: Callable[[csr_array], csr_array]) -> csr_array:
    """``work`` on some thousand rows at a time, put together."""
    if X.shape[0] <= _ROWS:
        return work(X)
    return csr_array(vstack([work(X[start : start + _ROWS]) for start in range(0, X.shape[0], _ROWS)], format="csr"))


def _keys(scores: csr_array) -> np.ndarray:
    """Each stored entry as one number that orders by row, then label."""
    rows = np.repeat(np.arange(scores.shape[0], dtype=np.int64), np.diff(scores.indptr))
    return rows * scores.shape[1] + scores.indices


def _products(X: csr_array, pairs: csr_array, vectors: csr_array, n_jobs: int | None) -> np.ndarray:
    out = np.empty((pairs.nnz, 3), np.float32)

    def work(block: tuple[int, int]) -> None:
        match.products(
            X.indptr, X.indices, X.data, *block, pairs.indptr, pairs.indices,
            vectors.indptr, vectors.indices, vectors.data, X.shape[1], out,
        )  # fmt: skip

    jobs = 1 if X.shape[0] < 64 else n_jobs
    pool.run(work, pool.blocks(X.shape[0], jobs), jobs)
    return out


def _frozen(matrix: csr_array) -> csr_array:
    """With int64 starts, int32 indices and no leave to write, as arrays mapped from disk: kernels compile once."""
    data, indices = np.asarray(matrix.data, np.float32), np.asarray(matrix.indices, np.int32)
    indptr = np.asarray(matrix.indptr, np.int64)
    part: np.ndarray
    for part in (data, indices, indptr):
        part.flags.writeable = False
    found = csr_array(matrix.shape, dtype=np.float32)
    found.data, found.indices, found.indptr = data, indices, indptr  # the constructor would narrow the starts again
    return found


# Holding out -----------------------------------------------------------------------------------------------------


def hold_out(X: csr_array, Y: csr_array, random_state: int) -> tuple[Part, Part]:
    """Points to fit rankers to, and a tenth to learn the blend from: more of few points, 4,000 at most.

    Drawn at random, as test points are; labels that are then left without points are dropped from the held-out part,
    for which they are unknown. (A draw that spares rare labels would show the blend too few of them.)
    """
    n = X.shape[0]
    wanted = int(np.clip(0.1 * n, min(1000, n // 4), 4000))
    order = np.random.default_rng([random_state, 7]).permutation(n)
    held, rest = np.sort(order[:wanted]), np.sort(order[wanted:])
    Y_rest, Y_held = Y[rest], Y[held]
    return (X[rest], Y_rest), (X[held], known(Y_held, Y_rest))


def known(Y: csr_array, train_Y: csr_array) -> csr_array:
    """Y without the labels that no training point has."""
    return only(Y, np.bincount(train_Y.indices, minlength=Y.shape[1]) > 0)


def best_of(
    blend: Blend, held: Part, found: Sequence[csr_array], train_Y: csr_array, *, keep: bool = True
) -> tuple[int | None, list[dict[str, float]]]:
    """Let the blend learn from the held-out part, and say what is best there. `keep` as for :meth:`Blend.learn`.

    Returns
    -------
    best : int or None
        The ranker that no blend improves on, or None for the blend.
    rows : list of dict
        Measures of each ranker, and of the blend as the last; none where the held-out part has no labels.
    """
    if not held[1].nnz:
        return 0, []
    some = _witnesses(held[1])
    X, Y, found = held[0][some], held[1][some], [scores[some] for scores in found]
    rows = [measures(Y, scores, train_Y) for scores in found]
    rows.append(measures(Y, blend.learn(X, Y, found, keep=keep), train_Y))
    goals = [row["goal"] for row in rows]
    return None if goals[-1] >= max(goals[:-1]) else int(np.argmax(goals[:-1])), rows


def alone_on(held: Part, scores: csr_array, train_Y: csr_array) -> dict[str, float]:
    """Measures of one ranker on the held-out part."""
    some = _witnesses(held[1])
    return measures(held[1][some], scores[some], train_Y)


def _witnesses(Y: csr_array) -> np.ndarray:
    """Points with labels; a point without any is no witness, since its labels may be unknown ones."""
    return np.flatnonzero(np.diff(Y.indptr))


def measures(Y: csr_array, scores: csr_array, train_Y: csr_array) -> dict[str, float]:
    """Of held-out points: P, PSP and F at 1 and 5, and the mean of GOALS as ``goal``."""
    report = full_report(Y, scores, inv_propensity=inverse_propensity(train_Y), ks=(1, 5))
    found = {f"{name}@{k}": float(report[f"{name}@{k}"]) for name in ("P", "PSP", "F") for k in (1, 5)}
    return found | {"goal": sum(found[goal] for goal in GOALS) / len(GOALS)}


def told(report: Sequence[dict[str, Any]], chosen: str) -> str:
    """One sentence about what was chosen by a report whose last row is the whole and whose others are its parts."""
    *parts, whole = report
    best = max(parts, key=lambda row: row["goal"])
    return (
        f"{chosen}: the mean of P and F at 1 and 5 on held-out points is {whole['goal']:.2f} together and "
        f"{best['goal']:.2f} for {best['model']} alone."
    )
