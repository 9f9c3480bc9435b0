"""Model folders: whole or not at all, and never believed blindly."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from longtail import store
from longtail.errors import ModelError
from tests.fuzz.mutate import record


def written(folder: Path) -> Path:
    with store.atomic_folder(folder) as fresh:
        store.write(fresh, "test", {"a": 1, "name": "é"}, {"w": np.arange(6, dtype=np.float32).reshape(2, 3)})
    return folder


def test_what_is_written_is_read(tmp_path: Path) -> None:
    stored = store.read(written(tmp_path / "m"))
    assert (stored.kind, stored.meta) == ("test", {"a": 1, "name": "é"})
    assert isinstance(stored.arrays["w"], np.memmap)
    assert stored.arrays["w"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert not isinstance(store.read(tmp_path / "m", mmap=False).arrays["w"], np.memmap)


def test_a_crash_while_writing_leaves_the_old_folder(tmp_path: Path) -> None:
    written(tmp_path / "m")
    with pytest.raises(RuntimeError, match="power"), store.atomic_folder(tmp_path / "m") as fresh:
        store.write(fresh, "other", {}, {})
        raise RuntimeError("power cut")
    assert store.read(tmp_path / "m").kind == "test"
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_a_failed_swap_puts_the_old_folder_back(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    written(tmp_path / "m")
    rename = Path.rename

    def refuse(self: Path, target: Path) -> Path:
        if ".new-" in self.name:
            raise OSError("disk error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    monkeypatch.setattr("longtail.store.atomic._exchange", lambda first, second: False)  # as on other systems
    with pytest.raises(OSError, match="disk error"):
        written(tmp_path / "m")
    assert store.read(tmp_path / "m").kind == "test"
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_a_file_is_replaced_whole_or_not(tmp_path: Path) -> None:
    with store.atomic_file(tmp_path / "f") as path:
        path.write_text("old")
    with pytest.raises(RuntimeError), store.atomic_file(tmp_path / "f") as path:
        path.write_text("half of the n")
        raise RuntimeError
    assert (tmp_path / "f").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def edit(folder: Path, **changes: object) -> None:
    document = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps(document | changes))


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    edit(written(tmp_path / "m"), format=99, longtail="9.0")
    with pytest.raises(ModelError, match=r"longtail 9.0.*Upgrade"):
        store.read(tmp_path / "m")


def test_a_changed_array_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "m")
    content = bytearray((tmp_path / "m" / "w.npy").read_bytes())
    content[-1] ^= 1
    (tmp_path / "m" / "w.npy").write_bytes(bytes(content))
    with pytest.raises(ModelError, match=r"w\.npy has changed since the model was saved"):
        store.read(tmp_path / "m")


@pytest.mark.parametrize("damage", ["cut", "gone", "reshaped", "pickled"])
def test_a_damaged_array_is_refused(tmp_path: Path, damage: str) -> None:
    path = written(tmp_path / "m") / "w.npy"
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-4])
    elif damage == "gone":
        path.unlink()
    elif damage == "reshaped":
        np.save(path, np.arange(6, dtype=np.float32).reshape(3, 2))
    else:
        np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ModelError, match=r"w\.npy"):
        store.read(tmp_path / "m", verify=False)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', "\xff"])
def test_a_damaged_record_is_refused(tmp_path: Path, text: str) -> None:
    (written(tmp_path / "m") / "model.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ModelError, match="damaged"):
        store.read(tmp_path / "m")


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="not a model folder"):
        store.read(tmp_path)


def test_an_array_that_does_not_lie_on_whole_numbers_is_refused(tmp_path: Path) -> None:
    """Kernels are compiled for aligned arrays; a header of odd length would have them compiled anew."""
    path = written(tmp_path / "m") / "w.npy"
    content = path.read_bytes()
    length = int.from_bytes(content[8:10], "little")
    path.write_bytes(content[:8] + (length + 1).to_bytes(2, "little") + b" " + content[10:])
    record(path)
    with pytest.raises(ModelError, match="begin at byte 129"):
        store.read(tmp_path / "m")


def test_headers_of_saved_arrays_are_not_parsed_as_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = {
        "none": np.zeros((0, 3), np.float32),
        "long": np.arange(1000),
        "bits": np.array([[True], [False]]),
        "deep": np.zeros((2, 1, 3, 1), np.int8),
    }
    with store.atomic_folder(tmp_path / "m") as fresh:
        store.write(fresh, "test", {}, arrays)
    monkeypatch.setattr(np.lib.format, "read_array_header_1_0", None)
    read = store.read(tmp_path / "m").arrays
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array)
