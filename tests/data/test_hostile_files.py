"""Files that would hang a reader or fill the memory are refused at once."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longtail
from longtail.data import files, synthetic
from longtail.data.label_file import read_label_texts
from longtail.data.predictions import read_predictions
from longtail.errors import DataError, LongtailError, SettingsError
from longtail.kernels import pool


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", ""])
def test_a_path_that_cannot_be_is_refused(name: str) -> None:
    with pytest.raises(DataError, match=r"cannot be read|no such file|is empty"):
        longtail.read(name)


_RDF = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
 xmlns:skos="http://www.w3.org/2004/02/skos/core#"><skos:Concept rdf:about="http://x.org/1">
 <skos:prefLabel>%s</skos:prefLabel></skos:Concept></rdf:RDF>"""
_LAUGHS = '<!ENTITY a0 "lol">' + "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 10))


@pytest.mark.parametrize(
    ("entities", "text"),
    [
        (_LAUGHS, "&a9;"),
        ('<!ENTITY file SYSTEM "file:///etc/hostname">', "&file;"),
        ('<!ENTITY % file SYSTEM "http://127.0.0.1:1/x.dtd"> %file;', "x"),
        (f'<!ENTITY long "{"x" * 201}">', "&long;" * 9),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_entities_that_grow_or_are_files_are_refused(tmp_path: Path, entities: str, text: str, encoding: str) -> None:
    pytest.importorskip("rdflib")
    path = tmp_path / "labels.rdf"
    path.write_text(f"<!DOCTYPE rdf:RDF [{entities}]>" + _RDF % text, encoding=encoding)
    with pytest.raises(DataError, match="the entity"):
        read_label_texts(path)


def test_entities_that_begin_uris_are_read(tmp_path: Path) -> None:
    pytest.importorskip("rdflib")
    path = tmp_path / "labels.rdf"
    path.write_text('<!DOCTYPE rdf:RDF [<!ENTITY x "http://x.org/">]>' + _RDF.replace("http://x.org/", "&x;") % "a")
    assert [(label.id, label.name) for label in read_label_texts(path)] == [("http://x.org/1", "a")]


@pytest.mark.parametrize(
    "context",
    [
        '"http://127.0.0.1:1/context.json"',
        '["file:///etc/hostname", {"prefLabel": "http://www.w3.org/2004/02/skos/core#prefLabel"}]',
        '{"@import": "http://127.0.0.1:1/context.json"}',
        '{"prefLabel": {"@id": "http://www.w3.org/2004/02/skos/core#prefLabel", "@context": "context.json"}}',
    ],
)
def test_contexts_elsewhere_are_not_fetched(tmp_path: Path, context: str) -> None:
    pytest.importorskip("rdflib")
    path = tmp_path / "labels.jsonld"
    own = '{"prefLabel": "http://www.w3.org/2004/02/skos/core#prefLabel"}'
    for given in (own, context):
        path.write_text(f'{{"@context": {given}, "@id": "http://x.org/1", "prefLabel": "a"}}')
        if given == own:
            assert [label.name for label in read_label_texts(path)] == ["a"]
        else:
            with pytest.raises(DataError, match="is another document"):
                read_label_texts(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no fifos")
@pytest.mark.parametrize("name", ["data.txt", "data.csv", "data.json", "data.svm", "data.npz", "data"])
def test_a_fifo_is_refused(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(DataError, match="fifo"):
        longtail.read(tmp_path / name)


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_ALWAYS_ALLOWED", 1 << 20)


@pytest.mark.parametrize("kind", ["gz", "xz", "zst"])
def test_a_compressed_bomb_is_refused(tmp_path: Path, small_limits: None, kind: str) -> None:
    zeros = b"0 1:1\n" * (1 << 20)
    if kind == "zst":
        import zstandard

        content = zstandard.ZstdCompressor().compress(zeros)
    else:
        content = gzip.compress(zeros) if kind == "gz" else lzma.compress(zeros)
    path = tmp_path / f"data.txt.{kind}"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"unpacks to more than 300 bytes per compressed byte.*LONGTAIL_MOST_UNPACKED"):
        longtail.read(path)


def test_the_limit_can_be_set(tmp_path: Path, small_limits: None, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "data.txt.gz"
    path.write_bytes(gzip.compress(b"0 1:1\n" * (1 << 20)))
    monkeypatch.setenv(files.UNPACKED_VARIABLE, "100000")
    with files.open_bytes(path) as stream:
        assert len(stream.read()) == 6 << 20
    for value in ("x", "0", "-3"):
        monkeypatch.setenv(files.UNPACKED_VARIABLE, value)
        with pytest.raises(SettingsError, match="LONGTAIL_MOST_UNPACKED"):
            longtail.read(path)


def test_an_archive_that_claims_to_be_enormous_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(files.UNPACKED_VARIABLE, "1")
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (1 << 40,)})
    for name in ("trn_X.npz", "trn_Y.npz"):
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("data.npy", header.getvalue())
            archive.writestr("format.npy", header.getvalue())
            archive.writestr("shape.npy", header.getvalue())
    with pytest.raises(LongtailError, match="npz"):
        longtail.read(tmp_path)


@pytest.mark.parametrize("value", [float("nan"), 0, 1.5, "2", [1]])
def test_a_number_of_threads_that_is_none_is_refused(value: Any) -> None:
    data = synthetic.make(30, 20, 5, random_state=0)
    with pytest.raises(SettingsError, match="n_jobs"):
        pool.cores(value)
    with pytest.raises(SettingsError, match="n_jobs"):
        longtail.make("knn", {"n_jobs": value}).fit(data.X, data.Y)


@pytest.mark.parametrize(
    ("model", "name"), [("bonsai", "n_trees"), ("fastxml", "n_trees"), ("knn", "n_neighbors"), ("glas", "dim")]
)
def test_counts_beyond_32_bits_are_refused(model: str, name: str) -> None:
    data = synthetic.make(30, 20, 5, random_state=0)
    with pytest.raises(SettingsError, match=rf"{name} is 2147483648; give a whole number from 1.*2147483647"):
        longtail.make(model, {name: 2**31}).fit(data.X, data.Y)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("0\tl1\t0.\r5\n", "not point, label and score"),  # a carriage return inside of a line
        ("0\rl1\t0.5\n", "not point, label and score"),
        ("0\tl1\t1e99\n", "score of 'l1' is 1e\\+99"),  # infinite as a number of 32 bits
        ("0\tl1\tnan\n", "score of 'l1' is nan"),
    ],
)
def test_scores_that_are_no_numbers_are_refused(tmp_path: Path, content: str, problem: str) -> None:
    data = synthetic.make(20, 12, 6, random_state=0)
    data.label_names = [f"l{i}" for i in range(6)]
    (tmp_path / "scores.tsv").write_text(content, newline="")
    with pytest.raises(DataError, match=problem):
        read_predictions(tmp_path / "scores.tsv", data)
    (tmp_path / "scores.tsv").write_text("point\tlabel\tscore\r\n0\tl1\t0.5\r\n", newline="")
    assert read_predictions(tmp_path / "scores.tsv", data)[0][0, 1] == 0.5


_FORKED = """
import os, signal, sys
import longtail
from longtail.data import table
table._POLARS_SECONDS = 2.0
import polars
if sys.argv[2] == "used":
    longtail.read(sys.argv[1])
if not (child := os.fork()):
    signal.alarm(60)
    try:
        print(longtail.read(sys.argv[1]).n_points, flush=True)
    except longtail.errors.SettingsError as error:
        print(error, flush=True)
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are forked")
@pytest.mark.parametrize(("use", "answer"), [("imported", "20"), ("used", "forked after polars was used")])
def test_parquet_after_a_fork_is_read_or_refused(tmp_path: Path, use: str, answer: str) -> None:
    polars = pytest.importorskip("polars")
    polars.DataFrame({"text": ["alpha beta"] * 20, "labels": [["x", "y"]] * 20}).write_parquet(tmp_path / "d.parquet")
    command = [sys.executable, "-W", "ignore", "-c", _FORKED, str(tmp_path / "d.parquet"), use]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert answer in ended.stdout
