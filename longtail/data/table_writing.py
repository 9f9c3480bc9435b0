"""Write texts and label names as a table: CSV, TSV or JSON lines."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import IO, Any

import orjson

from longtail.data.dataset import Dataset
from longtail.data.separators import SEPARATORS

_SEPARATOR = SEPARATORS[0]


def write_table(stream: IO[bytes], dataset: Dataset, ending: str) -> None:
    """Write one row per point, with its identifier (if there is one), its text and its labels.

    Parameters
    ----------
    stream : binary file
        File to write to.
    dataset : Dataset
        Points with texts.
    ending : {".csv", ".tsv", ".jsonl"}
        The format. In the first two, labels are separated by ``|``. If a name contains a usual separator, labels are
        written as lists such as ``["a, b", "c"]``.
    """
    names = dataset.label_ids or dataset.label_names or [str(label) for label in range(dataset.n_labels)]
    if ending == ".jsonl":
        for row in _table_rows(dataset, names):
            stream.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
        return
    lists = any(name.startswith("[") or any(sign in name for sign in SEPARATORS) for name in names)
    tsv = ending == ".tsv"
    text = io.TextIOWrapper(stream, "utf-8", newline="", write_through=True)
    settings: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE, "quotechar": None} if tsv else {}
    writer = csv.writer(text, lineterminator="\n", **settings)
    writer.writerow([*([] if dataset.ids is None else ["id"]), "text", "labels"])
    for row in _table_rows(dataset, names):
        labels = row["labels"]
        row["labels"] = orjson.dumps(labels).decode() if lists and labels else _SEPARATOR.join(labels)
        writer.writerow([" ".join(cell.split()) if tsv else cell for cell in row.values()])
    text.detach()


def _table_rows(dataset: Dataset, names: list[str]) -> Iterator[dict[str, Any]]:
    assert dataset.texts is not None
    bounds, labels = dataset.Y.indptr.tolist(), dataset.Y.indices.tolist()
    for i, text in enumerate(dataset.texts):
        row: dict[str, Any] = {} if dataset.ids is None else {"id": dataset.ids[i]}
        yield row | {"text": text, "labels": [names[j] for j in labels[bounds[i] : bounds[i + 1]]]}
