"""Boosted trees over a few features of (point, label) pairs, beside scikit-learn's and LightGBM's."""

from __future__ import annotations

import warnings

import numpy as np

from benchmarks.micro.timing import Figure, best_in_turn
from longtail.combine.boosted_trees import BoostedTrees

TREES, RATE = 120, 0.15
N_PAIRS, N_FEATURES, N_CANDIDATES = 20_000, 8, 50


def pairs(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return features of pairs and which of them are right: one in ten, by a function with interactions."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, N_FEATURES)).astype(np.float32)
    odds = 1.5 * X[:, 0] + X[:, 1] * (X[:, 2] > 0) - np.abs(X[:, 3]) - 2.5
    return X, rng.random(n) < 1 / (1 + np.exp(-odds))


def log_loss(odds: np.ndarray, right: np.ndarray) -> float:
    """Return the mean logistic loss."""
    return float(np.logaddexp(0.0, np.where(right, -odds, odds)).mean())


def measure() -> list[Figure]:
    """Compare training, and prediction of the candidates of one point, at equal numbers of trees and leaves."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    warnings.filterwarnings("ignore", message="X does not have valid feature names")
    X, right = pairs(N_PAIRS, 0)
    X_held, right_held = pairs(N_PAIRS, 1)
    few = X_held[:N_CANDIDATES]
    ours = BoostedTrees.fit(X, right, TREES, RATE)
    peers = {
        "scikit-learn HistGradientBoosting": HistGradientBoostingClassifier(
            max_iter=TREES, learning_rate=0.15, max_leaf_nodes=16, max_bins=63, early_stopping=False
        )
    }
    try:
        from lightgbm import LGBMClassifier

        peers["LightGBM"] = LGBMClassifier(
            n_estimators=TREES, learning_rate=0.15, num_leaves=16, max_bin=63, n_jobs=1, verbose=-1
        )
    except ImportError:
        print("LightGBM is not installed and is left out")
    figures = []
    for name, peer in peers.items():
        peer.fit(X, right)
        theirs = np.log(np.clip(peer.predict_proba(X_held)[:, 1], 1e-9, 1 - 1e-9))
        theirs -= np.log1p(-np.exp(theirs))
        losses = {"held-out log loss": (log_loss(ours.log_odds(X_held), right_held), log_loss(theirs, right_held))}
        predict = {"ours": lambda: ours.log_odds(few), "theirs": lambda peer=peer: peer.predict_proba(few)}
        seconds = best_in_turn(20, predict)
        task = f"predict {N_CANDIDATES} candidates"
        figures.append(Figure("boosted trees", name, task, seconds["ours"], seconds["theirs"], losses))
        train = {
            "ours": lambda: BoostedTrees.fit(X, right, TREES, RATE),
            "theirs": lambda peer=peer: peer.fit(X, right),
        }
        seconds = best_in_turn(3, train)
        task = f"train on {N_PAIRS:,} pairs"
        figures.append(Figure("boosted trees", name, task, seconds["ours"], seconds["theirs"]))
    return figures
