"""What every ranker must do, whatever its algorithm. The test of a ranker subclasses this and defines how to make one.

Most tests share one model per class, fitted once to the toy data: they may not change it.
"""

from __future__ import annotations

import contextlib
import copy
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
    """Make points, labels and label text with a known answer: a point has the features of its labels and some noise."""
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
    needs_text = False  # True for a ranker that cannot be fitted without label text
    _shared: tuple[Ranker, csr_array, csr_array] | None = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._shared = None  # one model per class, not that of a parent

    def make(self, **params: object) -> Ranker:
        raise AssertionError("define make")

    def text(self, n_labels: int, n_features: int = D) -> csr_array | None:
        """Return label text for a ranker that needs it, and None for the others."""
        return csr_array(np.eye(n_labels, n_features, dtype=np.float32)) if self.needs_text else None

    def fitted(self) -> tuple[Ranker, csr_array, csr_array]:
        """Return the model of this class with the points and labels that it was fitted to; fit it the first time."""
        cls = type(self)
        if cls._shared is None:
            cls._shared = self.freshly_fitted()
        return cls._shared

    def freshly_fitted(self) -> tuple[Ranker, csr_array, csr_array]:
        """Fit a model for one test that changes it or compares two of them."""
        X, Y, Z = toy()
        return self.make().fit(X, Y, label_features=Z), X, Y

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
        (one, X, _), (two, _, _) = self.fitted(), self.freshly_fitted()
        np.testing.assert_array_equal(one.predict(X).toarray(), two.predict(X).toarray())

    def test_fitting_again_forgets_the_first_time(self) -> None:
        kept, X, Y = self.fitted()
        before = kept.predict(X).toarray()
        model = pickle.loads(pickle.dumps(kept))
        other_X, other_Y, _ = toy(seed=5, n=80, n_labels=9)
        model.fit(other_X, other_Y, label_features=self.text(9))
        assert model.predict(other_X).shape == (80, 9)
        model.fit(X, Y, label_features=toy()[2])
        np.testing.assert_array_equal(model.predict(X).toarray(), before)

    def test_a_fit_that_is_interrupted_leaves_the_model_as_it_was(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kept, X, _ = self.fitted()
        model, before = pickle.loads(pickle.dumps(kept)), kept.predict(X).toarray()
        fit = type(model)._fit

        def interrupted(self: Ranker, *data: object) -> None:
            fit(self, *data)  # type: ignore[arg-type]
            raise KeyboardInterrupt

        monkeypatch.setattr(type(model), "_fit", interrupted)
        other_X, other_Y, _ = toy(seed=5, n=80, n_labels=9)
        with pytest.raises(KeyboardInterrupt):
            model.fit(other_X, other_Y, label_features=self.text(9))
        monkeypatch.undo()
        np.testing.assert_array_equal(model.predict(X).toarray(), before)

    def test_learning_further_changes_nothing_that_a_copy_shares(self) -> None:
        """What learns further on a copy leaves the model as it was when it is interrupted."""
        kept, X, Y = self.fitted()
        model, before = pickle.loads(pickle.dumps(kept)), kept.predict(X).toarray()
        wider = csr_array((Y.data, (Y.indices + 5) % (L + 5), Y.indptr), shape=(N, L + 5))
        for name, data in (("partial_fit", (X, wider)), ("add_labels", (csr_array(np.eye(5, D, dtype=np.float32)),))):
            other = copy.copy(model)
            if hasattr(other, name):
                with contextlib.suppress(ModelError):  # without label text no label can be added
                    assert getattr(other, name)(*data).predict(X).shape == (N, L + 5)
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
        kept, X, Y = self.fitted()
        expected = kept.predict(X).toarray()
        # Every form passes through the same check, which tests/models/test_base.py compares form by form.
        mixed = self.make().fit(X.toarray(), Y.tocsc(), label_features=toy()[2].astype(np.float64))
        np.testing.assert_allclose(mixed.predict(X.tocoo()).toarray(), expected, rtol=1e-5)
        for form in (X.toarray(), X.tocsc(), X.astype(np.float64)):
            np.testing.assert_allclose(kept.predict(form).toarray(), expected, rtol=1e-5)

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
            assert path.is_dir() or path.suffix in {".json", ".npy"} or path.name == "README.md"
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
        assert self.make().fit(X, wide, label_features=self.text(L + 9)).predict(X, 40).shape == (N, L + 9)
        one = csr_array(Y[:, :1])
        assert self.make().fit(X, one, label_features=self.text(1)).predict(X, 3).shape == (N, 1)

    def test_prediction_of_no_points(self) -> None:
        model, X, _ = self.fitted()
        assert model.predict(X[:0]).shape == (0, L)

    @pytest.mark.parametrize("k", [0, -1, 2.5, "3"])
    def test_a_k_that_cannot_be_is_refused(self, k: object) -> None:
        model, X, _ = self.fitted()
        with pytest.raises(SettingsError, match="k is"):
            model.predict(X, k)  # type: ignore[arg-type]

    @pytest.mark.parametrize("k", [0, -1, 2.5, "3", True])
    def test_such_a_k_is_refused_for_one_point_too(self, k: object) -> None:
        model, X, _ = self.fitted()
        with pytest.raises(SettingsError, match="k is"):
            model.rank(X.indices[: X.indptr[1]], X.data[: X.indptr[1]], k)  # type: ignore[arg-type]

    def test_a_point_is_checked_as_a_matrix_is(self) -> None:
        model, _, _ = self.fitted()
        ones = np.ones(2, np.float32)
        for indices in ([2**32 + 1, 3], [-1, 3], [3, D], [1.7, 3.0]):
            with pytest.raises(DataError, match=r"outside 0|not whole numbers"):
                model.rank(np.array(indices), ones)
        with pytest.raises(DataError, match="NaN"):
            model.rank(np.array([1, 3]), np.array([1.0, np.nan]))
        with pytest.raises(DataError, match="same length"):
            model.rank(np.array([1, 3]), np.ones(3))
        twice = csr_array((np.ones(3, np.float32), np.array([9, 4, 9]), np.array([0, 3])), shape=(1, D))
        expected = model.predict(twice, 4)  # sorted, and entries of the same feature added
        labels, scores = model.rank(np.array([9, 4, 9]), np.ones(3), 4)
        np.testing.assert_array_equal(labels, expected.indices)
        np.testing.assert_allclose(scores, expected.data, rtol=1e-6)

    def test_bad_matrices_are_refused_clearly(self) -> None:
        X, Y, Z = toy()
        model, _, _ = self.fitted()
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
            model.predict(X[:, :-1])
        with pytest.raises(DataError, match="outside 0"):
            model.rank(np.array([D], np.int32), np.array([1.0], np.float32))
        damaged, text, labels = X.copy(), Z.copy(), Y.copy()
        damaged.indices[damaged.indptr[7]] = D
        text.indices[3], labels.indices[5] = -1, L
        for use in (
            lambda: model.predict(damaged),
            lambda: self.make().fit(damaged, Y),
            lambda: self.make().fit(X, labels),
            lambda: self.make().fit(X, Y, label_features=text),
        ):
            with pytest.raises(DataError, match="outside 0"):
                use()

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
        scores = self.make().fit(X, Y, label_features=self.text(12, 15)).predict(X, 4)
        assert np.isfinite(scores.data).all()
