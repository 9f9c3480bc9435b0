"""How texts are cut: characters, stop words, stems, and a user's own function."""

from __future__ import annotations

import logging
import subprocess
import sys

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from longtail.data import TextVectorizer
from longtail.data.analyzers import analyzer, find_function, has_unspaced_texts
from longtail.errors import ModelError, SettingsError

TEXTS = ["The red fox", "a fox über Äpfel", "x", "foxes are RED, red"]
CHINESE = ["机器学习的方法", "深度学习", "苔藓植物指南", "学习语言"]


@analyzer
def hashtags(text: str) -> list[str]:
    """Return the hashtags of a text, with what a word could not hold."""
    return [word for word in text.split(" ") if word.startswith("#")]


def unmarked(text: str) -> list[str]:
    return text.split()


def copy_of(vectorizer: TextVectorizer) -> TextVectorizer:
    return TextVectorizer.from_arrays(*vectorizer.to_arrays())


@pytest.mark.parametrize("ngrams", [(2, 4), (3, 3), (5, 9)])
def test_character_ngrams_equal_those_of_scikit_learn(ngrams):
    """Texts without punctuation, at which scikit-learn does not cut."""
    texts = [text.replace(",", "") for text in TEXTS]
    ours = TextVectorizer(analyzer="char_wb", ngrams=ngrams)
    X = ours.fit_transform(texts)
    theirs = TfidfVectorizer(analyzer="char_wb", ngram_range=ngrams)
    expected = theirs.fit_transform(texts)
    names = list(ours.get_feature_names_out())
    assert sorted(names) == sorted(theirs.get_feature_names_out())
    order = [theirs.vocabulary_[name] for name in names]
    np.testing.assert_allclose(X.toarray(), expected.toarray()[:, order], atol=1e-6)
    np.testing.assert_array_equal(X.toarray(), ours.transform(texts).toarray())
    np.testing.assert_array_equal(X[[1]].toarray(), copy_of(ours).transform(texts[1:2]).toarray())


def test_one_character_is_a_term_and_a_space_is_not():
    vectorizer = TextVectorizer(analyzer="char_wb", ngrams=1).fit(["ab c"])
    assert list(vectorizer.get_feature_names_out()) == ["a", "b", "c"]


@pytest.mark.parametrize("texts", [CHINESE, ["苔のガイド", "ひらがな"], ["คู่มือมอส", "ขนมปัง"]])
def test_characters_are_chosen_and_reported_where_texts_have_no_spaces(texts, caplog):
    with caplog.at_level(logging.INFO, logger="longtail.data"):
        vectorizer = TextVectorizer().fit(texts)
    assert vectorizer.analyzer_ == "char_wb"
    assert "cut into character n-grams" in caplog.text
    assert vectorizer.transform([texts[0][:3]]).nnz > 0
    loaded = copy_of(vectorizer)
    assert (loaded.analyzer_, loaded.analyzer) == ("char_wb", "auto")
    np.testing.assert_array_equal(loaded.transform(texts).toarray(), vectorizer.transform(texts).toarray())


def test_words_are_kept_elsewhere(caplog):
    assert not has_unspaced_texts(["a guide 苔", "한국어 문서", "über", "русский текст"])
    vectorizer = TextVectorizer().fit(["русский текст", "über"])
    assert vectorizer.analyzer_ == "word"
    assert not caplog.records
    assert TextVectorizer(analyzer="word").fit(CHINESE).analyzer_ == "word"


def test_thai_vowel_signs_stay_in_words():
    names = TextVectorizer(analyzer="char_wb", ngrams=2).fit(["ขี่"]).get_feature_names_out()
    assert "ขี" in names


def test_hashing_of_characters():
    vectorizer = TextVectorizer(analyzer="char_wb", hashing=64)
    X = vectorizer.fit_transform(TEXTS)
    assert X.shape == (4, 64)
    np.testing.assert_array_equal(X.toarray(), vectorizer.transform(TEXTS).toarray())


