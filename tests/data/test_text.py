"""TextVectorizer against scikit-learn's TfidfVectorizer, and what it adds."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import (
    check_estimator_repr,
    check_get_params_invariance,
    check_no_attributes_set_in_init,
    check_parameters_default_constructible,
    check_set_params,
)
from sklearn.utils.validation import check_is_fitted

from longtail.data import vocabulary
from longtail.data.text import TextVectorizer
from longtail.errors import DataError, ModelError, SettingsError
from longtail.models.bonsai import Bonsai

# Few letters, so that words repeat, with the difficult ones among them: letters that change length in lower case, the
# sigma whose lower case depends on its place, combining marks, digits beyond ASCII, surrogates, the separator itself.
LETTERS = "abAB_1  ,.éÉßẞΣσΑʼ'İIiıKȺ漢字́²٣𝐀𝔸\U00010400\ud800\x00\n\u00ad"
TEXTS = st.lists(
    st.one_of(st.text(LETTERS, max_size=30), st.text(max_size=20), st.sampled_from(["", "the fox", "ΟΔΥΣΣΕΥΣ"])),
    min_size=1,
    max_size=8,
)
SETTINGS = st.fixed_dictionaries(
    {
        "ngrams": st.sampled_from([1, 2, (1, 2), (1, 3), (2, 3)]),
        "min_length": st.integers(1, 3),
        "min_df": st.sampled_from([1, 2, 0.3]),
        "max_df": st.sampled_from([1.0, 0.7, 4]),
        "sublinear_tf": st.booleans(),
        "idf": st.booleans(),
    }
)


def peer(*, ngrams: Any = 1, min_length: int = 2, idf: bool = True, **same: Any) -> TfidfVectorizer:
    """scikit-learn's vectorizer with the same settings."""
    pattern = r"(?u)\b" + r"\w" * min_length + r"\w*\b"
    ngrams = (ngrams, ngrams) if isinstance(ngrams, int) else ngrams
    return TfidfVectorizer(ngram_range=ngrams, token_pattern=pattern, use_idf=idf, **same)


def assert_same(ours: csr_array, theirs: Any) -> None:
    theirs = csr_array(theirs)
    theirs.sort_indices()
    assert ours.shape == theirs.shape
    np.testing.assert_array_equal(ours.indptr, theirs.indptr)
    np.testing.assert_array_equal(ours.indices, theirs.indices)
    np.testing.assert_allclose(ours.data, theirs.data, rtol=1e-6)


def assert_form(X: csr_array) -> None:
    """What every model may rely on."""
    assert isinstance(X, csr_array)
    assert (X.data.dtype, X.indices.dtype, X.indptr.dtype) == (np.float32, np.int32, np.int32)
    fresh = csr_array((X.data, X.indices, X.indptr), shape=X.shape)
    assert fresh.has_canonical_format
    lengths = np.sqrt(X.multiply(X).sum(axis=1))[np.diff(X.indptr) > 0]
    np.testing.assert_allclose(lengths, 1, rtol=1e-5)


@settings(max_examples=250, deadline=None)
@given(TEXTS, TEXTS, SETTINGS)
@example(["ΑΣ", "ΑΣ\0Α ΑΣΑ Σ"], ["ας"], {"min_length": 1})
@example(["İstanbul K ȺȺ"], ["i̇stanbul k"], {"min_length": 1})
def test_equals_scikit_learn(train: list[str], test: list[str], params: dict[str, Any]) -> None:
    sklearn = peer(**params)
    ours = TextVectorizer(analyzer="word", **params)
    try:
        expected = sklearn.fit_transform(train)
    except ValueError:  # no terms, or none left
        with pytest.raises((DataError, SettingsError)):
            ours.fit_transform(train)
        return
    X = ours.fit_transform(train)
    assert list(ours.get_feature_names_out()) == list(sklearn.get_feature_names_out())
    assert_same(X, expected)
    assert_same(ours.transform(test), sklearn.transform(test))
    assert_same(TextVectorizer(analyzer="word", **params).fit(train).transform(train), expected)
    assert_form(X)
    if params.get("idf", True):
        np.testing.assert_allclose(ours.idf_, sklearn.idf_, rtol=1e-6)


@pytest.mark.parametrize(("name", "limit"), [("debian-packages", 20_000), ("eurlex57k", 500)])
def test_equals_scikit_learn_on_real_text(name: str, limit: int, shared_data: Callable[[str], Path]) -> None:
    with gzip.open(shared_data(name) / "trn.json.gz", "rt", encoding="utf-8") as lines:
        points = [json.loads(line) for line, _ in zip(lines, range(limit), strict=False)]
    texts = [f"{point['title']} {point.get('content', '')}" for point in points]
    ours, sklearn = TextVectorizer(sublinear_tf=True, ngrams=(1, 2)), peer(sublinear_tf=True, ngrams=(1, 2))
    assert_same(ours.fit_transform(texts), sklearn.fit_transform(texts))
    assert list(ours.get_feature_names_out()) == list(sklearn.get_feature_names_out())


