"""Build the sections of a report about one or several models, as tables and charts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from longtail.errors import number_of, size
from longtail.metrics.calibration import curve_error, mark_rare_labels, reliability_curve
from longtail.report import analysis
from longtail.report.bin_bars import bin_name, frequency_range
from longtail.report.blocks import Cell, Chart, Section, Strong, Table, Tag
from longtail.report.learning_curves import HELD_OUT_KEY, TRAIN_KEY, History, history_rows, kept_epoch
from longtail.report.svg_chart import Axis, Series, bar_chart, line_chart
from longtail.report.trade_off import PlotWindow, choose_view
from longtail.report.weight_norms import grouped_means

_EXAMPLES_SHOWN, _EXTREMES_SHOWN, _CONFUSIONS_SHOWN, _TEXT_SHOWN = 20, 10, 15, 400
_NAME_SHOWN = 120  # characters of a label's name
_MIN_DRAWN = 20  # a bin with fewer suggestions is not drawn, as its fraction of correct ones is mostly noise
_COMPARED_METRICS = {"P@1": (None, 1), "P@5": (None, 5), "PSP@1": ("weights", 1), "PSP@5": ("weights", 5)}


@dataclass(frozen=True)
class MeasuredModel:
    """The results of one model on the test points.

    Attributes
    ----------
    name : str
        Name in the report.
    scores : csr_array, (N, L)
        Best labels per point, from the highest to the lowest score.
    row : dict
        ``model``, the metrics and the costs, with the keys of ``longtail evaluate --json``; ``tradeoff``, the curve of
        P@k against PSP@k; ``bins``, the result of :func:`longtail.metrics.frequency_bins`.
    norms : array, (L,), or None
        Norm of each label's weights, if the model has classifiers.
    histories : dict
        Training histories of the model and of the models inside it.
    remark : str
        The choices that the model made in training, with the reasons.
    """

    name: str
    scores: csr_array
    row: dict[str, Any]
    norms: np.ndarray | None = None
    histories: dict[str, History] = field(default_factory=dict)
    remark: str = ""


@dataclass(frozen=True)
class ReportData:
    """Test points, labels and models of a report.

    Attributes
    ----------
    title : str
        Name of the data.
    Y : csr_array, (N, L)
        True labels of the test points; every point has at least one.
    label_names : sequence of str
        Names of the labels.
    counts : array, (L,)
        Training points per label.
    weights : array, (L,)
        Inverse propensities.
    texts : list of str, optional
        Texts of the test points.
    models : list of MeasuredModel
        The models. All others are compared with the first one.
    """

    title: str
    Y: csr_array
    label_names: Sequence[str]
    counts: np.ndarray
    weights: np.ndarray
    texts: list[str] | None
    models: list[MeasuredModel]

    @cached_property
    def rare(self) -> np.ndarray:
        """Mask of the rare labels, (L,)."""
        return mark_rare_labels(self.counts)

    @property
    def most_rare(self) -> int:
        """Training points of the most frequent rare label."""
        return int(self.counts[self.rare].max(initial=0))

    def tag(self, label: int, kind: str = "plain", note: str = "") -> Tag:
        """Return a tag with the name of a label, which also shows whether it is rare."""
        return Tag(_shortened(self.label_names[label], _NAME_SHOWN), kind, bool(self.rare[label]), note)


def build_sections(data: ReportData) -> list[Section]:
    """Return the sections of a report, without those that have no content for these models."""
    makers = (
        _summary_section,
        _differences_section,
        _trade_off_section,
        _frequency_section,
        _calibration_section,
        _learning_curves_section,
        _norms_section,
        _labels_section,
        _confusions_section,
        _examples_section,
    )
    sections = [make(data) for make in makers]
    return [section for section in sections if section is not None]


def _summary_section(data: ReportData) -> Section:
    rows: list[list[Cell]] = []
    for name, meaning in (
        ("P", "correct labels among the top k"),
        ("nDCG", "the same, higher ranks count more"),
        ("R", "share of a point's labels that is found"),
        ("PSP", "precision, rare labels weigh more"),
        ("B", "best mean of P and PSP by re-ranking"),
        ("C", "coverage: share of all labels found at least once"),
    ):
        for k in (1, 5) if name not in ("nDCG", "R", "C") else (5,):
            values = [model.row[f"{name}@{k}"] for model in data.models]
            rows.append([f"{name}@{k}: {meaning}", *_best(values, "{:,.2f} %".format)])
    for key, which in (("ECE@1", "the first score"), ("ECE-rare@1", "the same of rare labels")):
        errors = [model.row.get(key) for model in data.models]
        name = f"{key}: distance of {which} from the share correct" if key == "ECE@1" else f"{key}: {which}"
        rows.append([name, *_best(errors, "{:,.2f} points".format, less=True)])
    suggested = [len(np.unique(analysis.top_entries(model.scores, 5).indices)) for model in data.models]
    rows.append(["different labels among the top 5 of all points", *(f"{n:,}" for n in suggested)])
    for key, name, write in (
        ("train_seconds", "training time", "{:,.1f} s".format),
        ("predict_ms_per_point", "prediction, per point in a batch", "{:,.3f} ms".format),
        ("model_mb", "size of the model", size),
    ):
        values = [model.row.get(key) for model in data.models]
        rows.append([name, *_best(values, write, less=True)])
    n_points, n_labels = data.Y.shape
    n_rare = int(data.rare.sum())
    text = (
        f"{number_of(n_points, 'test point')} with labels, {number_of(n_labels, 'label')}, "
        f"{data.Y.nnz / max(n_points, 1):.1f} labels per point. {_rare_labels(n_rare)} a fifth of all training labels, "
        f"{'has' if n_rare == 1 else 'have'} {number_of(data.most_rare, 'training point')} at most."
    )
    remarks: list[list[Cell]] = [[model.name, model.remark] for model in data.models if model.remark]
    tables: list[Table | Chart] = [Table(["", *(model.name for model in data.models)], rows)]
    if remarks:
        tables.append(Table(["model", "how it was trained"], remarks, numeric=False))
    return Section("Summary", text, tables)


def _rare_labels(n: int) -> str:
    """Return the beginning of the summary's sentence about rare labels."""
    return "The rarest label (◆), which has" if n == 1 else f"The {n:,} rarest labels (◆), which together have"


