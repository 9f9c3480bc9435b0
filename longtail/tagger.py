"""Text in, names out: a vectoriser, a ranker and the names of its labels, saved and loaded as one folder.

Rankers know matrices only. A tagger stands between them and people: it makes features of texts, numbers the labels it
is given by name, and gives names back. It also remembers how often each label occurred in training, which the
propensity-scored measures need.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np
from scipy.sparse import csr_array, issparse

from longtail import registry, store
from longtail.errors import DataError, ModelError, SettingsError
from longtail.models.base import Ranker
from longtail.names import LabelNumbers, Names

if TYPE_CHECKING:
    from longtail.data import Dataset, TextVectorizer

Suggestion = tuple[str, float]


class Tagger:
    """Suggests labels for texts.

    Parameters
    ----------
    model : str or Ranker
        A name or a composition of names (see :func:`longtail.registry.make`), or an unfitted ranker.
    vectorizer : TextVectorizer, optional
        How texts become features; TF-IDF of words by default. It is fitted on the training texts.
    **settings
        Parameters of the model: ``Tagger("bonsai", n_trees=1)``.

    Attributes
    ----------
    ranker_ : Ranker
        The fitted ranker.
    vectorizer_ : TextVectorizer or None
        The fitted vectoriser; None if the tagger was fitted on features.
    label_names_ : Names
        What is suggested, in the order of the ranker's labels.
    label_ids_ : Names or None
        Identifiers of the labels, where the data has them beside names.
    label_counts_ : array, shape (L,)
        Training points of each label.
    n_points_ : int
        Training points in all.
    notes_ : dict
        What else is kept with the model, as JSON values: how it was trained, for example.

    Examples
    --------
    >>> texts = ["red apple", "green apple", "red car", "fast car"]
    >>> labels = [["fruit", "red"], ["fruit"], ["vehicle", "red"], ["vehicle"]]
    >>> tagger = Tagger("popular").fit(texts, labels)
    >>> [name for name, score in tagger.suggest("a ripe apple", k=2)]
    ['fruit', 'red']
    """

    ranker_: Ranker
    vectorizer_: TextVectorizer | None
    label_names_: Names
    label_ids_: Names | None
    label_counts_: np.ndarray
    n_points_: int
    notes_: dict[str, Any]

    def __init__(
        self, model: str | Ranker = "bonsai", *, vectorizer: TextVectorizer | None = None, **settings: Any
    ) -> None:
        self.model = model
        self.vectorizer = vectorizer
        self.settings = settings

    def __repr__(self) -> str:
        return f"Tagger({self.model!r}{''.join(f', {key}={value!r}' for key, value in self.settings.items())})"

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
        texts : list of str
            One text a point.
        labels : list of lists of str, or sparse matrix (N, L)
            The names of each text's labels, or a matrix together with `label_names`.
        label_names : list of str, optional
            All labels in the order wanted; needed with a matrix. Without it labels are numbered as they are met.
        label_texts : dict or list of str, optional
            A text for each label, by name or in the order of `label_names`, for models that use it. A label that the
            dict leaves out is described by its name; a name that no text carries becomes a label without points.
        validation : tuple of (texts, labels), optional
            Held-out texts for models that choose settings or stop early. Labels that no training text has are left out.
        """
        from longtail.data import TextVectorizer

        texts = _texts(texts)
        names = LabelNumbers(label_names)
        Y = names.matrix(labels, len(texts))
        described = names.texts(label_texts)
        if not Y.nnz:
            raise DataError("no text has a label", remedy="Give at least one text with a label")
        Y = csr_array(
            (Y.data, Y.indices, Y.indptr), shape=(len(texts), len(names))
        )  # as wide as the texts have made it
        vectorizer = TextVectorizer() if self.vectorizer is None else _copy(self.vectorizer)
        X = vectorizer.fit_transform(texts, label_texts=described)
        Z = None if described is None else vectorizer.transform(described)
        held = None
        if validation is not None:
            held_texts, held_labels = _pair(validation)
            held = vectorizer.transform(held_texts), names.matrix(held_labels, len(held_texts), held_out=True)
        ranker = self._ranker().fit(X, Y, label_features=Z, validation=held)
        return self._keep(ranker, vectorizer, names.listed(), None, Y)

    def fit_dataset(self, data: Dataset) -> Self:
        """Learn from a dataset, as :func:`longtail.read` gives it; its pairs to ignore are not learnt."""
        if data.X is None:
            raise DataError("the dataset has no features", remedy="Read it with a vectorizer")
        ranker = self._ranker().fit(data.X, without(data.Y, data.ignore), label_features=data.Z)
        return self._keep(ranker, data.vectorizer, *_names_and_ids(data), data.Y)

    @classmethod
    def from_fitted(cls, ranker: Ranker, data: Dataset) -> Self:
        """A tagger around a ranker that was fitted on the matrices of `data`."""
        return cls(ranker)._keep(ranker, data.vectorizer, *_names_and_ids(data), data.Y)

    def add_labels(self, names: Sequence[str], texts: Sequence[str] | None = None) -> Self:
        """Add labels that no text has had yet, without training, where the model can score a label by its text.

        Parameters
        ----------
        names : list of str
            Names of the new labels.
        texts : list of str, optional
            What describes each; its name by default.
        """
        ranker: Any = self._fitted().ranker_
        if not hasattr(ranker, "add_labels"):
            raise ModelError(
                f"{type(ranker).__name__} cannot score a label by its text. Train a model that can: decaf."
            )
        names = _texts(names)
        described = names if texts is None else _texts(texts)
        if len(described) != len(names):
            raise DataError(f"{len(names)} names but {len(described)} texts", remedy="Give a text for each name")
        known = set(self.label_names_)
        for name in names:
            if name in known:
                raise DataError(f"the label {name!r} is there already", remedy="Give each new label once")
            known.add(name)
        ranker.add_labels(self.features(described))
        self.label_names_ = Names.of([*self.label_names_, *names])
        self.label_ids_ = None if self.label_ids_ is None else Names.of([*self.label_ids_, *names])
        self.label_counts_ = np.concatenate([self.label_counts_, np.zeros(len(names), np.int32)])
        return self

    def _ranker(self) -> Ranker:
        if isinstance(self.model, str):
            return registry.make(self.model, self.settings)
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
        self.label_counts_ = np.bincount(Y.indices, minlength=Y.shape[1]).astype(np.int32)
        self.n_points_ = int(Y.shape[0])
        self.notes_ = {}
        return self

    # Using -------------------------------------------------------------------------------------------------------

    @overload
    def suggest(self, texts: str, k: int = 5) -> list[Suggestion]: ...
    @overload
    def suggest(self, texts: list[str] | csr_array, k: int = 5) -> list[list[Suggestion]]: ...
    def suggest(self, texts: Any, k: int = 5) -> list[Suggestion] | list[list[Suggestion]]:
        """The best labels and their scores, best first.

        Parameters
        ----------
        texts : str or list of str
            One text gives one list, several give a list of lists. A tagger that was fitted on features takes a matrix.
        k : int
            How many labels a text, at most.
        """
        alone = isinstance(texts, str)
        scores = self.predict([texts] if alone else texts, k)
        names, bounds = self.label_names_, scores.indptr.tolist()
        found = [
            [(names[j], s) for j, s in zip(scores.indices[a:b].tolist(), scores.data[a:b].tolist(), strict=True)]
            for a, b in pairwise(bounds)
        ]
        return found[0] if alone else found

    def predict(self, texts: Any, k: int = 5) -> csr_array:
        """Scores as a sparse matrix, texts by labels, at most `k` a row and the best first."""
        return self._fitted().ranker_.predict(self.features(texts), k)

    def features(self, texts: Any) -> csr_array:
        """What the ranker sees of some texts; a matrix passes unchanged."""
        self._fitted()
        if issparse(texts):
            return csr_array(texts)
        texts = _texts(texts)
        if self.vectorizer_ is None:
            raise ModelError(
                "This model was trained on features, not on text, and cannot read text. "
                "Give it a matrix or a file of features, or train it on text."
            )
        return self.vectorizer_.transform(texts)

    @property
    def n_labels_(self) -> int:
        """Number of labels."""
        return len(self._fitted().label_names_)

    def _fitted(self) -> Self:
        if not hasattr(self, "ranker_"):
            raise ModelError("This Tagger has not been fitted. Call fit first, or load a saved one.")
        return self

    # Keeping -----------------------------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write everything to `folder`, whole or not at all. :func:`longtail.load` gives it back."""
        self._fitted()
        names, ids, vectorizer = self.label_names_, self.label_ids_, self.vectorizer_
        meta: dict[str, Any] = {"n_points": self.n_points_, "n_labels": len(names), "notes": self.notes_}
        arrays = {"label_counts": self.label_counts_, "names": names.blob, "names_offsets": names.offsets}
        if ids is not None:
            arrays |= {"ids": ids.blob, "ids_offsets": ids.offsets}
        if vectorizer is not None:
            meta["vectorizer"], held = vectorizer.to_arrays()
            arrays |= {f"vectorizer_{key}": array for key, array in held.items()}
        with store.atomic_folder(folder) as fresh:
            store.write(fresh, "tagger", meta | {"parts": ["ranker"]}, arrays)
            (fresh / "ranker").mkdir()
            self.ranker_._write(fresh / "ranker")

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Tagger:
        """Read a saved tagger back."""
        found = registry.load(folder)
        if not isinstance(found, Tagger):
            raise ModelError(
                f"{os.fspath(folder)}: holds a {type(found).__name__} alone, without a vectoriser or label names. "
                "Read it with longtail.load."
            )
        return found

    @classmethod
    def _read(cls, stored: store.Stored, parts: dict[str, Any]) -> Self:
        meta, arrays = stored.meta, stored.arrays
        tagger = cls(parts["ranker"])
        tagger.ranker_ = parts["ranker"]
        tagger.vectorizer_ = None
        if meta.get("vectorizer") is not None:
            from longtail.data import TextVectorizer

            own = "vectorizer_"
            held = {key.removeprefix(own): array for key, array in arrays.items() if key.startswith(own)}
            tagger.vectorizer_ = TextVectorizer.from_arrays(meta["vectorizer"], held)
        tagger.label_names_ = Names(arrays["names"], arrays["names_offsets"])
        tagger.label_ids_ = Names(arrays["ids"], arrays["ids_offsets"]) if "ids" in arrays else None
        tagger.label_counts_, tagger.n_points_, tagger.notes_ = arrays["label_counts"], meta["n_points"], meta["notes"]
        return tagger