@pytest.fixture
def tiny_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary, "BLOCK_CHARACTERS", 40)


WORDS = ["fox", "Hund", "größe", "ΣΑΣ", "漢字", "the", "naïve", "x1", "under_score"]


def some_texts(n: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(0, 9))) for _ in range(n)]


@pytest.mark.usefixtures("tiny_blocks")
@pytest.mark.parametrize("hashing", [None, 64])
def test_threads_and_blocks_do_not_change_the_result(hashing: int | None) -> None:
    train, labels, test = some_texts(200, 0), [*some_texts(50, 1), "only here"], some_texts(100, 2)
    params: dict[str, Any] = {"hashing": hashing, "ngrams": (1, 2), "max_features": 30, "sublinear_tf": True}
    one, many = TextVectorizer(**params, n_jobs=1), TextVectorizer(**params, n_jobs=5)
    X = one.fit_transform(train, label_texts=labels)
    for other in (many.fit_transform(train, label_texts=labels), many.fit(train, label_texts=labels).transform(train)):
        for part in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(getattr(X, part), getattr(other, part))
    batch = many.transform(test)
    for row, text in enumerate(test):
        single = one.transform([text])
        assert_form(single)
        np.testing.assert_array_equal(single.indices, batch[[row]].indices)
        np.testing.assert_array_equal(single.data, batch[[row]].data)


def test_label_texts_extend_the_vocabulary_and_leave_idf_alone() -> None:
    documents = ["red fox", "red red dog", "grey dog"]
    alone = TextVectorizer().fit(documents)
    both = TextVectorizer().fit(documents, label_texts=["red panda", "panda"])
    assert list(both.get_feature_names_out()) == ["dog", "fox", "grey", "panda", "red"]
    idf = dict(zip(both.get_feature_names_out(), both.idf_, strict=True))
    expected = dict(zip(alone.get_feature_names_out(), alone.idf_, strict=True))
    assert {term: idf[term] for term in expected} == expected
    assert idf["panda"] == pytest.approx(np.log(4 / 1) + 1)
    assert idf["panda"] == max(idf.values())
    assert both.transform(["panda"]).nnz == 1


def test_min_df_spares_label_terms_and_max_df_does_not() -> None:
    vectorizer = TextVectorizer(min_df=2, max_df=0.9)
    vectorizer.fit(["the red fox", "the red dog", "the cat"], label_texts=["the cat", "panda"])
    assert list(vectorizer.get_feature_names_out()) == ["cat", "panda", "red"]


def test_max_features_keeps_the_most_frequent_then_the_first() -> None:
    vectorizer = TextVectorizer(max_features=3)
    X = vectorizer.fit_transform(["bb bb bb aa dd", "cc dd zz"], label_texts=["zz zz"])
    assert list(vectorizer.get_feature_names_out()) == ["bb", "dd", "zz"]
    np.testing.assert_array_equal(X.toarray() > 0, [[True, True, False], [False, True, True]])
    ties = TextVectorizer(max_features=2).fit(["dd cc bb aa"])
    assert list(ties.get_feature_names_out()) == ["aa", "bb"]


@settings(max_examples=50, deadline=None)
@given(TEXTS, st.booleans())
def test_hashing_without_collisions_is_a_renumbering(texts: list[str], idf: bool) -> None:
    named, hashed = TextVectorizer(idf=idf), TextVectorizer(idf=idf, hashing=2**16 + 1)
    try:
        X = named.fit_transform(texts)
    except DataError:
        assume(False)
    H = hashed.fit_transform(texts)
    assert_form(H)
    assert H.shape == (len(texts), hashed.hashing)
    columns = [hashed.transform([term]).indices[0] for term in named.get_feature_names_out()]
    assume(len(set(columns)) == len(columns))
    np.testing.assert_allclose(H[:, columns].toarray(), X.toarray(), rtol=1e-6)


def test_hashing_sums_terms_that_meet() -> None:
    vectorizer = TextVectorizer(hashing=1)
    X = vectorizer.fit_transform(["one two", "", "three"])
    np.testing.assert_array_equal(X.toarray(), [[1], [0], [1]])
    assert vectorizer.n_features_ == 1
    with pytest.raises(ModelError, match="names"):
        vectorizer.get_feature_names_out()


