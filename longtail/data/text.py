"""Compute TF-IDF features of texts with kernels, with the same values as scikit-learn's ``TfidfVectorizer``.

Texts are joined into blocks of UTF-8. One kernel folds case, cuts words, looks up or learns terms, and counts them. A
second kernel weights, sorts and normalises the rows. Each thread works on its own range of texts and has its own table
of terms. The tables are merged at the end and the terms are sorted, so that columns do not depend on the number of
threads.

Documents and label texts share one vocabulary. Inverse document frequencies are computed from documents only. A term
that occurs only in label texts is in no document and therefore gets the largest weight.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array

from longtail.data.analyzers import (
    Analyzer,
    Tokenizer,
    find_function,
    has_unspaced_texts,
    import_name,
    snowball,
    stop_words_of,
)
from longtail.data.separators import logger
from longtail.data.vocabulary import (
    SAME_COLUMNS,
    Terms,
    encoded_block,
    encoded_tokens,
    slots_for,
    string_list,
    text_blocks,
    text_ranges,
    weighted_rows,
)
from longtail.errors import DataError, ModelError, SettingsError, not_fitted
from longtail.kernels import pool
from longtail.kernels import terms as table
from longtail.kernels import text as kernels
from longtail.kernels.text import Counted, Folding, TermShape, WeightedRows
from longtail.params import Allowed, Boolean, Constraint, Integer, Jobs, Number, Params, optional, plain
from longtail.sparse import frozen

ANALYZERS = ("auto", "word", "char_wb")
_WORDS = ": a term is a word of {} or more characters"
_OTHER_DF = (
    "Lower min_df (--set text.min_df on the command line) or raise max_df (--set text.max_df on the command line)"
)


def _is_frequency(value: Any) -> bool:
    return Number(0, 1).allows(value) if isinstance(value, float | np.floating) else Integer(0).allows(value)


def _is_analyzer(value: Any) -> bool:
    return callable(value) or (isinstance(value, str) and (value in ANALYZERS or ":" in value))


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _are_stop_words(value: Any) -> bool:
    if isinstance(value, str):
        return value == "english"
    return isinstance(value, list | tuple | set | frozenset) and all(isinstance(word, str) for word in value)


def _is_encoder(value: Any) -> bool:
    return callable(value) or isinstance(value, os.PathLike) or _is_name(value)


def _are_ngrams(value: Any) -> bool:
    if isinstance(value, str):
        return value == "auto"
    numbers = (value, value) if not isinstance(value, tuple | list) else tuple(value)
    return len(numbers) == 2 and all(map(Integer(1, _MOST_WORDS).allows, numbers)) and numbers[0] <= numbers[1]


_MOST_WORDS = 100  # of one term
_FUNCTION = "a function or its import name"
_NGRAMS = Allowed(_are_ngrams, f"a number of words from 1 to {_MOST_WORDS}, a range of them such as (1, 2), or auto")
_FREQUENCY = Allowed(_is_frequency, "a number of documents, or a share of them as a float from 0 to 1")


class TextVectorizer(Params):
    """Turn texts into TF-IDF features: one row of unit length per text, one column per term.

    Words are runs of letters, digits and underscores in any script, in lower case.

    Parameters
    ----------
    analyzer : {"auto", "word", "char_wb"} or function, default="auto"
        How texts are cut into tokens. ``"word"`` uses words. ``"char_wb"`` uses character n-grams within words, with a
        space before and after each word. ``"auto"`` uses characters if most letters of the texts belong to a script
        without spaces between words (Chinese, Japanese, Thai, …), which is logged, and words otherwise. A function from
        a text to a list of tokens, marked by :func:`longtail.data.analyzers.analyzer`, or its import name
        (``"package.module:function"``), is used instead of cutting words; a saved model stores the name.
    ngrams : int, (int, int) or "auto", optional
        Number of words (or characters, or tokens) per term: ``1`` uses words, ``2`` pairs of consecutive words,
        ``(1, 2)`` both. The default is 1, and ``(1, 3)`` for characters. Pairs multiply the number of features and
        improve accuracy only on some data. ``"auto"`` compares choices on held-out points; it works in ``Tagger.fit``
        and on the command line.
    stop_words : "english" or list of str, optional
        Words to leave out.
    stemmer : str, optional
        Language of the Snowball stemmer that replaces words by their stems, such as ``"english"`` or ``"finnish"``.
        Needs the extra ``stem``.
    min_length : int, default=2
        Length of the shortest word in characters; shorter words are skipped. Character n-grams are taken from words of
        any length.
    min_df : int or float, default=1
        Drop terms that occur in fewer documents (a float: in a smaller fraction of them), unless a label text contains
        them. A higher value saves memory.
    max_df : int or float, default=1.0
        Drop terms that occur in more documents (a float: in a larger fraction of them).
    max_features : int, optional
        Keep only this number of terms, the most frequent ones.
    sublinear_tf : bool, default=False
        Count a term that occurs n times in a text as 1 + ln n instead of n. Often better for long texts.
    idf : bool, default=True
        Multiply counts by the inverse document frequency ln((1 + N) / (1 + df)) + 1, where df of N documents contain
        the term.
    hashing : int, optional
        Number of columns to which terms are assigned by hash. No vocabulary is stored, so that terms have no names, and
        ``min_df``, ``max_df`` and ``max_features`` have no effect. Use it if the vocabulary does not fit into memory.
    encoder : function, str or path, optional
        Encoder that computes a dense vector per text, for ``blend``. The vectors become the last columns. It may be a
        function from a list of texts to an array, marked by :func:`longtail.data.encoders.encoder`, or its import name;
        an ONNX file with ``tokenizer.json`` in the same folder (needs the extra ``encoder``); or a folder with a
        sentence-transformers model. It is not trained. A saved model stores its name or path, and a checksum.
    n_jobs : int, optional
        Number of threads for large inputs; None or -1 for all cores, -2 for all but one. The result does not depend on
        it.

    Attributes
    ----------
    n_features_ : int
        Number of terms. They are the first columns.
    vector_size_ : int
        Size of the encoder's vectors, which are the last columns; 0 without an encoder.
    analyzer_ : str
        How texts are cut: ``"word"``, ``"char_wb"`` or the import name of a function.
    idf_ : array, shape (n_features_,)
        Inverse document frequency of each column; empty without ``idf``.

    Examples
    --------
    >>> vectorizer = TextVectorizer(ngrams=(1, 2))
    >>> X = vectorizer.fit_transform(["a red fox", "the fox"], label_texts=["red animals"])
    >>> list(vectorizer.get_feature_names_out())
    ['animals', 'fox', 'red', 'red animals', 'red fox', 'the', 'the fox']
    """

    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "analyzer": Allowed(
            _is_analyzer, f"one of {', '.join(ANALYZERS)}, or {_FUNCTION} such as package.module:function"
        ),
        "ngrams": optional(_NGRAMS),
        "stop_words": optional(Allowed(_are_stop_words, "english, or a list of words")),
        "stemmer": optional(Allowed(_is_name, "the name of a language, such as english")),
        "min_length": Integer(1),
        "min_df": _FREQUENCY,
        "max_df": _FREQUENCY,
        "max_features": optional(Integer(1)),
        "sublinear_tf": Boolean(),
        "idf": Boolean(),
        "hashing": optional(Integer(1, 1 << 26)),  # with more, statistics per column would take over half a gigabyte
        "encoder": optional(
            Allowed(_is_encoder, f"{_FUNCTION}, an ONNX file, or a folder of a sentence-transformers model")
        ),
        "n_jobs": Jobs(),
    }

    def __init__(
        self,
        *,
        analyzer: str | Analyzer = "auto",
        ngrams: int | tuple[int, int] | str | None = None,
        stop_words: str | Sequence[str] | None = None,
        stemmer: str | None = None,
        min_length: int = 2,
        min_df: int | float = 1,
        max_df: int | float = 1.0,
        max_features: int | None = None,
        sublinear_tf: bool = False,
        idf: bool = True,
        hashing: int | None = None,
        encoder: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.analyzer = analyzer
        self.ngrams = ngrams
        self.stop_words = stop_words
        self.stemmer = stemmer
        self.min_length = min_length
        self.min_df = min_df
        self.max_df = max_df
        self.max_features = max_features
        self.sublinear_tf = sublinear_tf
        self.idf = idf
        self.hashing = hashing
        self.encoder = encoder
        self.n_jobs = n_jobs

    # Fitting ---------------------------------------------------------------------------------------------------------

    def fit(self, texts: Iterable[str], y: Any = None, *, label_texts: Iterable[str] | None = None) -> Self:
        """Learn the vocabulary and the inverse document frequencies.

        Parameters
        ----------
        texts : iterable of str
            Documents.
        y : ignored
            A scikit-learn pipeline passes the labels here.
        label_texts : iterable of str, optional
            Texts of the labels. Their terms enter the vocabulary, but the texts do not count as documents.
        """
        self._learn(texts, label_texts, keep=False)
        return self

    def fit_transform(
        self, texts: Iterable[str], y: Any = None, *, label_texts: Iterable[str] | None = None
    ) -> csr_array:
        """Fit, and return the features of the documents, in one pass over them. Parameters are as for :meth:`fit`."""
        documents = string_list(texts, "texts")
        return self._with_vectors(self.fit_terms(documents, label_texts), documents)

    def fit_terms(self, texts: Iterable[str], label_texts: Iterable[str] | None = None) -> csr_array:
        """Fit, and return the TF-IDF rows of the documents, without vectors. Parameters are as for :meth:`fit`."""
        counted, columns = self._learn(texts, label_texts, keep=True)
        return self._weight(counted, columns)

    def _learn(
        self, texts: Iterable[str], label_texts: Iterable[str] | None, keep: bool
    ) -> tuple[list[Counted], list[np.ndarray]]:
        """Fit. With `keep`, return the counted blocks of the documents and, for each block, the columns of its ids."""
        self.check_params()
        if isinstance(self.ngrams, str):
            raise SettingsError(
                'ngrams="auto" needs labels to compare by: give the vectorizer to a Tagger, Tagger(vectorizer=…), or '
                "use --set text.ngrams=auto on the command line."
            )
        documents = string_list(texts, "texts")
        labels = [] if label_texts is None else string_list(label_texts, "label_texts")
        if not documents:
            raise DataError("there is no text to learn from", remedy="Pass at least one text")
        self._choose_analyzer(documents)
        self._encoder = None
        if self.encoder is not None:
            from longtail.data.encoders import make_encoder

            self._encoder = make_encoder(self.encoder)
            self._encoder.encode(documents[:1])  # raises an error, before any work, if the encoder does not work
        if self.hashing is None:
            return self._learn_terms(documents, labels, keep)
        return self._learn_bins(documents, keep)

    def _learn_terms(
        self, documents: list[str], labels: list[str], keep: bool
    ) -> tuple[list[Counted], list[np.ndarray]]:
        shape = self._term_shape()

        def count(texts: list[str], keep: bool, bounds: tuple[int, int]) -> tuple[Terms, list[Counted]]:
            terms, counted = Terms(), []
            for block_texts in text_blocks(texts, *bounds):
                block = terms.count(*self._encode(block_texts), len(block_texts), shape)
                if keep:
                    counted.append(block)
            return terms, counted

        shards = pool.run(partial(count, documents, keep), text_ranges(documents, self.n_jobs), self.n_jobs)
        terms = shards[0][0]
        ids = [np.arange(terms.size), *(terms.merge(other) for other, _ in shards[1:])]
        label_term_ids = []
        for other, _ in pool.run(partial(count, labels, False), text_ranges(labels, self.n_jobs), self.n_jobs):
            other.document_frequency[:] = 0  # a label text is not a document
            label_term_ids.append(terms.merge(other))
        chosen = self._choose(terms, label_term_ids, len(documents))

        blob, offsets = table.take_terms(terms.table.blob, terms.table.offsets, chosen)
        self._set(blob, offsets, self._inverse(terms.document_frequency[chosen], len(documents)), chosen.size)
        columns = np.full(terms.size, -1, np.int32)
        columns[chosen] = np.arange(chosen.size)
        blocks = [block for _, counted in shards for block in counted]
        return blocks, [columns[term_ids] for term_ids, (_, counted) in zip(ids, shards, strict=True) for _ in counted]

    def _choose(self, terms: Terms, label_term_ids: list[np.ndarray], n_documents: int) -> np.ndarray:
        """Choose the terms that become columns, and return their ids in the order of the columns."""
        if not terms.size:
            raise DataError(
                "no text holds a term to learn from"
                + (_WORDS.format(self.min_length) if self.analyzer_ == "word" else ""),
                remedy="Check that the right column was read, "
                "or lower min_length (--set text.min_length on the command line)",
            )
        frequency = terms.document_frequency[: terms.size]
        low, high = (
            df * n_documents if isinstance(df, float | np.floating) else df for df in (self.min_df, self.max_df)
        )
        if high < low:
            raise SettingsError(f"max_df={self.max_df} allows fewer documents than min_df={self.min_df}. {_OTHER_DF}.")
        wanted = frequency >= low
        for ids in label_term_ids:
            wanted[ids] = True
        chosen = np.flatnonzero(wanted & (frequency <= high))
        if not chosen.size:
            raise DataError(
                f"min_df={self.min_df} and max_df={self.max_df} drop all of the {terms.size} terms",
                remedy=_OTHER_DF,
            )
        chosen = chosen[table.sort_terms(terms.table.blob, terms.table.offsets, chosen)]
        if self.max_features is not None and self.max_features < chosen.size:
            # Of equally frequent terms keep the alphabetically first, so that threads make no difference.
            by_frequency = np.argsort(-terms.term_frequency[chosen], kind="stable")
            chosen = chosen[np.sort(by_frequency[: self.max_features])]
        return chosen

    def _learn_bins(self, documents: list[str], keep: bool) -> tuple[list[Counted], list[np.ndarray]]:
        n_bins = int(self.hashing or 0)
        self._set(np.zeros(table.PAD, np.uint8), np.zeros(1, np.int64), np.zeros(0, np.float32), n_bins)

        def count(bounds: tuple[int, int]) -> tuple[np.ndarray, list[Counted]]:
            frequency, counted = np.zeros(n_bins if self.idf else 0, np.int64), []
            for block_texts in text_blocks(documents, *bounds):
                block = self._match(block_texts)
                if self.idf:
                    kernels.count_documents(block.ids, frequency)
                if keep:
                    counted.append(block)
            return frequency, counted

        shards = pool.run(count, text_ranges(documents, self.n_jobs), self.n_jobs)
        frequency = np.sum([frequency for frequency, _ in shards], axis=0)
        self.idf_ = frozen(self._inverse(frequency, len(documents)))
        out = [block for _, counted in shards for block in counted]
        return out, [SAME_COLUMNS] * len(out)

    def _inverse(self, frequency: np.ndarray, n_documents: int) -> np.ndarray:
        inverse = np.log((1 + n_documents) / (1 + frequency)) + 1 if self.idf else np.zeros(0)
        return inverse.astype(np.float32)

    def _term_shape(self) -> TermShape:
        characters = self.analyzer_ == "char_wb"
        ngrams: Any = self.ngrams or ((1, 3) if characters else 1)
        fewest, most = ngrams if isinstance(ngrams, Sequence) else (ngrams, ngrams)
        min_length = 1 if characters or self._tokens is not None else self.min_length
        return TermShape(int(min_length), int(fewest), int(most), characters)

    def _choose_analyzer(self, documents: list[str]) -> None:
        """Choose how texts are cut, by the parameters and, for "auto", by the script of the texts."""
        chosen = self.analyzer if isinstance(self.analyzer, str) else import_name(self.analyzer)
        in_words = self.stop_words is not None or self.stemmer is not None
        if chosen == "auto":
            chosen = "char_wb" if not in_words and has_unspaced_texts(documents) else "word"
            if chosen == "char_wb":
                logger.info(
                    "Texts are cut into character n-grams: most of their letters belong to a script without spaces "
                    'between words. analyzer="word" (--set text.analyzer=word on the command line) uses words instead.'
                )
        elif chosen == "char_wb" and in_words:
            name = "stop_words" if self.stop_words is not None else "stemmer"
            raise SettingsError(f'{name} has no effect with analyzer="char_wb". Leave one of them out.')
        self._set_analyzer(chosen, stop_words_of(self.stop_words), trusted=True)

    def _set_analyzer(self, chosen: str, stop_words: list[str], *, trusted: bool) -> None:
        self.analyzer_, self._stop_words = chosen, stop_words
        function = None if chosen in ANALYZERS else find_function(chosen, trusted=trusted)
        in_python = function is not None or bool(stop_words) or self.stemmer is not None
        words = frozenset(stop_words)
        self._tokens = Tokenizer(int(self.min_length), words, self.stemmer, function) if in_python else None
        if self.stemmer is not None:
            snowball(self.stemmer)  # raises an error for an unknown language

    def _encode(self, texts: list[str]) -> tuple[np.ndarray, Folding]:
        if self._tokens is not None:
            return encoded_tokens([self._tokens(text) for text in texts])
        return encoded_block(texts, marks=self.analyzer_ == "char_wb")

    # Applying --------------------------------------------------------------------------------------------------------

    def transform(self, texts: Iterable[str]) -> csr_array:
        """Return the TF-IDF rows of texts, followed by their vectors if there is an encoder.

        The result is (n_texts, n_features_ + vector_size_) float32. The TF-IDF row of a text without known terms is
        empty.
        """
        texts = string_list(texts, "texts")
        return self._with_vectors(self.transform_terms(texts), texts)

    @property
    def vector_size_(self) -> int:
        """Size of the encoder's vectors, which are the last columns; 0 without an encoder."""
        self._check_fitted()
        return 0 if self._encoder is None else int(self._encoder.size or 0)

    def _with_vectors(self, X: csr_array, texts: list[str]) -> csr_array:
        if self._encoder is None:
            return X
        from longtail.data.vectors import with_vectors

        return with_vectors(X, self._encoder.encode(texts, self.n_jobs))

    def transform_terms(self, texts: Iterable[str]) -> csr_array:
        """Return the TF-IDF rows of texts without vectors, (n_texts, n_features_) float32."""
        self._check_fitted()
        texts = string_list(texts, "texts")
        if len(texts) == 1:  # the usual request to a service: a shortcut without threads and joins
            block = self._match(texts)
            n = block.ids.size
            rows = WeightedRows(block.indptr, np.empty(n, np.int32), np.empty(n, np.float32))
            kernels.weight_rows(block, SAME_COLUMNS, self.idf_, self._sublinear, rows)
            X = copy(self._empty_row)  # the constructor's checks would take longer than everything else
            X.indptr, X.indices, X.data = rows.indptr.astype(np.int32), rows.indices, rows.data
            return X
        shards = pool.run(
            lambda bounds: [self._match(block_texts) for block_texts in text_blocks(texts, *bounds)],
            text_ranges(texts, self.n_jobs),
            self.n_jobs,
        )
        counted = [block for shard in shards for block in shard]
        return self._weight(counted, [SAME_COLUMNS] * len(counted))

    def _match(self, texts: list[str]) -> Counted:
        block, folding = self._encode(texts)
        return kernels.match_block(block, len(texts), folding, self._shape, self._n_bins, self._table)

    def _weight(self, counted: list[Counted], columns: list[np.ndarray]) -> csr_array:
        return weighted_rows(counted, columns, self.idf_, self._sublinear, self.n_features_, self.n_jobs)

    # Inspecting and storing ------------------------------------------------------------------------------------------

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the term of each column, as an array of strings.

        Parameters
        ----------
        input_features : ignored
            Part of the scikit-learn interface.
        """
        self._check_fitted()
        if self._n_bins:
            raise ModelError("Hashed columns have no names. Fit without hashing to keep a vocabulary.")
        text, bounds = self._blob.tobytes(), self._offsets.tolist()
        return np.array([text[a:b].decode() for a, b in pairwise(bounds)], dtype=object)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return everything to store: settings as JSON values, and arrays that can be memory-mapped."""
        self._check_fitted()
        settings = self.get_params() | {"encoder": None}
        if not isinstance(self.analyzer, str):
            settings["analyzer"] = self.analyzer_
        if self.stop_words is not None:
            settings["stop_words"] = self._stop_words  # the words, as scikit-learn's list may change
        meta = {key: plain(value) for key, value in settings.items()}
        meta |= {"n_features": self.n_features_, "chosen_analyzer": self.analyzer_}
        meta["encoder"] = None if self._encoder is None else self._encoder.facts()
        return meta, {"terms": self._blob, "offsets": self._offsets, "idf": self.idf_}

    @classmethod
    def from_arrays(cls, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> TextVectorizer:
        """Rebuild a vectorizer from what ``to_arrays`` returned. The arrays are not copied."""
        settings = dict(meta)
        n_features = settings.pop("n_features")
        chosen = settings.pop("chosen_analyzer", "word")
        stored_encoder = settings.pop("encoder", None)
        if isinstance(settings["ngrams"], list):
            settings["ngrams"] = tuple(settings["ngrams"])  # JSON has lists only
        vectorizer = cls(**settings)
        vectorizer._set_analyzer(chosen, settings.get("stop_words") or [], trusted=False)
        vectorizer._encoder = None
        if stored_encoder is not None:
            from longtail.data.encoders import restored_encoder

            vectorizer._encoder = restored_encoder(stored_encoder)
            vectorizer.encoder = vectorizer._encoder.name
        blob, offsets, idf = (arrays[name] for name in ("terms", "offsets", "idf"))
        # Kernels use these arrays as indices without checking bounds, so arrays from a file are checked here.
        if (
            (blob.dtype, offsets.dtype, idf.dtype) != (np.uint8, np.int64, np.float32)
            or offsets[0] != 0
            or offsets[-1] > blob.size - table.PAD  # a sum could overflow
            or (offsets[1:] <= offsets[:-1]).any()  # a difference could overflow
            or (vectorizer.hashing is None and offsets.size != n_features + 1)
            or idf.size != (n_features if vectorizer.idf else 0)
            or not ((idf > 0) & np.isfinite(idf)).all()
        ):
            raise ModelError(
                "The arrays of the vocabulary do not fit together: the folder was changed or damaged. Copy it again."
            )
        vectorizer._set(blob, offsets, idf, n_features)
        return vectorizer

    def _set(self, blob: np.ndarray, offsets: np.ndarray, idf: np.ndarray, n_features: int) -> None:
        self._blob, self._offsets, self.idf_ = frozen(blob), frozen(offsets), frozen(idf)
        self.n_features_ = int(n_features)
        # Copy the settings: a parameter that is changed after the fit must not change a fitted vectorizer.
        self._shape, self._n_bins = self._term_shape(), int(self.hashing or 0)
        slots = frozen(slots_for(self._blob, self._offsets, offsets.size - 1))
        self._table = table.TermTable(slots, self._blob, self._offsets)
        self._sublinear = bool(self.sublinear_tf)
        self._empty_row = csr_array((1, self.n_features_), dtype=np.float32)
        self._empty_row.has_canonical_format = True

    def _check_fitted(self) -> None:
        if not hasattr(self, "n_features_"):
            raise not_fitted("TextVectorizer")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=[]),
            input_tags=InputTags(string=True, two_d_array=False),
            requires_fit=True,
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_")