def test_stop_words():
    vectorizer = TextVectorizer(stop_words="english", ngrams=(1, 2)).fit(TEXTS)
    assert list(vectorizer.get_feature_names_out())[:3] == ["fox", "fox über", "foxes"]
    assert "the" not in vectorizer.get_feature_names_out()
    own = TextVectorizer(stop_words=["FOX"]).fit(TEXTS)
    assert "fox" not in own.get_feature_names_out()
    for one in (vectorizer, own):
        np.testing.assert_array_equal(copy_of(one).transform(TEXTS).toarray(), one.transform(TEXTS).toarray())


def test_stop_words_give_what_scikit_learn_gives():
    X = TextVectorizer(stop_words="english").fit_transform(TEXTS)
    expected = TfidfVectorizer(stop_words="english").fit_transform(TEXTS)
    np.testing.assert_allclose(X.toarray(), expected.toarray(), atol=1e-6)


def test_stems():
    pytest.importorskip("snowballstemmer")
    vectorizer = TextVectorizer(stemmer="english").fit(TEXTS)
    assert "foxes" not in vectorizer.get_feature_names_out()
    assert (vectorizer.transform(["fox"]) != vectorizer.transform(["foxes"])).nnz == 0
    np.testing.assert_array_equal(copy_of(vectorizer).transform(TEXTS).toarray(), vectorizer.transform(TEXTS).toarray())
    with pytest.raises(SettingsError, match="stemmer is 'klingon'; give one of"):
        TextVectorizer(stemmer="klingon").fit(TEXTS)


@pytest.mark.parametrize("given", [hashtags, f"{__name__}:hashtags"])
def test_a_function_is_kept_by_its_name(given):
    texts = ["#a-b and #C", "#a-b", "none"]
    vectorizer = TextVectorizer(analyzer=given).fit(texts)
    assert list(vectorizer.get_feature_names_out()) == ["#C", "#a-b"]
    meta, _ = vectorizer.to_arrays()
    assert meta["analyzer"] == meta["chosen_analyzer"] == f"{__name__}:hashtags"
    np.testing.assert_array_equal(copy_of(vectorizer).transform(texts).toarray(), vectorizer.transform(texts).toarray())


def test_functions_that_cannot_be_kept():
    with pytest.raises(SettingsError, match="cannot be imported again"):
        TextVectorizer(analyzer=analyzer(lambda text: [text])).fit(TEXTS)
    with pytest.raises(SettingsError, match="is not marked as an analyzer"):
        TextVectorizer(analyzer=f"{__name__}:unmarked").fit(TEXTS)
    with pytest.raises(SettingsError, match="analyzer is 'words'; give one of auto, word, char_wb"):
        TextVectorizer(analyzer="words").fit(TEXTS)
    with pytest.raises(SettingsError, match="stop_words has no effect"):
        TextVectorizer(analyzer="char_wb", stop_words="english").fit(TEXTS)


def test_a_model_folder_imports_nothing(monkeypatch):
    with pytest.raises(SettingsError, match="not marked"):
        find_function("os:system", trusted=False)
    code = "from longtail.data.analyzers import find_function; find_function('antigravity:fly', trusted=False)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "Import antigravity before you use the model" in ran.stderr
    name = "tests.data.cases:nothing"
    monkeypatch.setenv("LONGTAIL_IMPORT", "tests.data.cases")
    with pytest.raises((SettingsError, ModelError)):
        find_function(name, trusted=False)


def test_several_threads_stem_at_once() -> None:
    pytest.importorskip("snowballstemmer")
    from concurrent.futures import ThreadPoolExecutor

    from longtail.data.analyzers import snowball

    words = [f"{stem}{end}" for stem in ("nation", "relat", "hope", "sense") for end in ("al", "ational", "ly", "ness")]
    texts = [[f"{word}{i}" if i % 2 else f"x{i}{word}" for word in words] for i in range(400)]
    stem = snowball("english")
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda text: [stem(word) for word in text], texts))
    snowball.cache_clear()
    alone = snowball("english")
    assert found == [[alone(word) for word in text] for text in texts]
