"""The checks before every algorithm, and the parameters that it keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix

import longtail
from longtail.errors import DataError, ModelError, SettingsError
from longtail.metrics import evaluate
from longtail.models.base import check_features, check_labels
from longtail.models.parabel import Parabel
from longtail.params import Integer
from tests.contract import toy
from tests.fake import Centroid


def test_good_features_are_used_in_place() -> None:
    X = csr_array(np.eye(3, dtype=np.float32))
    X.sum_duplicates()
    assert check_features(X) is X


def test_duplicate_entries_are_summed_and_order_is_mended() -> None:
    X = csr_array((np.array([1.0, 2.0, 3.0], np.float32), np.array([2, 0, 2]), np.array([0, 3])), shape=(1, 3))
    assert check_features(X).toarray().tolist() == [[2.0, 0.0, 4.0]]


def test_old_matrices_and_lists_are_taken() -> None:
    assert check_features(csr_matrix(np.eye(2))).dtype == np.float32
    assert check_features([[1, 0], [0, 2]]).toarray().tolist() == [[1, 0], [0, 2]]


@pytest.mark.parametrize("X", [[1, 2], [["a", "b"]], np.zeros((2, 2, 2))])
def test_what_is_not_a_matrix_of_numbers_is_refused(X: object) -> None:
    with pytest.raises((DataError, ValueError)):
        check_features(X)


def test_labels_become_ones_and_explicit_zeros_vanish() -> None:
    Y = csr_array((np.array([5.0, 0.0, 2.0]), np.array([0, 1, 2]), np.array([0, 2, 3])), shape=(2, 3))
    assert check_labels(Y, 2).toarray().tolist() == [[1, 0, 0], [0, 0, 1]]


def test_parameters_are_the_constructors_arguments() -> None:
    model = Parabel(n_trees=2)
    assert model.get_params()["n_trees"] == 2
    assert repr(model) == "Parabel(n_trees=2)"
    assert model.set_params(beam=5).beam == 5
    with pytest.raises(SettingsError, match="no parameter 'trees'"):
        model.set_params(trees=3)


def damaged(part: str) -> csr_array:
    """Make a matrix of which one array contradicts the others."""
    X = csr_array(np.array([[1, 0, 2], [0, 3, 0], [4, 0, 5]], np.float32))
    if part == "indptr decreases":
        X.indptr = np.array([0, 3, 2, 5], np.int32)
    elif part == "indptr starts late":
        X.indptr = X.indptr + 1
    elif part == "indptr ends late":
        X.indptr = np.array([0, 2, 3, 9], np.int32)
    elif part == "indptr is short":
        X.indptr = X.indptr[:-1]
    elif part == "index out of range":
        X.indices[3] = 7
    elif part == "index below zero":
        X.indices[1] = -1
    elif part == "counted from 1":
        X.indices += 1
    elif part == "too few indices":
        X.indices = X.indices[:-1]
    elif part == "indices are no numbers":
        X.indices = X.indices.astype(np.float64)
    return X


PARTS = {
    "indptr decreases": r"row 1: .* indptr that decreases",
    "indptr starts late": "indptr from 1",
    "indptr ends late": "to 9, but 5 stored values",
    "indptr is short": "3 rows, but its indptr has 3 entries",
    "index out of range": r"row 2: .* an index 7 outside 0\.\.2",
    "index below zero": r"row 0: .* an index -1 outside 0\.\.2",
    "counted from 1": r"an index 3 outside 0\.\.2.*subtract 1",
    "too few indices": "4 indices for 5 values",
    "indices are no numbers": "not whole numbers",
}


@pytest.mark.parametrize("part", PARTS)
def test_damaged_matrices_are_refused(part: str) -> None:
    good = csr_array(np.eye(3, dtype=np.float32))
    model = Centroid().fit(good, good)
    for name, use in {
        "X": lambda: Centroid().fit(damaged(part), good),
        "Y": lambda: Centroid().fit(good, damaged(part)),
        "label_features": lambda: Centroid().fit(good, good, label_features=damaged(part)),
        "X ": lambda: model.predict(damaged(part)),
        "X  ": lambda: Centroid().fit(good, good, validation=(damaged(part), good)),
    }.items():
        with pytest.raises(DataError, match=PARTS[part]) as error:
            use()
        assert f"{name.strip()} has" in str(error.value)


def test_other_sparse_formats_are_checked_too() -> None:
    columns = damaged("index out of range").T
    with pytest.raises(DataError, match="outside 0"):
        check_features(columns)
    coordinates = csr_array(np.eye(3)).tocoo()
    coordinates.coords[1][0] = 9
    with pytest.raises(DataError, match="outside 0"):
        check_features(coordinates)


def test_room_to_grow_is_cut_off() -> None:
    X = csr_array(np.eye(2, dtype=np.float32))
    X.data, X.indices = np.append(X.data, np.nan).astype(np.float32), np.append(X.indices, 99).astype(np.int32)
    assert check_features(X).toarray().tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    "Y", [[[0, 2], [1, 3]], [[1], [0, 2]], [["a"], ["b"]], ["a", "b"], [["a"], ["b", "c"]], [3, 4]]
)
def test_lists_of_labels_get_the_remedy(Y: Any) -> None:
    with pytest.raises(DataError, match=r"Tagger.*MultiLabelBinarizer\(sparse_output=True\)"):
        Centroid().fit(np.eye(2), Y)


def test_a_dense_list_of_zeros_and_ones_is_a_matrix() -> None:
    assert check_labels([[0, 1], [1, 0]], 2).toarray().tolist() == [[0, 1], [1, 0]]
    assert check_labels(np.array([[0, 3], [2, 0]]), 2).toarray().tolist() == [[0, 1], [1, 0]]


def test_another_number_of_features_is_said_once() -> None:
    X, Y, _ = toy()
    with pytest.raises(DataError) as error:
        Centroid().fit(X, Y).predict(X[:, :-1])
    message = "X has 59 features, but Centroid is expecting 60 features as input. "
    assert str(error.value) == message + "Use the vectoriser (or feature order) of the training data."


class Narrow(Centroid):
    kind: ClassVar[str] = "narrow"
    _constraints: ClassVar = {"sharpness": Integer(1, 9)}


def test_settings_that_change_after_fit_are_checked_again() -> None:
    X, Y, _ = toy()
    model = Narrow(sharpness=2).fit(X, Y)
    point = X.indices[: X.indptr[1]], X.data[: X.indptr[1]]
    for wrong in (0, 10, np.zeros(3), "2"):
        model.sharpness = wrong  # type: ignore[assignment]
        for use in (lambda: model.predict(X), lambda: model.rank(*point)):
            with pytest.raises(SettingsError, match="sharpness is"):
                use()
    assert model.set_params(sharpness=9).predict(X).nnz


def test_the_best_model_of_a_search_can_be_saved(tmp_path: Path) -> None:
    from sklearn.model_selection import GridSearchCV

    X, Y, _ = toy()
    grid = {"n_trees": np.array([1, 2]), "cost": np.array([0.5, 1.0], np.float32), "n_jobs": [1]}
    search = GridSearchCV(Parabel(), grid, cv=2).fit(X, Y)
    search.best_estimator_.save(tmp_path / "best")
    loaded = longtail.load(tmp_path / "best")
    assert loaded.n_trees == search.best_params_["n_trees"]  # type: ignore[union-attr]
    np.testing.assert_array_equal(loaded.predict(X).toarray(), search.predict(X).toarray())


class Frame:
    """What a data frame has in common with every other: columns with names, and an array."""

    def __init__(self, values: np.ndarray, columns: list[Any]) -> None:
        self.values, self.columns = values, columns

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.values


def test_names_of_features_are_kept_and_compared(tmp_path: Path) -> None:
    pytest.importorskip("polars")
    import polars

    values, names = np.eye(3), ["a", "b", "c"]
    for frame in (Frame(values, names), polars.DataFrame(values, schema=names)):
        model: Any = Parabel(n_trees=1).fit(frame, np.eye(3))
        assert model.feature_names_in_.tolist() == names
        model.save(tmp_path / "m")
        loaded: Any = longtail.load(tmp_path / "m")
        for one in (model, loaded):
            assert one.predict(frame).shape == (3, 3)
            with pytest.raises(DataError, match="same order"):
                one.predict(Frame(values, ["b", "a", "c"]))
            with pytest.raises(DataError, match=r"unseen at fit time:\n- d\nFeature names seen .* missing:\n- c"):
                one.predict(Frame(values, ["a", "b", "d"]))
            with pytest.warns(UserWarning, match="does not have valid feature names, but Parabel was fitted with"):
                one.predict(values)
    model.fit(values, np.eye(3))
    assert not hasattr(model, "feature_names_in_")
    with pytest.warns(UserWarning, match="X has feature names, but Parabel was fitted without"):
        model.predict(frame)
    assert not hasattr(Parabel(n_trees=1).fit(Frame(values, [0, 1, 2]), np.eye(3)), "feature_names_in_")
    with pytest.raises(DataError, match="with and without a name"):
        Parabel().fit(Frame(values, ["a", 1, 2]), np.eye(3))


def test_not_fitted_is_the_error_of_scikit_learn_too() -> None:
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError) as error:
        Parabel().predict(np.eye(2))
    assert isinstance(error.value, ModelError)


def test_labels_with_long_indices_are_shortened() -> None:
    Y = csr_array(np.eye(4, dtype=np.float32))
    Y.indices, Y.indptr = Y.indices.astype(np.int64), Y.indptr.astype(np.int64)
    checked = check_labels(Y, 4)
    assert checked.indices.dtype == checked.indptr.dtype == np.int32
    assert (checked != Y).nnz == 0


def test_a_subclass_that_could_not_be_loaded_is_not_saved(tmp_path: Path) -> None:
    class Extended(Parabel):
        def __init__(self, extra: int = 1, cost: float = 1.0) -> None:
            super().__init__(n_trees=1, cost=cost)
            self.extra = extra

    class Renamed(Parabel):
        """The same parameters, and so a folder that is read as Parabel."""

    X, Y = toy()[:2]
    with pytest.raises(ModelError, match=r"Extended cannot be saved.*read as Parabel.*beam, .*extra"):
        Extended().fit(X, Y).save(tmp_path / "m")
    assert not list(tmp_path.iterdir())
    Renamed(n_trees=1, cost=1.0).fit(X, Y).save(tmp_path / "m")
    assert type(longtail.load(tmp_path / "m")) is Parabel


def test_a_fit_that_fails_leaves_the_old_model_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes of a fit that never finished led kernels out of their arrays."""
    X, Y, _ = toy()
    model: Any = longtail.make("knn").fit(X, Y)
    before = model.predict(X).toarray()
    wide = csr_array(np.eye(400, 500, dtype=np.float32))
    monkeypatch.setattr("longtail.engine.memory._limit_bytes", 1)
    for unfinished in (model, longtail.make("knn")):
        with pytest.raises(SettingsError, match="memory"):
            unfinished.fit(wide, wide)
    monkeypatch.undo()
    np.testing.assert_array_equal(model.predict(X).toarray(), before)
    with pytest.raises(DataError, match="60 features"):
        model.predict(wide)
    unfinished = longtail.make("knn")
    with pytest.raises(DataError):
        unfinished.fit(X, Y[:5])
    with pytest.raises(ModelError, match="fit"):
        unfinished.predict(X)


