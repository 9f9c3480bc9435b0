"""A short slice of the fuzzing that ``make fuzz`` does, and all that it once found."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from tests.fuzz.run import fuzz, try_one

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


@pytest.mark.parametrize(("kind", "seed"), CORPUS)
def test_what_was_once_found_is_refused_or_answers(folder: Path, kind: str, seed: int) -> None:
    _, findings = fuzz(kind, [seed], folder)
    assert not findings, findings[0]
    assert try_one(kind, seed, folder / kind, folder)[0] in ("refused", "answered")
