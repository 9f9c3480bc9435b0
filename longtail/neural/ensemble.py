"""Trained instances as one ranker: shortlists united, exact log odds, mixed with other views', and the best kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from longtail.kernels import shortlist as kernels
from longtail.kernels.pool import spread
from longtail.neural.instance import Arrays, Encoded, Instance
from longtail.neural.mixing import Mix

WIDTH = 100  # labels that each view lists for a point; more, where more are asked for
_OWN = 50  # labels that the network lists beside views, which find most of them, too
_ROWS = 4096  # points answered at once
_LEADING = 20  # labels of each view that the mix learns from
_RARE = 3  # labels with no more training points show what text alone is worth

# What another model says of points: ptr, labels, chances, and how sure it is of each point, 0 to 1.
View = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


_NOWHERE, _NO_CHANCES = np.empty(0, np.int32), np.empty(0, np.float32)


class _Told(NamedTuple):
    """Views put together."""

    starts: np.ndarray  # (V, N + 1)
    labels: np.ndarray
    chances: np.ndarray
    sure: np.ndarray  # (V, N)


@dataclass
class Ensemble:
    """Instances and what is known of their labels.

    Attributes
    ----------
    instances : list of Instance
    label_ids : array, (n,)
        Numbers of the labels that can be suggested; those with text alone come last.
    weight : array, (n,)
        How often each occurs, as the mix sees it: log(1 + points of the label) / log(1 + points).
    new : array, (n,)
        Which have text alone.
    mix : Mix
    n_labels : int
        Of the ranker: label numbers go from 0 to here.
    """

    instances: list[Instance]
    label_ids: np.ndarray
    weight: np.ndarray
    new: np.ndarray
    mix: Mix
    n_labels: int

    def __post_init__(self) -> None:
        self._place = np.full(self.n_labels, -1, np.int32)
        self._place[self.label_ids] = np.arange(len(self.label_ids), dtype=np.int32)
        self._places = np.arange(len(self.label_ids), dtype=np.int32)

    # Answering ---------------------------------------------------------------------------------------------------

    def answer(self, X: csr_array, views: list[View], k: int, n_jobs: int | None) -> csr_array:
        """The k best labels of each point as CSR, the best first."""
        n = X.shape[0]
        labels, scores = np.empty((n, k), np.int32), np.empty((n, k), np.float32)
        counts = np.zeros(n, np.int32)
        for start in range(0, n, _ROWS):
            part = slice(start, min(start + _ROWS, n))
            ptr = X.indptr[start : part.stop + 1]
            some = [(v[0][start : part.stop + 1], v[1], v[2], v[3][part]) for v in views]
            self._answer(ptr, X.indices, X.data, some, k, n_jobs, labels[part], scores[part], counts[part])
        indptr = np.zeros(n + 1, np.int32 if n * k < 2**31 else np.int64)
        np.cumsum(counts, out=indptr[1:])
        filled = np.arange(k) < counts[:, None]
        return csr_array((scores[filled], labels[filled], indptr), shape=(n, self.n_labels))

    def answer_one(self, idx: np.ndarray, val: np.ndarray, views: list[View], k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k best labels of one point and their scores."""
        labels, scores, counts = np.empty((1, k), np.int32), np.empty((1, k), np.float32), np.empty(1, np.int32)
        self._answer(np.array([0, len(idx)], np.int32), idx, val, views, k, 1, labels, scores, counts)
        return labels[0, : counts[0]], scores[0, : counts[0]]

    def _answer(
        self, ptr: np.ndarray, idx: np.ndarray, val: np.ndarray, views: list[View], k: int, n_jobs: int | None,
        labels: np.ndarray, scores: np.ndarray, counts: np.ndarray,
    ) -> None:  # fmt: skip
        told = _together(views, len(ptr) - 1)
        lists, where, encoded = self._lists(ptr, idx, val, told, k, n_jobs)
        neural = self._log_odds(encoded, lists, n_jobs)

        forest = self.mix.forest()

        def work(block: tuple[int, int]) -> None:
            kernels.rank(
                lists, neural, self.weight, told.starts, told.chances, where, told.sure, self.new, self.mix.weights,
                self.mix.alone, *forest, self.label_ids, k, *block, labels, scores, counts,
            )  # fmt: skip

        spread(work, len(lists), n_jobs)

    def _lists(
        self, ptr: np.ndarray, idx: np.ndarray, val: np.ndarray, told: _Told, k: int, n_jobs: int | None
    ) -> tuple[np.ndarray, np.ndarray, list[Encoded]]:
        """Labels worth scoring for each point, where those of the views are, and how each instance encodes points."""
        encoded = [instance.encode(ptr, idx, val, n_jobs) for instance in self.instances]
        width = max(k, _OWN if len(told.starts) else WIDTH)
        own = self.instances[0].shortlist(encoded[0], width, n_jobs)
        for instance, x in zip(self.instances[1:], encoded[1:], strict=True):
            more = instance.shortlist(x, width, n_jobs)
            starts = np.arange(len(more) + 1)[None] * more.shape[1]
            own, _ = _united(own, starts, more.ravel(), self._places, more.shape[1], n_jobs)
        if not len(told.starts):
            return own, _NOWHERE, encoded
        most = int(np.diff(told.starts, axis=1).max(axis=1, initial=0).sum())
        lists, where = _united(own, told.starts, told.labels, self._place, most, n_jobs)
        return lists, where, encoded

    def _log_odds(self, encoded: list[Encoded], lists: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """The network's log odds; where there are several, those of the mean of their chances."""
        scores = [m.log_odds(x, lists, n_jobs) for m, x in zip(self.instances, encoded, strict=True)]
        if len(scores) > 1:
            total = np.zeros(lists.shape, np.float64)
            for each in scores:
                spread(lambda block, each=each: kernels.add_chances(each, *block, total), len(lists), n_jobs)
            spread(lambda block: kernels.mean_log_odds(total, len(scores), *block, scores[0]), len(lists), n_jobs)
        return scores[0]

    # Learning ----------------------------------------------------------------------------------------------------

    def fit_mix(
        self, X: csr_array, Y: csr_array, views: list[View], counts: np.ndarray, text: csr_array | None,
        text_view: int | None, n_jobs: int | None,
    ) -> None:  # fmt: skip
        """Learn from held-out points X and their labels Y (N, n) how to weigh the views.

        `counts` (n,) says how often each label occurs in training, `text` (n, D) what it is called. What text alone is
        worth is measured on labels that do not occur; where none of them is right, on the rarest ones. `text_view` is
        the number of the view that compares texts.
        """
        told = _together(views, X.shape[0])
        lists, where, encoded = self._lists(X.indptr, X.indices, X.data, told, _OWN, n_jobs)
        neural = self._log_odds(encoded, lists, n_jobs)
        rows = np.empty((*lists.shape, len(self.mix.weights)), np.float32)
        view = told.starts, told.chances, where, told.sure
        spread(lambda block: kernels.features(lists, neural, self.weight, *view, *block, rows), len(lists), n_jobs)
        point, at = np.nonzero(_leading(lists, rows))
        label = lists[point, at]
        right = np.asarray(Y[point, label]).ravel() > 0
        trained = counts[label] > 0
        self.mix.fit(rows[point[trained], at[trained]], right[trained], point[trained])
        model = self.instances[0]
        if text is not None and model.text is not None:
            unseen = ~trained if right[~trained].any() else counts[label] <= _RARE
            alone = model.text(model.encoder.tokens, text, n_jobs)
            some = rows[point[unseen], at[unseen]]
            some[:, 1] = np.einsum("ij,ij->i", encoded[0][0][point[unseen]], alone[label[unseen]])
            self.mix.fit_alone(some, right[unseen], text_view)

    def append(self, text: csr_array, label_ids: np.ndarray, n_labels: int, n_jobs: int | None) -> None:
        """Add labels by their text."""
        if len(label_ids):
            for instance in self.instances:
                instance.add(text, n_jobs)
            self.label_ids = np.concatenate([self.label_ids, label_ids]).astype(np.int32)
            self.weight = np.concatenate([self.weight, np.zeros(len(label_ids), np.float32)])
            self.new = np.concatenate([self.new, np.ones(len(label_ids), bool)])
        self.n_labels = n_labels
        self.__post_init__()

    # Storing -----------------------------------------------------------------------------------------------------

    def state(self, dtype: str) -> tuple[dict[str, Any], Arrays]:
        """Facts and arrays to store."""
        arrays = {"label_ids": self.label_ids, "weight": self.weight, "new": self.new}
        facts: dict[str, Any] = self.mix.state() | {"instances": []}
        for number, instance in enumerate(self.instances):
            own, held = instance.state(dtype)
            facts["instances"].append(own)
            arrays |= {f"{number}.{name}": array for name, array in held.items()}
        return facts, arrays

    @classmethod
    def restored(cls, facts: dict[str, Any], arrays: Arrays, n_labels: int) -> Ensemble:
        """What :meth:`state` took apart."""
        instances = []
        for number, own in enumerate(facts["instances"]):
            mark = f"{number}."
            held = {name.removeprefix(mark): array for name, array in arrays.items() if name.startswith(mark)}
            instances.append(Instance.restored(own, held))
        # Small arrays are read, not mapped: they have the type of those just trained.
        label_ids, weight, new = (np.array(arrays[name]) for name in ("label_ids", "weight", "new"))
        return cls(instances, label_ids, weight, new, Mix.restored(facts), n_labels)


def _leading(lists: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Pairs that the mix learns from, (N, S): labels among the first few of any view.

    Far more pairs are hopeless than worth a thought, and a mix that fits the many fails where rankings are decided.
    """
    found = np.zeros(lists.shape, bool)
    columns = [1, *range(kernels.OWN, rows.shape[2], kernels.OF_A_VIEW)]
    for column in columns:
        there = lists >= 0 if column == 1 else (lists >= 0) & (rows[:, :, column + 1] > 0)
        values = np.where(there, rows[:, :, column], -np.inf)
        k = min(_LEADING, values.shape[1])
        floor = -np.partition(-values, k - 1, axis=1)[:, k - 1 : k]
        found |= there & (values >= floor)
    return found


def _together(views: list[View], n_points: int) -> _Told:
    """Views as a few arrays, which a kernel can go through whatever their number."""
    starts = np.empty((len(views), n_points + 1), np.int64)
    sure = np.empty((len(views), n_points), np.float32)
    if not views:
        return _Told(starts, _NOWHERE, _NO_CHANCES, sure)
    begin = 0
    for number, (ptr, _, _, certain) in enumerate(views):
        np.add(ptr, begin - ptr[0], out=starts[number])
        sure[number] = certain
        begin = starts[number, -1]
    labels = np.concatenate([labels[ptr[0] : ptr[-1]] for ptr, labels, _, _ in views])
    chances = np.concatenate([chances[ptr[0] : ptr[-1]] for ptr, _, chances, _ in views])
    return _Told(starts, labels, chances, sure)


def _united(
    own: np.ndarray, starts: np.ndarray, idx: np.ndarray, place: np.ndarray, most: int, n_jobs: int | None
) -> tuple[np.ndarray, np.ndarray]:
    out = np.empty((len(own), own.shape[1] + most), np.int32)
    where = np.empty(len(idx), np.int32)
    spread(lambda block: kernels.unite(own, starts, idx, place, *block, out, where), len(own), n_jobs)
    return out, where