def _best(values: list[Any], write: Callable[[float], str], less: bool = False) -> list[Cell]:
    """Format numbers as cells, with the best of several in bold."""
    known = [value for value in values if value is not None and not np.isnan(value)]
    best = (min if less else max)(known) if len(known) > 1 else None
    cells: list[Cell] = []
    for value in values:
        if value is None or np.isnan(value):
            cells.append("–")
        else:
            cells.append(Strong(write(value)) if value == best else write(value))
    return cells


def _differences_section(data: ReportData) -> Section | None:
    if len(data.models) < 2:
        return None
    first, *others = data.models
    rows: list[list[Cell]] = []
    for metric, (weighted, k) in _COMPARED_METRICS.items():
        weights = data.weights if weighted else None
        gains = [analysis.point_gains(data.Y, model.scores, weights, k) for model in data.models]
        cells: list[Cell] = []
        for other in gains[1:]:
            mean, low, high = analysis.bootstrap_difference(other, gains[0])
            shown = f"{mean:+.2f}  [{low:+.2f}, {high:+.2f}]".replace("-", "−")
            cells.append(Strong(shown) if low > 0 or high < 0 else shown)
        rows.append([metric, *cells])
    text = (
        f"Differences from {first.name} in percentage points, with 95 % bootstrap intervals over test points. "
        "An interval without zero is in bold: the difference is unlikely to be due to the choice of test points."
    )
    heading = ["", *(f"{other.name} − {first.name}" for other in others)]
    return Section("Differences between the models", text, [Table(heading, rows)])


def _trade_off_section(data: ReportData) -> Section:
    blocks: list[Table | Chart] = []
    for k in (1, 5):
        rows = [model.row | {"model": model.name} for model in data.models]
        view, outside = choose_view(rows, k)
        far = [row["model"] for row in outside]
        series = [
            Series(
                row["model"] + (_far_away(row, k) if row["model"] in far else ""),
                [] if row["model"] in far else _curve_in_view(row, k, view),
                None if row["model"] in far else (row[f"P@{k}"], row[f"PSP@{k}"]),
            )
            for row in rows
        ]
        chart = line_chart(series, Axis(f"P@{k}", " %"), Axis(f"PSP@{k}", " %"))
        blocks.append(Chart(chart, f"P@{k} against PSP@{k}. The star is the model's own ranking."))
    table: list[list[Cell]] = []
    for model in data.models:
        for point in model.row["tradeoff"]:
            knob = next(iter(point))
            shown = [f"{point[f'{name}@{k}']:.2f} %" for k in (1, 5) for name in ("P", "PSP")]
            table.append([model.name, f"{'β' if knob == 'beta' else knob} = {point[knob]:g}", *shown])
    blocks.append(Table(["model", "along", "P@1", "PSP@1", "P@5", "PSP@5"], table, folded=True))
    text = (
        "Re-ranking trades accuracy on frequent labels (P) for accuracy on rare ones (PSP), by β or by the model's own "
        "parameter tail, from 0 to 1."
    )
    how = "Each dot is one value of β or tail. The higher and the further right a curve, the better."
    return Section("Frequent against rare labels", text, blocks, how)


