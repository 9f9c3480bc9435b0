"""Rankers for tests of the code around rankers: a quick one, and one that wraps another."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array

from longtail.models.base import Arrays, Ranker
from longtail.store import Stored
from longtail.store.invariants import Rules, floats


class Centroid(Ranker):
    """Score labels by the similarity of a point to the mean of their points."""

    kind: ClassVar[str] = "centroid"

    def __init__(self, sharpness: float = 1.0, loss: str = "none", n_jobs: int | None = None, random_state: int = 0):
        self.sharpness = sharpness
        self.loss = loss
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit(self, X: csr_array, Y: csr_array, Z: Any, validation: Any) -> None:
        self.had_label_features_, self.had_validation_ = Z is not None, validation is not None
        centroids = (Y.T @ X).toarray()
        self.centroids_ = centroids / np.maximum(np.linalg.norm(centroids, axis=1, keepdims=True), 1e-9)

    def _predict(self, X: csr_array, k: int) -> csr_array:
        scores = 1 / (1 + np.exp(-self.sharpness * (X @ self.centroids_.T)))
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        data = np.take_along_axis(scores, order, axis=1).astype(np.float32)
        indptr = np.arange(X.shape[0] + 1) * order.shape[1]
        return csr_array((data.ravel(), order.ravel(), indptr), shape=scores.shape)

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        return {}, {"centroids": self.centroids_.astype(np.float32)}, {}

    @classmethod
    def _array_rules(cls, stored: Stored, parts: dict[str, Ranker]) -> Rules:
        return Rules({"centroids": floats("L D")})

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self.centroids_ = arrays["centroids"]


class Halving(Ranker):
    """Wrap a ranker and halve its scores."""

    kind: ClassVar[str] = "halving"

    def __init__(self, base: Any, rounds: int = 1, random_state: int = 0):
        self.base = base
        self.rounds = rounds
        self.random_state = random_state

    def _fit(self, X: csr_array, Y: csr_array, Z: Any, validation: Any) -> None:
        self.base_ = self.base.unfitted().fit(X, Y)

    def _predict(self, X: csr_array, k: int) -> csr_array:
        return self.base_.predict(X, k) * 0.5**self.rounds

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        return {}, {}, {"base": self.base_}

    @classmethod
    def _array_rules(cls, stored: Stored, parts: dict[str, Ranker]) -> Rules:
        return Rules()

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self.base_ = parts["base"]


MODELS = {"centroid": "tests.fake:Centroid", "halving": "tests.fake:Halving"}
