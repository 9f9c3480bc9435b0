"""``longtail plot``: draw pictures of a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longtail import registry
from longtail.cli.console import print_json, print_result, written
from longtail.cli.options import JsonFlag, ModelFolder, check_output_file, default_output
from longtail.errors import DataError, ModelError, number_of

if TYPE_CHECKING:
    import numpy as np

OutPicture = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="FILE",
        help="A .png, .svg or .pdf file; by default a new .png file here, with the name of the plot.",
        show_default=False,
    ),
]
BesideOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Another model of the same data, for the same picture.", show_default=False),
]
LabelArgument = Annotated[str, typer.Argument(metavar="LABEL", help="Name or identifier of a label.")]


def plot_curves(folder: ModelFolder, out_file: OutPicture = None, json: JsonFlag = False) -> None:
    """Plot P@1 on training and on held-out points by epoch."""
    from longtail.cli.inspect import describe_folder
    from longtail.report.figure import check_picture
    from longtail.report.learning_curves import collect_histories, draw_learning_curves

    out_file = out_file or default_output("curves.png")
    check_output_file(out_file, "--out")
    check_picture(out_file)
    draw_learning_curves(collect_histories(describe_folder(folder, verify=False)), str(folder), out_file)
    _report_file(out_file, json)


def plot_norms(
    folder: ModelFolder,
    out_file: OutPicture = None,
    beside: BesideOption = None,
    json: JsonFlag = False,
) -> None:
    """Plot the norm of each label's weights next to its frequency."""
    from longtail.report.figure import check_picture
    from longtail.report.weight_norms import draw_weight_norms

    out_file = out_file or default_output("norms.png")
    check_output_file(out_file, "--out")
    check_picture(out_file)
    counts, norms = _counts_and_norms(folder)
    shown = {folder.name or str(folder): norms}
    if beside is not None:
        other_counts, other = _counts_and_norms(beside)
        if other_counts.shape != counts.shape:
            raise DataError(
                f"this model has {number_of(len(other_counts), 'label')}, and {folder} has {len(counts):,}",
                path=beside,
                remedy="Compare models of the same data",
            )
        shown[str(beside) if beside.name in shown else beside.name or str(beside)] = other
    draw_weight_norms(counts, shown, out_file)
    _report_file(out_file, json)


def plot_labels(folder: ModelFolder, label: LabelArgument, out_file: OutPicture = None, json: JsonFlag = False) -> None:
    """Plot the labels near LABEL, by the label graph and the label vectors of a dxml model."""
    from longtail.cli.near_labels import find_near_labels
    from longtail.report.figure import check_picture
    from longtail.report.labels_plot import draw_label_map, neighbourhood

    out_file = out_file or default_output("labels.png")
    check_output_file(out_file, "--out")
    check_picture(out_file)
    draw_label_map(neighbourhood(*find_near_labels(folder, label)), out_file)
    _report_file(out_file, json)


def _counts_and_norms(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Load a model, and return the number of training points and the norm of the weights of each label."""
    from longtail.report.label_norms import label_norms

    tagger = registry.load_tagger(folder)
    if tagger.label_counts_ is None:
        raise ModelError(
            f"{folder}: a ranker that was saved alone, without label frequencies. "
            "Give a model that longtail train or Tagger.save has written."
        )
    return tagger.label_counts_, label_norms(tagger.ranker_)


def _report_file(path: Path, json: bool) -> None:
    print_json({"out": path}) if json else print_result(written(path))