@pytest.mark.parametrize("params", [{}, {"ngrams": (1, 2), "sublinear_tf": True}, {"hashing": 128}, {"idf": False}])
def test_arrays_bring_it_back(params: dict[str, Any], tmp_path: Path) -> None:
    texts = some_texts(60, 3)
    vectorizer = TextVectorizer(**params, min_df=np.int64(2)).fit(texts, label_texts=["größe ZZ", "Ωmega"])
    meta, arrays = vectorizer.to_arrays()
    (tmp_path / "meta.json").write_text(json.dumps(meta))
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    meta = json.loads((tmp_path / "meta.json").read_text())
    loaded = TextVectorizer.from_arrays(
        meta, {name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in arrays}
    )
    assert loaded.get_params() == vectorizer.get_params()
    test = [*some_texts(30, 4), "zz ωmega"]
    expected, got = vectorizer.transform(test), loaded.transform(test)
    for part in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(got, part), getattr(expected, part))
    np.testing.assert_array_equal(loaded.transform(test[:1]).data, expected[[0]].data)


@pytest.mark.parametrize(
    "change",
    [
        {"offsets": np.array([0, 4, 1 << 40])},
        {"offsets": np.array([0, 4, (1 << 63) - 1])},
        {"offsets": np.array([0, 4, 2])},
        {"offsets": np.array([0, 3])},
        {"offsets": np.array([0, 3, 6], np.int32)},
        {"idf": np.ones(1, np.float32)},
        {"terms": np.frombuffer(b"dogfox", np.uint8)},
    ],
)
def test_refuses_arrays_that_do_not_fit(change: dict[str, np.ndarray]) -> None:
    meta, arrays = TextVectorizer().fit(["dog fox"]).to_arrays()
    with pytest.raises(ModelError, match="do not fit together"):
        TextVectorizer.from_arrays(meta, {**arrays, **change})


def test_refuses_offsets_whose_differences_overflow() -> None:
    meta, arrays = TextVectorizer().fit(["cat dog fox owl"]).to_arrays()
    offsets = np.array([0, (1 << 63) - 1, -(1 << 63), -1, 6])  # each difference is positive in 64 bits
    with pytest.raises(ModelError, match="do not fit together"):
        TextVectorizer.from_arrays(meta, arrays | {"offsets": offsets})


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_an_inverse_frequency_that_no_fit_gives_is_refused(value: float) -> None:
    """Rows are divided by their lengths, and one of zeros has none."""
    meta, arrays = TextVectorizer().fit(["red apple", "green pear"]).to_arrays()
    with pytest.raises(ModelError, match="do not fit together"):
        TextVectorizer.from_arrays(meta, arrays | {"idf": np.full_like(arrays["idf"], value)})


def test_any_collection_of_texts_will_do() -> None:
    texts = ["red fox", "grey dog"]
    expected = TextVectorizer().fit_transform(texts).toarray()
    for held in (tuple(texts), np.array(texts), np.array(texts, object), (text for text in texts)):
        np.testing.assert_array_equal(TextVectorizer().fit_transform(held).toarray(), expected)


def test_texts_without_known_words_are_empty_rows() -> None:
    vectorizer = TextVectorizer().fit(["red fox", ""])
    for texts in ([""], ["", "unknown words", "a . !"], []):
        X = vectorizer.transform(texts)
        assert (X.shape, X.nnz) == ((len(texts), 2), 0)
        assert_form(X)


def test_one_enormous_text_and_one_enormous_word() -> None:
    long_text, long_word = " ".join(f"w{i % 70_000}" for i in range(100_000)), "ab" * 200_000
    texts = [long_text, long_word, long_word + "c", "w1"]
    assert_same(TextVectorizer().fit_transform(texts), peer().fit_transform(texts))


def test_single_rows_do_not_share_memory() -> None:
    vectorizer = TextVectorizer().fit(["red fox", "grey dog"])
    first, second = vectorizer.transform(["red"]), vectorizer.transform(["grey dog"])
    assert first.nnz == 1
    assert second.nnz == 2
    assert vectorizer.transform([""]).nnz == 0
    np.testing.assert_array_equal((first + second).toarray() > 0, [[True, False, True, True]])


def test_scikit_learn_can_clone_it() -> None:
    vectorizer = TextVectorizer(ngrams=(1, 2), min_df=3)
    assert clone(vectorizer).get_params() == vectorizer.get_params()
    assert not hasattr(clone(TextVectorizer().fit(["red fox"])), "n_features_")


