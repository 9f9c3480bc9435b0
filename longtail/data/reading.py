"""`read`: any of the field's files in, a `Dataset` out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from longtail.data.files import check_whole, plain_name
from longtail.data.layouts import FORMATS, recognise
from longtail.data.loading import load
from longtail.errors import DataError, SettingsError

if TYPE_CHECKING:
    from longtail.data.dataset import Dataset
    from longtail.data.text import TextVectorizer


def read(
    path: str | os.PathLike[str],
    *,
    vectorizer: Literal["tfidf"] | TextVectorizer | None = "tfidf",
    format: str | None = None,
    name: str | None = None,
    text_column: str | Sequence[str] | None = None,
    labels_column: str | None = None,
    labels_separator: str | None = None,
    require_labels: bool = True,
) -> Dataset:
    """Read a dataset, whatever its layout; every file may be plain or compressed as .gz, .xz or .zst.

    ==============  ==================================================================================================
    format          files
    ==============  ==================================================================================================
    ``"sparse"``    ``train.txt`` and ``test.txt`` (or ``name_train.txt`` …) in a folder, or one file: a first line
                    ``N D L``, then ``l1,l2 f:v f:v`` rows
    ``"svmlight"``  the same without the first line; features are counted from 1 if no file mentions feature 0
    ``"lf"``        ``trn_X_Xf.txt``, ``trn_X_Y.txt``, ``tst_…``, ``lbl_X_Xf.txt`` in a folder, and ``Yf.txt`` with the
                    labels' names
    ``"npz"``       pairs of `scipy.sparse.save_npz` in a folder: ``X.npz`` ``Y.npz``, ``trn_X.npz`` …, ``X.trn.npz`` …,
                    ``trn_X_Xf.npz`` …; label features in ``Z.npz``, ``lbl_Z.npz`` or ``lbl_X_Xf.npz``
    ``"json"``      raw text in a folder: ``trn.json``, ``tst.json``, ``lbl.json``, one object a line, with ``uid``,
                    ``title``, ``content``, ``target_ind``, ``target_rel``
    ``"table"``     CSV, TSV, Parquet or JSON lines with a text column and a labels column; a folder holds
                    ``train.csv`` and ``test.csv``
    ==============  ==================================================================================================

    Beside any of them ``filter_labels_train.txt`` and ``filter_labels_test.txt`` hold pairs of row and label to leave
    out of evaluation, and ``lbl.json`` the labels' names.

    A point without features or without labels is kept as an empty row. A feature given twice in a row is summed; a
    label given twice is one label. Zeros are not stored.

    Parameters
    ----------
    path : path-like
        Folder or file.
    vectorizer : "tfidf", TextVectorizer or None
        How raw text becomes features. A `TextVectorizer` that is not fitted yet is fitted on the training texts and the
        label texts; a fitted one is used as it is. With None texts are read and ``X`` stays None.
    format : str, optional
        One of the formats above, where the files' names and first lines do not tell.
    name : str, optional
        Name of the dataset; by default that of the folder or file.
    text_column : str or sequence of str, optional
        Column(s) of a table that hold the text; several are joined by newlines. By default told by their names.
    labels_column : str, optional
        Column of a table that holds the labels, as a list or as one string with a separator.
    labels_separator : str, optional
        Separator of labels in one string; by default the first of ``|``, ``;`` and ``,`` that occurs in the column.
    require_labels : bool
        Whether data without any label is an error.

    Returns
    -------
    Dataset
        The training part, with ``test`` filled if the folder holds a test part.

    Raises
    ------
    DataError
        Naming file, line and remedy.

    Examples
    --------
    >>> data = longtail.read("eurlex57k")                                            # doctest: +SKIP
    >>> data = longtail.read("papers.csv", labels_column="keywords")                 # doctest: +SKIP
    """
    if format is not None and format not in FORMATS:
        raise SettingsError(f"format {format!r} is unknown. Use one of {', '.join(FORMATS)}")
    if labels_separator == "":
        raise SettingsError("labels_separator is empty. Give one or more characters, or None to be told by the data")
    path = Path(path)
    if not path.exists():
        raise DataError("there is no such file or folder", path=path, remedy="Check the path")
    try:
        files = recognise(path, format)
        data = load(files, (text_column, labels_column, labels_separator), require_labels)
    except DataError as error:
        if error.path is not None and Path(error.path).is_file():
            check_whole(Path(error.path))
        raise
    data.name = name or (path.resolve().name if path.is_dir() else plain_name(path).split(".")[0])
    if data.test is not None:
        data.test.name = data.name
    if require_labels and not data.Y.nnz:
        remedy = "Training needs labels; check the file, or pass require_labels=False if it is only to be predicted"
        raise DataError("no point has a label", path=files.train[-1], remedy=remedy)
    if data.X is None and vectorizer is not None:
        _vectorise(data, vectorizer)
    return data.validate(require_labels=require_labels)


def _vectorise(data: Dataset, vectorizer: Literal["tfidf"] | TextVectorizer) -> None:
    """Fill X, Z and the test part's X from the texts, over one vocabulary."""
    if vectorizer == "tfidf":
        from longtail.data.text import TextVectorizer

        vectorizer = TextVectorizer()
    elif isinstance(vectorizer, str) or not hasattr(vectorizer, "transform"):
        raise SettingsError(f'vectorizer {vectorizer!r} is unknown. Use "tfidf", a TextVectorizer, or None')
    assert data.texts is not None
    if hasattr(vectorizer, "n_features_"):  # fitted: the features a trained model knows
        data.X = vectorizer.transform(data.texts)
    else:
        data.X = vectorizer.fit_transform(data.texts, label_texts=data.label_texts)
    data.vectorizer = vectorizer
    if data.label_texts is not None:
        data.Z = vectorizer.transform(data.label_texts)
    if data.test is not None:
        assert data.test.texts is not None
        data.test.X, data.test.Z, data.test.vectorizer = vectorizer.transform(data.test.texts), data.Z, vectorizer
