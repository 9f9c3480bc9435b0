"""``longtail convert``: convert a dataset from one format to another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from longtail.cli.console import print_json, print_result, written
from longtail.cli.held_out_part import with_test_part
from longtail.cli.options import DataOptions, DataPath, JsonFlag, SetOption, split_settings
from longtail.cli.progress_bar import doing
from longtail.errors import SettingsError, number_of

_COMPRESSED = ("", ".gz", ".xz", ".zst")
_TABLE_ENDINGS = tuple(table + ending for table in (".csv", ".tsv", ".jsonl") for ending in _COMPRESSED)
_TEXT_ENDINGS = tuple(".txt" + ending for ending in _COMPRESSED)
TargetArgument = Annotated[
    Path,
    typer.Argument(metavar="OUT", help="Folder to make, or a .txt, .csv, .tsv or .jsonl file.", show_default=False),
]
ToOption = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="FORMAT",
        help="Format to write: sparse, lf, npz, json or table; by default chosen by the name OUT.",
        show_default=False,
    ),
]
CompressionOption = Annotated[
    str | None,
    typer.Option(metavar="ENDING", help="Compress the text files of a folder: gz, xz or zst.", show_default=False),
]
HoldOutOption = Annotated[
    float | None,
    typer.Option(
        "--hold-out",
        metavar="SHARE",
        help="Write this share of the points as the test part, such as 0.2; the same points each time.",
        show_default=False,
    ),
]
OverwriteFlag = Annotated[bool, typer.Option("--overwrite", help="Replace OUT if it holds a dataset.")]


def convert_data(
    data: DataPath,
    target: TargetArgument,
    to: ToOption = None,
    compression: CompressionOption = None,
    overwrite: OverwriteFlag = False,
    hold_out: HoldOutOption = None,
    set_: SetOption = None,
    json: JsonFlag = False,
    *,
    options: DataOptions,
) -> None:
    """Read DATA in any format and write it as sparse text, npz, JSON lines or a table."""
    from longtail.data.writing import check_target, write

    check_target(target, to, compression)
    if hold_out is not None and not 0 < hold_out < 1:
        raise SettingsError(f"--hold-out is {hold_out:g}; give a number above 0 and below 1, such as 0.2.")
    if hold_out is not None and target.name.endswith((*_TABLE_ENDINGS, *_TEXT_ENDINGS)):
        raise SettingsError(
            f"--hold-out writes two parts, and {target} is one file. Name a folder, as with --to table."
        )
    settings, vectorizer = split_settings(set_)
    if settings:
        raise SettingsError(f"{next(iter(settings))!r} is not a setting of TF-IDF. Write --set text.NAME=VALUE.")
    texts_only = to in ("json", "table") or (to is None and target.name.endswith(_TABLE_ENDINGS))
    if texts_only and vectorizer is not None:
        raise SettingsError(f"--set text.… has no effect: {target} holds texts, not features. Leave it out.")
    read = options.read(data, None if texts_only else vectorizer or "tfidf", require_labels=False)
    if hold_out is not None:
        if read.test is not None:
            raise SettingsError(f"--hold-out has no effect: {data} has a test part. Leave it out.")
        read = with_test_part(read, 0, hold_out)
    with doing(f"writing {target}"):
        write(read, target, to, compression=compression, overwrite=overwrite)
    if json:
        print_json(
            {
                "out": target,
                "n_points": read.n_points,
                "n_test_points": 0 if read.test is None else read.test.n_points,
                "n_features": read.n_features,
                "n_labels": read.n_labels,
            }
        )
        return
    features = "" if read.X is None else f"{number_of(read.n_features, 'feature')}, "
    test = f" and {number_of(read.test.n_points, 'test point')}" if read.test else ""
    points, labels = number_of(read.n_points, "point"), number_of(read.n_labels, "label")
    print_result(written(target, f"{points}{test}, {features}{labels}"))