def test_works_in_a_pipeline() -> None:
    texts = ["red fox", "grey dog", "red dog", "grey fox"] * 5
    Y = csr_array(np.eye(2, dtype=np.float32)[[0, 1, 0, 1] * 5])
    pipeline = make_pipeline(TextVectorizer(), Bonsai(n_trees=1)).fit(texts, Y)
    np.testing.assert_array_equal(pipeline.predict(["red red", "grey"]).toarray().argmax(axis=1), [0, 1])
    assert list(pipeline[:1].get_feature_names_out()) == ["dog", "fox", "grey", "red"]
    assert clone(pipeline).get_params()["textvectorizer__min_df"] == 1
    assert pipeline.set_params(textvectorizer__ngrams=2).fit(texts, Y)[0].n_features_ == 4


def test_labels_of_a_pipeline_are_ignored() -> None:
    texts = ["red fox", "grey dog"]
    Y = csr_array(np.eye(2, dtype=np.float32))
    expected = TextVectorizer().fit_transform(texts).toarray()
    np.testing.assert_array_equal(TextVectorizer().fit_transform(texts, Y).toarray(), expected)
    np.testing.assert_array_equal(TextVectorizer().fit(texts, Y).transform(texts).toarray(), expected)
    with pytest.raises(TypeError):
        TextVectorizer().fit(texts, None, ["label text"])  # type: ignore[misc]


@pytest.mark.parametrize("n_jobs", [None, -1, -2, 1, 100])
def test_every_number_of_jobs(n_jobs: int | None) -> None:
    assert TextVectorizer(n_jobs=n_jobs).fit_transform(["red fox", "grey dog"]).shape == (2, 4)


def test_not_fitted_is_scikit_learns_error() -> None:
    vectorizer = TextVectorizer()
    for act in (lambda: vectorizer.transform(["a"]), vectorizer.get_feature_names_out, vectorizer.to_arrays):
        with pytest.raises(NotFittedError, match="This TextVectorizer has not been fitted"):
            act()
    with pytest.raises(NotFittedError):
        check_is_fitted(vectorizer)
    check_is_fitted(vectorizer.fit(["red fox"]))


def test_scikit_learn_checks() -> None:
    check_parameters_default_constructible("TextVectorizer", TextVectorizer())
    check_no_attributes_set_in_init("TextVectorizer", TextVectorizer())
    check_get_params_invariance("TextVectorizer", TextVectorizer())
    check_set_params("TextVectorizer", TextVectorizer())
    check_estimator_repr("TextVectorizer", TextVectorizer())


@pytest.mark.parametrize("bad", [None, b"bytes", 3.5])
@pytest.mark.parametrize("n_before", [0, 2])
def test_refuses_what_is_not_text_naming_the_row(bad: Any, n_before: int) -> None:
    texts = ["red fox"] * n_before + [bad, "dog"]
    fitted = TextVectorizer().fit(["red fox"])
    for act in (fitted.transform, TextVectorizer().fit, TextVectorizer(hashing=8).fit_transform):
        with pytest.raises(DataError, match=rf"row {n_before}: texts must be strings, found {type(bad).__name__}"):
            act(texts)
    with pytest.raises(DataError, match="row 0"):
        fitted.transform([bad])


@pytest.mark.usefixtures("tiny_blocks")
def test_names_the_row_also_in_a_later_block() -> None:
    texts: list[Any] = ["some words to fill a block of forty letters"] * 9 + [b"bytes"]
    with pytest.raises(DataError, match="row 9"):
        TextVectorizer().fit(texts)


def test_refuses_what_it_cannot_learn_from() -> None:
    with pytest.raises(DataError, match=r"not one string.*\[text\]"):
        TextVectorizer().fit("one text")
    with pytest.raises(DataError, match="found int"):
        TextVectorizer().fit(3)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="no text to learn from"):
        TextVectorizer().fit([])
    with pytest.raises(DataError, match="no text holds a term to learn from: a term is a word of 2 or more characters"):
        TextVectorizer().fit(["", "a b ."])
    with pytest.raises(DataError, match="drop all of the 2 terms"):
        TextVectorizer(min_df=2).fit(["red", "fox"])
    with pytest.raises(ModelError, match="Call fit first"):
        TextVectorizer().transform(["red fox"])


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"ngrams": 0}, "ngrams"),
        ({"ngrams": (2, 1)}, "ngrams"),
        ({"ngrams": "12"}, "ngrams"),
        ({"ngrams": []}, "ngrams"),
        ({"min_length": 0}, "min_length"),
        ({"min_length": None}, "min_length"),
        ({"min_df": -1}, "min_df"),
        ({"max_df": 1.5}, "max_df"),
        ({"min_df": 3, "max_df": 2}, "max_df=2"),
        ({"max_features": 0}, "max_features"),
        ({"hashing": 2**31}, "hashing"),
        ({"hashing": 0.5}, "hashing"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
def test_refuses_settings_out_of_range(params: dict[str, Any], match: str) -> None:
    with pytest.raises(SettingsError, match=match):
        TextVectorizer(**params).fit(["red fox"])
