"""``--encoder`` and ``--vectors``: train, evaluate, predict, explain, compare, estimate, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from longtail.data.encoders import make_encoder
from tests.cli.conftest import Run
from tests.data.test_encoders import letters

MODEL = "blend([knn, textmatch])"
ENCODER = f"{letters.__module__}:letters"


@pytest.fixture
def files(here: Path, raw: Path) -> str:
    """Ready vectors of the raw texts."""
    import longtail

    data = longtail.read(raw)
    made = make_encoder(letters)
    for name, texts in (("train", data.texts), ("test", data.test.texts), ("labels", data.label_texts)):
        np.save(here / f"{name}.npy", made.encode(texts))
    return "train.npy,test.npy,labels.npy"


def test_train_and_use_with_an_encoder(run: Run, raw: Path, here: Path) -> None:
    run("train", "raw", "-m", MODEL, "--encoder", ENCODER, "--out", "m")
    assert "test part of raw" in run("evaluate", "m", "raw").stdout
    assert "fig" in run("predict", "m", "--text", "a fig tart").stdout
    assert "vectorknn" in run("explain", "m", "--text", "a fig tart").stdout
    assert "test_encoders:letters" in run("inspect", "m").stdout


def test_train_and_evaluate_with_ready_vectors(run: Run, raw: Path, files: str) -> None:
    run("train", "raw", "-m", MODEL, "--vectors", files, "--out", "ready")
    run("train", "raw", "-m", MODEL, "--encoder", ENCODER, "--out", "encoded")
    shown = [run("evaluate", "ready", "raw", "--vectors", files, "--json").stdout]
    shown.append(run("evaluate", "encoded", "raw", "--json").stdout)
    first, second = ({key: row[key] for key in row if "@" in key} for row in map(metrics, shown))
    assert first == second
    assert "give --vectors" in run("evaluate", "ready", "raw", code=2).stderr
    assert "has no encoder" in run("predict", "ready", "--text", "a fig tart", code=2).stderr


def metrics(output: str) -> dict[str, float]:
    import json

    (row,) = json.loads(output)
    return {key: value for key, value in row.items() if isinstance(value, float)}


def test_both_use_the_arrays_to_train_and_the_encoder_for_new_texts(run: Run, raw: Path, files: str) -> None:
    run("train", "raw", "-m", MODEL, "--vectors", files, "--encoder", ENCODER, "--out", "m")
    assert "fig" in run("predict", "m", "--text", "a fig tart").stdout


def test_compare_and_estimate(run: Run, raw: Path, table: Path, files: str) -> None:
    compared = run("compare", "raw", "--models", f"{MODEL},knn", "--vectors", files, code=2)
    assert "KNN cannot use vectors" in compared.stderr
    run("compare", "fruit.csv", "--models", MODEL, "--set", f"text.encoder={ENCODER}")
    assert "MB of memory" in run("train", "raw", "-m", MODEL, "--vectors", files, "--estimate").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-m", "knn", "--encoder", ENCODER], "KNN cannot use vectors"),
        (["-m", MODEL, "--encoder", "nowhere"], "neither an ONNX file"),
        (["-m", MODEL, "--vectors", "train.npy"], "has 1 arrays"),
        (["-m", MODEL, "--vectors", "labels.npy,test.npy,train.npy"], "7 vectors, but there are 60 points"),
        (["-m", MODEL, "--vectors", "train.npy,none.npy"], "there is no such file"),
    ],
)
def test_what_training_refuses(words: list[str], said: str, run: Run, raw: Path, files: str, here: Path) -> None:
    assert said in " ".join(run("train", "raw", *words, "--out", "m", code=2).stderr.split())
    assert not (here / "m").exists()


def test_ngrams_are_chosen_with_vectors(run: Run, raw: Path, files: str) -> None:
    run("train", "raw", "-m", MODEL, "--set", "text.ngrams=auto", "--vectors", files, "--out", "m")
    assert "test part of raw" in run("evaluate", "m", "raw", "--vectors", files).stdout
