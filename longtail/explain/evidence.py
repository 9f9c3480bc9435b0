"""Evidence for a label besides the words: near training points, label text, and the members of a blend."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from longtail.combine.attribution import Shares
from longtail.explain.explanation import MemberScore, Neighbour
from longtail.models.base import Ranker, walk_rankers
from longtail.models.blend import Blend
from longtail.models.knn import KNN
from longtail.models.textmatch import TextMatch
from longtail.sparse import logistic

_log = logging.getLogger("longtail.explain")
TOLERANCE = 1e-3  # largest difference between the sum of contributions, as a probability, and the score
_NEIGHBOURS_SHOWN = 3
_NEAR_LABELS_SHOWN = 10


def near_points(
    ranker: Ranker, point: csr_array, labels: Sequence[int], names: Sequence[str], n_points: int
) -> list[list[Neighbour]]:
    """Find the nearest training points of each label; empty lists if the model keeps no points.

    Parameters
    ----------
    ranker : Ranker
        A fitted ranker, with a KNN inside it or without.
    point : csr_array, (1, D)
        The point to explain.
    labels : sequence of int
        Labels to explain.
    names : sequence of str
        Names of all labels.
    n_points : int
        Number of training points. If the KNN keeps as many, their numbers are rows of the training data.
    """
    knn = next((one for one in walk_rankers(ranker) if isinstance(one, KNN)), None)
    if knn is None:
        return [[] for _ in labels]
    stored = knn.points_
    rows, similarity = stored.nearest(point.indices, point.data, knn.n_neighbors, knn.n_compared)
    keeps_all = len(stored.label_ptr) == n_points + 1
    label_lists = [stored.labels[a:b] for a, b in zip(stored.label_ptr[rows], stored.label_ptr[rows + 1], strict=True)]

    def neighbour(at: int) -> Neighbour:
        shown = [names[j] for j in label_lists[at][:_NEAR_LABELS_SHOWN].tolist()]
        return Neighbour(float(similarity[at]), shown, int(rows[at]) if keeps_all else None)

    near: list[list[Neighbour]] = []
    for label in labels:
        with_label = [at for at, own in enumerate(label_lists) if label in own]
        near.append([neighbour(at) for at in with_label[:_NEIGHBOURS_SHOWN]])
    return near


def matching_words(
    ranker: Ranker, vectorizer: Any, point: csr_array, labels: Sequence[int], names: Sequence[str], words: list[str]
) -> list[list[str]]:
    """Find the words of each label's text that the point has, the most important first.

    The text of a label is the one that the model compares points with. If the model keeps no label text, it is the
    label's name.
    """
    match = next((one for one in walk_rankers(ranker) if isinstance(one, TextMatch)), None)
    if match is not None:
        Z = match.texts_.point_rows(point.indices, labels, point.shape[1])
    else:
        Z = vectorizer.transform_terms([names[label] for label in labels])
    weight = np.zeros(point.shape[1])
    weight[point.indices] = point.data
    own = vectorizer.transform_terms(words) if words else csr_array(point.shape)
    word_of = dict(zip(own.indices.tolist(), np.repeat(words or [""], np.diff(own.indptr)).tolist(), strict=True))
    matches = []
    for a, b in pairwise(Z.indptr.tolist()):
        columns, products = Z.indices[a:b], Z.data[a:b] * weight[Z.indices[a:b]]
        order = np.argsort(-products, kind="stable")
        order = order[products[order] > 0]
        listed = [word_of[j] for j in columns[order].tolist() if j in word_of]
        matches.append(list(dict.fromkeys(listed)))
    return matches


def member_scores(
    ranker: Ranker, point: csr_array, labels: Sequence[int], depth: int
) -> list[tuple[list[MemberScore], float | None]]:
    """Return each label's score and rank by every member of a blend, and its log odds if no member listed it.

    The lists are empty if the ranker has no blend in it. A label that is not among the `depth` best of the blend has no
    contributions.
    """
    blend: Any = next((one for one in walk_rankers(ranker) if isinstance(one, Blend)), None)
    if blend is None:
        return [([], None) for _ in labels]
    width = min(blend.predictor_.width, blend.n_labels_)
    lists = [member.predict(blend.features_of(member, point), width) for member in blend.members_]
    best = blend.predict(point, depth)
    shares = blend.contributions(point, best, labels)
    evidence = []
    for label, own in zip(labels, shares, strict=True):
        members = []
        for at, (member, listed) in enumerate(zip(blend.members_, lists, strict=True)):
            found = np.flatnonzero(listed.indices == label)
            score, rank = (float(listed.data[found[0]]), int(found[0]) + 1) if len(found) else (None, None)
            members.append(MemberScore(member.kind, score, rank, None if own is None else float(own.members[at])))
        if own is not None and not _sums_to_score(own, float(best.data[best.indices == label][0])):
            own, members = None, [replace(member, contribution=None) for member in members]
        evidence.append((members, None if own is None else own.rest))
    return evidence


def _sums_to_score(own: Shares, score: float) -> bool:
    """Return whether the contributions of members sum to the score; log a warning if they do not."""
    total = logistic(own.rest + own.members.sum())
    if abs(total - score) > TOLERANCE:
        _log.warning("The contributions of the members sum to %.4f, but the score is %.4f.", total, score)
        return False
    return True
