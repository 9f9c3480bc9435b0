"""What every ranker must do, whatever its algorithm. A ranker's test subclasses this and says how to make one."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

import longtail
from longtail.errors import DataError, LongtailError, ModelError, SettingsError
from longtail.metrics import evaluate
from longtail.models.base import Ranker

N, D, L = 300, 60, 24


def toy(seed: int = 0, n: int = N, n_labels: int = L) -> tuple[csr_array, csr_array, csr_array]:
    """Points, labels and label text with a known answer: a point has the features of its labels, and some noise."""
    rng = np.random.default_rng(seed)
    dense = np.zeros((n, D), np.float32)
    labels = np.zeros((n, n_labels), np.float32)
    for i in range(n):
        for label in rng.choice(n_labels, 1 + rng.integers(3), replace=False):
            labels[i, label] = 1
            dense[i, [2 * label % D, (2 * label + 1) % D]] += 1
        dense[i, rng.integers(D, size=2)] += 0.3
    dense /= np.linalg.norm(dense, axis=1, keepdims=True)
    text = np.zeros((n_labels, D), np.float32)
    text[np.arange(n_labels), 2 * np.arange(n_labels) % D] = 1
    return csr_array(dense), csr_array(labels), csr_array(text)


class RankerContract:
    """Subclass it, and define `make`."""

    learns = True  # False for a baseline that looks at labels alone
    exact_rows = True  # a row alone equals that row of a batch to the last bit

    def make(self, **params: object) -> Ranker:
        raise AssertionError("define make")

    def fitted(self, **params: object) -> tuple[Ranker, csr_array, csr_array]:
        X, Y, Z = toy()
        return self.make(**params).fit(X, Y, label_features=Z), X, Y

    def test_learns_the_toy(self) -> None:
        model, _, _ = self.fitted()
        X, Y, _ = toy(seed=1)
        if self.learns:
            assert evaluate(Y, model.predict(X, 1), ks=(1,))["P@1"] > 90

    def test_scores_are_a_sorted_csr_in_the_unit_interval(self) -> None:
        model, X, _ = self.fitted()
        for k in (1, 3, L, L + 7):
            scores = model.predict(X, k)
            assert isinstance(scores, csr_array)
            assert scores.shape == (N, L)
            assert scores.dtype == np.float32
            assert np.diff(scores.indptr).max() <= min(k, L)
            assert ((scores.data > 0) & (scores.data < 1)).all()
            for i in range(N):
                row = slice(scores.indptr[i], scores.indptr[i + 1])
                assert (np.diff(scores.data[row]) <= 0).all()
                assert len(set(scores.indices[row])) == row.stop - row.start

    def test_fewer_labels_are_the_head_of_more(self) -> None:
        model, X, _ = self.fitted()
        few, many = model.predict(X[:50], 2), model.predict(X[:50], 6)
        for i in range(50):
            assert (
                few.indices[few.indptr[i] : few.indptr[i + 1]].tolist()
                == (many.indices[many.indptr[i] : many.indptr[i + 1]][:2]).tolist()
            )

    def test_a_row_alone_equals_that_row_of_a_batch(self) -> None:
        model, X, _ = self.fitted()
        batch = model.predict(X, 5)
        for i in (0, 7, N - 1):
            alone = model.predict(X[i : i + 1], 5)
            row = slice(batch.indptr[i], batch.indptr[i + 1])
            np.testing.assert_array_equal(alone.indices, batch.indices[row])
            np.testing.assert_allclose(alone.data, batch.data[row], rtol=0 if self.exact_rows else 1e-5)
            labels, scores = model.rank(X.indices[X.indptr[i] : X.indptr[i + 1]], X.data[X.indptr[i] : X.indptr[i + 1]])
            np.testing.assert_array_equal(labels, alone.indices)
            np.testing.assert_allclose(scores, alone.data, rtol=1e-6)

    def test_the_same_seed_gives_the_same_model(self) -> None:
        (one, X, _), (two, _, _) = self.fitted(), self.fitted()
        np.testing.assert_array_equal(one.predict(X).toarray(), two.predict(X).toarray())

    def test_fitting_again_forgets_the_first_time(self) -> None:
        model, X, Y = self.fitted()
        before = model.predict(X).toarray()
        other_X, other_Y, _ = toy(seed=5, n=80, n_labels=9)
        model.fit(other_X, other_Y)
        assert model.predict(other_X).shape == (80, 9)
        model.fit(X, Y, label_features=toy()[2])
        np.testing.assert_array_equal(model.predict(X).toarray(), before)

    def test_input_is_not_changed(self) -> None:
        X, Y, Z = toy()
        kept = [(m.data.copy(), m.indices.copy(), m.indptr.copy()) for m in (X, Y, Z)]
        self.make().fit(X, Y, label_features=Z).predict(X)
        for matrix, (data, indices, indptr) in zip((X, Y, Z), kept, strict=True):
            np.testing.assert_array_equal(matrix.data, data)
            np.testing.assert_array_equal(matrix.indices, indices)
            np.testing.assert_array_equal(matrix.indptr, indptr)

    def test_dense_and_other_sparse_input_is_taken(self) -> None:
        X, Y, Z = toy()
        expected = self.make().fit(X, Y, label_features=Z).predict(X).toarray()
        for turn in (lambda m: m.toarray(), lambda m: m.tocsc(), lambda m: m.astype(np.float64)):
            model = self.make().fit(turn(X), turn(Y), label_features=turn(Z))
            np.testing.assert_allclose(model.predict(turn(X)).toarray(), expected, rtol=1e-5)

    def test_saved_and_loaded_predicts_the_same(self, tmp_path) -> None:  # type: ignore[no-untyped-def]
        model, X, _ = self.fitted()
        model.save(tmp_path / "model")
        loaded = longtail.load(tmp_path / "model")
        assert type(loaded) is type(model)
        assert json.dumps(loaded.get_params(), default=repr) == json.dumps(model.get_params(), default=repr)
        np.testing.assert_array_equal(loaded.predict(X).toarray(), model.predict(X).toarray())
        loaded.save(tmp_path / "model")  # over itself, while its arrays are mapped
        np.testing.assert_array_equal(
            longtail.load(tmp_path / "model").predict(X).toarray(), model.predict(X).toarray()
        )
        assert [p.name for p in tmp_path.iterdir()] == ["model"]

    def test_the_folder_holds_json_and_plain_arrays_only(self, tmp_path) -> None:  # type: ignore[no-untyped-def]
        model, _, _ = self.fitted()
        model.save(tmp_path / "model")
        for path in (tmp_path / "model").rglob("*"):
            assert path.is_dir() or path.suffix in {".json", ".npy"}
            if path.suffix == ".npy":
                np.load(path, allow_pickle=False)

    def test_scikit_learn_clones_it(self) -> None:
        from sklearn.base import clone

        model = self.make()
        copy = clone(model)
        assert copy is not model
        assert repr(copy) == repr(model)
        assert type(model)(**model.get_params(deep=False)).get_params().keys() == model.get_params().keys()

    def test_it_can_be_sent_to_another_process(self) -> None:
        model, X, _ = self.fitted()
        np.testing.assert_array_equal(
            pickle.loads(pickle.dumps(model)).predict(X).toarray(), model.predict(X).toarray()
        )

    def test_points_without_features_or_labels_have_defined_answers(self) -> None:
        X, Y, Z = toy()
        X, Y = X.tolil(), Y.tolil()
        X[3], Y[5] = 0, 0
        model = self.make().fit(csr_array(X), csr_array(Y), label_features=Z)
        scores = model.predict(csr_array((2, D), dtype=np.float32))
        assert scores.shape == (2, L)
        assert np.isfinite(scores.data).all()
        labels, _ = model.rank(np.empty(0, np.int32), np.empty(0, np.float32))
        np.testing.assert_array_equal(labels, scores.indices[: scores.indptr[1]])

    def test_labels_without_points_and_a_single_label(self) -> None:
        X, Y, _ = toy()
        wide = csr_array((Y.data, Y.indices, Y.indptr), shape=(N, L + 9))
        assert self.make().fit(X, wide).predict(X, 40).shape == (N, L + 9)
        one = csr_array(Y[:, :1])
        assert self.make().fit(X, one).predict(X, 3).shape == (N, 1)

    def test_prediction_of_no_points(self) -> None:
        model, X, _ = self.fitted()
        assert model.predict(X[:0]).shape == (0, L)

    @pytest.mark.parametrize("k", [0, -1, 2.5, "3"])
    def test_a_k_that_cannot_be_is_refused(self, k: object) -> None:
        model, X, _ = self.fitted()
        with pytest.raises(SettingsError, match="k is"):
            model.predict(X, k)  # type: ignore[arg-type]

    def test_bad_matrices_are_refused_clearly(self) -> None:
        X, Y, Z = toy()
        nan = X.copy()
        nan.data[nan.indptr[4]] = np.nan
        with pytest.raises(DataError, match=r"row 4.*NaN"):
            self.make().fit(nan, Y)
        with pytest.raises(DataError, match="rows"):
            self.make().fit(X[:-1], Y)
        with pytest.raises(DataError, match="no label at all"):
            self.make().fit(X, csr_array((N, L), dtype=np.float32))
        with pytest.raises(DataError, match="label_features"):
            self.make().fit(X, Y, label_features=Z[:, :-1])
        with pytest.raises(DataError, match="features"):
            self.make().fit(X, Y).predict(X[:, :-1])
        with pytest.raises(DataError, match="outside 0"):
            self.make().fit(X, Y).rank(np.array([D], np.int32), np.array([1.0], np.float32))

    def test_an_unfitted_model_says_so(self, tmp_path) -> None:  # type: ignore[no-untyped-def]
        X, _, _ = toy()
        with pytest.raises(ModelError, match="fit"):
            self.make().predict(X)
        with pytest.raises(ModelError, match="fit"):
            self.make().save(tmp_path / "model")
        assert not (tmp_path / "model").exists()

    def test_errors_are_value_errors(self) -> None:
        assert issubclass(LongtailError, ValueError)

    def test_random_matrices_do_not_break_it(self) -> None:
        rng = np.random.default_rng(3)
        X = csr_array(random_array((40, 15), density=0.2, rng=rng, dtype=np.float32))
        X.data -= 0.5  # features may be negative
        Y = csr_array(random_array((40, 12), density=0.1, rng=rng))
        scores = self.make().fit(X, Y).predict(X, 4)
        assert np.isfinite(scores.data).all()
