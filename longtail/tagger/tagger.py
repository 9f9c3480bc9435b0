"""Text in, label names out: a vectoriser, a ranker and the names of its labels, saved and loaded as one folder.

A ranker works on matrices only. A tagger turns texts into features, label names into columns, and columns back into
names. It also keeps the number of training points per label, which the propensity-scored metrics need.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np
from scipy.sparse import csr_array, issparse

from longtail import registry
from longtail.errors import DataError, ModelError, SettingsError, number_of
from longtail.metrics.thresholds import MOST_DECIDED, Thresholds, check_threshold, choose_thresholds
from longtail.model_card import data_checksum
from longtail.models.base import Ranker
from longtail.models.checks import check_k
from longtail.names import LabelNumbers, Names, check_known_labels, find_label
from longtail.notebook import notebook_html
from longtail.params import Integer, value_shown
from longtail.sparse import entry_rows, label_counts, resized, select_entries
from longtail.tagger.inputs import held_out_pair, label_lists, text_list
from longtail.tagger.label_editing import EditableTagger
from longtail.tagger.matrices import (
    check_takes_vectors,
    given_vectors,
    names_and_ids,
    remark_on_terms_as_vectors,
    text_features,
    training_matrices,
)

if TYPE_CHECKING:
    from longtail.data import Dataset, TextVectorizer
    from longtail.explain import Explanation

Suggestion = tuple[str, float]


class Tagger(EditableTagger):
    """Suggest labels for texts.

    It follows scikit-learn's conventions for estimators: ``clone``, ``GridSearchCV`` and pipelines accept it.

    Parameters
    ----------
    model : str or Ranker
        The model that ranks labels: a name or a composition of names (see :func:`longtail.registry.make`), or an
        unfitted ranker.
    vectorizer : TextVectorizer, optional
        Turns texts into features; TF-IDF of words by default. A copy of it is fitted to the training texts.
    encoder : function, str or path, optional
        Encoder that turns texts into dense vectors for ``blend``. It is not trained. The same as
        ``vectorizer=TextVectorizer(encoder=…)``.
    **settings
        Parameters of the model: ``Tagger("bonsai", n_trees=1)``.

    Attributes
    ----------
    ranker_ : Ranker
        The fitted ranker.
    vectorizer_ : TextVectorizer or None
        The fitted vectoriser; None if the tagger was fitted on features.
    label_names_ : Names
        Names of the labels, in the order of the ranker's columns.
    classes_ : array of str, (L,)
        The same names as an array, as scikit-learn has them.
    label_ids_ : Names or None
        Identifiers of the labels, if the data has them in addition to names.
    label_counts_ : array, (L,)
        Number of training points per label.
    n_points_ : int
        Number of training points.
    notes_ : dict
        Further facts saved with the model, as JSON values: how it was trained, for example.

    Examples
    --------
    >>> texts = ["red apple", "green apple", "red car", "fast car"]
    >>> labels = [["fruit", "red"], ["fruit"], ["vehicle", "red"], ["vehicle"]]
    >>> tagger = Tagger("popular").fit(texts, labels)
    >>> [name for name, score in tagger.suggest("a ripe apple", k=2)]
    ['fruit', 'red']
    """

    def __init__(
        self,
        model: str | Ranker = registry.DEFAULT_MODEL,
        *,
        vectorizer: TextVectorizer | None = None,
        encoder: Any = None,
        **settings: Any,
    ) -> None:
        self.model = model
        self.vectorizer = vectorizer
        self.encoder = encoder
        self.settings = settings

    def __repr__(self) -> str:
        return f"Tagger({self.model!r}{''.join(f', {key}={value!r}' for key, value in self.settings.items())})"

    def _repr_html_(self) -> str:
        if not hasattr(self, "ranker_"):
            return notebook_html(repr(self), {"state": "not fitted"}, [], [])
        facts = {"model": repr(self.ranker_), "labels": f"{self.n_labels_:,}"}
        if self.label_counts_ is None:
            return notebook_html("Tagger", facts, [], [])
        facts["training points"] = f"{self.n_points_:,}"
        vectorizer = self.vectorizer_
        facts["reads"] = "features" if vectorizer is None else f"text ({number_of(vectorizer.n_features_, 'term')})"
        first = np.argsort(-self.label_counts_, kind="stable")[:5].tolist()
        rows = [(self.label_names_[at], f"{self.label_counts_[at]:,}") for at in first]
        return notebook_html("Tagger", facts, ["most frequent labels", "training points"], rows)

    # Parameters --------------------------------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name: model, vectorizer, encoder and the settings given.

        Parameters
        ----------
        deep : bool
            Add the parameters of a ranker or vectoriser that was given as an object, as ``model__n_trees``.
        """
        params: dict[str, Any] = {"model": self.model, "vectorizer": self.vectorizer, "encoder": self.encoder}
        params |= self.settings
        if deep:
            for name, part in (("model", self.model), ("vectorizer", self.vectorizer)):
                if part is not None and not isinstance(part, str):
                    params |= {f"{name}__{inner}": value for inner, value in part.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name. Those of the model must be among its parameters.

        Parameters
        ----------
        **params
            ``model``, ``vectorizer``, settings of a model given by name (``n_trees``), or ``model__n_trees`` and
            ``vectorizer__ngrams`` where these were given as objects.
        """
        self.model = params.pop("model", self.model)
        self.vectorizer = params.pop("vectorizer", self.vectorizer)
        self.encoder = params.pop("encoder", self.encoder)
        settings = dict(self.settings)
        for name, value in params.items():
            outer, _, inner = name.partition("__")
            if not inner:
                settings[name] = value
            elif outer in ("model", "vectorizer") and hasattr(part := getattr(self, outer), "set_params"):
                part.set_params(**{inner: value})
            else:
                raise SettingsError(f"{name!r} cannot be set: {outer} is not an object with parameters.")
        if settings:
            if not isinstance(self.model, str):
                name = next(iter(settings))
                raise SettingsError(f"Tagger has no parameter {name!r}. Write model__{name} for one of the ranker.")
            registry.make(self.model, settings)
        self.settings = settings
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        return tags

    # Learning ----------------------------------------------------------------------------------------------------

    def fit(
        self,
        texts: Sequence[str],
        labels: Any,
        *,
        label_names: Sequence[str] | None = None,
        label_texts: Mapping[str, str] | Sequence[str] | None = None,
        validation: tuple[Sequence[str], Any] | None = None,
    ) -> Self:
        """Learn from texts and the names of their labels.

        Parameters
        ----------
        texts : list or Series of str
            One text per point.
        labels : list or Series of lists of str, or matrix (N, L)
            The names of each text's labels, or a matrix together with `label_names`: a sparse one, or a NumPy array of
            zeros and ones. None and NaN mean no label. A Series of text such as "fruit;red" is cut at the separator
            that most cells have, which is logged.
        label_names : list of str, optional
            The names of all labels, in the order of the columns; required with a matrix. Without it, labels are
            numbered in the order in which they occur.
        label_texts : dict or list of str, optional
            One text per label, by name or in the order of `label_names`, for models that use label text. The default,
            also for labels that the dict leaves out, is the name of the label. A text replaces the name: start it with
            the name if texts may contain that. A name that occurs only in the dict becomes a label without training
            points; a message lists such names, with known labels that are spelt similarly.
        validation : tuple of (texts, labels), optional
            Held-out texts, for models that stop early or choose settings on them. Labels that no training text has are
            ignored.

        Returns
        -------
        Tagger
            The tagger itself.
        """
        from longtail.data.text import TextVectorizer
        from longtail.tagger.term_choice import with_chosen_ngrams

        self.check_params()
        texts = text_list(texts)
        names = LabelNumbers(label_names)
        Y = names.matrix(label_lists(labels), len(texts))
        described = names.in_order() if label_texts is None else names.texts(label_texts)
        if not Y.nnz:
            raise DataError("no text has a label", remedy="Give at least one text with a label")
        Y = csr_array((Y.data, Y.indices, Y.indptr), shape=(len(texts), len(names)))  # label_texts may add labels
        vectorizer = TextVectorizer() if self.vectorizer is None else _unfitted(self.vectorizer)
        if self.encoder is not None:
            vectorizer.encoder = self.encoder
        if vectorizer.encoder is not None:
            check_takes_vectors(self._ranker())
        vectorizer = with_chosen_ngrams(vectorizer, texts, Y)
        if vectorizer.encoder is None:
            remark_on_terms_as_vectors(self._ranker())
        X = vectorizer.fit_transform(texts, label_texts=described)
        held_out = None
        if validation is not None:
            held_texts, held_labels = held_out_pair(validation)
            held_out = (
                vectorizer.transform(held_texts),
                names.matrix(label_lists(held_labels), len(held_texts), held_out=True),
            )
        ranker = given_vectors(self._ranker(), vectorizer.vector_size_)
        ranker.fit(X, Y, label_features=text_features(vectorizer, described), validation=held_out)
        return self._keep(ranker, vectorizer, names.in_order(), None, Y)._note_data(X, Y)

    def fit_dataset(self, data: Dataset) -> Self:
        """Learn from a dataset that :func:`longtail.read` has returned. Its pairs to ignore are not learnt.

        If the dataset has label names and a vectoriser but no label text, the names are used as label text.

        Parameters
        ----------
        data : Dataset
            Points with features, and their labels.
        """
        from longtail.data import Dataset

        self.check_params()
        if not isinstance(data, Dataset):
            raise DataError(
                f"data is a {type(data).__name__}, not a Dataset",
                remedy="Read it first: fit_dataset(longtail.read(data)); or give texts and labels to fit",
            )
        X, Y, Z = training_matrices(data)
        if data.vectorizer is not None and not data.vector_size:
            remark_on_terms_as_vectors(self._ranker())
        ranker = given_vectors(self._ranker(), data.vector_size).fit(X, Y, label_features=Z)
        self._keep(ranker, data.vectorizer, *names_and_ids(data), data.Y)._note_data(data.X, data.Y, data.name)
        if data.labels_separator is not None:
            self.notes_["labels_separator"] = data.labels_separator
        return self

    @classmethod
    def from_fitted(cls, ranker: Ranker, data: Dataset) -> Self:
        """Return a tagger around a ranker that was fitted to the matrices of `data`."""
        tagger = cls(ranker)._keep(ranker, data.vectorizer, *names_and_ids(data), data.Y)
        return tagger._note_data(data.X, data.Y, data.name)

    def check_params(self) -> None:
        """Raise an error, before any work, if a setting of the model or the vectoriser breaks its constraint."""
        self._ranker().check_params()
        if self.vectorizer is not None:
            from longtail.data.text import TextVectorizer

            if not isinstance(self.vectorizer, TextVectorizer):
                raise SettingsError(f"vectorizer is {value_shown(self.vectorizer)}; give a TextVectorizer, or None")
            self.vectorizer.check_params()

    def _ranker(self) -> Ranker:
        if isinstance(self.model, str):
            return registry.make(self.model, self.settings)
        if not isinstance(self.model, Ranker):
            raise SettingsError(
                f"model is {value_shown(self.model)}; give the name of a model or a ranker, such as Bonsai()"
            )
        if self.settings:
            raise SettingsError("Settings are for a model given by name. Set them on the ranker itself.")
        return self.model

    def _keep(
        self,
        ranker: Ranker,
        vectorizer: TextVectorizer | None,
        names: Sequence[str],
        ids: Sequence[str] | None,
        Y: csr_array,
    ) -> Self:
        self.ranker_ = ranker
        self.vectorizer_ = vectorizer
        self.label_names_ = Names.of(names)
        self.label_ids_ = None if ids is None else Names.of(ids)
        self.label_counts_ = label_counts(Y).astype(np.int32)
        self.n_points_ = int(Y.shape[0])
        self.notes_ = {}
        return self

    def _note_data(self, X: csr_array | None, Y: csr_array, name: str | None = None) -> Self:
        """Keep the facts about the training data for the model card."""
        self.notes_["training_data"] = {"checksum": data_checksum(X, Y)} | ({} if name is None else {"name": name})
        return self

    # Using -------------------------------------------------------------------------------------------------------

    @overload
    def suggest(self, texts: str, k: int | None = None, threshold: float | str | None = None) -> list[Suggestion]: ...
    @overload
    def suggest(
        self, texts: list[str] | csr_array, k: int | None = None, threshold: float | str | None = None
    ) -> list[list[Suggestion]]: ...
    def suggest(
        self, texts: Any, k: int | None = None, threshold: float | str | None = None
    ) -> list[Suggestion] | list[list[Suggestion]]:
        """Return the best labels and their scores, best first.

        Parameters
        ----------
        texts : str, or list or Series of str
            One text gives one list, several give a list of lists. A tagger that was fitted to features takes a matrix.
        k : int, optional
            Largest number of labels per text. The default is 5; with a threshold it is 50, and with
            ``threshold="auto"`` the limit that was chosen with the threshold. A text without a word of the vocabulary
            gets no label, and a warning is logged.
        threshold : float or "auto", optional
            Leave out labels with a lower score. A text may then have no label. "auto" is the threshold that
            :meth:`optimize` chose; without it, the one that ``blend`` or ``calibrated(…)`` chose during the fit.

        Returns
        -------
        list of (name, score), or a list of such lists
        """
        single = isinstance(texts, str)
        chosen = self._fitted().thresholds(threshold, k)
        scores = self.predict([texts] if single else texts, chosen.limit)
        n_blank = int(np.count_nonzero(np.diff(scores.indptr) == 0))
        if n_blank and not issparse(texts):
            logging.getLogger("longtail.tagger").warning(
                "Texts without a word of the vocabulary: %s of %s. These get no label.", n_blank, scores.shape[0]
            )
        scores = chosen.decide(scores, self.label_counts_)
        names = self.label_names_
        suggestions = [
            [(names[j], s) for j, s in zip(scores.indices[a:b].tolist(), scores.data[a:b].tolist(), strict=True)]
            for a, b in pairwise(scores.indptr.tolist())
        ]
        return suggestions[0] if single else suggestions

    def predict(self, texts: Any, k: int = 5) -> csr_array:
        """Return the `k` best scores of each text as a sparse matrix, (texts, labels), with the best first in each row.

        A text without a word of the vocabulary has no scores: a model could only suggest the most frequent labels.
        """
        X = self.features(texts)
        scores = self._fitted().ranker_.predict(X, k)
        blank = np.diff(X.indptr) == 0
        if issparse(texts) or not blank.any():
            return scores
        return select_entries(scores, ~blank[entry_rows(scores)])

    def blank_rows(self, texts: Any) -> np.ndarray:
        """Return the positions of texts without a word of the vocabulary."""
        return np.flatnonzero(np.diff(self.features(texts).indptr) == 0)

    def predict_proba(self, texts: Any, k: int = MOST_DECIDED) -> csr_array:
        """Return the scores of :meth:`predict` for the `k` best labels of each text, 50 by default.

        ``blend`` and ``calibrated(…)`` learn probabilities from held-out points. The scores of other models rank labels
        but may be too high or too low as probabilities; ``longtail evaluate`` shows by how much (ECE).
        """
        return self.predict(texts, k)

    def predict_labels(self, texts: Any, threshold: float | str = 0.5, k: int | None = None) -> csr_array:
        """Decide on labels: 1 where a label's score reaches the threshold. A text may have no label.

        Parameters
        ----------
        texts, threshold
            As for :meth:`suggest`.
        k : int, optional
            Largest number of labels per text. The default is 50; with ``threshold="auto"`` it is the limit that was
            chosen with the threshold.

        Returns
        -------
        csr_array of int8, (texts, labels)
            A label indicator matrix for the functions of :mod:`sklearn.metrics`. Its columns are in the order of
            ``label_names_``.
        """
        chosen = self._fitted().thresholds(threshold, k)
        decided = chosen.decide(self.predict(texts, chosen.limit), self.label_counts_)
        labels = csr_array((np.ones(decided.nnz, np.int8), decided.indices, decided.indptr), shape=decided.shape)
        labels.sort_indices()
        return labels

    def thresholds(self, threshold: float | str | None = "auto", k: int | None = None) -> Thresholds:
        """Return the thresholds and the largest number of labels per text that :meth:`suggest` uses.

        Parameters
        ----------
        threshold, k
            As for :meth:`suggest`.
        """
        if threshold is None:
            return Thresholds((0.0,), limit=5 if k is None else k)
        if not isinstance(threshold, str) or threshold != "auto":
            return Thresholds((check_threshold(threshold),), limit=MOST_DECIDED if k is None else k)
        if "thresholds" in self.notes_:
            chosen = Thresholds.from_json(self.notes_["thresholds"])
        else:
            chosen = Thresholds((self.ranker_._threshold("auto"),))
        return chosen if k is None else replace(chosen, limit=k)

    def optimize(
        self, texts: Any, labels: Any, goal: str = "micro", *, by_frequency: bool = False, limit: int = MOST_DECIDED
    ) -> Thresholds:
        """Choose the threshold with the best F1 on some texts, and keep it for ``threshold="auto"``.

        Parameters
        ----------
        texts, labels
            As for :meth:`evaluate`: texts that were not trained on. Save the tagger to keep the threshold with it.
        goal : {"micro", "macro", "example"}
            The F1 to maximise. "macro" gives every label the same weight, so that rare labels count as much as frequent
            ones. "example" gives every text the same weight.
        by_frequency : bool
            Choose one threshold per bin of label frequency instead of one for all labels.
        limit : int
            Largest number of labels per text.

        Returns
        -------
        Thresholds
            The chosen thresholds, with their F1 in percent.
        """
        Y, scores = self._truth_and_scores(texts, labels, limit)
        counts = np.append(self.label_counts_, np.zeros(Y.shape[1] - self.n_labels_, np.int32))
        chosen = choose_thresholds(Y, scores, goal=goal, limit=limit, counts=counts if by_frequency else None)
        self.notes_["thresholds"] = chosen.to_json()
        return chosen

    def _truth_and_scores(self, texts: Any, labels: Any, k: int) -> tuple[csr_array, csr_array]:
        """Return the correct labels and the scores of texts. Labels that the model does not have get new columns."""
        X = self.features(texts)
        names = LabelNumbers(list(self.label_names_))
        names.accepts_new = True
        listed = label_lists(labels)
        if isinstance(listed, list):
            listed = [self.current_names(row) if isinstance(row, list) else row for row in listed]
        Y = self.current_labels(names.matrix(listed, X.shape[0]))
        check_known_labels(Y, self.n_labels_, self.label_counts_)
        return resized(Y, n_columns=len(names)), resized(self.ranker_.predict(X, k), n_columns=len(names))

    def evaluate(
        self, texts: Any, labels: Any, ks: Sequence[int] = (1, 3, 5), propensity: tuple[float, float] = (0.55, 1.5)
    ) -> dict[str, float]:
        """Measure the suggestions for some texts against their correct labels.

        Parameters
        ----------
        texts : list or Series of str
            Texts that were not trained on. A tagger that was fitted to features takes a matrix.
        labels : list or Series of lists of str, or sparse matrix (N, L)
            The correct labels. Those that no training text has count as missed.
        ks : sequence of int
            Cut-offs k of the metrics.
        propensity : tuple of float
            A and B of the propensity model behind PSP and PSnDCG: (0.5, 0.4) for Wikipedia data, (0.6, 2.6) for Amazon.

        Returns
        -------
        dict
            ``P@k``, ``nDCG@k``, ``PSP@k``, ``PSnDCG@k``, ``R@k`` and ``C@k`` in percent, as
            :func:`longtail.evaluate` returns them.
        """
        from longtail.metrics import evaluate, inverse_propensity
        from longtail.metrics._inputs import check_ks

        cuts = check_ks(ks)
        Y, scores = self._truth_and_scores(texts, labels, int(cuts[-1]))
        counts = np.append(self.label_counts_, np.zeros(Y.shape[1] - self.n_labels_, np.int32))
        weights = inverse_propensity(None, *propensity, counts=counts, n_points=self.n_points_)
        return evaluate(Y, scores, inv_propensity=weights, ks=cuts.tolist())

    def explain(
        self,
        text: str,
        label: str | Sequence[str | int] | None = None,
        k: int = 5,
        *,
        max_words: int = 1000,
        exact: bool = True,
    ) -> Explanation:
        """Explain suggestions: the words that raised and lowered a label, and other evidence for it.

        Parameters
        ----------
        text : str
            One text.
        label : str or list of str or int, optional
            Labels to explain, by name, identifier or column; the `k` best by default.
        k : int
            Number of best labels to explain.
        max_words : int
            Largest number of different words to examine. Fewer are faster on long texts.
        exact : bool
            For a linear model (DiSMEC), take the effects of words from its weights: they sum to the log odds of the
            score. If False, and for all other models, leave out one word at a time and compare the scores.

        Returns
        -------
        Explanation
            Iterate over it to get the labels: ``label``, ``score``, ``words`` with ``effect``, ``neighbours`` (training
            points, if the model keeps them), ``label_words`` and, for a blend, the score of each of its ``members``.

        Examples
        --------
        >>> texts = ["red apple", "green apple", "red car", "fast car"]
        >>> tagger = Tagger("dismec").fit(texts, [["fruit"], ["fruit"], ["vehicle"], ["vehicle"]])
        >>> best = tagger.explain("a ripe apple", k=1)[0]
        >>> best.label, [word.word for word in best.raised]
        ('fruit', ['apple'])
        """
        from longtail.explain import explain_text

        if not isinstance(text, str):
            raise DataError("text is not a string", remedy="Give one text; explain the texts of a list one by one")
        self._fitted()
        numbers = None
        if label is not None:
            listed = isinstance(label, list | tuple) or (isinstance(label, np.ndarray) and label.ndim > 0)
            several = label if listed else [label]
            numbers = [self._label_number(given) for given in several]
        return explain_text(self, text, numbers, check_k(k), max_words=max_words, exact=exact)

    def score(self, X: Any, y: Any) -> float:
        """Return the precision at 1 as a fraction, which scikit-learn's searches maximise.

        Parameters
        ----------
        X, y
            Texts and their labels, as in :meth:`evaluate`.
        """
        return self.evaluate(X, y, ks=(1,))["P@1"] / 100

    def features(self, texts: Any, vectors: Any = None) -> csr_array:
        """Return the features of texts. A sparse matrix is returned unchanged.

        Parameters
        ----------
        texts : list or Series of str, or sparse matrix
            Texts, or features.
        vectors : array, (N, d), optional
            Vectors of the texts that were computed elsewhere, used instead of an encoder. A tagger that was trained
            with such vectors and has no encoder needs them: ``tagger.suggest(tagger.features(texts, vectors))``.
        """
        self._fitted()
        if issparse(texts):
            return texts
        texts = text_list(texts)
        if self.vectorizer_ is None:
            raise ModelError(
                "This model was trained on features and cannot read text. "
                "Give it a matrix or a file of features, or train it on text."
            )
        if vectors is not None:
            return self._with_given_vectors(texts, vectors)
        if not self.reads_text():
            raise ModelError(
                "This model was trained with ready vectors of texts and has no encoder, so it cannot read text alone. "
                "Give vectors to Tagger.features (--vectors on the command line) too, or train it with an encoder."
            )
        return self.vectorizer_.transform(texts)

    def _with_given_vectors(self, texts: list[str], vectors: Any) -> csr_array:
        """Return the features of texts with ready vectors."""
        from longtail.data.encoders import checked_vectors
        from longtail.data.vectors import with_vectors

        size, rows = self._vector_size(), np.asarray(vectors)
        if rows.shape != (len(texts), size) or rows.dtype.kind not in "fiub":
            raise DataError(
                f"vectors have shape {rows.shape} and type {rows.dtype}",
                remedy=f"Give {number_of(len(texts), 'row')} of {number_of(size, 'number')}, as in its training"
                if size
                else "This model was trained without vectors; leave them out",
            )
        assert self.vectorizer_ is not None
        return with_vectors(self.vectorizer_.transform_terms(texts), checked_vectors(rows, "vectors"))

    def _label_number(self, label: Any) -> int:
        if isinstance(label, str):
            return find_label(label, self.label_names_, self.label_ids_, numbered=self.label_counts_ is None)
        if not Integer(0, self.n_labels_ - 1).allows(label):
            raise DataError(
                f"there is no label {value_shown(label)}", remedy=f"Labels are numbered from 0 to {self.n_labels_ - 1}"
            )
        return int(label)

    @property
    def n_labels_(self) -> int:
        """Number of labels."""
        return len(self._fitted().label_names_)

    @property
    def classes_(self) -> np.ndarray:
        """Names of the labels as an array."""
        return np.array(list(self._fitted().label_names_), dtype=object)

    def _fitted(self) -> Self:
        self._check_fitted()
        return self


def _unfitted(vectorizer: TextVectorizer) -> TextVectorizer:
    """Return an unfitted vectoriser with the same settings, so that the caller's own is not fitted."""
    return type(vectorizer)(**vectorizer.get_params())
