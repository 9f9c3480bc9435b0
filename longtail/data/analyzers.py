"""Cut texts into tokens in Python, where the kernels cannot: for stop words, stems, and a user's own function.

A model folder stores the import name of a function, such as ``mypackage.text:lemmas``, and never a pickle. As a folder
from a stranger could name any function, the function is used only if it is marked by :func:`analyzer`, and only if its
module has been imported already or is listed in the environment variable ``LONGTAIL_IMPORT``.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from longtail.errors import DataError, ModelError, SettingsError

_WORD_PATTERN = re.compile(r"\w+")
_LETTER = re.compile(r"[^\W\d_]")
# Scripts that are written without spaces between words: Thai, Lao, Burmese, Khmer, kana, Chinese characters.
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_SAMPLED_TEXTS = 1000  # texts whose script is examined
_IMPORT_VARIABLE = "LONGTAIL_IMPORT"

Analyzer = Callable[[str], Iterable[str]]


def analyzer(function: Analyzer) -> Analyzer:
    """Decorate a function from a text to its tokens, so that models may use it.

    Examples
    --------
    >>> @analyzer
    ... def letters(text):
    ...     return list(text)
    """
    function.longtail_analyzer = True  # type: ignore[attr-defined]
    return function


def has_unspaced_texts(texts: list[str]) -> bool:
    """Return whether most letters in a sample of the texts belong to scripts without spaces between words."""
    sample = " ".join(text[:1000] for text in texts[:: max(1, len(texts) // _SAMPLED_TEXTS)])
    if sample.isascii():
        return False
    return 2 * len(UNSPACED.findall(sample)) > len(_LETTER.findall(sample))


def import_name(function: Any, kind: str = "analyzer") -> str:
    """Return the name under which a function can be imported again, or raise an error if it cannot.

    Parameters
    ----------
    function : callable
        A function that is marked as a function of this kind.
    kind : {"analyzer", "encoder"}
        What the function is used for.
    """
    name = f"{getattr(function, '__module__', None)}:{getattr(function, '__qualname__', None)}"
    try:
        same = name.split(":")[0] != "__main__" and find_function(name, trusted=True, kind=kind) is function
    except SettingsError:
        same = False
    if not same:
        raise SettingsError(
            f"{kind} is {function!r}, which cannot be imported again when the model is loaded. "
            "Define it at the top level of a module and import it from there."
        )
    return name


def find_function(name: str, *, trusted: bool, kind: str = "analyzer") -> Any:
    """Return the function that an import name such as ``mypackage.text:lemmas`` stands for.

    Parameters
    ----------
    name : str
        Module, a colon, and the name of the function in it.
    trusted : bool
        Whether the name comes from the user. A name from a model folder is not trusted: its module is not imported.
    kind : {"analyzer", "encoder"}
        What the function is used for, and by which decorator it must be marked.
    """
    module, _, attribute = name.partition(":")
    if not trusted and module not in (*sys.modules, *os.environ.get(_IMPORT_VARIABLE, "").split(",")):
        does = "cuts" if kind == "analyzer" else "encodes"
        raise ModelError(
            f"The model {does} texts with {name!r}. Import {module} before you use the model; "
            f"on the command line, set the environment variable {_IMPORT_VARIABLE}={module}."
        )
    try:
        function: Any = importlib.import_module(module)
        for part in attribute.split("."):
            function = getattr(function, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingsError(f"{kind} is {name!r}, which cannot be imported ({error}).") from None
    if not getattr(function, f"longtail_{kind}", False):
        raise SettingsError(
            f"{kind} is {name!r}, which is not marked as an {kind}. "
            f"Put the decorator longtail.data.{kind}s.{kind} before its definition."
        )
    return function


def stop_words_of(value: str | Collection[str] | None) -> list[str]:
    """Return stop words in lower case. "english" means scikit-learn's list."""
    if value is None:
        return []
    if isinstance(value, str):
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        return sorted(ENGLISH_STOP_WORDS)
    return sorted({word.lower() for word in value})


@dataclass(frozen=True)
class Tokenizer:
    """Cut texts into tokens: words or the tokens of a function, without stop words, perhaps replaced by their stems.

    Parameters
    ----------
    min_length : int
        Length of the shortest word in characters.
    stop_words : frozenset of str
        Words to leave out.
    stemmer : str or None
        Language of the Snowball stemmer.
    function : callable, optional
        Function from a text to its tokens, used instead of cutting words.
    """

    min_length: int
    stop_words: frozenset[str]
    stemmer: str | None
    function: Analyzer | None = None

    def __call__(self, text: str) -> list[str]:
        """Return the tokens of a text."""
        if self.function is None:
            tokens: Iterable[str] = _WORD_PATTERN.findall(text.lower())
            words = [word for word in tokens if len(word) >= self.min_length]
        else:
            words = list(self.function(text))
            wrong = next((word for word in words if not isinstance(word, str)), None)
            if wrong is not None:
                raise DataError(f"the analyzer returned {wrong!r}", remedy="Return a list of strings for each text")
        words = [word for word in words if word and word not in self.stop_words]
        if self.stemmer is None:
            return words
        stem = snowball(self.stemmer)
        return [stem(word) for word in words]


@cache
def snowball(language: str) -> Callable[[str], str]:
    """Return the Snowball stemmer of a language, which caches the stems of the words it has seen."""
    try:
        import snowballstemmer
    except ImportError:
        raise SettingsError(
            'stemmer needs the package snowballstemmer. Install it with: pip install "longtail[stem]"'
        ) from None
    if language not in snowballstemmer.algorithms():
        raise SettingsError(f"stemmer is {language!r}; give one of {', '.join(snowballstemmer.algorithms())}")
    per_thread = threading.local()  # a stemmer has state while it works, and texts are cut by several threads
    stems: dict[str, str] = {}

    def stem(word: str) -> str:
        stemmed = stems.get(word)
        if stemmed is None:
            if not hasattr(per_thread, "stemmer"):
                per_thread.stemmer = snowballstemmer.stemmer(language)
            stemmed = stems[word] = per_thread.stemmer.stemWord(word)
        return stemmed

    return stem
