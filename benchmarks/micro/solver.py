"""Linear classifiers of many labels by our solver, beside liblinear as scikit-learn's LinearSVC."""

from __future__ import annotations

import numpy as np

import longtail
from benchmarks.micro.timing import Figure, best_in_turn
from longtail.models.dismec import DiSMEC

N_POINTS, N_LABELS, N_TEST = 8_000, 64, 3_000


def measure() -> list[Figure]:
    """Compare training of one classifier per label: the same problem, cost and tolerance."""
    from sklearn.svm import LinearSVC

    data = longtail.read(longtail.DEMO)
    rows = np.random.default_rng(0).permutation(data.n_points)
    train, test = np.sort(rows[:N_POINTS]), np.sort(rows[N_POINTS : N_POINTS + N_TEST])
    frequent = np.argsort(-np.bincount(data.Y[train].indices, minlength=data.n_labels))[:N_LABELS]
    X, Y = data.X[train], data.Y[train][:, frequent]
    X_test, truth = data.X[test], data.Y[test][:, frequent]
    targets = [Y[:, [j]].toarray().ravel().astype(int) for j in range(N_LABELS)]
    wide = X.astype(np.float64)  # what liblinear computes with

    def ours() -> DiSMEC:
        return DiSMEC(cost=1.0, tolerance=0.1, threshold=0.0, dtype="float32", n_jobs=1).fit(X, Y)

    def theirs() -> list[LinearSVC]:
        return [LinearSVC(C=1.0, tol=0.1, dual=True, random_state=0).fit(wide, target) for target in targets]

    scores = np.stack([svc.decision_function(X_test) for svc in theirs()], axis=1)
    labelled = np.flatnonzero(np.diff(truth.indptr))
    dense = truth.toarray()
    best = ours().predict(X_test, k=1)
    top = np.zeros(N_TEST, int)
    top[np.diff(best.indptr) > 0] = best.indices
    right = [float(dense[labelled, first[labelled]].mean() * 100) for first in (top, scores.argmax(axis=1))]
    seconds = best_in_turn(3, {"ours": ours, "theirs": theirs})
    task = f"{N_LABELS} labels, {N_POINTS:,} points"
    quality = {"P@1": (right[0], right[1])}
    return [Figure("linear solver", "liblinear", task, seconds["ours"], seconds["theirs"], quality)]
