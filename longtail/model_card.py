"""The model card of a saved tagger: a README.md that says what the model is, where it comes from and what it is for."""

from __future__ import annotations

import platform
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from longtail._version import __version__
from longtail.models.base import inner_rankers, walk_rankers

if TYPE_CHECKING:
    from longtail.models.base import Ranker
    from longtail.tagger.stored_tagger import StoredTagger

_LIBRARIES = ("numpy", "scipy", "numba")
_LISTED_ELSEWHERE = ("n_features_in_", "n_labels_", "why_")  # attributes that do not belong in the settings
_METRICS = ("P@1", "P@5", "PSP@1", "PSP@5", "B@1", "B@5")
_EPOCH_REMARK = (
    "Measured during training, after the best epoch of one network. Later steps, such as averaging several networks "
    "and learning the held-out points too, are not measured."
)


def data_checksum(*matrices: csr_array | None) -> str:
    """Return one checksum of all entries of some matrices, as eight hexadecimal digits."""
    crc = 0
    for matrix in matrices:
        if matrix is not None:
            for array in (matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data):
                crc = zlib.crc32(np.ascontiguousarray(array).tobytes(), crc)
    return f"{crc:08x}"


def model_card(tagger: StoredTagger) -> str:
    """Return the model card of a tagger as Markdown."""
    ranker, notes = tagger.ranker_, tagger.notes_
    training, data = notes.get("training", {}), notes.get("training_data", {})
    name = training.get("data") or data.get("name") or "texts given in Python"
    rare = int((np.asarray(tagger.label_counts_) == 1).sum())
    versions = [f"{library} {metadata.version(library)}" for library in _LIBRARIES]
    reads = "text" if tagger.vectorizer_ is not None else "features (a sparse matrix), not text"
    facts = {
        "Model": f"`{training.get('model') or repr(ranker)}`",
        "Input": reads,
        "Data": f"{_inline(name)}, checksum `{data['checksum']}`" if "checksum" in data else _inline(name),
        "Training points": f"{tagger.n_points_:,}",
        "Labels": f"{len(tagger.label_names_):,}, of which {rare:,} have a single training point",
        "Training time": f"{training['train_seconds']:.1f} s" if "train_seconds" in training else "not recorded",
        "Saved": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "Versions": ", ".join([f"longtail {__version__}", *versions, f"Python {platform.python_version()}"]),
    }
    parts = [
        f"# A longtail model: {ranker.kind}",
        "\n".join(["| | |", "|---|---|", *(f"| {key} | {value} |" for key, value in facts.items())]),
        "## Settings",
        "\n".join([*_text_settings(tagger), *_settings(ranker)]),
    ]
    parts += ["## Metrics on held-out training points", *_held_out_metrics(ranker)]
    parts += ["## Metrics", _metric_list(notes["metrics"])] if notes.get("metrics") else []
    parts += [
        "## Intended use",
        "Suggest labels for points like those it was trained on, for a person to accept or to correct, or to rank and "
        "filter. It can only suggest the labels above. Labels with few training points are less reliable, and scores "
        "rest on how often labels were recorded in the training data, gaps included. Measure it on your own data "
        "before it decides anything alone: `longtail evaluate` and `longtail report`.",
        "Read it with `longtail.load(folder)`, or use it with `longtail predict folder --text …`.",
    ]
    return "\n\n".join(parts) + "\n"


def _text_settings(tagger: StoredTagger) -> list[str]:
    """Return one line about how texts are cut into terms, or no line if the model reads features."""
    vectorizer = tagger.vectorizer_
    if vectorizer is None:
        return []
    return [f"- `{vectorizer!r}`; chosen by the data: `analyzer_ = {vectorizer.analyzer_!r}`"]


def _settings(ranker: Ranker) -> list[str]:
    """Return one line per ranker: its parameters, and the values that were chosen from the data."""
    lines = []
    for inner in walk_rankers(ranker):
        learnt = {
            name: value
            for name, value in sorted(vars(inner).items())
            if name.endswith("_") and name not in _LISTED_ELSEWHERE and isinstance(value, int | float | str)
        }
        shown = {name: f"{value:.4g}" if isinstance(value, float) else repr(value) for name, value in learnt.items()}
        chosen = ", ".join(f"`{name} = {value}`" for name, value in shown.items())
        lines.append(f"- `{inner!r}`" + (f"; chosen by the data: {chosen}" if chosen else ""))
    why = getattr(ranker, "why_", "")
    return [*lines, *([f"- {_inline(why)}"] if why else [])]


def _held_out_metrics(ranker: Ranker) -> list[str]:
    """Return a table of the metrics that the fit measured on held-out points, or a sentence if there are none."""
    rows = list(_metric_rows(ranker, ranker.kind))
    if not rows:
        return ["None are kept with this model. Measure it on points that it was not trained on: `longtail evaluate`."]
    lines = ["| model | " + " | ".join(_METRICS) + " |", "|---|" + "---:|" * len(_METRICS)]
    for row in rows:
        cells = [f"{row[name]:.2f}" if name in row else "" for name in _METRICS]
        lines.append(f"| {_inline(row['model'])} | " + " | ".join(cells) + " |")
    return ["\n".join(lines), *([_EPOCH_REMARK] if any("epoch" in row for row in rows) else [])]


def _metric_rows(ranker: Ranker, name: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a ranker's report, or a row of its best epoch; if it has neither, the rows of its parts."""
    report = [row for row in getattr(ranker, "report_", None) or [] if any(metric in row for metric in _METRICS)]
    epochs = [entry for entry in getattr(ranker, "history_", None) or [] if "monitor" in entry]
    if report:
        yield from report
    elif epochs:
        best = max(epochs, key=lambda entry: entry["monitor"])
        metrics = {metric: best[key] for metric in _METRICS if (key := f"validation_{metric}") in best}
        yield {"model": f"{name}, epoch {int(best['epoch']) + 1}", "epoch": best["epoch"], **metrics}
    else:
        for part in inner_rankers(ranker):
            yield from _metric_rows(part, f"{name} › {part.kind}")


def _metric_list(metrics: dict[str, Any]) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in metrics.items())


def _inline(text: str) -> str:
    """Return text on one line, with the characters escaped that would end a cell of a Markdown table."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")
