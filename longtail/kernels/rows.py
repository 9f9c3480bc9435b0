"""Steps of neural training that touch some rows of a table and no others.

A mini-batch comes as a local CSR (:func:`longtail.kernels.gather.gather_rows`): columns numbered by first appearance,
and `features` to say which rows of the table they are. ``encode`` is the product of that batch and the table;
``learn_sparse`` is its way back: it sums the gradient of one row of the table in a scratch vector of d numbers and
steps the row at once, so that the gradient of a table never exists, not even of its touched rows.

All kernels are serial, release the interpreter lock and take a range of rows: see :mod:`longtail.kernels.pool`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from longtail.kernels.topk import top_k_row

SGD, ADAGRAD, ADAM, MOMENTUM = 0, 1, 2, 3


@njit(cache=True, nogil=True, fastmath=True)
def encode(ptr, idx, val, features, table, bias, first, last, out):
    """out[i] = bias + sum of val * table[features[idx]] over row i, for rows first..last. out is (rows, d)."""
    d = table.shape[1]
    for i in range(first, last):
        row = out[i]
        for j in range(d):
            row[j] = bias[j]
        for p in range(ptr[i], ptr[i + 1]):
            x = val[p]
            if x != 0.0:
                w = table[features[idx[p]]]
                for j in range(d):
                    row[j] += x * w[j]


@njit(cache=True, nogil=True, fastmath=True)
def encode_whole(ptr, idx, val, table, bias, unit, first, last, out):
    """As ``encode``, for prediction: columns are rows of the table, and with `unit` a point is scaled to length 1."""
    d = table.shape[1]
    for i in range(first, last):
        row = out[i]
        square = 0.0
        for p in range(ptr[i], ptr[i + 1]):
            square += np.float64(val[p]) * np.float64(val[p])
        scale = np.float32(1.0 / np.sqrt(square)) if unit and square > 0 else np.float32(1.0)
        for j in range(d):
            row[j] = bias[j]
        for p in range(ptr[i], ptr[i + 1]):
            x = val[p] * scale
            w = table[idx[p]]
            for j in range(d):
                row[j] += x * w[j]


@njit(cache=True, nogil=True)
def valid(idx, val, n_features):
    """Whether a point's features exist and its values are numbers."""
    fine = True
    for p in range(idx.shape[0]):
        fine &= 0 <= idx[p] < n_features and np.isfinite(val[p])
    return fine


@njit(cache=True, nogil=True)
def _correction(beta, age):
    """1 / (1 - beta^age), without a power: with fast maths that becomes a call that LLVM cannot always link."""
    return np.float32(1.0 / (1.0 - np.exp(np.float64(age) * np.log(np.float64(beta)))))


@njit(cache=True, nogil=True, fastmath=True)
def _step(kind, w, g, m, v, age, lr, decay, beta1, beta2, eps):
    """One optimiser step of one row: w, g, m, v are (d,), age how often the row was stepped, this time included."""
    d = w.shape[0]
    keep = np.float32(1.0) - lr * decay
    if kind == ADAM:
        one = np.float32(1.0)
        correct1 = _correction(beta1, age)
        correct2 = _correction(beta2, age)
        for j in range(d):
            m[j] = beta1 * m[j] + (one - beta1) * g[j]
            v[j] = beta2 * v[j] + (one - beta2) * g[j] * g[j]
            w[j] = keep * w[j] - lr * (m[j] * correct1) / (np.sqrt(v[j] * correct2) + eps)
    elif kind == ADAGRAD:
        for j in range(d):
            v[j] += g[j] * g[j]
            w[j] = keep * w[j] - lr * g[j] / (np.sqrt(v[j]) + eps)
    elif kind == MOMENTUM:
        for j in range(d):
            m[j] = beta1 * m[j] + g[j]
            w[j] = keep * w[j] - lr * m[j]
    else:
        for j in range(d):
            w[j] = keep * w[j] - lr * g[j]


