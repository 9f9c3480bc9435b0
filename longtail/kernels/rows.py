"""Steps of neural training that read and update only those rows of a table that a mini-batch uses.

A mini-batch is a local CSR matrix (:func:`longtail.kernels.gather.gather_rows`): columns are numbered in the order in
which they occur, and `features` maps them to rows of the table. ``encode`` computes the product of the batch and the
table. ``learn_sparse`` is the backward pass: it sums the gradient of one row of the table in a scratch vector of d
numbers, and updates the row immediately. The gradient of the whole table is never stored, not even of the used rows.

All kernels are serial, release the interpreter lock and process a range of rows: see :mod:`longtail.kernels.pool`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from longtail.kernels.compiling import njit

# Products may be fused with sums, but sums keep their order. With fastmath=True, the order would depend on whether a
# function was compiled alone or inside its caller, and two processes could compute results that differ in the last bit.
_FUSED = {"contract"}
SGD, ADAGRAD, ADAM, MOMENTUM, ROW_ADAGRAD = 0, 1, 2, 3, 4


class RowSteps(NamedTuple):
    """The optimiser of the rows of one table: its kind, its state and its settings."""

    kind: int  # SGD, ADAGRAD, ADAM, MOMENTUM or ROW_ADAGRAD
    m: np.ndarray  # (rows, d) mean of gradients, or (1, d) if the kind does not use it
    v: np.ndarray  # (rows, d) mean or sum of squared gradients, (rows, 1) the sum of their mean over a row, or (1, d)
    age: np.ndarray  # (rows,) number of updates of each row
    rate: np.float32  # learning rate
    decay: np.float32  # weight decay, decoupled
    beta1: np.float32
    beta2: np.float32
    eps: np.float32


class BatchColumns(NamedTuple):
    """A batch in column-major order (CSC)."""

    features: np.ndarray  # (F,) the table's row of each column
    ptr: np.ndarray  # (F + 1,)
    row: np.ndarray  # rows of the batch
    val: np.ndarray


@njit(cache=True, nogil=True, fastmath=_FUSED, borrows=True)
def encode(ptr, idx, val, features, table, bias, first, last, out):
    """Set out[i] (d,) to bias + the sum of val * table[features[idx]] over row i, for rows first..last."""
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


@njit(cache=True, nogil=True, fastmath=_FUSED, borrows=True)
def _sum_of_squares(g):
    """Return the sum of squares of g (d,), in eight explicit lanes, which fixes the order of addition."""
    zero = np.float32(0.0)
    a, b, c, e, f, h, i, j = zero, zero, zero, zero, zero, zero, zero, zero
    d = g.shape[0]
    whole = d - d % 8
    for p in range(0, whole, 8):
        a += g[p] * g[p]
        b += g[p + 1] * g[p + 1]
        c += g[p + 2] * g[p + 2]
        e += g[p + 3] * g[p + 3]
        f += g[p + 4] * g[p + 4]
        h += g[p + 5] * g[p + 5]
        i += g[p + 6] * g[p + 6]
        j += g[p + 7] * g[p + 7]
    for p in range(whole, d):
        a += g[p] * g[p]
    return ((a + b) + (c + e)) + ((f + h) + (i + j))


@njit(cache=True, nogil=True, borrows=True)
def _correction(beta, age):
    """Return 1 / (1 - beta^age), with exp and log, because LLVM cannot always link a call of pow."""
    return np.float32(1.0 / (1.0 - np.exp(np.float64(age) * np.log(np.float64(beta)))))


@njit(cache=True, nogil=True, fastmath=_FUSED, borrows=True)
def _step_row(w, g, r, steps):
    """Update row r of a table, w (d,), by the gradient g (d,)."""
    d = w.shape[0]
    steps.age[r] += 1
    m, v = steps.m[r % steps.m.shape[0]], steps.v[r % steps.v.shape[0]]
    rate, beta1, beta2, eps = steps.rate, steps.beta1, steps.beta2, steps.eps
    keep = np.float32(1.0) - rate * steps.decay
    if steps.kind == ADAM:
        one = np.float32(1.0)
        correct1 = _correction(beta1, steps.age[r])
        correct2 = _correction(beta2, steps.age[r])
        for j in range(d):
            m[j] = beta1 * m[j] + (one - beta1) * g[j]
            v[j] = beta2 * v[j] + (one - beta2) * g[j] * g[j]
            w[j] = keep * w[j] - rate * (m[j] * correct1) / (np.sqrt(v[j] * correct2) + eps)
    elif steps.kind == ROW_ADAGRAD:
        v[0] += _sum_of_squares(g) / np.float32(d)
        length = rate / (np.sqrt(v[0]) + eps)
        for j in range(d):
            w[j] = keep * w[j] - length * g[j]
    elif steps.kind == ADAGRAD:
        for j in range(d):
            v[j] += g[j] * g[j]
            w[j] = keep * w[j] - rate * g[j] / (np.sqrt(v[j]) + eps)
    elif steps.kind == MOMENTUM:
        for j in range(d):
            m[j] = beta1 * m[j] + g[j]
            w[j] = keep * w[j] - rate * m[j]
    else:
        for j in range(d):
            w[j] = keep * w[j] - rate * g[j]


@njit(cache=True, nogil=True, fastmath=_FUSED, borrows=True)
def learn_dense(table, rows, grad, steps, first, last):
    """Update table[rows[a]] by the gradient grad[a], for a in first..last. Rows must be distinct."""
    for a in range(first, last):
        _step_row(table[rows[a]], grad[a], rows[a], steps)


@njit(cache=True, nogil=True, fastmath=_FUSED)
def learn_sparse(table, batch, up, steps, first, last):
    """Update the table's row of each batch column a in first..last, by the sum of val * up[row] over that column.

    batch : :class:`BatchColumns`; up (B, d) : the gradient with respect to the encoded batch.
    """
    d = table.shape[1]
    g = np.empty(d, np.float32)
    for a in range(first, last):
        for j in range(d):
            g[j] = 0.0
        for p in range(batch.ptr[a], batch.ptr[a + 1]):
            x = batch.val[p]
            if x != 0.0:
                u = up[batch.row[p]]
                for j in range(d):
                    g[j] += x * u[j]
        r = batch.features[a]
        _step_row(table[r], g, r, steps)


@njit(cache=True, nogil=True)
def columns(ptr, idx, val, n_columns):
    """Transpose a batch to column-major order: col_ptr, col_row, col_val."""
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
    """Return the labels of some rows as positions among the candidates: ptr, positions.

    place[label] is the position of a label, or -1 if it is not a candidate. Such labels are left out.
    """
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
    """Return the dense (n, n) block of a sparse square matrix at `labels`. place : scratch, all -1 before and after."""
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
