"""``longtail compare``: train several models on the training part, and measure each on the test part."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longtail import registry
from longtail.cli.console import fail, out, print_json, print_remark, written
from longtail.cli.held_out_part import with_test_part
from longtail.cli.options import (
    DataPath,
    JobsOption,
    JsonFlag,
    PropensityOptions,
    SeedOption,
    SetOption,
    VectorDataOptions,
    check_output_file,
    model_defaults,
    split_settings,
)
from longtail.cli.progress_bar import doing
from longtail.errors import DataError, SettingsError, number_of

if TYPE_CHECKING:
    from longtail.cli.worker import ModelTask
    from longtail.data import Dataset

ComparedModels = Annotated[
    str, typer.Option("--models", "-m", metavar="A,B,…", help="Models or compositions, separated by commas.")
]
SeedsOption = Annotated[
    int,
    typer.Option(
        min=1, max=100, metavar="INT", help="Train each model with this many seeds; show mean and standard deviation."
    ),
]
TradeOffOption = Annotated[
    Path | None,
    typer.Option(
        "--tradeoff",
        metavar="FILE",
        help="Plot P@k against PSP@k of each model (.png, .svg or .pdf).",
        show_default=False,
    ),
]
BinsOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Plot the contribution of frequent and rare labels.", show_default=False),
]


def compare_models(
    data: DataPath,
    models: ComparedModels = "popular,parabel,bonsai",
    set_: SetOption = None,
    seed: SeedOption = 0,
    seeds: SeedsOption = 1,
    jobs: JobsOption = None,
    trade_off: TradeOffOption = None,
    bins: BinsOption = None,
    json: JsonFlag = False,
    *,
    options: VectorDataOptions,
    propensities: PropensityOptions,
) -> None:
    """Train each model on the training part of DATA and measure it on the test part.

    If DATA has no test part, a fifth of its points is held out. Each model runs in its own process.
    """
    pictures = {name: path for name, path in (("tradeoff", trade_off), ("bins", bins)) if path is not None}
    _check_pictures(pictures)
    settings, vectorizer = split_settings(set_)
    by_model = settings_by_model(split_models(models), settings)
    for model, own_settings in by_model.items():
        registry.make(model, own_settings, defaults=model_defaults(seed, jobs)).check_params()
    read = with_test_part(options.read(data, vectorizer or "tfidf"), seed)
    assert read.test is not None
    if not read.test.Y.nnz:
        raise DataError(f"no test point of {read.name} has a label", remedy="Give test points whose labels are known")
    from longtail.cli import tables
    from longtail.cli.worker import ModelTask

    read.Z = read.test.Z = read.label_features()
    shared: dict[str, Any] = {"vector_size": read.vector_size, "propensity": propensities.a_and_b()}
    tasks = [
        ModelTask("", model, own_settings, model_defaults(seed + at, jobs, propensities), list(pictures), **shared)
        for model, own_settings in by_model.items()
        for at in range(seeds)
    ]
    with tempfile.TemporaryDirectory(prefix="longtail-") as scratch:
        results = run_tasks(read, tasks, Path(scratch))
    if seeds > 1:
        results = [over_seeds(results[at : at + seeds]) for at in range(0, len(results), seeds)]
    title = (
        f"{read.name}: {number_of(read.n_points, 'training point')}, "
        f"{number_of(read.test.n_points, 'test point')}, {number_of(read.n_labels, 'label')}"
    )
    _draw_pictures(pictures, results, title)
    if json:
        print_json(results)
    else:
        out.print(tables.comparison_table(results, title))
        if "tradeoff" in pictures:
            out.print(tables.trade_off_table(results))
        if "bins" in pictures:
            out.print(tables.bins_table(results))
    failed = [f"{row['model']}: {row['error']}" for row in results if "error" in row]
    if failed:
        fail("\n".join(failed))


def run_tasks(data: Dataset, tasks: list[ModelTask], scratch: Path) -> list[dict[str, Any]]:
    """Train and measure each model. The fitted rankers are saved in ``scratch/0/model`` and so on."""
    from longtail.cli.worker import run_task, save_matrices

    save_matrices(data, scratch / "data")
    results = []
    for at, task in enumerate(tasks):
        with doing(f"training and measuring {task.model} ({at + 1} of {len(tasks)})"):
            results.append(run_task(replace(task, data=str(scratch / "data")), scratch / str(at)))
    return results


def over_seeds(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean of one model's results with several seeds, and under ``deviation`` their standard deviation.

    The curves are those of the first seed. A value that one seed does not have is None, such as the calibration error
    of rare labels if none was suggested. If a seed failed, the result is its error.
    """
    failed = next((row for row in rows if "error" in row), None)
    if failed is not None:
        return failed
    from statistics import fmean, stdev

    numbers = [key for key in rows[0] if all(isinstance(row.get(key), int | float) for row in rows)]
    unknown = {key: None for key in rows[0] if any(row.get(key, 0) is None for row in rows)}
    means = {key: fmean(row[key] for row in rows) for key in numbers}
    spread = {key: stdev(row[key] for row in rows) for key in numbers}
    return rows[0] | unknown | means | {"seeds": len(rows), "deviation": spread}


def _check_pictures(pictures: dict[str, Path]) -> None:
    """Raise an error, before any work, if a picture could not be drawn."""
    if pictures:
        from longtail.report.figure import check_picture

        for name, path in pictures.items():
            check_output_file(path, f"--{name}")
            check_picture(path)


def _draw_pictures(pictures: dict[str, Path], results: list[dict[str, Any]], title: str) -> None:
    """Draw the pictures of the models that did not fail."""
    whole = [row for row in results if "error" not in row]
    if not pictures or not whole:
        return
    from longtail.report.bin_bars import draw_bin_bars
    from longtail.report.trade_off import draw_trade_off

    for name, path in pictures.items():
        {"tradeoff": draw_trade_off, "bins": draw_bin_bars}[name](whole, title, path)
        print_remark(written(path))


def split_models(text: str) -> list[str]:
    """Split the value of ``--models`` at the commas outside brackets, without duplicates."""
    models, depth = [""], 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            models.append("")
        else:
            models[-1] += character
    return list(dict.fromkeys(model.strip() for model in models if model.strip()))


def settings_by_model(models: list[str], settings: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the settings of each model, after checking all of them before anything is trained."""
    if not models:
        raise SettingsError(f"--models names no model. Models: {', '.join(registry.names())}.")
    parts = {model: registry.used(model) for model in models}
    for key in settings:
        owner, dot, parameter = key.rpartition(".")
        if not dot:
            raise SettingsError(f"Write which model the setting {key!r} is for, as in {models[0]}.{parameter}=VALUE.")
        if not any(owner in names for names in parts.values()):
            raise SettingsError(f"The setting {key!r} is for {owner!r}, which is not among {', '.join(models)}.")
    by_model = {
        model: {key: value for key, value in settings.items() if key.rpartition(".")[0] in names}
        for model, names in parts.items()
    }
    for model, own_settings in by_model.items():
        registry.make(model, own_settings)
    return by_model
