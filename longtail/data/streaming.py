"""Read the points of a file in blocks, for files that are larger than memory: plain text, tables, and sparse text."""

from __future__ import annotations

from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longtail.data.files import check_whole, open_bytes
from longtail.data.layouts import recognise
from longtail.errors import DataError

BLOCK = 4096  # rows per block


@dataclass(frozen=True)
class PointBlock:
    """Consecutive points of a file: their texts or features, and their identifiers if there are any."""

    start: int  # number of the first point
    texts: Sequence[str] | None
    X: Any  # csr_array, (n, D), or None
    ids: Sequence[str] | None = None

    def __len__(self) -> int:
        return len(self.texts) if self.texts is not None else int(self.X.shape[0])


def line_blocks_of(stream: Iterable[bytes], name: str) -> Iterator[PointBlock]:
    """Yield one text per line. A blank line is an empty text, so that line i of the file is row i of the result."""
    texts: list[str] = []
    start = 0
    for number, line in enumerate(stream):
        try:
            texts.append(line.decode("utf-8-sig" if number == 0 else "utf-8").rstrip("\r\n"))
        except UnicodeDecodeError:
            written = "utf-16" if line.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "latin1"
            remedy = f"Convert the text, for example with iconv -f {written} -t utf-8"
            raise DataError("the line is not UTF-8", path=name, line=number + 1, remedy=remedy) from None
        if len(texts) == BLOCK:
            yield PointBlock(start, texts, None)
            start, texts = start + BLOCK, []
    if texts:
        yield PointBlock(start, texts, None)


def text_file_blocks(path: Path) -> Iterator[PointBlock]:
    """Yield the lines of a text file, plain or compressed."""
    with open_bytes(path) as stream:
        yield from line_blocks_of(stream, str(path))


def streamable(path: Path, format: str | None = None) -> str | None:
    """Return ``"table"`` or ``"sparse"`` if a file has this format and can be read in blocks, None otherwise."""
    if not path.is_file():
        return None
    files = recognise(path, format)
    return files.format if files.single_file and files.format in ("table", "sparse") else None


def table_blocks(
    path: Path, text: str | Sequence[str] | None = None, labels: str | None = None
) -> Iterator[PointBlock]:
    """Yield the texts of a CSV, TSV, JSON-lines or Parquet file.

    `text` names the text column(s), `labels` the column with the labels, which are not read.
    """
    from longtail.data.table import TableReader

    start = 0
    try:
        for texts, ids in TableReader(text, labels, require_labels=False).text_blocks(path, BLOCK):
            yield PointBlock(start, texts, None, ids)
            start += len(texts)
    except DataError:
        check_whole(path)  # if the file is damaged, that is the better message
        raise


def sparse_blocks(path: Path) -> Iterator[PointBlock]:
    """Yield the features of a sparse text file with a header."""
    from longtail.data.sparse_text import feature_blocks

    start = 0
    try:
        for X in feature_blocks(path):
            yield PointBlock(start, None, X)
            start += X.shape[0]
    except DataError:
        check_whole(path)
        raise
