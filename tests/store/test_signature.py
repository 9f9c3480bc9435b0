"""Signatures: a folder that was changed, or that somebody else made, is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import longtail
from longtail.cli.app import app
from longtail.data import synthetic
from longtail.errors import ModelError, SettingsError
from longtail.store import signature
from tests.fuzz.mutate import set_array


@pytest.fixture
def signed(tmp_path: Path) -> tuple[Path, Path]:
    data = synthetic.make(60, 30, 8, random_state=0)
    longtail.make("labeltext(popular)").fit(data.X, data.Y, label_features=data.Z).save(tmp_path / "m")
    (tmp_path / "key").write_text("a secret of mine, long enough\n")
    signature.sign(tmp_path / "m", tmp_path / "key")
    return tmp_path / "m", tmp_path / "key"


def test_a_signed_folder_is_accepted(signed: tuple[Path, Path]) -> None:
    folder, key = signed
    longtail.load(folder, verify_key=key)
    runner = CliRunner()
    assert runner.invoke(app, ["sign", str(folder), "--key", str(key)]).exit_code == 0
    assert runner.invoke(app, ["verify", str(folder), "--key", str(key)]).exit_code == 0


@pytest.mark.parametrize("change", ["array", "part", "json", "more", "unsigned", "garbage", "other key"])
def test_any_change_is_refused(signed: tuple[Path, Path], change: str) -> None:
    folder, key = signed
    if change in ("array", "part"):
        path = next((folder / "base" if change == "part" else folder).glob("*.npy"))
        array = np.load(path).copy()
        set_array(path, array[::-1].copy())
    elif change == "json":
        text = (folder / "model.json").read_text()
        (folder / "model.json").write_text(text + " ")
    elif change == "more":
        (folder / "README.md").write_text("trust me")
    elif change == "unsigned":
        (folder / signature.SIGNATURE).unlink()
    elif change == "garbage":
        (folder / signature.SIGNATURE).write_text("[" * 50000)
    else:
        key = folder.parent / "other"
        key.write_text("a secret of somebody else")
    with pytest.raises(ModelError, match="not match" if change != "unsigned" else "not signed"):
        longtail.load(folder, verify_key=key)
    result = CliRunner().invoke(app, ["verify", str(folder), "--key", str(key)])
    assert result.exit_code == 2


def test_a_key_that_is_none_is_refused(signed: tuple[Path, Path]) -> None:
    folder, key = signed
    key.write_text("short")
    for path in (key, folder, folder / "nowhere"):
        with pytest.raises(SettingsError, match=r"key|file"):
            signature.sign(folder, path)


def test_a_save_removes_the_signature_of_the_old_model(signed: tuple[Path, Path]) -> None:
    folder, key = signed
    longtail.load(folder).save(folder)
    with pytest.raises(ModelError, match="not signed"):
        longtail.load(folder, verify_key=key)