def test_indices_changed_after_a_fit_are_looked_at_again() -> None:
    """SciPy keeps on a matrix that its rows were sorted."""
    X, Y, _ = toy()
    assert Y.has_canonical_format
    Y.indices = np.random.default_rng(0).permutation(24)[Y.indices].astype(np.int32)
    X.indices[0] = X.indices[1]
    for matrix, checked in ((X, check_features(X)), (Y, check_labels(Y, X.shape[0]))):
        fresh = csr_array((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)
        np.testing.assert_array_equal(checked.toarray(), fresh.toarray())
        assert csr_array((checked.data, checked.indices, checked.indptr), shape=checked.shape).has_canonical_format


ODD_ARRAYS: dict[str, Any] = {
    "data of two dimensions": lambda X: vars(X).update(data=X.data[:, None]),
    "data is a list": lambda X: vars(X).update(data=X.data.tolist()),
    "indices are a list": lambda X: vars(X).update(indices=X.indices.tolist()),
    "no data": lambda X: vars(X).update(data=None),
    "masked data": lambda X: vars(X).update(data=np.ma.masked_array(X.data, X.data > 0)),
    "objects": lambda X: vars(X).update(data=X.data.astype(object)),
    "words": lambda X: vars(X).update(data=X.data.astype("U5")),
    "records": lambda X: vars(X).update(data=np.zeros(len(X.data), [("a", "f4")])),
}


@pytest.mark.parametrize("how", ODD_ARRAYS)
def test_arrays_that_are_no_vectors_of_numbers_are_refused(how: str) -> None:
    X = csr_array(np.eye(3, dtype=np.float32))
    ODD_ARRAYS[how](X)
    for use in (check_features, lambda Y: check_labels(Y, 3), lambda Y: evaluate(Y, csr_array(np.eye(3)))):
        with pytest.raises(DataError, match=r"no plain vector|not numbers"):
            use(X)


@pytest.mark.parametrize("kind", ["<f2", ">f4", "?", "u1"])
@pytest.mark.parametrize("numbers", ["u8", ">i4", "i2", "i8"])
def test_other_types_of_numbers_are_taken(kind: str, numbers: str) -> None:
    expected = [[1, 0, 1], [0, 1, 0], [0, 0, 1]]
    X = csr_array((np.ones(5, kind), np.array([2, 0, 2, 1, 2]), np.array([0, 3, 4, 5])), shape=(3, 3))
    X.indices = X.indices.astype(numbers)
    assert (check_features(X).toarray() > 0).astype(int).tolist() == expected
    assert check_labels(X, 3).toarray().tolist() == expected
    assert evaluate(X, csr_array(np.array(expected) / 2), ks=(1,))["P@1"] == 100


def test_a_matrix_wider_than_32_bits_is_refused_by_metrics() -> None:
    wide = csr_array((np.ones(1), np.array([2**32]), np.array([0, 1])), shape=(1, 2**33))
    with pytest.raises(DataError, match="more than 2,147,483,647"):
        evaluate(wide, wide)


@pytest.mark.parametrize(
    ("expression", "changed"),
    [
        ("taug(popular)", {"preset": "paper"}),
        ("glas(epochs=1, dim=8)", {"dim": 12}),
        ("mnn(epochs=1, dim=8)", {"dim": 12}),
        ("mnn(epochs=1, dim=8, scoring='knn')", {"scoring": "cosine"}),
    ],
)
def test_settings_of_the_fit_hold_for_what_was_fitted_with_them(expression: str, changed: dict[str, Any]) -> None:
    X, Y, _ = toy()
    model: Any = longtail.make(expression).fit(X, Y)
    model.set_params(**changed)
    if hasattr(model, "partial_fit"):
        model.partial_fit(X[:40], Y[:40])
    assert model.predict(X).nnz
