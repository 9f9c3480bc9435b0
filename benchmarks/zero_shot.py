"""Labels that training never saw: hidden from it, then added by their text.

A tenth of the labels and their pairs are hidden. Recall@10 is measured on test points that have such a label, among
all labels and among the hidden ones, beside the similarity of TF-IDF vectors; and P@1 and P@5 of the trained labels
before and after, which shows what the added labels cost them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from benchmarks.tables import footnote, origin, star
from longtail import make
from longtail.data import Dataset
from longtail.metrics import evaluate

HIDDEN = 0.1  # share of the labels
_COST = ("P@1", "P@5")


def zero_shot(data: Dataset, name: str, model_name: str) -> dict[str, Any]:
    """Train a model without the hidden labels, add them, and return the row of the table."""
    assert data.X is not None
    assert data.Z is not None
    assert data.test is not None
    assert data.test.X is not None
    rng = np.random.default_rng(0)
    hidden = np.zeros(data.n_labels, bool)
    hidden[rng.choice(data.n_labels, round(HIDDEN * data.n_labels), replace=False)] = True
    order = np.concatenate([np.flatnonzero(~hidden), np.flatnonzero(hidden)])  # the hidden ones come last
    n_known = int((~hidden).sum())
    Y = csr_array(data.Y[:, order[:n_known]])
    labelled = np.flatnonzero(np.diff(Y.indptr))
    model: Any = make(model_name)
    model.fit(data.X[labelled], Y[labelled], label_features=data.Z[order[:n_known]])
    known = csr_array(data.test.Y[:, order[:n_known]])
    before = evaluate(known, model.predict(data.test.X), train_Y=Y, ks=(1, 5))
    model.add_labels(data.Z[order[n_known:]])
    wider = csr_array((known.data, known.indices, known.indptr), shape=data.test.Y.shape)
    wider_Y = csr_array((Y.data, Y.indices, Y.indptr), shape=data.Y.shape)
    after = evaluate(wider, model.predict(data.test.X), train_Y=wider_Y, ks=(1, 5))
    truth = csr_array(data.test.Y[:, order[n_known:]])
    rows = np.flatnonzero(np.diff(truth.indptr))
    X, truth = data.test.X[rows], truth[rows]
    similar = csr_array(X @ csr_array(data.Z[order].T))
    row = {"data": name, "system": model_name, "points": len(rows), "pairs": truth.nnz, "hidden": int(hidden.sum())}
    for metric in _COST:
        row |= {f"{metric} before": before[metric], f"{metric} after": after[metric]}
    for what, scores in (("recall", model.predict(X, 2000)), ("tf-idf", similar)):
        row |= {
            f"{what} all": hidden_recall(scores, truth, n_known, among_hidden=False),
            f"{what} hidden": hidden_recall(scores, truth, n_known, among_hidden=True),
        }
    return row


def hidden_recall(scores: csr_array, truth: csr_array, first: int, among_hidden: bool, k: int = 10) -> float:
    """Return the share of points' hidden labels among the k best, in percent; hidden labels start at `first`."""
    found = 0
    for i in range(truth.shape[0]):
        entries = slice(scores.indptr[i], scores.indptr[i + 1])
        ids, values = scores.indices[entries], scores.data[entries]
        if among_hidden:
            ids, values = ids[ids >= first], values[ids >= first]
        best = ids[np.lexsort((ids, -values))[:k]]
        found += len(np.intersect1d(best - first, truth.indices[truth.indptr[i] : truth.indptr[i + 1]]))
    return 100 * found / truth.nnz


def zero_shot_table(rows: list[dict[str, Any]]) -> list[str]:
    """Return the table of a section, as Markdown; empty without rows."""
    if not rows:
        return []
    head = ("data", "model", "from", "hidden labels", "recall@10 among", "of the model", "of TF-IDF similarity")
    lines = ["", "### Labels that were never seen", "", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row in rows:
        what = f"{row['data']} | {row['system']}{star(row)} | {origin(row['model'])}"
        for among, name in (("all", "all labels"), ("hidden", "the hidden ones")):
            lines.append(
                f"| {what} | {row['hidden']:,}, {row['pairs']:,} test pairs | {name} "
                f"| {row[f'recall {among}']:.1f} | {row[f'tf-idf {among}']:.1f} |"
            )
    return lines + footnote(rows)
