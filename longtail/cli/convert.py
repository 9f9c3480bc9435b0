"""``longtail convert``: data from one layout to another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from longtail.cli import common
from longtail.cli.common import DataPath, Json, LabelsColumn, LabelsSeparator, Settings, TextColumn

Target = Annotated[Path, typer.Argument(metavar="OUT", help="Folder to make, or a .txt file.", show_default=False)]
To = Annotated[
    str | None, typer.Option("--to", help="sparse, npz or json; told by OUT by default.", show_default=False)
]
From = Annotated[
    str | None, typer.Option("--from", help="Layout of the data, where names do not tell.", show_default=False)
]
Compression = Annotated[
    str | None, typer.Option(help="gz, xz or zst, for the text files of a folder.", show_default=False)
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace OUT if it holds data.")]


def convert(
    data: DataPath,
    target: Target,
    to: To = None,
    from_: From = None,
    compression: Compression = None,
    overwrite: Overwrite = False,
    set_: Settings = None,
    text_column: TextColumn = None,
    labels_column: LabelsColumn = None,
    labels_separator: LabelsSeparator = None,
    json: Json = False,
) -> None:
    """Read DATA in any layout and write it as sparse text, npz or JSON lines."""
    from longtail.data import write

    settings, vectorizer = common.split_settings(set_)
    if settings:
        common.fail(f"{next(iter(settings))!r} is not a setting of TF-IDF; write text.NAME=VALUE")
    read = common.read_data(
        data,
        None if to == "json" else vectorizer or "tfidf",
        format=from_,
        text_column=text_column,
        labels_column=labels_column,
        labels_separator=labels_separator,
        require_labels=False,
    )
    with common.doing(f"writing {target}"):
        write(read, target, to, compression=compression, overwrite=overwrite)
    facts = {
        "out": target,
        "n_points": read.n_points,
        "n_test_points": 0 if read.test is None else read.test.n_points,
        "n_features": read.n_features,
        "n_labels": read.n_labels,
    }
    if json:
        common.emit(facts)
    else:
        features = "" if read.X is None else f"{read.n_features:,} features, "
        parts = f"{read.n_points:,} points" + (f" and {read.test.n_points:,} to test" if read.test else "")
        common.out.print(
            f"{target}: {parts}, {features}{read.n_labels:,} labels",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
