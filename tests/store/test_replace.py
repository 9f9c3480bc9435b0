"""Nothing of a user's is ever overwritten or removed: paths are looked at before they are written to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import longtail
from longtail import store
from longtail.data import synthetic
from longtail.errors import DataError, SettingsError


def a_folder_of_documents(path: Path) -> Path:
    path.mkdir()
    (path / "thesis.txt").write_text("years of work")
    return path


def a_file(path: Path) -> Path:
    path.write_text("text,labels\na,b\n")
    return path


def a_foreign_model(path: Path) -> Path:
    path.mkdir()
    (path / "model.json").write_text('{"weights": [1, 2]}')
    return path


def a_model_with_notes(path: Path) -> Path:
    with store.atomic_folder(path) as fresh:
        store.write(fresh, "test", {}, {"w": np.ones(2)})
    (path / "notes.txt").write_text("mine")
    return path


def everything_in(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


THINGS = [a_folder_of_documents, a_file, a_foreign_model, a_model_with_notes]


@pytest.fixture(scope="module")
def data() -> longtail.Dataset:
    return synthetic.make(60, 30, 8, random_state=0)


@pytest.mark.parametrize("make", THINGS)
def test_a_save_refuses_what_is_not_a_model(tmp_path: Path, data, make) -> None:  # type: ignore[no-untyped-def]
    model = longtail.make("popular").fit(data.X, data.Y)
    path = make(tmp_path / "mine")
    before = everything_in(tmp_path)
    with pytest.raises(DataError, match="mine"):
        model.save(path)
    assert everything_in(tmp_path) == before


@pytest.mark.parametrize("name", ["x" * 201, "é" * 101, "a\0b"])
def test_a_name_that_no_save_can_use_is_refused_before_any_work(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="longer than 200 bytes, or that holds a NUL"):
        store.check_replaceable(tmp_path / name)
    assert not list(tmp_path.iterdir())
    with store.atomic_folder(tmp_path / ("x" * 200)) as fresh:
        store.write(fresh, "test", {}, {"w": np.ones(2)})
    assert [entry.name for entry in tmp_path.iterdir()] == ["x" * 200]


@pytest.mark.parametrize("make", THINGS)
@pytest.mark.parametrize("name", ["glas", "mnn", "dxml", "decaf"])
def test_a_checkpoint_refuses_what_is_not_a_checkpoint(tmp_path: Path, data, name, make) -> None:  # type: ignore[no-untyped-def]
    path = make(tmp_path / "mine")
    before = everything_in(tmp_path)
    with pytest.raises(DataError, match="is not a checkpoint"):
        longtail.make(name, {"checkpoint": str(path), "epochs": 1}).fit(data.X, data.Y)
    assert everything_in(tmp_path) == before


def test_a_checkpoint_is_not_put_in_the_place_of_a_model(tmp_path: Path, data) -> None:  # type: ignore[no-untyped-def]
    longtail.make("popular").fit(data.X, data.Y).save(tmp_path / "m")
    with pytest.raises(DataError, match="is not a checkpoint"):
        store.check_checkpoint(tmp_path / "m")
    store.remove_checkpoint(tmp_path / "m")
    assert (tmp_path / "m" / "model.json").is_file()


def test_a_link_is_followed_and_stays(tmp_path: Path, data) -> None:  # type: ignore[no-untyped-def]
    model = longtail.make("popular").fit(data.X, data.Y)
    model.save(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    model.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert not (tmp_path / "real").is_symlink()
    docs = a_folder_of_documents(tmp_path / "docs")
    (tmp_path / "other").symlink_to(docs)
    with pytest.raises(DataError, match="other"):
        model.save(tmp_path / "other")
    assert (docs / "thesis.txt").is_file()


def test_an_empty_folder_and_a_model_are_replaced(tmp_path: Path, data) -> None:  # type: ignore[no-untyped-def]
    model = longtail.make("popular").fit(data.X, data.Y)
    (tmp_path / "m").mkdir()
    model.save(tmp_path / "m")
    model.save(tmp_path / "m")
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_a_model_folder_does_not_bring_a_path(tmp_path: Path, data) -> None:  # type: ignore[no-untyped-def]
    model = longtail.make("mnn", {"checkpoint": str(tmp_path / "c"), "epochs": 1}).fit(data.X, data.Y)
    model.save(tmp_path / "m")
    document = (tmp_path / "m" / "model.json").read_text()
    assert "checkpoint" not in document
    (tmp_path / "m" / "model.json").write_text(document.replace('"params": {', '"params": {"checkpoint": "docs",', 1))
    assert longtail.load(tmp_path / "m").checkpoint is None


@pytest.mark.parametrize("as_link", [False, True])
def test_a_card_that_a_user_has_edited_stays(tmp_path: Path, as_link: bool) -> None:
    tagger = longtail.Tagger("popular").fit(["moss", "bread"], [["green"], ["brown"]])
    card = tmp_path / "m" / "README.md"
    tagger.save(tmp_path / "m")
    ours = card.read_text()
    tagger.notes_ = {"metrics": {"P@1": 50}}
    tagger.save(tmp_path / "m")
    assert "P@1: 50" in card.read_text()  # ours is written anew
    assert "P@1: 50" not in ours
    if as_link:
        card.unlink()
        (tmp_path / "notes").write_text("mine")
        card.symlink_to("../notes")
    else:
        card.write_text(card.read_text().replace("Suggest labels", "Years of work"))
    edited = card.read_text()
    tagger.save(tmp_path / "m")
    tagger.ranker_.save(tmp_path / "m")  # which has no card of its own
    assert card.read_text() == edited
    assert card.is_symlink() == as_link


def test_a_readme_inside_a_part_is_no_part_of_the_model(tmp_path: Path) -> None:
    tagger = longtail.Tagger("popular").fit(["moss", "bread"], [["green"], ["brown"]])
    tagger.save(tmp_path / "m")
    (tmp_path / "m" / "ranker" / "README.md").write_text("mine")
    with pytest.raises(DataError, match=r"holds 'README\.md'"):
        tagger.save(tmp_path / "m")


@pytest.mark.parametrize("path", [".", Path(), "../here", "../here/."])
def test_the_current_folder_can_be_saved_to(tmp_path: Path, data, monkeypatch, path) -> None:  # type: ignore[no-untyped-def]
    model = longtail.make("popular").fit(data.X, data.Y)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for _ in range(2):
        model.save(path)
        assert Path("model.json").is_file()  # of the new folder, where this process stands now
        assert longtail.load(path).n_labels_ == 8
    assert [entry.name for entry in tmp_path.iterdir()] == ["here"]


def test_a_folder_above_and_no_name_at_all_are_refused(tmp_path: Path, data, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    model = longtail.make("popular").fit(data.X, data.Y)
    monkeypatch.chdir(a_folder_of_documents(tmp_path / "here"))
    for path in ("..", "/"):
        with pytest.raises(DataError, match="exists and is not a model folder"):
            model.save(path)
    with pytest.raises(SettingsError, match="is not a path"):
        model.save("")
