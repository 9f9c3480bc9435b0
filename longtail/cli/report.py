"""``longtail report``: write one page about one or several saved models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longtail import registry
from longtail.cli.console import print_json, print_remark, print_result, written
from longtail.cli.evaluate import labelled_part
from longtail.cli.options import DataOptions, JsonFlag, PropensityOptions, check_output_file, default_output
from longtail.cli.progress_bar import doing
from longtail.errors import DataError, ModelError, SettingsError, number_of

if TYPE_CHECKING:
    from longtail.data import Dataset
    from longtail.report.sections import MeasuredModel, ReportData
    from longtail.tagger import Tagger

_FORMATS = {"html": (".html", ".htm"), "md": (".md", ".markdown")}
ModelFolders = Annotated[
    list[Path],
    typer.Argument(
        metavar="DIR... DATA",
        help="Folders of saved models, all of which are compared with the first one, and a dataset with labels.",
    ),
]
DataToRead = Annotated[
    str | None,
    typer.Option(
        "--data", "-d", metavar="DATA", help="The dataset, if it is not the last argument.", show_default=False
    ),
]
OutPage = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="FILE",
        help="The file to write; report.html by default, report.md with --format md.",
        show_default=False,
    ),
]
PageFormat = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="FORMAT", help="html or md; by default by the ending of --out.", show_default=False
    ),
]


@dataclass(frozen=True)
class ReportedDataOptions(DataOptions):
    """Options for reading a dataset. Its format is ``--data-format``, because ``--format`` is that of the report."""

    format: Annotated[
        str | None,
        typer.Option(
            "--data-format",
            metavar="FORMAT",
            help="File format of DATA, if file names do not show it.",
            show_default=False,
        ),
    ] = None


def report_models(
    folders: ModelFolders,
    data: DataToRead = None,
    out_file: OutPage = None,
    page_format: PageFormat = None,
    json: JsonFlag = False,
    *,
    options: ReportedDataOptions,
    propensities: PropensityOptions,
) -> None:
    """Write one page about saved models, measured on the test part of DATA or, if it has none, on all of it."""
    if data is None:
        folders, data = _models_and_data(folders)
    if page_format not in (None, *_FORMATS):
        raise SettingsError(f"--format is {page_format!r}; give html or md.")
    if out_file is None:
        out_file = default_output("report.md" if page_format == "md" else "report.html")
    page_format = _chosen_format(page_format, out_file)
    check_output_file(out_file, "--out", data, options.labels_file)
    taggers = [registry.load_tagger(folder) for folder in folders]
    for folder, tagger in zip(folders, taggers, strict=True):
        _check_same_labels(folder, tagger, folders[0], taggers[0])
    _, part, which = labelled_part(taggers[0], options, data, folders[0])
    collected = _collect(folders, taggers, part, propensities)
    from longtail._version import __version__
    from longtail.report.html_report import html_page
    from longtail.report.markdown_report import markdown_page
    from longtail.report.sections import build_sections
    from longtail.store import atomic_file

    with doing("writing the report"):
        names = " and ".join(model.name for model in collected.models)
        title, subtitle = f"{names} on {part.name}", f"Measured on {which} by longtail {__version__}"
        page = (html_page if page_format == "html" else markdown_page)(title, subtitle, build_sections(collected))
        with atomic_file(out_file) as fresh:
            fresh.write_bytes(page.encode("utf-8", "replace"))
    if json:
        print_json({"out": out_file, "format": page_format, "models": [model.row for model in collected.models]})
    else:
        print_result(written(out_file, f"a report on {number_of(len(taggers), 'model')}"))


def _models_and_data(given: list[Path]) -> tuple[list[Path], str]:
    """Split the arguments into the folders of models and the data, which is the last argument."""
    if len(given) < 2 or (given[-1] / "model.json").is_file():
        raise SettingsError("Give the models and then the data: report DIR... DATA.")
    return given[:-1], str(given[-1])


def _chosen_format(given: str | None, path: Path) -> str:
    by_ending = next((name for name, endings in _FORMATS.items() if path.suffix.lower() in endings), None)
    if given is None and by_ending is None:
        raise SettingsError(
            f"Cannot tell the format of {path}: use a name that ends in .html or .md, or give --format."
        )
    if given is not None and by_ending not in (None, given):
        raise SettingsError(
            f"--format {given} contradicts the name {path}: use a name that ends in {_FORMATS[given][0]}, "
            "or leave out --format."
        )
    return given or str(by_ending)


def _check_same_labels(folder: Path, tagger: Tagger, first_folder: Path, first: Tagger) -> None:
    if tagger is not first and list(tagger.label_names_) != list(first.label_names_):
        raise DataError(
            f"this model has other labels than {first_folder}, or has them in another order",
            path=folder,
            remedy="Report models that were trained on the same data",
        )
    if (tagger.vectorizer_ is None) != (first.vectorizer_ is None):
        raise DataError(
            f"of this model and {first_folder}, one reads text and the other features",
            path=folder,
            remedy="Report models that were trained on the same data",
        )


def _collect(folders: list[Path], taggers: list[Tagger], part: Dataset, propensities: PropensityOptions) -> ReportData:
    """Measure all models on the labelled points, and collect the data of the report."""
    import numpy as np

    from longtail.metrics import inverse_propensity
    from longtail.report.sections import ReportData
    from longtail.sparse import label_counts, labelled_rows
    from longtail.tagger.matrices import without

    first = taggers[0]
    counts = np.zeros(part.n_labels, np.int64)  # labels that the models do not have come last, with a count of 0
    if first.label_counts_ is None:
        print_remark("These models were saved without label frequencies; they are counted in this data.")
        counts[:], n_points = label_counts(part.Y), part.n_points
    else:
        counts[: first.n_labels_], n_points = first.label_counts_, first.n_points_
    for folder, tagger in zip(folders[1:], taggers[1:], strict=True):
        if not np.array_equal(np.asarray(tagger.label_counts_), np.asarray(first.label_counts_)):
            print_remark(
                f"{folder} was trained on other points than {folders[0]}; label frequencies are those of {folders[0]}"
            )
    weights = inverse_propensity(None, *propensities.a_and_b(), counts=counts, n_points=n_points)
    rows = labelled_rows(without(part.Y, part.ignore))
    part = part.subset(rows)
    names = [folder.name or str(folder) for folder in folders]
    names = [name if names.count(name) == 1 else str(folder) for name, folder in zip(names, folders, strict=True)]
    data = ReportData(
        title=part.name,
        Y=without(part.Y, part.ignore),
        label_names=part.label_names
        or part.label_ids
        or [*first.label_names_, *map(str, range(first.n_labels_, part.n_labels))],
        counts=counts,
        weights=weights,
        texts=part.texts,
        models=[],
    )
    for name, folder, tagger in zip(names, folders, taggers, strict=True):
        with doing(f"measuring {name}"):
            data.models.append(_measured(name, folder, tagger, part, data))
    return data


def _measured(name: str, folder: Path, tagger: Tagger, part: Dataset, data: ReportData) -> MeasuredModel:
    from longtail.cli import measure
    from longtail.cli.inspect import describe_folder
    from longtail.metrics import frequency_bins
    from longtail.report.analysis import labels_with_counts
    from longtail.report.label_norms import label_norms
    from longtail.report.learning_curves import collect_histories
    from longtail.report.sections import MeasuredModel
    from longtail.tagger.matrices import without

    ranker = tagger.ranker_
    X: Any = part.X if tagger.vectorizer_ is None else tagger.features(part.texts)
    test = measure.EvaluationSet(X, part.Y, data.weights, part.ignore, data.counts)
    scores, report = measure.scores_and_accuracy(ranker, test)
    scores = without(scores, part.ignore)
    training: dict[str, Any] = tagger.notes_.get("training", {})
    row = measure.result_row(
        training.get("model", ranker.kind),
        report,
        train_seconds=training.get("train_seconds"),
        peak_memory_mb=None,
        model_mb=measure.folder_mb(folder if tagger.label_counts_ is None else folder / "ranker"),
    )
    row["tradeoff"] = measure.trade_off(ranker, test, report)
    row["bins"] = frequency_bins(data.Y, scores, labels_with_counts(data.counts), inv_propensity=data.weights)
    try:
        norms = resized_norms(label_norms(ranker), part.n_labels)
    except ModelError:
        norms = None
    histories = collect_histories(describe_folder(folder, verify=False))
    settings = training.get("model", repr(ranker))
    remark = ". ".join(filter(None, (settings, getattr(ranker, "why_", ""))))
    return MeasuredModel(name, scores, row, norms, histories, remark)


def resized_norms(norms: Any, n_labels: int) -> Any:
    """Return the norms with NaN appended for labels that the model does not have."""
    import numpy as np

    return np.append(norms, np.full(n_labels - len(norms), np.nan))
