"""KNN and TextMatch: the contract, adding points and labels, and what they must refuse."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from longtail.errors import DataError, SettingsError
from longtail.models.base import Ranker
from longtail.models.knn import KNN
from longtail.models.textmatch import TextMatch
from tests.contract import D, L, RankerContract, toy


class TestKNN(RankerContract):
    def make(self, **params: object) -> Ranker:
        return KNN(**params)  # type: ignore[arg-type]


class TestTextMatch(RankerContract):
    needs_text = True

    def make(self, **params: object) -> Ranker:
        return TextMatch(**params)  # type: ignore[arg-type]


def test_points_added_later_are_as_points_from_the_start() -> None:
    X, Y, _ = toy()
    whole = KNN().fit(X, Y)
    later = KNN().fit(X[:200], Y[:200]).partial_fit(X[200:], Y[200:])
    np.testing.assert_array_equal(later.predict(X).toarray(), whole.predict(X).toarray())
    np.testing.assert_array_equal(KNN().partial_fit(X, Y).predict(X).toarray(), whole.predict(X).toarray())
    with pytest.raises(DataError, match="append new ones"):
        later.partial_fit(X, Y[:, :5])


def test_new_labels_are_suggested_once_points_have_them() -> None:
    X, Y, _ = toy()
    model = KNN().fit(X[:200], csr_array(Y[:200, :20])).partial_fit(X[200:], Y[200:])
    assert model.n_labels_ == L
    assert model.predict(X[200:], 5).indices.max() >= 20


def test_text_is_needed() -> None:
    X, Y, _ = toy()
    with pytest.raises(DataError, match="Give label_features"):
        TextMatch().fit(X, Y)


def test_labels_are_added_by_their_text() -> None:
    X, Y, Z = toy()
    model = TextMatch().fit(X, csr_array(Y[:, : L - 4]), label_features=csr_array(Z[: L - 4])).add_labels(Z[L - 4 :])
    np.testing.assert_array_equal(
        model.predict(X).toarray(), TextMatch().fit(X, Y, label_features=Z).predict(X).toarray()
    )
    with pytest.raises(DataError, match="features"):
        model.add_labels(np.ones((1, D + 1)))


@pytest.mark.parametrize("model", [KNN(n_neighbors=0), TextMatch(n_matches=2.5)])
def test_settings_out_of_range_are_refused(model: Ranker) -> None:
    X, Y, Z = toy()
    with pytest.raises(SettingsError, match="give a whole number"):
        model.fit(X, Y, label_features=Z)


def test_a_label_is_returned_once_though_the_squares_of_similarities_are_0() -> None:
    Y = csr_array(np.array([[1, 0], [1, 0], [1, 1]], np.float32))
    scores = KNN().fit([[1, 0, 0], [1, 0, 0], [1, 1, 0]], Y).predict([[1, 0, 1e25]], 2)
    assert scores.indices.tolist() == [0, 1]
    assert ((scores.data > 0) & (scores.data <= 1)).all()
