"""``longtail compare``: several models, each trained on the train part and measured on the test part."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longtail import registry
from longtail.cli import common
from longtail.cli.common import DataPath, Format, Jobs, Json, LabelsColumn, LabelsSeparator, Seed, Settings, TextColumn
from longtail.errors import DataError, SettingsError

if TYPE_CHECKING:
    from longtail.data import Dataset

HELD_OUT = 0.2
PICTURES = (".png", ".svg", ".pdf")
Models = Annotated[
    str, typer.Option("--models", "-m", metavar="A,B,…", help="Names or compositions, separated by commas.")
]
Tradeoff = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Draw P@k against PSP@k of each model (.png, .svg, .pdf).", show_default=False),
]
Bins = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Draw what frequent and rare labels contribute.", show_default=False),
]


def compare(
    data: DataPath,
    models: Models = "popular,parabel,bonsai",
    set_: Settings = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    format: Format = None,
    text_column: TextColumn = None,
    labels_column: LabelsColumn = None,
    labels_separator: LabelsSeparator = None,
    tradeoff: Tradeoff = None,
    bins: Bins = None,
    json: Json = False,
) -> None:
    """Train each model on the train part of DATA and measure it on the test part.

    Where DATA has no test part, a fifth of its points is held out. Each model runs in a process of its own.
    """
    drawn = {name: path for name, path in (("tradeoff", tradeoff), ("bins", bins)) if path is not None}
    check_pictures(drawn)
    settings, vectorizer = common.split_settings(set_)
    chosen = split_models(models)
    by_model = settings_of(chosen, settings)
    read = common.read_data(
        data,
        vectorizer or "tfidf",
        format=format,
        text_column=text_column,
        labels_column=labels_column,
        labels_separator=labels_separator,
    )
    read = with_test_part(read, seed)
    assert read.test is not None
    if not read.test.Y.nnz:
        raise DataError(f"no test point of {read.name} has a label", remedy="Give test points whose labels are known")
    with tempfile.TemporaryDirectory(prefix="longtail-") as scratch:
        results = measured(read, by_model, common.defaults(seed, jobs), Path(scratch), list(drawn))
    title = f"{read.name}: {read.n_points:,} points to train, {read.test.n_points:,} to test, {read.n_labels:,} labels"
    draw(drawn, results, title)
    if json:
        common.emit(results)
    else:
        from longtail.cli import tables

        common.out.print(tables.several(results, title))
        for name in drawn:
            common.out.print(getattr(tables, name)(results))
    failed = [f"{row['model']}: {row['error']}" for row in results if "error" in row]
    if failed:
        common.fail("\n".join(failed))


def measured(
    data: Dataset,
    models: dict[str, dict[str, Any]],
    defaults: dict[str, Any],
    scratch: Path,
    extras: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Each model's result; the fitted rankers are left in ``scratch/0/model``, ``scratch/1/model`` …

    `extras` are further measures, "tradeoff" and "bins".
    """
    from longtail.cli.worker import Prepared, run

    Prepared.of(data).save(scratch / "data")
    results = []
    for i, (model, settings) in enumerate(models.items()):
        with common.doing(f"training and measuring {model} ({i + 1} of {len(models)})"):
            results.append(run(scratch / "data", model, settings, defaults, scratch / str(i), extras))
    return results


def check_pictures(drawn: dict[str, Path]) -> None:
    """Refuse, before any work, pictures that could not be drawn."""
    if not drawn:
        return
    if importlib.util.find_spec("matplotlib") is None:
        raise SettingsError("Pictures need matplotlib. Install it with: pip install 'longtail[report]'")
    for path in drawn.values():
        if path.suffix.lower() not in PICTURES:
            raise SettingsError(f"{path} is no picture. Let the name end in {', '.join(PICTURES)}.")
        if not path.absolute().parent.is_dir():
            raise SettingsError(f"{path}: the folder does not exist. Make it, or choose another.")


def draw(drawn: dict[str, Path], results: list[dict[str, Any]], title: str) -> None:
    """Draw the pictures of the models that did not fail."""
    whole = [row for row in results if "error" not in row]
    if drawn and whole:
        from longtail.cli import pictures

        for name, path in drawn.items():
            getattr(pictures, name)(whole, title, path)
            common.say(f"{name}: {path}")


def split_models(text: str) -> list[str]:
    """Models separated by commas, but for the commas inside brackets."""
    found, depth = [""], 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            found.append("")
        else:
            found[-1] += character
    return list(dict.fromkeys(model.strip() for model in found if model.strip()))


def settings_of(models: list[str], settings: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The settings for each model; all are checked here, before anything is trained."""
    if not models:
        raise SettingsError(f"No model is named. Models: {', '.join(registry.names())}.")
    parts = {model: registry.used(model) for model in models}
    for key in settings:
        owner, dot, parameter = key.rpartition(".")
        if not dot:
            raise SettingsError(f"Say which model the setting {key!r} is for, as in {models[0]}.{parameter}.")
        if not any(owner in names for names in parts.values()):
            raise SettingsError(f"The setting {key!r} is for {owner!r}, which is not among {', '.join(models)}.")
    found = {
        model: {key: value for key, value in settings.items() if key.rpartition(".")[0] in names}
        for model, names in parts.items()
    }
    for model, own in found.items():
        registry.make(model, own)
    return found


def with_test_part(data: Dataset, seed: int) -> Dataset:
    """The dataset, with a part held out if it has none to test on; its vectoriser learns from the rest alone."""
    if data.test is not None:
        return data
    from longtail.data.split import split

    kept, held = split(data.Y, HELD_OUT, seed)
    if not len(held):
        raise DataError(
            f"{data.name} has no test part, and no point can be held out: each is the only one of some label",
            remedy="Give more points, or a test part",
        )
    common.say(f"{data.name} has no test part; {len(held):,} of its {data.n_points:,} points are held out to test")
    train, test = data.subset(kept), data.subset(held)
    if train.texts is not None and test.texts is not None and data.vectorizer is not None:
        vectorizer = type(data.vectorizer)(**data.vectorizer.get_params())
        train.X = vectorizer.fit_transform(train.texts, label_texts=data.label_texts)
        train.Z = None if data.label_texts is None else vectorizer.transform(data.label_texts)
        test.X, test.Z = vectorizer.transform(test.texts), train.Z
        train.vectorizer = test.vectorizer = vectorizer
    return replace(train, test=test)
