"""Text to TF-IDF: what scikit-learn's ``TfidfVectorizer`` computes, in kernels and without a Python string per word.

Texts are joined into blocks of UTF-8; one kernel folds case, cuts words, matches or learns terms and counts them, a
second one weighs, sorts and normalises the rows. Threads work on shards of the texts, each with a table of terms of its
own; the tables are merged at the end and the terms sorted, so that columns do not depend on the number of threads.

Documents and label texts share one vocabulary. Inverse document frequencies come from documents alone: a term seen only
in label texts is in no document, which gives it the largest weight.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from itertools import pairwise
from operator import index
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from longtail.data.vocabulary import (
    SAME_COLUMNS,
    Counted,
    Cut,
    Terms,
    ascii_fold,
    blocks,
    encode,
    frozen,
    listed,
    n_threads,
    on_threads,
    slots_for,
    spans,
    weigh_blocks,
)
from longtail.errors import DataError, ModelError, SettingsError
from longtail.kernels import terms as table
from longtail.kernels import text as kernels
from longtail.params import Params

_WHOLE = (int, np.integer)


class TextVectorizer(Params):
    """Rows of TF-IDF weights of unit length, one column a term.

    Words are runs of letters, digits and underscores in any script, in lower case.

    Parameters
    ----------
    ngrams : int or (int, int), default=1
        Numbers of words in a term: ``2`` is pairs alone, ``(1, 2)`` words and pairs.
    min_length : int, default=2
        Shorter words, in characters, are skipped.
    min_df : int or float, default=1
        Terms in fewer documents (a float: in a smaller share of them) are dropped, unless a label text holds them.
    max_df : int or float, default=1.0
        Terms in more documents (a float: in a larger share of them) are dropped.
    max_features : int, optional
        Keep only so many terms, the most frequent ones.
    sublinear_tf : bool, default=False
        Weigh a term that occurs n times in a text by 1 + ln n, not n.
    idf : bool, default=True
        Multiply by ln((1 + N) / (1 + df)) + 1, of N documents df with the term.
    hashing : int, optional
        Number of columns among which terms are spread by hash. No vocabulary is held, so terms have no names, and
        ``min_df``, ``max_df`` and ``max_features`` do not apply.
    n_jobs : int, default=-1
        Threads for large inputs; -1 for one a core. The result does not depend on it.

    Attributes
    ----------
    n_features_ : int
        Number of columns.
    idf_ : array, shape (n_features_,)
        Inverse document frequency of each column; empty without ``idf``.

    Examples
    --------
    >>> vectorizer = TextVectorizer(ngrams=(1, 2))
    >>> X = vectorizer.fit_transform(["a red fox", "the fox"], label_texts=["red animals"])
    >>> list(vectorizer.get_feature_names_out())
    ['animals', 'fox', 'red', 'red animals', 'red fox', 'the', 'the fox']
    """

    def __init__(
        self,
        *,
        ngrams: int | tuple[int, int] = 1,
        min_length: int = 2,
        min_df: int | float = 1,
        max_df: int | float = 1.0,
        max_features: int | None = None,
        sublinear_tf: bool = False,
        idf: bool = True,
        hashing: int | None = None,
        n_jobs: int = -1,
    ) -> None:
        self.ngrams = ngrams
        self.min_length = min_length
        self.min_df = min_df
        self.max_df = max_df
        self.max_features = max_features
        self.sublinear_tf = sublinear_tf
        self.idf = idf
        self.hashing = hashing
        self.n_jobs = n_jobs

    # --- learning

    def fit(self, texts: Iterable[str], label_texts: Iterable[str] | None = None) -> TextVectorizer:
        """Learn the vocabulary from documents and label texts, and inverse document frequencies from documents."""
        self._learn(texts, label_texts, keep=False)
        return self

    def fit_transform(self, texts: Iterable[str], label_texts: Iterable[str] | None = None) -> csr_array:
        """``fit`` then ``transform`` of the documents, reading them once."""
        counted, columns = self._learn(texts, label_texts, keep=True)
        return self._weigh(counted, columns)

    def _learn(
        self, texts: Iterable[str], label_texts: Iterable[str] | None, keep: bool
    ) -> tuple[list[Counted], list[np.ndarray]]:
        """Fit. Returns the documents' counted blocks if they are to be kept, and for each the columns of its ids."""
        self._check_settings()
        documents = listed(texts, "texts")
        labels = [] if label_texts is None else listed(label_texts, "label_texts")
        if not documents:
            raise DataError("there is no text to learn from", remedy="Pass at least one text")
        if self.hashing is None:
            return self._learn_terms(documents, labels, keep)
        return self._learn_bins(documents, keep)

    def _learn_terms(
        self, documents: list[str], labels: list[str], keep: bool
    ) -> tuple[list[Counted], list[np.ndarray]]:
        cut = self._cut()

        def count(texts: list[str], keep: bool, span: tuple[int, int]) -> tuple[Terms, list[Counted]]:
            terms, counted = Terms(), []
            for some in blocks(texts, *span):
                block = terms.count(some, cut)
                if keep:
                    counted.append(block)
            return terms, counted

        shards = on_threads(partial(count, documents, keep), spans(documents, self.n_jobs))
        terms = shards[0][0]
        ids = [np.arange(terms.size), *(terms.merge(other) for other, _ in shards[1:])]
        labelled = []  # ids of the terms of label texts
        for other, _ in on_threads(partial(count, labels, False), spans(labels, self.n_jobs)):
            other.document_frequency[:] = 0  # a label text is not a document
            labelled.append(terms.merge(other))
        chosen = self._choose(terms, labelled, len(documents))

        blob, offsets = table.take_terms(terms.blob, terms.offsets, chosen)
        self._set(blob, offsets, self._inverse(terms.document_frequency[chosen], len(documents)), chosen.size)
        columns = np.full(terms.size, -1, np.int32)
        columns[chosen] = np.arange(chosen.size)
        out = [(block, columns[own]) for own, (_, counted) in zip(ids, shards, strict=True) for block in counted]
        return [block for block, _ in out], [own for _, own in out]

    def _choose(self, terms: Terms, labelled: list[np.ndarray], n_documents: int) -> np.ndarray:
        """Ids of the terms that become columns, in the order of the columns."""
        if not terms.size:
            raise DataError(
                f"no text holds a term: {self.ngrams} word(s) of {self.min_length} characters or more",
                remedy="Check that the right column was read, or lower min_length",
            )
        frequency = terms.document_frequency[: terms.size]
        low, high = (df * n_documents if isinstance(df, float) else df for df in (self.min_df, self.max_df))
        if high < low:
            raise SettingsError(f"max_df={self.max_df} allows fewer documents than min_df={self.min_df} asks for")
        wanted = frequency >= low
        for ids in labelled:
            wanted[ids] = True
        chosen = np.flatnonzero(wanted & (frequency <= high))
        if not chosen.size:
            raise DataError(
                f"min_df={self.min_df} and max_df={self.max_df} drop all of the {terms.size} terms",
                remedy="Lower min_df or raise max_df",
            )
        chosen = chosen[table.sort_terms(terms.blob, terms.offsets, chosen)]
        if self.max_features is not None and self.max_features < chosen.size:
            # Of equally frequent terms the alphabetically first stay, whatever the number of threads.
            by_frequency = np.argsort(-terms.term_frequency[chosen], kind="stable")
            chosen = chosen[np.sort(by_frequency[: self.max_features])]
        return chosen

    def _learn_bins(self, documents: list[str], keep: bool) -> tuple[list[Counted], list[np.ndarray]]:
        n_bins = int(self.hashing or 0)
        self._set(np.zeros(table.PAD, np.uint8), np.zeros(1, np.int64), np.zeros(0, np.float32), n_bins)

        def count(span: tuple[int, int]) -> tuple[np.ndarray, list[Counted]]:
            frequency, counted = np.zeros(n_bins if self.idf else 0, np.int64), []
            for some in blocks(documents, *span):
                block = self._match(some)
                if self.idf:
                    kernels.tally(block[1], frequency)
                if keep:
                    counted.append(block)
            return frequency, counted

        shards = on_threads(count, spans(documents, self.n_jobs))
        frequency = np.sum([frequency for frequency, _ in shards], axis=0)
        self.idf_ = frozen(self._inverse(frequency, len(documents)))
        out = [block for _, counted in shards for block in counted]
        return out, [SAME_COLUMNS] * len(out)

    def _inverse(self, frequency: np.ndarray, n_documents: int) -> np.ndarray:
        inverse = np.log((1 + n_documents) / (1 + frequency)) + 1 if self.idf else np.zeros(0)
        return inverse.astype(np.float32)

    def _cut(self) -> Cut:
        shortest, longest = self.ngrams if isinstance(self.ngrams, Sequence) else (self.ngrams, self.ngrams)
        return Cut(index(self.min_length), index(shortest), index(longest))

    def _check_settings(self) -> None:
        for name, optional in (("min_length", False), ("max_features", True), ("hashing", True)):
            value: Any = getattr(self, name)
            if not (optional and value is None) and not (isinstance(value, _WHOLE) and 1 <= value < 2**31):
                raise SettingsError(f"{name}={value!r} must be a whole number from 1 to 2**31 - 1")
        for name in ("min_df", "max_df"):
            value = getattr(self, name)
            if not isinstance(value, (*_WHOLE, float)) or value < 0 or (isinstance(value, float) and value > 1):
                raise SettingsError(f"{name}={value!r} must be a number of documents, or a share of them as a float")
        try:
            cut = self._cut()
        except (TypeError, ValueError):
            cut = Cut(1, 0, 0)
        if not 1 <= cut.shortest <= cut.longest:
            raise SettingsError(f"ngrams={self.ngrams!r} is neither a number of words nor a range (from, to) of them")
        n_threads(self.n_jobs)

    # --- applying

    def transform(self, texts: Iterable[str]) -> csr_array:
        """TF-IDF rows of the texts, (n_texts, n_features_) float32. A text without known terms is an empty row."""
        self._check_fitted()
        texts = listed(texts, "texts")
        if len(texts) == 1:  # what a service asks for, with nothing to share out or to put together
            indptr, ids, counts = self._match(texts)
            indices, data = np.empty(ids.size, np.int32), np.empty(ids.size, np.float32)
            kernels.weigh(indptr, ids, counts, SAME_COLUMNS, self.idf_, self._sublinear, indptr, indices, data)
            X = copy(self._empty_row)  # the constructor's checks would take longer than all the rest
            X.indptr, X.indices, X.data = indptr.astype(np.int32), indices, data
            return X
        shards = on_threads(
            lambda span: [self._match(some) for some in blocks(texts, *span)], spans(texts, self.n_jobs)
        )
        counted = [block for shard in shards for block in shard]
        return self._weigh(counted, [SAME_COLUMNS] * len(counted))

    def _match(self, texts: list[str]) -> Counted:
        block, unicode_table = encode(texts)
        return kernels.match_block(block, len(texts), ascii_fold(), unicode_table, *self._matching)

    def _weigh(self, counted: list[Counted], columns: list[np.ndarray]) -> csr_array:
        threads = min(n_threads(self.n_jobs), len(counted))
        return weigh_blocks(counted, columns, self.idf_, self._sublinear, self.n_features_, threads)

    # --- looking and storing

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The term of each column, as an array of strings."""
        self._check_fitted()
        if self.hashing is not None:
            raise ModelError("Hashed columns have no names; fit without hashing to keep a vocabulary")
        text, bounds = self._blob.tobytes(), self._offsets.tolist()
        return np.array([text[a:b].decode() for a, b in pairwise(bounds)], dtype=object)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """All that is learnt: settings fit for JSON, and arrays fit for memory mapping."""
        self._check_fitted()
        meta = {**self.get_params(), "n_features": self.n_features_}
        meta = {key: value.item() if isinstance(value, np.generic) else value for key, value in meta.items()}
        return meta, {"terms": self._blob, "offsets": self._offsets, "idf": self.idf_}

    @classmethod
    def from_arrays(cls, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> TextVectorizer:
        """The vectorizer that ``to_arrays`` described. The arrays are used in place."""
        settings = dict(meta)
        n_features = settings.pop("n_features")
        if not isinstance(settings["ngrams"], int):
            settings["ngrams"] = tuple(settings["ngrams"])  # JSON knows lists only
        vectorizer = cls(**settings)
        blob, offsets, idf = (arrays[name] for name in ("terms", "offsets", "idf"))
        # Kernels trust these arrays with addresses, so what comes from a file is looked at first.
        if (
            (blob.dtype, offsets.dtype, idf.dtype) != (np.uint8, np.int64, np.float32)
            or offsets[0] != 0
            or offsets[-1] + table.PAD > blob.size
            or (np.diff(offsets) <= 0).any()
            or (vectorizer.hashing is None and offsets.size != n_features + 1)
            or idf.size != (n_features if vectorizer.idf else 0)
        ):
            raise ModelError("The vocabulary's arrays do not fit together; the folder was changed or damaged")
        vectorizer._set(blob, offsets, idf, n_features)
        return vectorizer

    def _set(self, blob: np.ndarray, offsets: np.ndarray, idf: np.ndarray, n_features: int) -> None:
        self._blob, self._offsets, self.idf_ = frozen(blob), frozen(offsets), frozen(idf)
        self.n_features_ = int(n_features)
        slots = frozen(slots_for(self._blob, self._offsets, offsets.size - 1))
        # Settings are frozen at fit: a parameter changed later shall not change what a fitted vectorizer does.
        self._matching = (*self._cut(), int(self.hashing or 0), slots, self._blob, self._offsets)
        self._sublinear = bool(self.sublinear_tf)
        self._empty_row = csr_array((1, self.n_features_), dtype=np.float32)
        self._empty_row.has_canonical_format = True

    def _check_fitted(self) -> None:
        if not hasattr(self, "n_features_"):
            raise ModelError("This TextVectorizer has learnt nothing yet; call fit first")
