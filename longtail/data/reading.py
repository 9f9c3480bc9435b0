"""`read` any of the field's file formats, or a DataFrame, into a `Dataset`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from longtail.data.files import check_whole, find, plain_name
from longtail.data.layouts import READ_FORMATS, recognise
from longtail.data.loading import load_files
from longtail.data.table import TableReader, is_frame
from longtail.errors import DataError, SettingsError

if TYPE_CHECKING:
    from longtail.data.dataset import Dataset
    from longtail.data.text import TextVectorizer


def read(
    source: str | os.PathLike[str] | Any,
    *,
    vectorizer: Literal["tfidf"] | TextVectorizer | None = "tfidf",
    format: str | None = None,
    name: str | None = None,
    text: str | Sequence[str] | None = None,
    labels: str | None = None,
    labels_separator: str | None = None,
    label_texts: str | os.PathLike[str] | Mapping[str, str] | None = None,
    vectors: Any = None,
    require_labels: bool = True,
) -> Dataset:
    """Read a dataset from a folder, a file or a DataFrame.

    The format is recognised by the names and first lines of the files. Every file may be plain or compressed (.gz, .xz
    or .zst).

    ==============  ==================================================================================================
    format          files
    ==============  ==================================================================================================
    ``"sparse"``    ``train.txt`` and ``test.txt`` (or ``name_train.txt`` …) in a folder, or one file: a first line
                    ``N D L``, then ``l1,l2 f:v f:v`` rows
    ``"svmlight"``  the same without the first line; features are counted from 1 if feature 0 occurs in no file
    ``"lf"``        ``trn_X_Xf.txt``, ``trn_X_Y.txt``, ``tst_…``, ``lbl_X_Xf.txt`` in a folder, and ``Yf.txt`` with the
                    label names
    ``"npz"``       pairs of `scipy.sparse.save_npz` in a folder: ``X.npz`` ``Y.npz``, ``trn_X.npz`` …, ``X.trn.npz`` …,
                    ``trn_X_Xf.npz`` …; label features in ``Z.npz``, ``lbl_Z.npz`` or ``lbl_X_Xf.npz``
    ``"json"``      raw text in a folder: ``trn.json``, ``tst.json``, ``lbl.json``, one object per line, with ``uid``,
                    ``title``, ``content``, ``target_ind``, ``target_rel``
    ``"table"``     CSV, TSV, Parquet or JSON lines with a text column and a labels column; a folder holds
                    ``train.csv`` and ``test.csv``. A TSV of text and URIs needs no header
    ``"documents"`` ``NAME.txt`` with ``NAME.tsv`` or ``NAME.key`` for each, as in Annif; or folders ``train``
                    and ``test`` of such files
    ==============  ==================================================================================================

    In the same folder, ``filter_labels_train.txt`` and ``filter_labels_test.txt`` may list (row, label) pairs to
    exclude from training and evaluation, and ``lbl.json`` may list the label names. Next to a table, ``lbl.json``
    describes the labels, like a file for `label_texts`.

    A point without features or labels is kept as an empty row. If a row has a feature twice, the values are summed; if
    it has a label twice, it counts once. Zeros are not stored.

    Parameters
    ----------
    source : path-like or DataFrame
        Folder or file, or a DataFrame of pandas or polars with a text column and a labels column.
    vectorizer : "tfidf", TextVectorizer or None
        How texts become features. An unfitted `TextVectorizer` is fitted to the training texts and the label texts; a
        fitted one is used as it is. With None, texts are only read, and ``X`` is None.
    format : str, optional
        One of the formats above. Give it if the format is not recognised.
    name : str, optional
        Name of the dataset; by default the name of the folder or file.
    text : str or sequence of str, optional
        Column(s) of a table with the text. Several are joined by newlines. The default is a column with a usual name.
    labels : str, optional
        Column of a table with the labels, as a list or as one string with a separator. A missing value (None, NaN)
        means that a point has no labels.
    labels_separator : str, optional
        Separator of labels in one string. By default it is chosen by counting the rows that contain ``|``, ``;`` or
        ``,``; cells of nothing but URIs or whole numbers are cut at spaces. The choice is logged (logger
        ``longtail.data``) and stored in ``Dataset.labels_separator``. A warning is given if the choice results in about
        one label per row, or if another separator would give many more labels.
    label_texts : path-like or dict, optional
        Texts of the labels, by identifier or name: a dict, or a file in CSV, TSV, JSON or SKOS (see
        :func:`longtail.data.label_file.read_label_texts`). A text replaces the name of the label as its text. Labels
        that no point has are added.
    vectors : str or sequence of paths or arrays, optional
        Dense vectors that were computed elsewhere, such as sentence embeddings, for ``blend``: one array or .npy file
        each for the training points, for the test points if there are any, and for the label texts, which may be left
        out. They become the last columns of ``X`` and ``Z``.
    require_labels : bool
        Raise an error if no point has a label.

    Returns
    -------
    Dataset
        The training part. Its attribute ``test`` is the test part, if the folder has one.

    Raises
    ------
    DataError
        The message has the file, the line and the remedy.

    Examples
    --------
    >>> data = longtail.read("eurlex57k")                                            # doctest: +SKIP
    >>> data = longtail.read("papers.csv", text="title", labels="keywords")          # doctest: +SKIP
    >>> data = longtail.read(frame, text=["title", "abstract"], labels="keywords")   # doctest: +SKIP
    """
    if format is not None and format not in READ_FORMATS:
        of_tables = "CSV, TSV, Parquet and JSON lines are 'table'"
        raise SettingsError(f"format {format!r} is unknown. Use one of {', '.join(READ_FORMATS)}; {of_tables}.")
    if labels_separator == "":
        raise SettingsError(
            "labels_separator (--labels-separator on the command line) is empty. "
            "Give one or more characters, or leave it out to choose it by counting."
        )
    tables = TableReader(text, labels, labels_separator, require_labels)
    if is_frame(source):
        data, labels_path, described = _read_frame(source, tables, format), None, None
        data.name = name or data.name
    else:
        path = _existing(source)
        data, labels_path, described = _read_path(path, tables, format)
        data.name = name or (path.resolve().name if path.is_dir() else plain_name(path).split(".")[0])
    if data.test is not None:
        data.test.name = data.name
    _describe(data, label_texts, described)
    if require_labels and not data.Y.nnz:
        remedy = "Training needs labels. Check the labels column or file, and how labels are separated"
        raise DataError("no point has a label", path=labels_path, remedy=remedy)
    if data.X is None and vectorizer is not None:
        vectorize(data, vectorizer, terms_only=vectors is not None)
    elif vectorizer is not None and vectorizer != "tfidf" and not hasattr(vectorizer, "n_features_"):
        raise SettingsError(
            f"{labels_path}: vectorizer (--set text.… on the command line) has no effect: the data holds features, not "
            "text. Leave it out."
        )
    if vectors is not None:
        from longtail.data.vectors import add_vectors, read_vectors

        if data.X is None:
            raise SettingsError("vectors (--vectors on the command line) are appended to features. Give a vectorizer.")
        add_vectors(data, read_vectors(vectors, has_test=data.test is not None))
    return data.validate(require_labels=require_labels)


def _existing(source: Any) -> Path:
    if not isinstance(source, str | os.PathLike):
        raise DataError(
            f"cannot read a dataset from {type(source).__name__}",
            remedy="Give a path or a DataFrame of pandas or polars",
        )
    path = Path(source)
    if not os.fspath(source):
        raise DataError("the path of the data is empty", remedy="Give the path of a file or folder")
    try:
        exists = path.exists()
    except OSError as error:  # a name that is too long, a folder that may not be entered
        raise DataError(f"cannot be read ({error.strerror})", path=path, remedy="Check the path") from None
    if not exists:
        raise DataError("there is no such file or folder", path=path, remedy="Check the path")
    return path


def _read_path(path: Path, tables: TableReader, format: str | None) -> tuple[Dataset, Path, Path | None]:
    """Read a folder or file. Return also the path of the labels, and that of ``lbl.json`` if it is next to a table."""
    try:
        files = recognise(path, format)
        if files.format != "table":
            _refuse_unused(tables, path)
        described = find(files.folder, "lbl.json") if files.format in ("table", "documents") else None
        return load_files(files, tables), files.train[-1], described
    except DataError as error:
        if error.path is not None and Path(error.path).is_file():
            check_whole(Path(error.path))  # if the file is damaged, that is the better message
        raise


def _read_frame(frame: Any, tables: TableReader, format: str | None) -> Dataset:
    if format not in (None, "table"):
        raise SettingsError(f"format {format!r} is for files. Leave it out for a DataFrame")
    data = tables.read_frame(frame)
    data.label_ids = data.label_names = list(tables.numbers)
    return data


def _refuse_unused(tables: TableReader, path: Path) -> None:
    """Raise an error if settings of tables were given for data that is not a table: they would have no effect."""
    given = {"text": tables.text, "labels": tables.labels, "labels_separator": tables.separator}
    options = {"text": "--text-column", "labels": "--labels-column", "labels_separator": "--labels-separator"}
    for name, value in given.items():
        if value is not None:
            raise SettingsError(
                f"{path}: {name} ({options[name]} on the command line) has no effect: the data is not a table. "
                "Leave it out."
            )


def _describe(data: Dataset, label_texts: Any, lbl_json: Path | None) -> None:
    """Add names and texts of labels from the caller's `label_texts`, or else from ``lbl.json`` next to a table."""
    source = lbl_json if label_texts is None else label_texts
    if source is None or not data.n_labels:
        return
    if data.texts is None:
        raise SettingsError(
            "label_texts (--labels-file on the command line) has no effect: the data holds features, and no text "
            "can be turned into them. Leave it out, or give texts."
        )
    from longtail.data.label_file import describe_labels, read_label_texts

    described = "label_texts" if isinstance(source, Mapping) else os.fspath(source)
    describe_labels(data, read_label_texts(source), described)


