"""``longtail predict`` for many files: write one file of results per file of points.

A file of results appears when it is complete. After an interruption, the same command therefore predicts only the files
that are missing. Each file is one task of the engine. On a cluster, every machine must be able to read the files under
the same path; results are written by this process.
"""

from __future__ import annotations

from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from longtail import progress
from longtail.cli.console import print_remark
from longtail.errors import DataError, SettingsError

if TYPE_CHECKING:
    from longtail.cli.options import DataOptions
    from longtail.metrics.thresholds import Thresholds
    from longtail.tagger import Tagger

_RUN = "predict.json"  # file with the model and the settings of the results in a folder


def is_pattern(name: str | None) -> bool:
    """Return whether the name of an input is a pattern for several files."""
    return name is not None and any(letter in name for letter in "*?[") and not Path(name).exists()


def predict_files(
    pattern: str, out_folder: Path, tagger: Tagger, wanted: Thresholds, options: DataOptions, run: dict[str, Any]
) -> dict[str, Any]:
    """Predict the points of each file, and return the numbers of files and points.

    Parameters
    ----------
    pattern : str
        Names of the files as a pattern with ``*``.
    out_folder : Path
        Folder to write to: one .jsonl file per file of points.
    tagger, wanted, options
        The model, the thresholds, and the options for reading files.
    run : dict
        Model and settings. The results of an interrupted run must have been made with the same ones.
    """
    from longtail.engine import current
    from longtail.store import atomic_file

    paths = [Path(name) for name in sorted(glob(pattern, recursive=True)) if Path(name).is_file()]
    if not paths:
        raise DataError("no file has such a name", path=pattern, remedy="Quote the pattern, and name files that exist")
    targets = [out_folder / f"{path.name}.jsonl" for path in paths]
    if len(set(targets)) < len(targets):
        raise DataError("two files have the same name", path=pattern, remedy="Predict the files of each folder alone")
    read_with = {f"--{name.replace('_', '-')}": value and str(value) for name, value in vars(options).items()}
    _open_folder(out_folder, run | read_with)
    missing = [i for i, target in enumerate(targets) if not _is_newer(target, paths[i])]
    if len(missing) < len(paths):
        print_remark(f"{len(paths) - len(missing):,} of {len(paths):,} files are done; continuing with the others")
    n_points = 0

    def finished(i: int, result: tuple[bytes, int]) -> None:
        nonlocal n_points
        with atomic_file(targets[missing[i]]) as fresh:
            fresh.write_bytes(result[0])
        n_points += result[1]
        done(1 / len(missing))

    with progress.stage("predicting files") as done:
        current().map(
            _predict_file,
            [str(paths[i]) for i in missing],
            (tagger, wanted, options),
            n_jobs=1,  # on this machine one file after the other, as prediction itself uses several threads
            uses_whole_machine=True,
            finished=finished,
        )
    return {"n_files": len(paths), "n_predicted": len(missing), "n_points": n_points}


def _is_newer(result: Path, points: Path) -> bool:
    """Return whether there is a result that is not older than its file of points."""
    return result.exists() and result.stat().st_mtime_ns >= points.stat().st_mtime_ns


def _predict_file(name: str, tagger: Tagger, wanted: Thresholds, options: DataOptions) -> tuple[bytes, int]:
    """Return the results of one file as JSON lines, and their number."""
    from longtail.cli.predict import read_blocks, scored
    from longtail.cli.results import ResultRows

    if not Path(name).is_file():  # this may be another machine of a cluster
        raise DataError("is not there", path=name, remedy="Keep the files in a folder that every machine can read")
    rows, lines, n = ResultRows(tagger), [], 0
    for block, scores in scored(tagger, read_blocks(name, tagger, options), wanted):
        lines.append(rows.json_lines(block, scores))
        n += len(block)
    return b"".join(lines), n


def _open_folder(folder: Path, run: dict[str, Any]) -> None:
    """Create the folder of the results, or check that those in it were made with the same model and settings."""
    from longtail.store import atomic_file

    note = folder / _RUN
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        with atomic_file(note) as fresh:
            fresh.write_bytes(orjson.dumps(run))
        return
    try:
        before = orjson.loads(note.read_bytes())
    except (OSError, ValueError):
        raise DataError(
            "exists and holds no results of longtail predict", path=folder, remedy="Choose another --out"
        ) from None
    if before != run:
        differs = next(key for key in {**before, **run} if before.get(key) != run.get(key))
        raise SettingsError(
            f"{folder} was begun with {differs} {before.get(differs)!r}, not {run.get(differs)!r}. Give the same, or "
            "choose another --out."
        )
