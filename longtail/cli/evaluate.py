"""``longtail evaluate``: measure a saved model, or predictions in a file, on labelled data."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longtail import registry
from longtail.cli.console import out, print_json, print_remark, written
from longtail.cli.decisions import DecisionResults, count_of, write_per_label
from longtail.cli.options import DataOptions, JsonFlag, PropensityOptions, VectorDataOptions, check_output_file
from longtail.cli.progress_bar import doing
from longtail.errors import DataError, SettingsError, number_of

if TYPE_CHECKING:
    import numpy as np
    from scipy.sparse import csr_array

    from longtail.data import Dataset
    from longtail.metrics.thresholds import Thresholds
    from longtail.tagger import Tagger


PredictionsOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Evaluate these predictions (.npz, .txt, .jsonl, .tsv or .csv) instead of a model.",
        show_default=False,
    ),
]
ModelOrData = Annotated[
    str,
    typer.Argument(
        metavar="DIR", help="Folder of a saved model. With --predictions, give DATA in its place.", show_default=False
    ),
]
OptionalData = Annotated[
    str | None, typer.Argument(metavar="DATA", help="A dataset whose labels are known.", show_default=False)
]


def evaluate_model(
    model_or_data: ModelOrData,
    data: OptionalData = None,
    predictions: PredictionsOption = None,
    json: JsonFlag = False,
    *,
    options: VectorDataOptions,
    propensities: PropensityOptions,
    decisions: DecisionResults,
) -> None:
    """Compute all metrics of a saved model on the test part of DATA or, if it has none, on all of it.

    With --predictions FILE, compute them for the predictions in a file, which any program may have written.
    """
    if predictions is not None:
        if data is not None:
            raise SettingsError(
                "Give either a model or --predictions FILE, not both: evaluate --predictions FILE DATA."
            )
        if decisions.per_label is not None:
            check_output_file(decisions.per_label, "--per-label", model_or_data, predictions, options.labels_file)
        read = options.read(model_or_data, None)
        evaluate_predictions(predictions, read, propensities, decisions, json=json)
        return
    if data is None:
        raise SettingsError("Give a model and the data: evaluate DIR DATA; or evaluate --predictions FILE DATA.")
    if decisions.per_label is not None:
        check_output_file(decisions.per_label, "--per-label", data, options.labels_file)
    folder = Path(model_or_data)
    tagger = registry.load_tagger(folder)
    read, part, which = labelled_part(tagger, options, data, folder)
    print_remark(f"evaluating on {which}: {number_of(part.n_points, 'point')}")

    from longtail.cli import measure
    from longtail.sparse import resized

    weights = _weights(tagger, read, part, propensities)
    test = measure.EvaluationSet(part.X, part.Y, weights, part.ignore, _counts(tagger, part))
    with doing("predicting"):
        report = measure.accuracy(tagger.ranker_, test)
    training = tagger.notes_.get("training", {})
    saved_alone = tagger.label_counts_ is None
    result = measure.result_row(
        training.get("model", tagger.ranker_.kind),
        report,
        train_seconds=training.get("train_seconds"),
        peak_memory_mb=measure.peak_memory_mb(),
        model_mb=measure.folder_mb(folder if saved_alone else folder / "ranker"),
    )
    if decisions.wanted:
        thresholds = decisions.of(tagger)
        scores = resized(tagger.ranker_.predict(part.X, thresholds.limit), n_columns=part.n_labels)
        unknown = part.shown_label_names()[tagger.n_labels_ :]
        names = [*tagger.label_names_, *unknown]
        ids = None if tagger.label_ids_ is None else [*tagger.label_ids_, *unknown]
        result |= _decided(decisions, thresholds, part, scores, names, ids, test.counts)
    _show(result, f"{result['model']} on {which}", json=json)


def _show(result: dict[str, Any], title: str, *, json: bool) -> None:
    from longtail.cli import tables

    if json:
        print_json([result])
        return
    table = tables.metrics_table(result, title)
    out.print(table)
    if "threshold" in result:
        if table.caption:  # without one, a table ends with an empty line
            out.print()
        out.print(tables.decisions_table(result))


def _decided(
    wanted: DecisionResults,
    thresholds: Thresholds,
    part: Dataset,
    scores: csr_array,
    names: list[str],
    ids: list[str] | None,
    trained: np.ndarray | None,
) -> dict[str, Any]:
    """Compute the metrics of decisions, and write results per label. `names` and `ids` are those of the columns."""
    from longtail.sparse import resized

    Y = resized(part.Y, n_columns=scores.shape[1])
    counts = count_of(thresholds, scores, Y, part.ignore, trained)
    if wanted.per_label is not None:
        n_labels = write_per_label(wanted.per_label, counts, names, ids, trained)
        what = f"the top {thresholds.limit} labels" if wanted.threshold is None else f"threshold {thresholds}"
        print_remark(written(wanted.per_label, f"{number_of(n_labels, 'label')}, by {what}"))
    if wanted.threshold is None:
        return {}
    facts = {key: value for key, value in thresholds.to_json().items() if key in ("values", "frequencies", "limit")}
    return {"threshold": facts, **counts.metrics()}


def labelled_part(tagger: Tagger, options: DataOptions, data: str, folder: Path) -> tuple[Dataset, Dataset, str]:
    """Read DATA. Return it, its part to measure a model on (labels in the model's order), and a name of that part."""
    read = options.for_model(tagger, data).read(data, tagger.vectorizer_ or "tfidf")
    which = f"{'all' if read.test is None else 'the test part'} of {read.name}"
    part = _in_order_of_labels(read if read.test is None else read.test, tagger)
    n_known = tagger.ranker_.n_labels_
    if part.n_labels < n_known or (tagger.label_counts_ is None and part.n_labels != n_known):
        raise DataError(
            f"{read.name} has {number_of(part.n_labels, 'label')}, but the model was trained with {n_known:,}",
            path=folder,
            remedy="Use data with the same labels in the same order",
        )
    from longtail.names import check_known_labels

    check_known_labels(part.Y, n_known, tagger.label_counts_)
    warn_if_trained_on(tagger, part, which)
    return read, part, which


def warn_if_trained_on(tagger: Tagger, part: Dataset, which: str) -> None:
    """Print a warning if the model was trained on exactly these points, which their checksum shows."""
    from longtail.model_card import data_checksum

    if data_checksum(part.X, part.Y) == tagger.notes_.get("training_data", {}).get("checksum"):
        print_remark(
            f"warning: the model was trained on {which}. For new points its metrics are lower, and the best threshold "
            "is another one. Give points that were held out of training; longtail convert --hold-out 0.2 divides data.",
            style="yellow",
        )


def _in_order_of_labels(part: Dataset, tagger: Tagger) -> Dataset:
    """Return the data with its labels in the model's order, as a table numbers them in the order of its rows."""
    names = list(tagger.label_ids_ or tagger.label_names_)
    if tagger.label_counts_ is not None and part.label_ids is not None and part.label_ids != names:
        current = tagger.current_names(part.label_ids)
        if len(set(current)) < len(current):  # the data uses both the former and the current name of a label
            current = part.label_ids
        if tagger.label_ids_ is not None and not set(names) & set(current):
            names = list(tagger.label_names_)  # the data has names, and the model was trained with identifiers
        part = replace(part, label_ids=current).with_labels(names)
    return replace(part, Y=tagger.current_labels(part.Y))


def evaluate_predictions(
    path: Path, read: Dataset, propensities: PropensityOptions, decisions: DecisionResults, *, json: bool
) -> None:
    """Print all metrics of predictions in a file."""
    from longtail.cli import measure
    from longtail.data.predictions import read_predictions
    from longtail.metrics import calibration_error, full_report, inverse_propensity, to_unit
    from longtail.sparse import label_counts, resized

    part, which = (read, "all") if read.test is None else (read.test, "the test part")
    thresholds = decisions.of(None)
    scores, unknown = read_predictions(path, part)
    if unknown:
        what = "is not in {0}; it counts" if len(unknown) == 1 else "are not in {0}; they count"
        print_remark(f"{number_of(len(unknown), 'predicted label')} {what.format(read.name)} as wrong")
    if read.test is None:
        print_remark("propensities are computed from this data, since it has no training part")
    Y, train_Y = (resized(matrix, n_columns=scores.shape[1]) for matrix in (part.Y, read.Y))
    weights = inverse_propensity(train_Y, *propensities.a_and_b())
    error: float | None = None
    given = scores
    if scores.nnz and (scores.data.min() < 0 or scores.data.max() > 1):
        print_remark("scores are not between 0 and 1; for B@k, each is mapped by the logistic function")
        scores = to_unit(scores)
    elif not math.isnan(measured := calibration_error(Y, scores, ignore=part.ignore)):
        error = measured
    report = full_report(Y, scores, inv_propensity=weights, ks=measure.KS, ignore=part.ignore)
    report |= {"ECE@1": error, "ECE-rare@1": None, "predict_ms_per_point": None}
    costs = dict.fromkeys(("train_seconds", "peak_memory_mb", "model_mb"))
    result = measure.result_row(path.name, report, **costs)
    if decisions.wanted:
        names = [*part.shown_label_names(), *unknown]
        ids = part.label_ids if part.label_ids != part.label_names else None
        ids = None if ids is None else [*ids, *unknown]
        trained = None if read.test is None else label_counts(train_Y)
        result |= _decided(decisions, thresholds, part, given, names, ids, trained)
    points = number_of(part.n_points, "point")
    _show(result, f"{path.name} on {which} of {read.name}: {points}", json=json)


def _weights(tagger: Tagger, read: Dataset, part: Dataset, propensities: PropensityOptions) -> np.ndarray:
    """Compute inverse propensities from the model's label frequencies, or from the data if it has none."""
    from longtail.metrics import inverse_propensity

    counts = _counts(tagger, part)
    if counts is None:
        print_remark("This model was saved without label frequencies; propensities are computed from this data.")
        return inverse_propensity(read.Y, *propensities.a_and_b())
    return inverse_propensity(None, *propensities.a_and_b(), counts=counts, n_points=tagger.n_points_)


def _counts(tagger: Tagger, part: Dataset) -> np.ndarray | None:
    """Return the training points per label, with 0 for labels of the data that the model does not have.

    Return None if the model was saved without label frequencies.
    """
    import numpy as np

    if tagger.label_counts_ is None:
        return None
    return np.append(tagger.label_counts_, np.zeros(part.n_labels - len(tagger.label_counts_), np.int64))
