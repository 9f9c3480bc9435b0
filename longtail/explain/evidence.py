"""What speaks for a label besides the words: training points that are near, label text, and the members of a blend."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from longtail.explain.explanation import MemberScore, Neighbour
from longtail.models.base import Ranker
from longtail.models.knn import KNN
from longtail.models.parts import rankers_within
from longtail.models.textmatch import TextMatch

_NEIGHBOURS_SHOWN = 3
_NEAR_LABELS_SHOWN = 10


def near_points(ranker: Ranker, point: csr_array, labels: Sequence[int], names: Sequence[str]) -> list[list[Neighbour]]:
    """Return, per label, the nearest training points that have it; empty lists if the model keeps no points."""
    knn = next((one for one in rankers_within(ranker) if isinstance(one, KNN)), None)
    if knn is None:
        return [[] for _ in labels]
    stored = knn.points_
    rows, similarity = stored.nearest(point.indices, point.data, knn.n_neighbors)
    owned = [stored.labels[a:b] for a, b in zip(stored.label_ptr[rows], stored.label_ptr[rows + 1], strict=True)]
    found: list[list[Neighbour]] = []
    for label in labels:
        having = [at for at, own in enumerate(owned) if label in own][:_NEIGHBOURS_SHOWN]
        named = {at: [names[j] for j in owned[at][:_NEAR_LABELS_SHOWN].tolist()] for at in having}
        found.append([Neighbour(float(similarity[at]), named[at]) for at in having])
    return found


def matching_words(
    ranker: Ranker, vectorizer: Any, point: csr_array, labels: Sequence[int], names: Sequence[str], words: list[str]
) -> list[list[str]]:
    """Return, per label, the words of its text that the point has, by descending importance.

    The text of a label is the one that the model compares points with, or the label's name if the model keeps none.
    """
    match = next((one for one in rankers_within(ranker) if isinstance(one, TextMatch)), None)
    if match is not None:
        Z = match.texts_.point_rows(point.indices, labels, point.shape[1])
    else:
        Z = vectorizer.transform([names[label] for label in labels])
    weight = np.zeros(point.shape[1])
    weight[point.indices] = point.data
    own = vectorizer.transform(words) if words else csr_array(point.shape)
    word_of = dict(zip(own.indices.tolist(), np.repeat(words or [""], np.diff(own.indptr)).tolist(), strict=True))
    found = []
    for a, b in pairwise(Z.indptr.tolist()):
        columns, products = Z.indices[a:b], Z.data[a:b] * weight[Z.indices[a:b]]
        order = np.argsort(-products, kind="stable")
        order = order[products[order] > 0]
        listed = [word_of[j] for j in columns[order].tolist() if j in word_of]
        found.append(list(dict.fromkeys(listed)))
    return found


def member_scores(ranker: Ranker, point: csr_array, labels: Sequence[int]) -> list[list[MemberScore]]:
    """Return, per label, the score and rank that each member of a blend gives it; empty lists without a blend."""
    blend: Any = next((one for one in rankers_within(ranker) if hasattr(one, "members_")), None)
    if blend is None:
        return [[] for _ in labels]
    found: list[list[MemberScore]] = [[] for _ in labels]
    for member in blend.members_:
        own = member.predict(point, min(blend.predictor_.width, blend.n_labels_))
        for at, label in enumerate(labels):
            place = np.flatnonzero(own.indices == label)
            listed = len(place) > 0
            score = float(own.data[place[0]]) if listed else None
            found[at].append(MemberScore(member.kind, score, int(place[0]) + 1 if listed else None))
    return found
