"""Models by name, compositions, settings and loading."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from longtail import registry
from longtail.errors import ModelError, SettingsError
from longtail.models.popular import Popular
from tests.fake import MODELS, Centroid, Halving

X = csr_array(np.eye(4, dtype=np.float32))
Y = csr_array(np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1]], np.float32))


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, target in MODELS.items():
        monkeypatch.setitem(registry.MODELS, name, target)


@pytest.mark.parametrize("name", registry.names())
def test_every_name_leads_to_a_ranker_of_that_kind(name: str) -> None:
    assert registry.model_class(name).kind == name


def test_plain_name() -> None:
    assert isinstance(registry.make("popular"), Popular)
    assert isinstance(registry.make(" centroid() "), Centroid)


def test_inline_arguments_of_every_kind() -> None:
    model: Any = registry.make("centroid(sharpness=-2.5, loss=hinge, n_jobs=null, random_state=7)")
    assert (model.sharpness, model.loss, model.n_jobs, model.random_state) == (-2.5, "hinge", None, 7)
    assert registry.make("centroid(loss='popular')").loss == "popular"  # type: ignore[attr-defined]
    assert registry.make("centroid(True)").sharpness is True  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "text", ["halving(halving(centroid), rounds=2)", "halving(base=halving(base=centroid), rounds=2)"]
)
def test_composition(text: str) -> None:
    model: Any = registry.make(text, {"centroid.sharpness": 3}, defaults={"random_state": 5, "n_jobs": 2, "beam": 1})
    assert [type(part) for part in (model, model.base, model.base.base)] == [Halving, Halving, Centroid]
    assert (model.rounds, model.base.rounds) == (2, 1)
    centroid = model.base.base
    assert (centroid.sharpness, centroid.random_state, centroid.n_jobs, model.random_state) == (3, 5, 2, 5)
    assert registry.used(text) == ["halving", "centroid"]


def test_a_list_of_models_is_a_list() -> None:
    model: Any = registry.make("halving([centroid, popular])")
    assert [type(part) for part in model.base] == [Centroid, Popular]
    assert registry.used("halving([centroid, popular])") == ["halving", "centroid", "popular"]


def test_setting_without_a_name_is_the_outermost_models() -> None:
    model: Any = registry.make("halving(centroid(random_state=4))", {"random_state": 9}, defaults={"random_state": 1})
    assert (model.random_state, model.base.random_state) == (9, 4)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("1", 1), ("1e-3", 1e-3), (".5", 0.5), ("true", True), ("True", True), ("none", None), ("null", None)),
        *(("[1, 2]", [1, 2]), ('"1"', "1"), ("hinge", "hinge"), ("a=b", "a=b"), ("", "")),
    ],
)
def test_values(text: str, value: Any) -> None:
    key, found = registry.parse_setting(f"bonsai.x={text}")
    assert (key, found) == ("bonsai.x", value)
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "settings", "said"),
    [
        ("populr", {}, ["did you mean 'popular'", "Models:", "parabel"]),
        ("halving(centrod)", {}, ["'centrod'", "did you mean 'centroid'"]),
        ("halving", {}, ["halving needs base", "halving(bonsai)"]),
        ("centroid(sharpnes=1)", {}, ["'sharpnes'", "did you mean 'sharpness'", "random_state"]),
        ("popular(depth=1)", {}, ["Its parameters: none"]),
        ("centroid(sharpnes=1)", {}, ["no parameter 'sharpnes' (did you mean 'sharpness'?). Its parameters: "]),
        ("halving(" * 30 + "centroid" + ")" * 30, {}, ["nested more than 20 deep"]),
        ("halving(" * 900 + "centroid" + ")" * 900, {}, ["Cannot read the model 'halving("]),
        ("centroid(sharpness=" + "-" * 5000 + "1)", {}, ["Cannot read"]),
        ("centroid" + " " * 20000, {}, ["20008 characters; at most 10000"]),
        ("centroid", {"centroid.x": 1}, ["no parameter 'x'", "sharpness, loss"]),
        ("centroid", {"bonsai.n_trees": 1}, ["'bonsai'", "not in 'centroid'"]),
        ("centroid(1, 2, 3, 4, 5)", {}, ["at most 4"]),
        ("centroid(1, sharpness=1)", {}, ["Cannot read"]),
        ("centroid(**x)", {}, ["Cannot read"]),
        ("centroid(sharpness=1+x)", {}, ["Cannot read", "1 + x"]),
        ("a b", {}, ["Cannot read"]),
        ("", {}, ["Cannot read"]),
        ("__import__('os').system('true')", {}, ["Cannot read"]),
        ("centroid(sharpness=__import__('os'))", {}, ["No model is called '__import__'"]),
    ],
)
def test_what_cannot_be_made_says_why(text: str, settings: dict[str, Any], said: list[str]) -> None:
    with pytest.raises(SettingsError) as error:
        registry.make(text, settings)
    for words in said:
        assert words in str(error.value)


@pytest.mark.parametrize("text", ["n_trees", "=1"])
def test_what_is_no_setting(text: str) -> None:
    with pytest.raises(SettingsError, match=r"model\.parameter=value"):
        registry.parse_setting(text)


def test_load_gives_wrapped_rankers_back(tmp_path: Path) -> None:
    model = registry.make("halving(halving(centroid(sharpness=2)), rounds=3)").fit(X, Y)
    model.save(tmp_path / "m")
    again: Any = registry.load(tmp_path / "m")
    assert (again.rounds, again.base.rounds, again.base.base.sharpness) == (3, 1, 2)
    assert (again.predict(X, 2) != model.predict(X, 2)).nnz == 0


def test_values_nested_without_end_are_text() -> None:
    assert registry.parse_value("[" * 100_000) == "[" * 100_000


def test_load_refuses_parts_outside_and_without_end(tmp_path: Path) -> None:
    registry.make("halving(centroid)").fit(X, Y).save(tmp_path / "m")
    (tmp_path / "m" / "base" / "again").symlink_to(tmp_path / "m")
    path = tmp_path / "m" / "base" / "model.json"
    document = json.loads(path.read_text())
    for part, said in (("../..", r"part '\.\./\.\.'"), ("again", "a link"), (7, "part '7'")):
        path.write_text(json.dumps(document | {"meta": document["meta"] | {"parts": [part]}}))
        with pytest.raises(ModelError, match=said):
            registry.load(tmp_path / "m")


def test_load_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    registry.make("popular").fit(X, Y).save(tmp_path / "m")
    path = tmp_path / "m" / "model.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"kind": "oracle"}))
    with pytest.raises(ModelError, match=r"kind 'oracle'.*Upgrade"):
        registry.load(tmp_path / "m")
    path.write_text(json.dumps(document | {"meta": {"params": {}}}))
    with pytest.raises(ModelError, match=r"n_features.*again"):
        registry.load(tmp_path / "m")
    with pytest.raises(ModelError, match="not a model folder"):
        registry.load(tmp_path)


@pytest.mark.parametrize("given", [5, ["n_trees"], "n_trees=1"])
def test_settings_that_are_not_named_are_refused(given: Any) -> None:
    with pytest.raises(SettingsError, match="give parameters by name"):
        registry.make("bonsai", given)
    with pytest.raises(SettingsError, match="give parameters by name"):
        registry.make("bonsai", defaults=given)