def without(Y: csr_array, pairs: np.ndarray | None) -> csr_array:
    """`Y` without the entries at `pairs` of (row, label)."""
    if pairs is None or not len(pairs):
        return Y
    keys = pairs[:, 0].astype(np.int64) * Y.shape[1] + pairs[:, 1]
    rows = np.repeat(np.arange(Y.shape[0], dtype=np.int64), np.diff(Y.indptr))
    keep = ~np.isin(rows * Y.shape[1] + Y.indices, keys)
    indptr = np.concatenate(([0], np.cumsum(keep)))[Y.indptr].astype(Y.indptr.dtype)
    return csr_array((Y.data[keep], Y.indices[keep], indptr), shape=Y.shape)


def _texts(texts: Any) -> list[str]:
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        raise DataError("texts is not a list of strings", remedy="Put a single text into a list: [text]")
    return list(texts)


def _pair(validation: Any) -> tuple[list[str], Any]:
    try:
        texts, labels = validation
    except (TypeError, ValueError):
        raise DataError("validation is not a pair", remedy="Give (texts, labels) of the held-out points") from None
    return _texts(texts), labels


def _copy(vectorizer: TextVectorizer) -> TextVectorizer:
    """An unfitted vectoriser with the same settings, so that the caller's own stays as it is."""
    return type(vectorizer)(**vectorizer.get_params())


def _names_and_ids(data: Dataset) -> tuple[Sequence[str], Sequence[str] | None]:
    """What to show for each label, and what identifies it where that is something else."""
    names = data.label_names or data.label_ids or [str(label) for label in range(data.n_labels)]
    return names, data.label_ids if data.label_ids != names else None
