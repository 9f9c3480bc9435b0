"""Damaged data files, one small example for every reader of the library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import longtail
from longtail.data import synthetic
from longtail.data.predictions import read_predictions
from longtail.data.streaming import table_blocks, text_file_blocks
from longtail.models.decaf.token_vectors import read_token_vectors
from longtail.serve.feedback import FeedbackLog

_BITS = [b"", b"\n", b":", b",", b" ", b"-1", b"1e99", b"nan", b"99999999999", b"\0", b"\xff", b'"', b"{", b"]", b"|"]
_TEXTS = [f"a word{i} more" for i in range(20)]
_SKOS = """@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
<http://x.org/x> a skos:Concept ; skos:prefLabel "x"@en , "iks"@fi ; skos:altLabel "ex"@en .
<http://x.org/y0> a skos:Concept ; skos:prefLabel "y0"@en .
"""


class Format(NamedTuple):
    """How the files of a format are written, and how they are read."""

    write: Callable[[Path], None]
    read: Callable[[Path], Any]


def _data() -> longtail.Dataset:
    drawn = synthetic.make(20, 12, 6, random_state=0)
    drawn.test = None
    return drawn


def _dataset(name: str, format: str | None = None) -> Format:
    """Return a format that `longtail.write` writes."""
    return Format(lambda folder: longtail.write(_data(), folder / name, format), lambda folder: _read(folder / name))


def _text(name: str, content: str, read: Callable[[Path], Any] | None = None) -> Format:
    """Return a format of one text file."""

    def write(folder: Path) -> None:
        (folder / name).write_text(content)

    return Format(write, lambda folder: (read or _read)(folder / name))


def _read(path: Path, **settings: Any) -> longtail.Dataset:
    found = longtail.read(path, **settings)
    found.validate(require_labels=False)
    return found


def _table(separator: str) -> str:
    rows = (f"{text}{separator}x|y{i % 3}\n" for i, text in enumerate(_TEXTS))
    return f"text{separator}labels\n" + "".join(rows)


def _write_raw(folder: Path) -> None:
    (folder / "set").mkdir()
    rows = "".join(f'{{"uid": "p{i}", "title": "{text}", "target_ind": [{i % 3}]}}\n' for i, text in enumerate(_TEXTS))
    (folder / "set" / "trn.json").write_text(rows)
    (folder / "set" / "lbl.json").write_text("".join(f'{{"uid": "l{i}", "title": "label {i}"}}\n' for i in range(3)))


def _write_documents(folder: Path) -> None:
    for i in range(4):
        (folder / f"doc{i}.txt").write_text(_TEXTS[i])
        (folder / f"doc{i}.key").write_text(f"x\ny{i % 3}\n")
        (folder / f"more{i}.txt").write_text(_TEXTS[i])
        (folder / f"more{i}.tsv").write_text(f"<http://x.org/{i}>\tlabel {i}\n")


def _write_parquet(folder: Path) -> None:
    import polars

    labels = [["x", f"y{i % 3}"] for i in range(20)]
    polars.DataFrame({"text": _TEXTS, "labels": labels}).write_parquet(folder / "set.parquet")


def _labels_file(name: str, content: str) -> Format:
    """Return a file that describes labels, read with a sound table."""

    def read(path: Path) -> Any:
        table = path.with_name("sound.csv")
        table.write_text(_table(","))
        try:
            return _read(table, label_texts=path)
        finally:
            table.unlink()

    return _text(name, content, read)


def _write_score_matrix(folder: Path) -> None:
    from scipy.sparse import save_npz

    save_npz(folder / "scores.npz", _data().Y * 0.5)


def _scores(path: Path) -> Any:
    data = _data()
    data.label_names = data.label_ids = [f"l{i}" for i in range(data.Y.shape[1])]
    return longtail.evaluate(data.Y, read_predictions(path, data)[0][:, : data.Y.shape[1]])


def _write_feedback(folder: Path) -> None:
    log = FeedbackLog(folder / "feedback.sqlite")
    log.append("m", "test", [[{"text": text, "labels": ["x"]} for text in _TEXTS]])
    log.close()


def _read_feedback(folder: Path) -> Any:
    log = FeedbackLog(folder / "feedback.sqlite")
    try:
        return list(log.after(0))
    finally:
        log.close()


def _write_vectorizer(folder: Path) -> None:
    (folder / "set.csv").write_text(_table(","))
    longtail.write(longtail.read(folder / "set.csv"), folder / "set", "npz")
    (folder / "set.csv").unlink()


def _read_vectorizer(folder: Path) -> Any:
    found = _read(folder / "set")
    return found.vectorizer and found.vectorizer.transform(_TEXTS)


def _write_vectors(folder: Path) -> None:
    np.save(folder / "vectors.npy", np.ones((12, 4), np.float32))


def _write_filter(folder: Path) -> None:
    longtail.write(_data(), folder / "set", "sparse")
    (folder / "set" / "filter_labels_train.txt").write_text("0 1\n3 2\n5 0\n")


_LABELS_JSON = '[{"id": "x", "name": "x", "text": "what is x"}, {"id": "y0", "name": "y0"}]'
FORMATS: dict[str, Format] = {
    "sparse": _dataset("set", "sparse"),
    "npz": _dataset("set", "npz"),
    "lf": _dataset("set", "lf"),
    "filter": Format(_write_filter, lambda folder: _read(folder / "set")),
    "json": Format(_write_raw, lambda folder: _read(folder / "set")),
    "csv": _text("set.csv", _table(",")),
    "tsv": _text("set.tsv", _table("\t")),
    "jsonl": _text("set.jsonl", "".join(f'{{"text": "{t}", "labels": ["x", "y"]}}\n' for t in _TEXTS)),
    "parquet": Format(_write_parquet, lambda folder: _read(folder / "set.parquet")),
    "documents": Format(_write_documents, _read),
    "svmlight": _text("set.svm", "".join(f"{i % 3},{i % 5} {1 + i % 4}:0.5 7:1.25\n" for i in range(20))),
    "gz": _dataset("set.txt.gz"),
    "xz": _dataset("set.txt.xz"),
    "zst": _dataset("set.txt.zst"),
    "labels-csv": _labels_file("labels.csv", "id,name,text\nx,the x,what is x\ny0,the y,what is y\n"),
    "labels-json": _labels_file("labels.json", _LABELS_JSON),
    "labels-skos": _labels_file("labels.ttl", _SKOS),
    "scores-npz": Format(_write_score_matrix, lambda folder: _scores(folder / "scores.npz")),
    "scores-txt": _text("scores.txt", "20 6\n" + "0:0.5 3:0.25\n" * 20, _scores),
    "scores-jsonl": _text("scores.jsonl", '{"labels": [["l0", 0.5], ["l3", 0.25]]}\n' * 20, _scores),
    "scores-tsv": _text("scores.tsv", "point\tlabel\tscore\n0\tl1\t0.5\n7\tl3\t0.25\n", _scores),
    "lines": _text("texts.txt", "\n".join(_TEXTS), lambda path: list(text_file_blocks(path))),
    "stream": _text("set.csv", _table(","), lambda path: list(table_blocks(path))),
    "feedback": Format(_write_feedback, _read_feedback),
    "vectorizer": Format(_write_vectorizer, _read_vectorizer),
    "vectors": Format(_write_vectors, lambda folder: read_token_vectors(folder / "vectors.npy", 12, None)),
}


def build_files(kind: str, folder: Path) -> None:
    """Write a small example of one format."""
    folder.mkdir(parents=True)
    FORMATS[kind].write(folder)


def use_files(kind: str, folder: Path) -> None:
    """Read what is there."""
    FORMATS[kind].read(folder)


def mutate_files(folder: Path, rng: np.random.Generator) -> str:
    """Change some bytes of one file."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    path = paths[rng.integers(len(paths))]
    content = mutated(path.read_bytes(), rng)
    path.write_bytes(content)
    return f"{path.name}: {len(content)} bytes"


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    """Change some bytes."""
    for _ in range(int(rng.choice([1, 1, 2, 5]))):
        at, how = int(rng.integers(len(content) + 1)), rng.integers(4)
        if how == 0:
            content = content[:at] + bytes([rng.integers(256)]) + content[at + 1 :]
        elif how == 1:
            content = content[:at] + _BITS[rng.integers(len(_BITS))] + content[at:]
        elif how == 2:
            content = content[:at] + content[at + int(rng.integers(1, 30)) :]
        else:
            content = content[:at] if rng.random() < 0.3 else content + content[at : at + 50]
    return content
