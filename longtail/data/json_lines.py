"""Raw text as JSON lines: ``trn.json``, ``tst.json`` and ``lbl.json``, one object per line.

A point has a ``title``, a ``content`` or both, which are joined by a newline, and ``target_ind``, the indices of its
labels. Optional are ``uid``, its identifier, and ``target_rel``, the relevance of each label. Line i of ``lbl.json`` is
label i; its ``title`` is both its name and its text.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import orjson

from longtail.data.dataset import Dataset
from longtail.data.files import lines
from longtail.data.label_rows import LabelRows
from longtail.errors import DataError

_FLOAT32_MAX = (2 - 2.0**-23) * 2.0**127


def objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a JSON-lines file with their line numbers.

    A file may also be one list of objects, as DataFrames of pandas write it. It is then read into memory as a whole,
    and numbers count its items.
    """
    seen = False
    numbered = lines(path)
    first = next(numbered, None)
    if first is not None and first[1].lstrip().startswith(b"["):
        numbered = enumerate(_loaded(b"\n".join(line for _, line in chain([first], numbered)), path, None), 1)
    elif first is not None:
        numbered = ((number, _loaded(line, path, number)) for number, line in chain([first], numbered))
    for number, item in numbered:
        if not isinstance(item, dict):
            kind = {list: "a list", str: "a string", type(None): "null"}.get(type(item), "a number")
            remedy = "Write one JSON object on each line, or one list of objects"
            raise DataError(f"the entry holds {kind}, not an object", path=path, line=number, remedy=remedy)
        seen = True
        yield number, item
    if not seen:
        raise DataError("the file is empty", path=path, remedy="Check that it was written completely")


def _loaded(content: bytes, path: Path, number: int | None) -> Any:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        what = f"this is not valid JSON ({error.msg}, column {error.colno})"
        raise DataError(
            what,
            path=path,
            line=error.lineno if number is None else number,
            remedy="Write one JSON object on each line",
        ) from None


def first_object(path: Path) -> dict[str, Any]:
    """Return the first object of a file. Its keys show the layout."""
    return next(objects(path))[1]


def read_labels(path: Path) -> tuple[list[str] | None, list[str] | None, list[str] | None, int]:
    """Read the labels of ``lbl.json``.

    The text of a label is its title, unless the line has a field ``text``.

    Returns
    -------
    label_ids, label_names, label_texts : lists of str, or None where no label has one
    n_labels : int
    """
    ids: list[str | None] = []
    names: list[str | None] = []
    texts: list[str | None] = []
    for number, item in objects(path):
        title = _string(item, "title", path, number)
        text = _string(item, "text", path, number) if "text" in item else title
        uid = _uid(item, path, number)
        if title is None and uid is None:
            remedy = "Give each label a title: its name and text"
            raise DataError('the label has neither "title" nor "uid"', path=path, line=number, remedy=remedy)
        ids.append(uid)
        names.append(title)
        texts.append(text)
    shown = None if _all_none(names) else [name or uid or "" for name, uid in zip(names, ids, strict=True)]
    return ids_or_positions(ids), shown, None if _all_none(texts) else [text or "" for text in texts], len(ids)


def read_names(path: Path) -> tuple[list[str] | None, list[str] | None]:
    """Read the identifiers and texts of points whose features and labels are in matrices; None where there are none."""
    ids: list[str | None] = []
    texts: list[str] = []
    for number, item in objects(path):
        ids.append(_uid(item, path, number))
        if "text" in item:
            texts.append(_string(item, "text", path, number) or "")
    return ids_or_positions(ids), texts if len(texts) == len(ids) else None


def read_points(path: Path, labels: Path, n_labels: int, *, require_labels: bool = True) -> Dataset:
    """Read the points of ``trn.json`` or ``tst.json``: texts, identifiers and label matrix, without features."""
    ids: list[str | None] = []
    texts: list[str] = []
    rows, at = LabelRows(), array("q")
    for number, item in objects(path):
        title, content = _string(item, "title", path, number), _string(item, "content", path, number)
        if title is None and content is None:
            remedy = "Give each point its text in these fields, or an empty title if it has none"
            raise DataError('the point has neither "title" nor "content"', path=path, line=number, remedy=remedy)
        texts.append(f"{title}\n{content}" if title and content else title or content or "")
        ids.append(_uid(item, path, number))
        _append_targets(rows, item, path, number, require_labels)
        at.append(number)
    wrong = rows.outside(n_labels)
    if wrong is not None:
        row, label = wrong
        what = f"target_ind names label {label}, but {labels.name} holds {n_labels}, counted from 0"
        raise DataError(what, path=path, line=at[row], remedy=f"Add the label to {labels.name} or correct the index")
    return Dataset(X=None, Y=rows.matrix(n_labels), ids=ids_or_positions(ids), texts=texts)


def _append_targets(rows: LabelRows, item: dict[str, Any], path: Path, number: int, required: bool) -> None:
    targets, relevance = item.get("target_ind"), item.get("target_rel")
    if targets is None and not required:
        targets = []
    if not isinstance(targets, list):
        what = "target_ind is missing" if targets is None else "target_ind is not a list"
        raise DataError(what, path=path, line=number, remedy="Give the indices of the point's labels, or [] for none")
    if relevance is not None and (not isinstance(relevance, list) or len(relevance) != len(targets)):
        raise DataError(
            "target_rel does not match target_ind", path=path, line=number, remedy="Give one relevance for each label"
        )
    try:
        rows.append(targets, relevance)
    except (TypeError, OverflowError):
        what = "target_ind or target_rel holds something that is not a number in range"
        remedy = "Labels are whole numbers counted from 0"
        raise DataError(what, path=path, line=number, remedy=remedy) from None
    if relevance is not None and not all(0 <= r <= _FLOAT32_MAX for r in relevance):
        raise DataError(
            "target_rel holds a negative or infinite value", path=path, line=number, remedy="Use numbers ≥ 0"
        )


def _string(item: dict[str, Any], key: str, path: Path, number: int) -> str | None:
    value = item.get(key)
    if value is None or isinstance(value, str):
        return value
    raise DataError(f'"{key}" is not a string', path=path, line=number, remedy="Put its value in quotation marks")


def _uid(item: dict[str, Any], path: Path, number: int) -> str | None:
    value = item.get("uid")
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value)
    raise DataError('"uid" is neither a string nor a whole number', path=path, line=number, remedy="Use one of them")


def ids_or_positions(ids: list[str | None]) -> list[str] | None:
    """Return None if no point has an identifier. Otherwise use the position of each point that has none."""
    if _all_none(ids):
        return None
    return [str(i) if uid is None else uid for i, uid in enumerate(ids)]


def _all_none(values: list[str | None]) -> bool:
    return all(value is None for value in values)
