"""ngrams="auto": pairs of words are used where they help on held-out points, and nowhere else."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from longtail import Tagger, TextVectorizer
from longtail.errors import SettingsError

WORDS = ["red", "blue", "old", "new", "big", "dry"]


def texts_and_labels(by_order: bool, n: int = 400) -> tuple[list[str], list[list[str]]]:
    """Make texts of two of six words; the label depends on their order, or on the first word of the alphabet only."""
    rng = np.random.default_rng(0)
    pairs = [rng.choice(WORDS, 2, replace=False).tolist() for _ in range(n)]
    return [" ".join(pair) for pair in pairs], [["-".join(pair) if by_order else min(pair)] for pair in pairs]


@pytest.mark.parametrize(("by_order", "chosen"), [(True, (1, 2)), (False, 1)])
def test_pairs_of_words_are_used_where_they_help(
    by_order: bool, chosen: object, caplog: pytest.LogCaptureFixture
) -> None:
    own = TextVectorizer(ngrams="auto")
    with caplog.at_level(logging.INFO, "longtail"):
        tagger = Tagger("popular", vectorizer=own).fit(*texts_and_labels(by_order))
    assert tagger.vectorizer_ is not None
    assert tagger.vectorizer_.ngrams == chosen
    assert own.ngrams == "auto"
    said = "Terms are words and pairs of words." if by_order else "Terms are words."
    assert said in caplog.text
    assert caplog.text.count("on held-out points: words ") == 1


def test_characters_have_choices_of_their_own() -> None:
    texts, labels = texts_and_labels(False)
    tagger = Tagger("popular", vectorizer=TextVectorizer(analyzer="char_wb", ngrams="auto")).fit(texts, labels)
    assert tagger.vectorizer_ is not None
    assert tagger.vectorizer_.ngrams in ((1, 3), (3, 5))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_hardly_any_points(n: int) -> None:
    texts, labels = texts_and_labels(False, n)
    tagger = Tagger("popular", vectorizer=TextVectorizer(ngrams="auto")).fit(texts, labels)
    assert tagger.suggest(texts[0], k=1)


def test_a_vectorizer_alone_cannot_choose() -> None:
    with pytest.raises(SettingsError, match=r"Tagger\(vectorizer=…\)"):
        TextVectorizer(ngrams="auto").fit(["a text"])
    with pytest.raises(SettingsError, match="or auto"):
        TextVectorizer(ngrams="best").fit(["a text"])  # type: ignore[arg-type]
