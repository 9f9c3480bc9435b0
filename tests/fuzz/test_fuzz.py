"""A short slice of the fuzzing that ``make fuzz`` does, and all that it once found."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import longtail
from tests.fuzz.matrices import MALFORMED, ODD, Case, train_with
from tests.fuzz.models import data
from tests.fuzz.readers import FORMATS
from tests.fuzz.run import fuzz, prepare, try_one

_SLICE = ("popular", "knn", "bonsai", "fastxml", "pfastrexml", "tagger", "blend")  # quick to train and to load
_SECONDS = 25.0
CORPUS = json.loads((Path(__file__).parent / "corpus.json").read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are forked and limited")
def test_damaged_model_folders_are_refused_or_answer(folder: Path) -> None:
    end = time.monotonic() + _SECONDS
    for number, kind in enumerate(_SLICE):
        until = time.monotonic() + (end - time.monotonic()) / (len(_SLICE) - number)
        _, findings = fuzz(kind, list(range(60)), folder, until)
        assert not findings, "\n".join(findings)


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_files_are_refused_or_read(tmp_path: Path, name: str) -> None:
    """A few for every reader, in this process; ``make fuzz`` tries thousands."""
    for package in {"parquet": ["polars"], "labels-skos": ["rdflib"]}.get(name, []):
        pytest.importorskip(package)
    prepare(f"read-{name}", tmp_path / "files")
    for seed in range(12):
        outcome, what = try_one(f"read-{name}", seed, tmp_path / "files", tmp_path)
        assert outcome in ("refused", "answered"), what


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are forked and limited")
@pytest.mark.parametrize("kind", ["popular", "knn", "textmatch", "dismec", "fastxml", "blend"])
def test_odd_matrices_are_understood_and_malformed_ones_refused(folder: Path, kind: str) -> None:
    counts, findings = fuzz(f"matrix-{kind}", list(range(60)), folder, time.monotonic() + 60)
    assert not findings, "\n".join(findings)
    assert counts["answered"]


@pytest.mark.parametrize("how", [*ODD, *MALFORMED])
def test_every_way_to_spoil_a_matrix(how: str) -> None:
    """Each kind of case once, for points, labels and label text, without a process of its own."""
    given, rng = data(), np.random.default_rng(0)
    X, Y, Z = given.X[:6], given.Y[:6], given.Z
    model = longtail.make("knn").fit(given.X, given.Y)
    for name, matrix in {"X": X, "Y": Y, "Z": Z}.items():
        table = ODD if how in ODD else MALFORMED
        case = Case(table[how](matrix, rng), matrix.toarray() if how in ODD else None, how)
        train_with(model, case, X, Y, Z, name)
    assert (model.predict(X, 3) != longtail.make("knn").fit(given.X, given.Y).predict(X, 3)).nnz == 0


@pytest.mark.parametrize(("kind", "seed"), CORPUS)
def test_what_was_once_found_is_refused_or_answers(folder: Path, kind: str, seed: int) -> None:
    _, findings = fuzz(kind, [seed], folder)
    assert not findings, findings[0]
    assert try_one(kind, seed, folder / kind, folder)[0] in ("refused", "answered")