def _curve_in_view(row: dict[str, Any], k: int, view: PlotWindow) -> list[tuple[float, float]]:
    points = [(point[f"P@{k}"], point[f"PSP@{k}"]) for point in row["tradeoff"]]
    return [point for point in points if view.contains(*point)]


def _far_away(row: dict[str, Any], k: int) -> str:
    return f" (not in view: {row[f'P@{k}']:.1f} %, {row[f'PSP@{k}']:.1f} %)"


def _frequency_section(data: ReportData) -> Section:
    blocks: list[Table | Chart] = []
    bins = [part for part in data.models[0].row["bins"] if part["labels"]]
    for metric in ("P@5", "PSP@5"):
        series = [
            Series(model.name, [(at, model.row["bins"][part["bin"] - 1][metric]) for at, part in enumerate(bins)])
            for model in data.models
        ]
        names = [bin_name(part) for part in bins]
        chart = bar_chart(names, series, Axis("training points per label"), Axis(f"contribution to {metric}", " %"))
        blocks.append(Chart(chart, f"Contribution to {metric}, frequent labels on the left."))
    rows: list[list[Cell]] = [
        [
            frequency_range(part, "{:,}".format),
            f"{part['labels']:,}",
            *(f"{model.row['bins'][part['bin'] - 1][m]:.2f} %" for model in data.models for m in ("P@5", "PSP@5")),
        ]
        for part in bins
    ]
    heading = ["training points", "labels", *(f"{model.name}, {m}" for model in data.models for m in ("P@5", "PSP@5"))]
    blocks.append(Table(heading, rows, folded=True))
    text = (
        "Labels are sorted by frequency and cut into five bins with the same number of training labels: the first bin "
        "holds a few frequent labels, the last one most of the label space. The parts of a model add up to its metric."
    )
    return Section("Contribution by label frequency", text, blocks)


def _calibration_section(data: ReportData) -> Section:
    blocks: list[Table | Chart] = []
    axes = Axis("score", " %", shown=(0.0, 100.0)), Axis("correct", " %", shown=(0.0, 100.0))
    rows: list[list[Cell]] = []
    by_bin: list[list[Cell]] = []
    for caption, k, labels in (
        ("First suggestion of each point.", 1, None),
        ("Rare labels among the top five.", 5, data.rare),
    ):
        series = []
        for model in data.models:
            curve = reliability_curve(data.Y, model.scores, k, labels=labels)
            drawn = [(point["score"], point["correct"]) for point in curve if point["pairs"] >= _MIN_DRAWN]
            series.append(Series(model.name, drawn))
            error = curve_error(curve)
            shown = "–" if np.isnan(error) else f"{error:.2f} points"
            rows.append([f"{model.name}: {caption}", shown, f"{sum(point['pairs'] for point in curve):,}"])
            by_bin += [
                [
                    f"{model.name}: {caption}",
                    f"{point['score']:.1f} %",
                    f"{point['correct']:.1f} %",
                    f"{point['pairs']:,}",
                ]
                for point in curve
            ]
        blocks.append(Chart(line_chart(series, *axes, diagonal=True), caption))
    blocks.append(Table(["", "expected calibration error", "suggestions"], rows))
    blocks.append(Table(["", "mean score", "correct", "suggestions"], by_bin, folded=True))
    text = (
        "Of suggestions with a score of 30 %, 30 % should be correct. Where fewer are, the model is overconfident; "
        "where more are, underconfident. The error is the mean distance between score and share correct over ten bins "
        "of the score."
    )
    how = (
        "The curve of a model without error lies on the diagonal. "
        f"Bins of fewer than {_MIN_DRAWN} suggestions are not drawn."
    )
    return Section("Are scores probabilities?", text, blocks, how)


def _learning_curves_section(data: ReportData) -> Section | None:
    blocks: list[Table | Chart] = []
    for model in data.models:
        for path, history in model.histories.items():
            kept = kept_epoch(history)
            curves = []
            for key, name in ((TRAIN_KEY, "training points"), (HELD_OUT_KEY, "held-out points")):
                points = {at: (at + 1.0, entry[key]) for at, entry in enumerate(history) if key in entry}
                star = points.get(kept) if key == HELD_OUT_KEY and kept is not None else None
                curves.append(Series(name, list(points.values()), star))
            name = model.name if path == model.name else f"{model.name}: {path}"
            measured = [curve for curve in curves if curve.points]
            if measured:
                blocks.append(Chart(line_chart(measured, Axis("epoch"), Axis("P@1", " %")), name))
            head, *rows = history_rows(history)
            blocks.append(Table(head, [list(row) for row in rows], caption=name, folded=True))
    if not blocks:
        return None
    text = "P@1 by epoch. The gap between training and held-out points shows how much a model overfits."
    return Section("Learning curves", text, blocks, "The star marks the epoch that was kept.")