def vectorize(data: Dataset, vectorizer: Literal["tfidf"] | TextVectorizer, *, terms_only: bool = False) -> None:
    """Compute X, Z and the X of the test part from the texts, with one vocabulary.

    With `terms_only` the encoder is not used, because vectors were given with the data.
    """
    if vectorizer == "tfidf":
        from longtail.data.text import TextVectorizer

        vectorizer = TextVectorizer()
    elif isinstance(vectorizer, str) or not hasattr(vectorizer, "transform"):
        raise SettingsError(f'vectorizer {vectorizer!r} is unknown. Use "tfidf", a TextVectorizer, or None')
    assert data.texts is not None
    if hasattr(vectorizer, "n_features_"):  # fitted already: compute the features that a model was trained with
        transform = vectorizer.transform_terms if terms_only else vectorizer.transform
        data.X = transform(data.texts)
    else:
        fit = vectorizer.fit_terms if terms_only else vectorizer.fit_transform
        data.X = fit(data.texts, label_texts=data.described_labels() or None)
        transform = vectorizer.transform_terms if terms_only else vectorizer.transform
    data.vectorizer = vectorizer
    data.Z = data.label_features(transform) if data.label_texts is None else transform(data.label_texts)
    if data.test is not None:
        assert data.test.texts is not None
        data.test.X, data.test.Z, data.test.vectorizer = transform(data.test.texts), data.Z, vectorizer
    for part in (data, data.test):
        if part is not None and not terms_only:
            part.vector_size = getattr(vectorizer, "vector_size_", 0)  # may be any object with fit_transform
