"""Small models of every kind, whose folders are mutated."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import longtail
from longtail.data import synthetic
from longtail.index import feature_weights

_NETWORK = {"epochs": 1, "n_jobs": 1}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "popular": ("popular", {}),
    "knn": ("knn", {}),
    "knn_weighed": ("knn", {}),
    "textmatch": ("textmatch", {}),
    "vectorknn": ("vectorknn", {}),
    "vectormatch": ("vectormatch", {}),
    "bonsai": ("bonsai(n_trees=2, max_leaf=3, arity=2)", {}),
    "parabel": ("parabel(n_trees=1, max_leaf=3)", {}),
    "dismec": ("dismec", {}),
    "fastxml": ("fastxml(n_trees=3, cost=1.0)", {}),
    "pfastrexml": ("pfastrexml(n_trees=3, cost=1.0)", {}),
    "glas": ("glas", _NETWORK),
    "mnn": ("mnn(scoring=both)", _NETWORK),
    "dxml": ("dxml", _NETWORK),
    "decaf": ("decaf", _NETWORK),
    "decaf_int8": ("decaf(dtype=int8, shortlist=clusters)", _NETWORK),
    "decaf_hnsw": ("decaf(shortlist=hnsw)", _NETWORK),
    "ranknet": ("ranknet(popular)", {}),
    "ranknet_full": ("ranknet(knn)", {"advanced": {"bottleneck": None}}),
    "taug": ("taug(knn)", {}),
    "labeltext": ("labeltext(knn)", {}),
    "calibrated": ("calibrated(knn)", {}),
    "blend": ("blend([knn, textmatch, bonsai(n_trees=1)])", {}),
    "blend_vectors": ("blend([knn])", {"vector_size": 8}),
}
"""Name to composition and settings of its outermost model."""

_WORDS = [f"word{i}" for i in range(16)]


def data() -> longtail.Dataset:
    """Return the training data of all models: small, with label text."""
    return synthetic.make(80, 40, 12, random_state=0)


def build(name: str, folder: Path) -> None:
    """Train one model and save it."""
    if name == "tagger":
        texts = [f"{_WORDS[i % 16]} {_WORDS[(i * 7 + 1) % 16]} {_WORDS[(i * 3) % 16]}" for i in range(60)]
        labels = [[_WORDS[i % 8], _WORDS[8 + i % 5]] for i in range(60)]
        longtail.Tagger("bonsai(n_trees=1)").fit(texts, labels).save(folder)
        return
    expression, settings = KINDS[name]
    drawn = data()
    fewest = 1 if name == "knn_weighed" else feature_weights._FEWEST
    with mock.patch.object(feature_weights, "_FEWEST", fewest):
        longtail.make(expression, settings).fit(drawn.X, drawn.Y, label_features=drawn.Z).save(folder)


def use(folder: Path) -> None:
    """Load a model and use it in every way that reaches a kernel."""
    model: Any = longtail.load(folder)
    if isinstance(model, longtail.Tagger):
        suggested = model.suggest(["word0 word1 word2", "", "word15 unknown word9"], k=3)
        assert all(0 <= score <= 1 for row in suggested for _, score in row)
        list(model.label_names_)
        return
    X = data().X[:3]
    for k in (5, 100):
        scores = model.predict(X, k)
        scores.check_format(full_check=True)
        _check(scores.indices, scores.data, model.n_labels_)
    _check(*model.rank(X.indices[: X.indptr[1]], X.data[: X.indptr[1]], 3), model.n_labels_)


def _check(labels: np.ndarray, scores: np.ndarray, n_labels: int) -> None:
    """Require labels that exist and scores from 0 to 1."""
    assert ((labels >= 0) & (labels < n_labels)).all(), labels
    assert ((scores >= 0) & (scores <= 1)).all(), scores