def _norms_section(data: ReportData) -> Section | None:
    order = np.argsort(-data.counts, kind="stable")
    order = order[data.counts[order] > 0]
    ranks = np.arange(1, len(order) + 1)
    series = []
    rows: list[list[Cell]] = []
    for model in data.models:
        if model.norms is not None:
            means = grouped_means(ranks, model.norms[order])
            series.append(Series(model.name, [(float(rank), float(norm)) for rank, norm in means]))
            rows += [[model.name, f"{rank:,.0f}", f"{norm:.3g}"] for rank, norm in means]
    if not any(line.points for line in series):
        return None
    chart = line_chart(series, Axis("labels, the most frequent first", log=True), Axis("norm of the weights", log=True))
    text = (
        "The norm of a label's weights, averaged over labels of similar frequency. Where it falls with the frequency, "
        "rare labels are scored too low."
    )
    table = Table(["model", "rank of the label, the most frequent first", "mean norm"], rows, folded=True)
    return Section("Norms of the classifiers", text, [Chart(chart, "Mean norm by rank of the label."), table])


def _labels_section(data: ReportData) -> Section:
    blocks: list[Table | Chart] = []
    for model in data.models:
        best, worst = analysis.best_and_worst(data.Y, model.scores, _EXTREMES_SHOWN)
        named = (("best labels" if worst else "all labels, the best first", best), ("worst labels", worst))
        for title, results in named if worst else named[:1]:
            rows: list[list[Cell]] = [
                [
                    [data.tag(result.label)],
                    f"{data.counts[result.label]:,}",
                    f"{result.true:,}",
                    f"{result.suggested:,}",
                    f"{result.correct:,}",
                    f"{result.f1:.1f} %",
                ]
                for result in results
            ]
            heading = ["label", "training points", "test points", "suggested", "correct", "F1@5"]
            blocks.append(Table(heading, rows, caption=f"{model.name}: {title}"))
    text = (
        "Labels with at least five test points, by F1 in the top five. "
        "Of labels with the same F1, the most frequent come first."
    )
    return Section("Best and worst labels", text, blocks)


def _confusions_section(data: ReportData) -> Section | None:
    blocks: list[Table | Chart] = []
    for model in data.models:
        confused = analysis.confusions(data.Y, model.scores, _CONFUSIONS_SHOWN)
        rows: list[list[Cell]] = [
            [[data.tag(missed)], [data.tag(instead)], f"{n:,}"] for missed, instead, n in confused if n > 1
        ]
        if rows:
            heading = ["correct label that was missed", "label suggested instead", "points"]
            blocks.append(Table(heading, rows, caption=model.name, numeric=False))
    if not blocks:
        return None
    text = (
        "A point with m labels should have them at ranks 1 to m. This table counts the wrong labels at these ranks, "
        "down to rank five at most."
    )
    return Section("Confusions", text, blocks)


def _examples_section(data: ReportData) -> Section:
    rows: list[list[Cell]] = []
    for at in analysis.choose_examples(data.Y, data.rare, _EXAMPLES_SHOWN).tolist():
        true = data.Y.indices[data.Y.indptr[at] : data.Y.indptr[at + 1]].tolist()
        text = f"point {at}" if data.texts is None else _shortened(data.texts[at], _TEXT_SHOWN)
        cells: list[Cell] = []
        suggested: set[int] = set()
        for model in data.models:
            span = slice(model.scores.indptr[at], model.scores.indptr[at + 1])
            best = zip(model.scores.indices[span][:5].tolist(), model.scores.data[span][:5].tolist(), strict=True)
            tags = [(label, data.tag(label, "right" if label in true else "wrong", f"{s:.2f}")) for label, s in best]
            suggested |= {label for label, _ in tags}
            cells.append([tag for _, tag in tags])
        truth = [data.tag(label, "plain" if label in suggested else "missed") for label in true[:_EXAMPLES_SHOWN]]
        rows.append([text, truth, *cells])
    heading = ["text", "correct labels", *(f"suggested by {model.name}" for model in data.models)]
    text = (
        "Test points chosen at random, half of them with a rare label. ✓ correct, ✗ not among the correct labels, "
        "○ found by no model, ◆ rare."
    )
    return Section("Twenty examples", text, [Table(heading, rows, numeric=False)])


def _shortened(text: str, length: int) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= length else f"{plain[: length - 1]}…"
