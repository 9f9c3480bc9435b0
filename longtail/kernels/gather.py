"""Select the rows and features of one tree node from a sparse matrix, and collect the trained weights of nodes."""

from __future__ import annotations

import numpy as np

from longtail.kernels.compiling import njit

_1 = np.uint64(1)


@njit(cache=True, nogil=True)
def gather_rows(indptr, indices, data, rows, place):
    """Return the chosen rows as a CSR matrix with only the features that occur in them.

    The result is indptr, indices, data, |x|^2, and the features. `place` is scratch of D entries, all -1 before and
    after.
    """
    n = rows.shape[0]
    nnz = 0
    for r in rows:
        nnz += indptr[r + 1] - indptr[r]
    out_ptr = np.empty(n + 1, np.int64)
    out_idx = np.empty(nnz, np.int32)
    out_val = np.empty(nnz, np.float32)
    squares = np.empty(n, np.float32)
    features = np.empty(min(nnz, place.shape[0]) + 1, np.int32)
    d = np.int32(0)
    c = np.uint64(0)
    out_ptr[0] = 0
    for a in range(n):
        r = rows[a]
        total = 0.0
        for p in range(np.uint64(indptr[r]), np.uint64(indptr[r + 1])):
            f, v = np.uint64(indices[p]), data[p]
            at = place[f]
            new = at < 0
            at = d if new else at
            place[f] = at  # written whether new or not: no jump, which would be mispredicted
            features[np.uint64(d)] = f
            d += np.int32(new)
            out_idx[c] = at
            out_val[c] = v
            total += v * v
            c += _1
        out_ptr[a + 1] = c
        squares[a] = total
    for a in range(d):
        place[features[a]] = -1
    return out_ptr, out_idx, out_val, squares, features[:d].copy()


@njit(cache=True, nogil=True, borrows=True)
def fill_signs(point_ptr, points, first, last, where, signs):
    """Set signs[i, j] to +1 if point i belongs to node first + j, else to -1. `where` maps a point to its row.

    Columns beyond the nodes are 0, for which the solver leaves all weights at 0.
    """
    signs[:] = 0.0
    for i in range(signs.shape[0]):
        for j in range(last - first):
            signs[i, j] = -1.0
    for node in range(first, last):
        for p in range(point_ptr[node], point_ptr[node + 1]):
            signs[where[points[p]], node - first] = 1.0


@njit(cache=True, nogil=True)
def prune(weights, features, n_lanes, threshold, value):
    """Return the weights with a magnitude of at least `threshold` as (feature, lane, value, scales), and the biases.

    `value` is an empty array of the type to store. It may be float32, or int8: then weights are rounded to multiples of
    the node's scale, which is 1/127 of its largest weight. The last row holds the biases. Columns from `n_lanes` on
    must be 0.
    """
    width = np.uint64(weights.shape[1])
    flat = weights.reshape(-1)
    end = np.uint64(flat.shape[0]) - width
    least = max(np.float32(threshold), np.float32(1e-45))  # which is the smallest number above 0
    count = 0
    for p in range(end):
        count += abs(flat[p]) >= least
    places = np.empty(count + 1, np.int64)
    c = 0
    for p in range(end):  # each place is written, and the next one over it if the weight is small: nothing to predict
        places[c] = p
        c += abs(flat[p]) >= least
    feature = np.empty(count, np.int32)
    lane = np.empty(count, np.uint8)
    value = np.empty(count, value.dtype)
    largest = np.zeros(n_lanes, np.float32)
    scales = np.ones(n_lanes, np.float32)
    for c in range(count):
        p = np.uint64(places[c])
        a = p // width
        feature[c] = features[a]
        lane[c] = p - a * width
        largest[lane[c]] = max(largest[lane[c]], abs(flat[p]))
    if value.itemsize == 1:
        for j in range(n_lanes):
            if largest[j] > 0:
                scales[j] = largest[j] / np.float32(127.0)
    for c in range(count):
        weight = flat[np.uint64(places[c])]
        value[c] = weight if value.itemsize > 1 else round(weight / scales[lane[c]])
    return feature, lane, value, scales, weights[-1, :n_lanes].copy()


@njit(cache=True, nogil=True, borrows=True)
def count_features(feature, counts):
    """Add the number of weights of each feature to `counts`."""
    for f in feature:
        counts[f] += 1


@njit(cache=True, nogil=True, borrows=True)
def scatter(feature, lane, value, sizes, firsts, cursor, node_out, value_out):
    """Append (node, value) to the row of each feature. If called in the order of nodes, rows are sorted by node.

    sizes, firsts : number of weights of each part, and its first node, from which its lanes are counted.
    """
    end = 0
    for part in range(sizes.shape[0]):
        begin, end = end, end + sizes[part]
        for p in range(begin, end):
            slot = cursor[feature[p]]
            node_out[slot] = firsts[part] + lane[p]
            value_out[slot] = value[p]
            cursor[feature[p]] = slot + 1


@njit(cache=True, nogil=True)
def lift(row_ptr, nodes, parent, n_parents):
    """Replace the nodes of each point by their parents, without duplicates. Return (ptr, parents)."""
    n = row_ptr.shape[0] - 1
    seen = np.full(n_parents, -1, np.int64)
    out_ptr = np.empty(n + 1, np.int64)
    out = np.empty(nodes.shape[0], np.int32)
    c = 0
    out_ptr[0] = 0
    for i in range(n):
        for p in range(row_ptr[i], row_ptr[i + 1]):
            up = parent[nodes[p]]
            if up >= 0 and seen[up] != i:
                seen[up] = i
                out[c] = up
                c += 1
        out_ptr[i + 1] = c
    return out_ptr, out[:c].copy()


@njit(cache=True, nogil=True)
def invert(row_ptr, nodes, n_nodes):
    """Transpose points x nodes (a CSR pattern) to nodes x points."""
    out_ptr = np.zeros(n_nodes + 1, np.int64)
    for node in nodes:
        out_ptr[node + 1] += 1
    for node in range(n_nodes):
        out_ptr[node + 1] += out_ptr[node]
    cursor = out_ptr[:-1].copy()
    out = np.empty(nodes.shape[0], np.int32)
    for i in range(row_ptr.shape[0] - 1):
        for p in range(row_ptr[i], row_ptr[i + 1]):
            out[cursor[nodes[p]]] = i
            cursor[nodes[p]] += 1
    return out_ptr, out
