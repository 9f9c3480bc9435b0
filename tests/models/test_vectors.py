"""VectorKNN and VectorMatch: the contract, and both as members of a blend whose last features are vectors."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy.sparse import csr_array, hstack

import longtail
from longtail.errors import DataError, ModelError, SettingsError
from longtail.kernels.encode import SparseRows
from longtail.models.base import Ranker
from longtail.models.blend import Blend
from longtail.models.bonsai import Bonsai
from longtail.models.knn import KNN
from longtail.models.textmatch import TextMatch
from longtail.models.vectorknn import VectorKNN
from longtail.models.vectormatch import VectorMatch
from tests.contract import D, L, RankerContract, toy

SIZE = 8


class TestVectorKNN(RankerContract):
    def make(self, **params: object) -> Ranker:
        return VectorKNN(**params)  # type: ignore[arg-type]


class TestVectorMatch(RankerContract):
    needs_text = True

    def make(self, **params: object) -> Ranker:
        return VectorMatch(**params)  # type: ignore[arg-type]


class TestBlendWithVectors(RankerContract):
    """The last features of the toy as vectors: the contract holds with a division of the columns, too."""

    def make(self, **params: object) -> Ranker:
        return Blend([Bonsai(n_trees=1), KNN()], **{"vector_size": SIZE} | params)  # type: ignore[arg-type]


def projected(X: csr_array, seed: int = 5) -> np.ndarray:
    """Return a dense vector per row, which depends on the row alone."""
    return X @ np.random.default_rng(seed).standard_normal((X.shape[1], SIZE)).astype(np.float32)


def with_vectors(X: csr_array) -> csr_array:
    return csr_array(hstack([X, csr_array(projected(X))], format="csr"), dtype=np.float32)


def plain_votes(points: np.ndarray, labels: np.ndarray, query: np.ndarray, n: int, sharpness: float) -> np.ndarray:
    """Return the shares of the votes, by the definition."""
    cosines = points @ query / np.linalg.norm(points, axis=1) / np.linalg.norm(query)
    near = np.argsort(-cosines, kind="stable")[:n]
    near = near[cosines[near] > 0]
    weights = np.exp(sharpness * cosines[near])
    return weights @ labels[near] / weights.sum()


def test_votes_are_those_of_the_definition() -> None:
    X, Y, _ = toy()
    vectors = projected(X)
    scores = VectorKNN(n_neighbors=7, sharpness=6.0).fit(vectors, Y).predict(vectors[:20], L).toarray()
    for row in range(20):
        expected = plain_votes(vectors, Y.toarray(), vectors[row], 7, 6.0)
        np.testing.assert_allclose(scores[row], expected, atol=1e-5)


def test_matches_are_cosines_with_the_label_text() -> None:
    X, Y, Z = toy()
    vectors, texts = projected(X), projected(Z)
    scores = VectorMatch(n_matches=L).fit(vectors, Y, label_features=texts).predict(vectors[:20], L).toarray()
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (vectors, texts)]
    np.testing.assert_allclose(scores, np.clip(unit[0][:20] @ unit[1].T, 0, 1), atol=1e-5)


def test_a_point_without_a_vector_has_no_label() -> None:
    X, Y, Z = toy()
    for model in (VectorKNN(), VectorMatch()):
        model.fit(X, Y, label_features=Z)
        assert model.predict(csr_array((2, D), dtype=np.float32)).nnz == 0
        assert len(model.rank(np.empty(0, np.int32), np.empty(0, np.float32))[0]) == 0


def test_points_and_labels_added_later_are_found() -> None:
    X, Y, Z = toy()
    later = VectorKNN().fit(X[:200], Y[:200]).partial_fit(X[200:], Y[200:])
    np.testing.assert_array_equal(later.predict(X).toarray(), VectorKNN().fit(X, Y).predict(X).toarray())
    model = VectorMatch().fit(X, csr_array(Y[:, : L - 4]), label_features=csr_array(Z[: L - 4])).add_labels(Z[L - 4 :])
    whole = VectorMatch().fit(X, Y, label_features=Z)
    np.testing.assert_array_equal(model.predict(X).toarray(), whole.predict(X).toarray())
    with pytest.raises(DataError, match="Give label_features"):
        VectorMatch().fit(X, Y)


def test_a_large_index_is_saved_and_answers_alike_alone_and_in_a_batch(tmp_path) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((3000, 1500)).astype(np.float32)  # beyond the size of exact search
    Y = csr_array(np.eye(30, dtype=np.float32)[rng.integers(30, size=3000)])
    model = VectorKNN(n_jobs=1).fit(vectors, Y)
    assert model.index_.kind == "ivf"
    model.save(tmp_path / "m")
    batch = longtail.load(tmp_path / "m").predict(vectors[:40])
    np.testing.assert_array_equal(batch.toarray(), model.predict(vectors[:40]).toarray())
    for row in range(40):
        np.testing.assert_array_equal(model.predict(vectors[[row]]).toarray(), batch[[row]].toarray())


# In a blend -------------------------------------------------------------------------------------------------------


def test_rows_are_divided_at_a_column() -> None:
    X = csr_array(np.array([[0, 1, 2, 0], [0, 0, 0, 3], [4, 0, 0, 0], [0, 0, 0, 0]], np.float32))
    first, last = SparseRows.of(X).divided(2)
    for part, expected in ((first, X[:, :2]), (last, X[:, 2:])):
        found = csr_array((part.val, part.idx, part.ptr), shape=(4, 2))
        np.testing.assert_array_equal(found.toarray(), expected.toarray())
        assert part.ptr.dtype == X.indptr.dtype
        assert part.idx.dtype == np.int32


def test_members_see_their_own_columns_and_the_blend_uses_both(tmp_path) -> None:
    X, Y, Z = toy()
    model = Blend([Bonsai(n_trees=1), KNN(), TextMatch()], vector_size=SIZE)
    model.fit(with_vectors(X), Y, label_features=with_vectors(Z))
    widths = {member.kind: member.n_features_in_ for member in model.members_}
    assert widths == {"bonsai": D, "knn": D, "textmatch": D, "vectorknn": SIZE, "vectormatch": SIZE}
    X_new, _, _ = toy(seed=1)
    points = with_vectors(X_new)
    batch = model.predict(points)
    without = points.copy()
    without.data[without.indices >= D] = 0
    assert (model.predict(without) != batch).nnz > 0
    model.save(tmp_path / "m")
    loaded = longtail.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(points).toarray(), batch.toarray())
    for row in range(30):
        one = points[[row]]
        np.testing.assert_array_equal(loaded.predict(one).toarray(), batch[[row]].toarray())
        labels, scores = loaded.rank(one.indices, one.data)
        np.testing.assert_array_equal(labels, batch[[row]].indices)
        np.testing.assert_array_equal(scores, batch[[row]].data)


def test_without_label_text_only_points_are_compared() -> None:
    X, Y, _ = toy()
    model = Blend([KNN()], vector_size=SIZE).fit(with_vectors(X), Y)
    assert [member.kind for member in model.members_] == ["knn", "vectorknn"]


def test_members_for_vectors_may_be_given() -> None:
    X, Y, Z = toy()
    given = Blend([KNN(), VectorKNN(n_neighbors=5)], vector_size=SIZE)
    model = given.fit(with_vectors(X), Y, label_features=with_vectors(Z))
    assert [member.kind for member in model.members_] == ["knn", "vectorknn"]
    assert model.members_[1].n_neighbors == 5  # type: ignore[attr-defined]


def test_a_validation_part_has_vectors_too() -> None:
    X, Y, _ = toy()
    held, Y_held, _ = toy(seed=3)
    model = Blend([KNN()], vector_size=SIZE).fit(with_vectors(X), Y, validation=(with_vectors(held), Y_held))
    assert [row["model"] for row in model.report_] == ["knn", "vectorknn", "blend"]
    assert len(model.members_[1].index_) == X.shape[0]  # type: ignore[attr-defined]


def test_points_and_labels_are_added_to_a_blend() -> None:
    X, Y, Z = toy()
    model = Blend([KNN(), TextMatch()], vector_size=SIZE)
    model.fit(with_vectors(X[:250]), Y[:250], label_features=with_vectors(Z))
    model.partial_fit(with_vectors(X[250:]), Y[250:])
    assert len(model.members_[2].index_) == X.shape[0]  # type: ignore[attr-defined]
    model.add_labels(with_vectors(csr_array(Z[:1])))
    assert model.n_labels_ == L + 1
    assert model.predict(with_vectors(X), L + 1).indices.max() == L


def test_contributions_of_the_members_sum_to_the_score() -> None:
    X, Y, Z = toy()
    model = Blend([KNN()], vector_size=SIZE).fit(with_vectors(X), Y, label_features=with_vectors(Z))
    point = with_vectors(X[[0]])
    best = model.predict(point)
    (shares,) = model.contributions(point, best, best.indices[:1].tolist())
    assert shares is not None
    assert 1 / (1 + np.exp(-(shares.rest + shares.members.sum()))) == pytest.approx(best.data[0], abs=1e-3)


def test_memory_is_estimated_by_columns() -> None:
    X, Y, Z = toy()
    points, texts = with_vectors(X), with_vectors(Z)
    plain = Blend([KNN()]).memory_needed(X, Y, Z)
    assert Blend([KNN()], vector_size=SIZE).memory_needed(points, Y, texts) > plain


def test_what_a_blend_with_vectors_refuses(tmp_path) -> None:
    X, Y, _ = toy()
    with pytest.raises(SettingsError, match="Vectors are the last features"):
        Blend([KNN()], vector_size=D).fit(X, Y)
    with pytest.raises(SettingsError, match="vector_size"):
        Blend([KNN()], vector_size=-1).fit(X, Y)
    model = Blend([KNN()], vector_size=SIZE).fit(with_vectors(X), Y)
    with pytest.raises(DataError, match="lacks the 8 last features"):
        model.predict(X)
    model.save(tmp_path / "m")
    path = tmp_path / "m" / "model.json"
    path.write_text(re.sub(r'"vector_size": *8', '"vector_size": 7', path.read_text()))
    with pytest.raises(ModelError):
        longtail.load(tmp_path / "m")


@pytest.mark.parametrize("sharpness", [1e300, 1e7])
def test_a_sharpness_that_overflows_is_refused(sharpness: float) -> None:
    X, Y, _ = toy()
    with pytest.raises(SettingsError, match=r"give a number from 0 and up to 1e\+06"):
        VectorKNN(sharpness=sharpness).fit(X, Y)
    assert np.isfinite(VectorKNN(sharpness=1e6).fit(X, Y).predict(X).data).all()


@pytest.mark.parametrize("model", ["vectorknn", "vectormatch"])
def test_terms_are_taken_for_vectors_with_a_warning(model: str, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing said that there were no sentence vectors."""
    texts, labels = ["red apple", "green pear"], [["apple"], ["pear"]]
    tagger = longtail.Tagger(model).fit(texts, labels)
    assert f"{model} is made for dense vectors, but without an encoder it gets TF-IDF features" in caplog.text
    caplog.clear()
    X = tagger.features(texts)
    data = longtail.Dataset(X, csr_array(np.eye(2, dtype=np.float32)), X)
    longtail.Tagger(model).fit_dataset(data)
    longtail.Tagger("blend([knn])").fit(texts, labels)
    assert "is made for dense vectors" not in caplog.text
    data.vectorizer = tagger.vectorizer_
    longtail.Tagger(model).fit_dataset(data)
    assert "is made for dense vectors" in caplog.text
