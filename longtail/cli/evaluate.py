"""``longtail evaluate``: a saved model on labelled data."""

from __future__ import annotations

from typing import Any

from longtail import registry
from longtail.cli import common
from longtail.cli.common import DataPath, Format, Json, LabelsColumn, LabelsSeparator, ModelFolder, TextColumn
from longtail.errors import DataError


def evaluate(
    folder: ModelFolder,
    data: DataPath,
    format: Format = None,
    text_column: TextColumn = None,
    labels_column: LabelsColumn = None,
    labels_separator: LabelsSeparator = None,
    json: Json = False,
) -> None:
    """Measure a saved model on the test part of DATA or, where it has none, on all of it."""
    model: Any = registry.load(folder)
    read = common.read_data(
        data,
        getattr(model, "vectorizer_", None) or "tfidf",
        format=format,
        text_column=text_column,
        labels_column=labels_column,
        labels_separator=labels_separator,
    )
    part = read if read.test is None else read.test
    which = "all" if read.test is None else "the test part"
    common.say(f"measuring on {which} of {read.name}: {part.n_points:,} points")

    from longtail.cli import measure, tables
    from longtail.metrics import inverse_propensity

    ranker = common.ranker_of(model)
    ids = getattr(model, "label_ids_", None) or getattr(model, "label_names_", None)
    if ids is not None and part.label_ids is not None and part.label_ids != list(ids):
        part = part.with_labels(list(ids))  # a table numbers labels as it meets them
    if part.n_labels < ranker.n_labels_ or (ids is None and part.n_labels != ranker.n_labels_):
        raise DataError(
            f"{read.name} has {part.n_labels:,} labels, but the model was trained with {ranker.n_labels_:,}",
            path=folder,
            remedy="Measure it on data with the same labels in the same order",
        )
    if hasattr(model, "label_counts_"):
        weights = measure.propensity_weights(model.label_counts_, model.n_points_, part.n_labels)
    else:
        common.say("the model does not say how often its labels occurred in training; propensities come from this data")
        weights = inverse_propensity(read.Y)
    training = getattr(model, "notes_", {}).get("training", {})
    with common.doing("predicting"):
        report = measure.accuracy(ranker, part.X, part.Y, weights, part.ignore)
    result = measure.result(
        training.get("model", ranker.kind),
        report,
        train_seconds=training.get("train_seconds"),
        peak_memory_mb=measure.peak_memory_mb(),
        model_mb=measure.folder_mb(folder / "ranker" if ranker is not model else folder),
    )
    if json:
        common.emit([result])
    else:
        common.out.print(tables.one(result, f"{result['model']} on {which} of {read.name}"))
