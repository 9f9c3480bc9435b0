"""Trained instances as one ranker: shortlists united, exact log odds, mixed with other views', and the best kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from longtail.kernels import shortlist as kernels
from longtail.neural.instance import Arrays, Encoded, Instance, spread
from longtail.neural.mixing import Mix

WIDTH = 100  # labels that each view lists for a point; more, where more are asked for
_ROWS = 4096  # points answered at once
_LEADING = 20  # labels of each view that the mix learns from
_RARE = 3  # labels with no more training points show what text alone is worth

# What another model says of points: ptr, labels, chances, and how sure it is of each point, 0 to 1.
View = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


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
        lists, encoded = self._lists(ptr, idx, val, views, max(WIDTH, k), n_jobs)
        neural = self._log_odds(encoded, lists, n_jobs)

        def work(block: tuple[int, int]) -> None:
            rows = self._features(lists, neural, views, block)
            kernels.mix(lists, rows, self.new, self.mix.weights, self.mix.alone, *block, neural)
            kernels.best(lists, neural, self.label_ids, k, *block, labels, scores, counts)

        spread(work, len(lists), n_jobs)

    def _features(self, lists: np.ndarray, neural: np.ndarray, views: list[View], block: tuple[int, int]) -> np.ndarray:
        """What the mix sees of some rows, (rows, width, features)."""
        rows = np.zeros((block[1] - block[0], lists.shape[1], len(self.mix.weights)), np.float32)
        kernels.own_features(lists, neural, self.weight, *block, rows)
        for number, view in enumerate(views):
            column = kernels.OWN + number * kernels.OF_A_VIEW
            kernels.view_features(lists, *view, self._place, self.weight, column, *block, rows)
        return rows

    def _lists(
        self, ptr: np.ndarray, idx: np.ndarray, val: np.ndarray, views: list[View], width: int, n_jobs: int | None
    ) -> tuple[np.ndarray, list[Encoded]]:
        """Labels worth scoring for each point, and the points as each instance encodes them."""
        encoded = [instance.encode(ptr, idx, val, n_jobs) for instance in self.instances]
        lists = self.instances[0].shortlist(encoded[0], width, n_jobs)
        for instance, x in zip(self.instances[1:], encoded[1:], strict=True):
            more = instance.shortlist(x, width, n_jobs)
            starts = np.arange(len(more) + 1, dtype=np.int32) * np.int32(more.shape[1])
            lists = _united(lists, starts, more.ravel(), self._places, more.shape[1], n_jobs)
        for view in views:
            most = int(np.diff(view[0]).max(initial=0))
            if most:
                lists = _united(lists, view[0], view[1], self._place, most, n_jobs)
        return lists, encoded

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
        lists, encoded = self._lists(X.indptr, X.indices, X.data, views, WIDTH, n_jobs)
        neural = self._log_odds(encoded, lists, n_jobs)
        rows = self._features(lists, neural, views, (0, len(lists)))
        point, at = np.nonzero(_leading(lists, rows))
        label = lists[point, at]
        right = np.asarray(Y[point, label]).ravel() > 0
        trained = counts[label] > 0
        self.mix.fit(rows[point[trained], at[trained]], right[trained])
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
        facts: dict[str, Any] = {"mix": self.mix.weights.tolist(), "alone": self.mix.alone.tolist(), "instances": []}
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
        mix = Mix(np.array(facts["mix"]), np.array(facts["alone"]))
        # Small arrays are read, not mapped: they have the type of those just trained.
        label_ids, weight, new = (np.array(arrays[name]) for name in ("label_ids", "weight", "new"))
        return cls(instances, label_ids, weight, new, mix, n_labels)


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


def _united(
    one: np.ndarray, ptr: np.ndarray, idx: np.ndarray, place: np.ndarray, most: int, n_jobs: int | None
) -> np.ndarray:
    out = np.empty((len(one), one.shape[1] + most), np.int32)
    spread(lambda block: kernels.unite(one, ptr, idx, place, *block, out), len(one), n_jobs)
    return out
