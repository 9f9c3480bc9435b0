"""Shared options and results of decisions: ``--threshold``, metrics of decisions, and a file of results per label."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longtail.errors import SettingsError

if TYPE_CHECKING:
    import numpy as np
    from scipy.sparse import csr_array

    from longtail.metrics.decisions import DecisionCounts
    from longtail.metrics.thresholds import Thresholds
    from longtail.tagger import Tagger

ThresholdOption = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER|auto",
        help="Lowest score of a label, from 0 to 1, or auto: the threshold with the best F1 on held-out points.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class DecisionOptions:
    """Options for the number of labels per point and their lowest score."""

    k: Annotated[
        int | None,
        typer.Option(
            "-k",
            min=1,
            metavar="INT",
            help="Number of labels per text, at most; 5 by default, 50 with --threshold NUMBER.",
            show_default=False,
        ),
    ] = None
    threshold: ThresholdOption = None

    def of(self, tagger: Tagger) -> Thresholds:
        """Return the thresholds and the limit to use with a model."""
        return tagger.thresholds(read_threshold(self.threshold), self.k)


@dataclass(frozen=True)
class DecisionResults:
    """Options for the results of ``evaluate`` in addition to the ranking metrics."""

    threshold: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER|auto",
            help="Also compute precision, recall and F1 of the labels whose score reaches this threshold.",
            show_default=False,
        ),
    ] = None
    per_label: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv",
            help="Write test points, suggestions, precision, recall and F1 of each label to a file.",
            show_default=False,
        ),
    ] = None

    def __post_init__(self) -> None:
        read_threshold(self.threshold)
        if self.per_label is not None and self.per_label.suffix != ".csv":
            raise SettingsError(f"Cannot write results per label to {self.per_label}: use a name that ends in .csv.")

    @property
    def wanted(self) -> bool:
        """Whether any of these results was requested."""
        return self.threshold is not None or self.per_label is not None

    def of(self, tagger: Tagger | None) -> Thresholds:
        """Return the thresholds and the limit: the top 50 labels with a threshold, the top 5 without one.

        For predictions from a file there is no tagger, and therefore no "auto" threshold.
        """
        from longtail.metrics.thresholds import Thresholds

        threshold = read_threshold(self.threshold)
        if tagger is not None:
            return tagger.thresholds(threshold)
        if isinstance(threshold, str):
            raise SettingsError("--threshold auto is a threshold of a model. Give a number with --predictions.")
        return Thresholds((0.0,), limit=5) if threshold is None else Thresholds((threshold,))


def read_threshold(text: str | None) -> float | str | None:
    """Return the value of ``--threshold``."""
    if text is None or text == "auto":
        return text
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise SettingsError(f"--threshold is {text!r}; give a number from 0 to 1, or auto.")
    return value


def count_of(
    thresholds: Thresholds, scores: csr_array, Y: csr_array, ignore: np.ndarray | None, trained: np.ndarray | None
) -> DecisionCounts:
    """Decide on labels by their scores, and compare them with the truth.

    Parameters
    ----------
    thresholds : Thresholds
        Lowest score of a label, and largest number of labels per point.
    scores, Y : csr_array, (N, L)
        Scores and correct labels.
    ignore : int array, (P, 2), optional
        (row, label) pairs to leave out.
    trained : int array, (L,), optional
        Training points per label.
    """
    from scipy.sparse import csr_array

    from longtail.kernels.topk import csr_top_k_serial
    from longtail.metrics.decisions import count_decisions

    indptr, labels, values = csr_top_k_serial(
        scores.indptr.astype("int64"), scores.indices, scores.data.astype("float64"), thresholds.limit
    )
    best = csr_array((values.astype(scores.dtype), labels, indptr), shape=scores.shape)
    return count_decisions(Y, thresholds.decide(best, trained), ignore=ignore)


def write_per_label(
    path: Path, counts: DecisionCounts, names: Sequence[str], ids: Sequence[str] | None, trained: np.ndarray | None
) -> int:
    """Write one line per label that occurs in the truth or in the decisions, and return the number of lines.

    Parameters
    ----------
    path : Path
        File to write.
    counts : DecisionCounts
        Decided, true and correct pairs.
    names, ids : sequence of str, (L,)
        Names of the labels, and their identifiers if they have any.
    trained : int array, (L,), optional
        Training points per label.
    """
    import numpy as np

    from longtail.store import atomic_file

    metrics = counts.per_label()
    labels = np.flatnonzero((counts.label_true > 0) | (counts.label_decided > 0)).tolist()
    with atomic_file(path) as fresh, fresh.open("w", encoding="utf-8", newline="") as text:
        table = csv.writer(text)
        id_column = [] if ids is None else ["id"]
        table.writerow([*id_column, "label", "training_points", "test_points", "suggested", "correct", *metrics])
        for label in labels:
            id_cell = [] if ids is None else [ids[label]]
            points = "" if trained is None else int(trained[label])
            numbers = [counts.label_true[label], counts.label_decided[label], counts.label_correct[label]]
            row = [*id_cell, names[label], points, *numbers, *(f"{metrics[key][label]:.2f}" for key in metrics)]
            table.writerow(row)
    return len(labels)
