"""PfastreXML: FastXML for rare labels (Jain, Prabhu and Varma, KDD 2016).

Rare labels are missing from the data more often than frequent ones. So finding a label is worth its inverse propensity,
both where points are parted (nDCG becomes the propensity-scored one) and in the leaves; and the labels that the trees
find are ranked again by how near the point lies to the centre of the label's own points, which needs few of them:

    score = P^alpha * exp(-gamma / 2 |x - mu|^2)^(1 - alpha)

Choices: weights are divided by the greatest, so that P and with it the score lie in (0, 1), which leaves the ranking as
it is; a centroid is the mean of its points, cut to its 256 strongest features, so that a head label costs no more than
any other.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array

from longtail.errors import SettingsError
from longtail.linear.point_forest import GrowSettings, PointForest, centroids
from longtail.metrics import evaluate, inverse_propensity
from longtail.models.fastxml import FastXML
from longtail.models.label_tree import unit_rows


class PfastreXML(FastXML):
    """FastXML with propensities and tail classifiers.

    Parameters
    ----------
    n_trees : int
        Trees, each from its own random start.
    max_leaf : int
        Points of a leaf at most.
    labels_per_leaf : int
        Labels that a leaf keeps.
    cost : float, optional
        C, the weight of the logistic loss against the L1 norm of a separator. By default 2, 4 or 8, whichever gives
        held-out points the best propensity-scored ranking with a few trees.
    alpha : float
        Weight of the trees against the centroids, from 0 to 1; at 1 centroids are not used.
    gamma : float
        How fast a centroid's score falls off with distance.
    propensity_a, propensity_b : float
        A and B of the propensity model: 0.55 and 1.5, but for Wikipedia (0.5, 0.4) and Amazon (0.6, 2.6).
    normalize : bool
        Points are scaled for the trees as FastXML's are, and to length 1 where they meet centroids.
    n_jobs : int, optional
        Threads; all cores by default.
    random_state : int
    """

    kind: ClassVar[str] = "pfastrexml"
    _WIDTH = 256  # strongest features kept of a centroid

    def __init__(
        self,
        n_trees: int = 100,
        max_leaf: int = 10,
        labels_per_leaf: int = 100,
        cost: float | None = None,
        alpha: float = 0.8,
        gamma: float = 30.0,
        propensity_a: float = 0.55,
        propensity_b: float = 1.5,
        normalize: bool = True,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        super().__init__(n_trees, max_leaf, labels_per_leaf, cost, normalize, n_jobs, random_state)
        self.alpha = alpha
        self.gamma = gamma
        self.propensity_a = propensity_a
        self.propensity_b = propensity_b

    def _check_settings(self) -> None:
        super()._check_settings()
        if not 0 <= self.alpha <= 1:
            raise SettingsError(f"alpha is {self.alpha!r}; give a number from 0 to 1")
        if not self.gamma >= 0:
            raise SettingsError(f"gamma is {self.gamma!r}; give 0 or a number above it")

    def _worth(self, Y_held: csr_array, scores: csr_array, Y: csr_array) -> float:
        weights = inverse_propensity(Y, self.propensity_a, self.propensity_b)
        return evaluate(Y_held, scores, inv_propensity=weights, ks=(5,))["PSnDCG@5"]

    def _grow(self, X: csr_array, Y: csr_array, cost: float, n_trees: int) -> PointForest:
        settings = GrowSettings(n_trees, int(self.max_leaf), int(self.labels_per_leaf), cost)
        weights = inverse_propensity(Y, self.propensity_a, self.propensity_b)
        weights /= weights[np.unique(Y.indices)].max()
        centres = centroids(unit_rows(X) if self.normalize else X, Y, self._WIDTH, self.n_jobs)
        scaled = X * np.float32(self.factor_)
        return PointForest.grow(scaled, Y, weights, settings, self.n_jobs, self.random_state, centres)

    def _blend(self) -> tuple[float, float, float, bool]:
        return float(self.alpha), float(self.gamma), self.factor_, self.normalize
