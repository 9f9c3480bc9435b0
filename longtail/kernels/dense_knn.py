"""Embed points with a small network, and let their nearest neighbours vote for labels, row by row.

The computations of a row are in the same order alone and in a batch, so that its result does not depend on other rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from longtail.kernels.compiling import njit
from longtail.kernels.topk import top_k_pairs

_LEAST_WEIGHT = np.float32(1e-20)  # smallest weight of a neighbour; with 0, labels that only it has would be lost


class Layers(NamedTuple):
    """A network with one hidden layer, and the length of its output vectors."""

    hidden: np.ndarray  # W1 (D, h)
    hidden_bias: np.ndarray
    output: np.ndarray  # W2 (h, l)
    output_bias: np.ndarray
    relu: bool
    length: np.float32  # of an output


class Nearest(NamedTuple):
    """The neighbours of some rows, the nearest first. An id of -1 marks the end of a row."""

    ids: np.ndarray  # (rows, m) int32
    nearness: np.ndarray  # (rows, m) float32


class LabelledPoints(NamedTuple):
    """The labels of the points that vote, as a CSR pattern, and the label vectors."""

    ptr: np.ndarray
    labels: np.ndarray
    vectors: np.ndarray  # (L, d)


class VoteRule(NamedTuple):
    """Settings of the vote; see :class:`longtail.models.dxml.knn_vote.Vote`."""

    n_neighbors: int
    sharpness: np.float32
    label_weight: np.float32


@njit(cache=True, nogil=True, fastmath=True)
def embed_rows(x, layers, column, first, last, out):
    """Set out[i, column:column + l] to length * unit(act(x W1 + b1) W2 + b2), for rows first..last.

    x : SparseRows, which are scaled to length 1 here; layers : Layers. An output of zeros is not scaled.
    """
    h, d = layers.output.shape
    middle = np.empty(h, np.float32)
    row = np.empty(d, np.float32)
    for i in range(first, last):
        square = 0.0
        for p in range(x.ptr[i], x.ptr[i + 1]):
            square += np.float64(x.val[p]) * np.float64(x.val[p])
        scale = np.float32(1.0 / np.sqrt(square)) if square > 0 else np.float32(0.0)
        for j in range(h):
            middle[j] = layers.hidden_bias[j]
        for p in range(x.ptr[i], x.ptr[i + 1]):
            value = x.val[p] * scale
            w = layers.hidden[x.idx[p]]
            for j in range(h):
                middle[j] += value * w[j]
        for j in range(d):
            row[j] = layers.output_bias[j]
        for a in range(h):
            m = middle[a]
            if m > 0 or not layers.relu:
                w = layers.output[a]
                for j in range(d):
                    row[j] += m * w[j]
        total = np.float32(0.0)
        for j in range(d):
            total += row[j] * row[j]
        shrink = layers.length / np.sqrt(total) if total > 0 else np.float32(0.0)
        for j in range(d):
            out[i, column + j] = row[j] * shrink


@njit(cache=True, nogil=True)
def add_feature_cosines(near, x, points, n_features, weight, first, last):
    """Add weight * the cosine of features to the nearness of each neighbour, and sort again, for rows first..last.

    near : Nearest, changed in place; x : SparseRows of the rows; points : SparseRows of the neighbours, of length 1.
    """
    ids, nearness = near
    dense = np.zeros(n_features, np.float32)
    for i in range(first, last):
        square = 0.0
        for p in range(x.ptr[i], x.ptr[i + 1]):
            square += np.float64(x.val[p]) * np.float64(x.val[p])
        if square == 0.0:
            continue
        scale = np.float32(weight / np.sqrt(square))
        for p in range(x.ptr[i], x.ptr[i + 1]):
            dense[x.idx[p]] = x.val[p] * scale
        n = 0
        while n < ids.shape[1] and ids[i, n] >= 0:
            dot = np.float32(0.0)
            for p in range(points.ptr[ids[i, n]], points.ptr[ids[i, n] + 1]):
                dot += points.val[p] * dense[points.idx[p]]
            nearness[i, n] += dot
            n += 1
        for p in range(x.ptr[i], x.ptr[i + 1]):
            dense[x.idx[p]] = 0.0
        some_ids, some = ids[i, :n].copy(), nearness[i, :n].copy()
        top_k_pairs(some_ids, some, n, ids[i], nearness[i])


@njit(cache=True, nogil=True, fastmath=True)
def _inner_product(a, b):
    total = np.float32(0.0)
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total


@njit(cache=True, nogil=True)
def vote_nearest(near, points, voters, rule, first, last, top):
    """Find the labels with the largest share of the neighbours' weights, for rows first..last.

    The weight of a neighbour is exp(sharpness * (its nearness - nearness of the nearest)). With a sharpness of 0, all
    neighbours have the same weight. The share of a label is then multiplied by exp(label_weight * (its cosine with the
    point - the highest such cosine)).

    near : Nearest; points : (rows, d); voters : LabelledPoints; rule : VoteRule; top : TopLabels, filled.
    """
    ids, nearness = near
    n_labels = voters.vectors.shape[0]
    total = np.zeros(n_labels, np.float32)
    for i in range(first, last):
        n = 0
        while n < min(rule.n_neighbors, ids.shape[1]) and ids[i, n] >= 0:
            n += 1
        size = 0
        for a in range(n):
            size += voters.ptr[ids[i, a] + 1] - voters.ptr[ids[i, a]]
        met = np.empty(min(size, n_labels), np.int32)
        m = 0
        weights = np.float32(0.0)
        for a in range(n):
            weight = np.float32(np.exp(rule.sharpness * (nearness[i, a] - nearness[i, 0])))
            weight = max(weight, _LEAST_WEIGHT)
            weights += weight
            for p in range(voters.ptr[ids[i, a]], voters.ptr[ids[i, a] + 1]):
                label = voters.labels[p]
                if total[label] == 0.0:
                    met[m] = label
                    m += 1
                total[label] += weight
        share = np.empty(m, np.float32)
        for b in range(m):
            share[b] = total[met[b]] / weights
            total[met[b]] = 0.0
        if rule.label_weight != 0.0:
            cosine = np.empty(m, np.float32)
            best = np.float32(-np.inf)
            for b in range(m):
                cosine[b] = _inner_product(points[i], voters.vectors[met[b]])
                best = max(best, cosine[b])
            for b in range(m):
                share[b] *= np.float32(np.exp(rule.label_weight * (cosine[b] - best)))
        k = top.labels.shape[1]
        top.counts[i] = top_k_pairs(met[:m], share, k, top.labels[i], top.scores[i])