@njit(cache=True, nogil=True, fastmath=True)
def learn_dense(kind, table, rows, grad, m, v, age, lr, decay, beta1, beta2, eps, first, last):
    """Step table[rows[a]] by grad[a], for a in first..last; rows are distinct. m, v, age are the optimiser's tables."""
    for a in range(first, last):
        r = rows[a]
        age[r] += 1
        _step(kind, table[r], grad[a], m[r % m.shape[0]], v[r % v.shape[0]], age[r], lr, decay, beta1, beta2, eps)


@njit(cache=True, nogil=True, fastmath=True)
def learn_sparse(
    kind, table, features, col_ptr, col_row, col_val, up, m, v, age, lr, decay, beta1, beta2, eps, first, last
):
    """Step table[features[a]] by the sum of col_val * up[col_row] over column a of the batch, for a in first..last.

    `up` (B, d) is the gradient with respect to the encoded batch.
    """
    d = table.shape[1]
    g = np.empty(d, np.float32)
    for a in range(first, last):
        for j in range(d):
            g[j] = 0.0
        for p in range(col_ptr[a], col_ptr[a + 1]):
            x = col_val[p]
            if x != 0.0:
                u = up[col_row[p]]
                for j in range(d):
                    g[j] += x * u[j]
        r = features[a]
        age[r] += 1
        _step(kind, table[r], g, m[r % m.shape[0]], v[r % v.shape[0]], age[r], lr, decay, beta1, beta2, eps)


@njit(cache=True, nogil=True)
def columns(ptr, idx, val, n_columns):
    """The batch by columns: col_ptr, col_row, col_val."""
    col_ptr = np.zeros(n_columns + 1, np.int64)
    for j in idx:
        col_ptr[j + 1] += 1
    for j in range(n_columns):
        col_ptr[j + 1] += col_ptr[j]
    cursor = col_ptr[:-1].copy()
    col_row = np.empty(idx.shape[0], np.int32)
    col_val = np.empty(idx.shape[0], np.float32)
    for i in range(ptr.shape[0] - 1):
        for p in range(ptr[i], ptr[i + 1]):
            slot = cursor[idx[p]]
            col_row[slot] = i
            col_val[slot] = val[p]
            cursor[idx[p]] = slot + 1
    return col_ptr, col_row, col_val


@njit(cache=True, nogil=True)
def positives(indptr, indices, rows, place):
    """Labels of the chosen rows as positions among the candidates: ptr, places. place[label] is -1 for no candidate."""
    n = rows.shape[0]
    ptr = np.zeros(n + 1, np.int64)
    for a in range(n):
        ptr[a + 1] = ptr[a] + indptr[rows[a] + 1] - indptr[rows[a]]
    out = np.empty(ptr[n], np.int32)
    c = 0
    for a in range(n):
        for p in range(indptr[rows[a]], indptr[rows[a] + 1]):
            where = place[indices[p]]
            if where >= 0:
                out[c] = where
                c += 1
        ptr[a + 1] = c
    return ptr, out[:c].copy()


@njit(cache=True, nogil=True)
def block(indptr, indices, data, labels, place):
    """Dense (n, n) block of a sparse square matrix at `labels`. `place` is scratch of -1 and is left so."""
    n = labels.shape[0]
    out = np.zeros((n, n), np.float32)
    for a in range(n):
        place[labels[a]] = a
    for a in range(n):
        for p in range(indptr[labels[a]], indptr[labels[a] + 1]):
            b = place[indices[p]]
            if b >= 0:
                out[a, b] = data[p]
    for a in range(n):
        place[labels[a]] = -1
    return out


@njit(cache=True, nogil=True)
def top_k_rows(scores, k, out_idx, out_val):
    """``top_k_row`` of every row of a dense block."""
    for i in range(scores.shape[0]):
        top_k_row(scores[i], k, out_idx[i], out_val[i])
