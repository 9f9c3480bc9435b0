"""Odd and bad input that every embedding model must take, or refuse clearly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from longtail.errors import DataError
from longtail.models.base import Ranker
from longtail.models.glas import GLaS
from longtail.models.mnn import MNN
from tests.contract import toy

SMALL: dict[str, Any] = {"dim": 16, "epochs": 3, "batch_size": 32, "learning_rate": 0.03}
MODELS = pytest.mark.parametrize(
    "model", [GLaS(**SMALL, regularization=1.0), MNN(**SMALL)], ids=lambda model: model.kind
)


@MODELS
def test_a_point_of_unseen_features_is_answered_as_one_without_features(model: Ranker) -> None:
    X, Y, _ = toy()
    wide = csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], X.shape[1] + 2))
    model.fit(wide, Y)
    unseen = np.zeros((2, wide.shape[1]), np.float32)
    unseen[0, -2:] = 1
    scores = model.predict(unseen, 4)
    np.testing.assert_array_equal(scores[[0]].indices, scores[[1]].indices)
    np.testing.assert_allclose(scores[[0]].data, scores[[1]].data, rtol=1e-6)


@MODELS
def test_a_label_never_seen_in_training_is_never_suggested(model: Ranker) -> None:
    X, Y, _ = toy()
    none = Y.toarray()
    none[:, 3] = 0
    model.fit(X, none)
    scores = model.predict(X, Y.shape[1])
    assert 3 not in scores.indices
    assert scores.shape == Y.shape


@MODELS
def test_fewer_labels_and_points_than_a_batch(model: Ranker) -> None:
    X, Y, _ = toy(n=20, n_labels=3)
    model.set_params(batch_size=1000).fit(X, Y)
    assert model.predict(X, 5).shape == (20, 3)
    model.set_params(batch_size=32)


@MODELS
@pytest.mark.parametrize("n", [1, 2, 300])
def test_one_label_only(model: Ranker, n: int) -> None:
    X, _, _ = toy()
    model.fit(X[:n], np.ones((n, 1)))
    scores = model.predict(X, 5)
    assert scores.shape == (300, 1)
    assert (scores.data > 0).all()


@MODELS
def test_validation_without_any_label_is_refused(model: Ranker) -> None:
    X, Y, _ = toy()
    with pytest.raises(DataError, match="no label at all"):
        model.fit(X, Y, validation=(X[:5], np.zeros((5, Y.shape[1]))))


@MODELS
def test_what_is_held_out_is_learnt_in_the_end_where_points_are_few(model: Ranker) -> None:
    X, Y, _ = toy()
    model.set_params(refit=False, validation_fraction=0.3).fit(X, Y)
    once = model.predict(X).toarray()
    model.set_params(refit=None).fit(X, Y)
    assert len(model.history_) == SMALL["epochs"]
    assert (model.predict(X).toarray() != once).any()
    model.set_params(validation_fraction=0.05)
