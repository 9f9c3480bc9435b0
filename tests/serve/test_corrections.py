"""`longtail train --feedback`: what people corrected is in the next training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import longtail
from longtail.cli.app import app
from longtail.data import Dataset
from longtail.errors import DataError
from longtail.serve.corrections import apply_corrections
from longtail.serve.feedback import Feedback, FeedbackLog
from longtail.serve.learning import learn_from_log

URI = "http://example.org/"


@pytest.fixture
def data(folders: dict[str, Path]) -> Dataset:
    return longtail.read(folders["data"], vectorizer=None)


def _entries(*corrections: dict[str, Any]) -> list[Feedback]:
    return [Feedback(7 + i, f"c{i}", 0.0, "api", correction) for i, correction in enumerate(corrections)]


def _labels(data: Dataset, text: str) -> list[set[str]]:
    assert data.texts is not None
    assert data.label_names is not None
    dense = data.Y.toarray()
    return [{data.label_names[j] for j in dense[i].nonzero()[0]} for i, one in enumerate(data.texts) if one == text]


def test_corrections_replace_add_and_take_away(data: Dataset) -> None:
    assert data.texts is not None
    first, second, third = data.texts[:3]
    before = _labels(data, third)
    found = apply_corrections(
        data,
        _entries(
            {"text": first, "labels": ["all about fig"]},
            {"text": second, "right": ["brand new", URI + "lime"], "wrong": ["all about red"]},
            {"text": "a new text", "labels": ["all about fig", "all about red"]},
            {"text": "a new text", "wrong": ["all about fig"]},
            {"text": "another", "wrong": ["all about fig"]},
        ),
    )
    new = found.data.validate()
    assert _labels(new, first) == [{"all about fig"}]
    assert _labels(new, second) == [{"all about pear", "all about lime", "brand new"}]
    assert _labels(new, third) == before
    assert _labels(new, "a new text") == [{"all about red"}]
    assert _labels(new, "another") == []
    assert (found.corrections, found.changed, found.added, found.new_labels, found.last) == (5, 2, 1, ["brand new"], 11)
    assert (new.n_points, new.n_labels) == (73, 10)
    assert new.label_ids is not None
    assert new.ids is not None
    assert (new.label_ids[-1], new.ids[-1]) == ("brand new", "c2")
    assert data.n_labels == 9


def test_no_correction_changes_nothing(data: Dataset) -> None:
    found = apply_corrections(data, [])
    assert (found.data.Y != data.Y).nnz == 0
    assert (found.corrections, found.changed, found.added, found.last) == (0, 0, 0, 0)


def test_features_cannot_be_corrected() -> None:
    with pytest.raises(DataError, match="has no texts"):
        apply_corrections(Dataset(None, longtail.read(longtail.DEMO, vectorizer=None).Y[:2]), [])


def test_longtail_train_with_feedback(folders: dict[str, Path], tmp_path: Path) -> None:
    log = FeedbackLog(tmp_path / "model.feedback.sqlite")
    log.append("model", "api", [[{"text": f"a durian {i}", "labels": ["all about durian"]} for i in range(9)]])
    words = ["train", str(folders["data"]), "--model", "knn", "--out", str(tmp_path / "model"), "--feedback"]
    result = CliRunner().invoke(app, [*words, str(log.path), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["n_points"] == 81
    assert "9 corrections: 0 texts changed, 9 added, 1 new label" in result.stderr
    tagger = longtail.load(tmp_path / "model")
    assert tagger.suggest("a durian", k=1)[0][0] == "all about durian"
    # what the training has used is not learnt again by the service; what comes later is
    assert learn_from_log(tmp_path / "model", log).corrections == 0
    log.append("model", "api", [[{"text": "a durian", "labels": ["all about red"]}]])
    assert learn_from_log(tmp_path / "model", log).corrections == 1
    missing = CliRunner().invoke(app, [*words, str(tmp_path / "x")])
    assert (missing.exit_code, "no such file" in missing.stderr) == (2, True)
