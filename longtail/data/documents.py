"""Read folders of documents in Annif's form: ``NAME.txt`` has a text, ``NAME.tsv`` or ``NAME.key`` its labels.

A ``.tsv`` file has one label per line: its URI and perhaps its name. A ``.key`` file has one label name per line.
"""

from __future__ import annotations

from pathlib import Path

from longtail.data.dataset import Dataset
from longtail.data.files import COMPRESSED, find, open_bytes, plain_name
from longtail.data.label_file import LabelEntry
from longtail.data.label_rows import LabelRows
from longtail.data.separators import cut_cell
from longtail.errors import DataError


def has_documents(folder: Path) -> bool:
    """Return whether a folder has at least one text with a file of labels."""
    return any(_labels_file(path) for path in _text_files(folder))


def read_documents(folder: Path, numbers: dict[str, int], entries: list[LabelEntry]) -> Dataset:
    """Read the documents of a folder in the order of their names.

    Parameters
    ----------
    folder : Path
        Folder with the files.
    numbers : dict of str to int
        Column of each label. New labels are added to it.
    entries : list of LabelEntry
        Descriptions of labels. The names of URIs from ``.tsv`` files are added to it.
    """
    texts, ids, rows = [], [], LabelRows()
    for path in _text_files(folder):
        texts.append(_utf8_content(path))
        ids.append(plain_name(path).removesuffix(".txt"))
        labels: list[int] = []
        key = _labels_file(path)
        for line in _utf8_content(key).splitlines() if key is not None else ():
            label, _, name = line.partition("\t") if plain_name(key or path).endswith(".tsv") else (line, "", "")
            for cut in cut_cell(label, None):
                if cut not in numbers and name.strip():
                    entries.append(LabelEntry(cut, name.strip(), name.strip()))
                labels.append(numbers.setdefault(cut, len(numbers)))
        rows.append(labels)
    return Dataset(X=None, Y=rows.matrix(len(numbers)), ids=ids, texts=texts, numbered_by_occurrence=True)


def _text_files(folder: Path) -> list[Path]:
    endings = tuple(f".txt{ending}" for ending in ("", *COMPRESSED))
    return sorted(path for path in folder.iterdir() if path.name.endswith(endings) and path.is_file())


def _labels_file(path: Path) -> Path | None:
    stem = plain_name(path).removesuffix(".txt")
    return find(path.parent, f"{stem}.tsv", f"{stem}.key")


def _utf8_content(path: Path) -> str:
    with open_bytes(path) as stream:
        try:
            return stream.read().decode("utf-8-sig")
        except UnicodeDecodeError:
            remedy = "Convert it to UTF-8, for example with iconv"
            raise DataError("the file is not UTF-8", path=path, remedy=remedy) from None
