"""``longtail demo``: the whole path on the data that ships with longtail."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longtail.cli import common
from longtail.cli.common import Json

if TYPE_CHECKING:
    import numpy as np
    from scipy.sparse import csr_array

    from longtail.data import Dataset

# The first is the floor, the second the linear baseline, the last makes the suggestions.
MODELS: dict[str, dict[str, Any]] = {"popular": {}, "bonsai": {}, "decaf": {"epochs": 3}}
RARE = 3  # training points of a rare label, at most
SHOWN = 5
TITLES = (
    "console music player with playlists",
    "Python bindings for a machine learning library, with numpy and scipy",
    "web based mail client written in PHP",
    "KDE desktop widget that shows the weather",
)
Titles = Annotated[list[str] | None, typer.Option("--text", "-t", help="A title of your own; may be repeated.")]


def demo(text: Titles = None, json: Json = False) -> None:
    """Train on Debian packages, measure beside baselines, and suggest dependencies for titles typed as you would.

    The data: 45,611 packages to learn from, 11,025 to test on, 37,907 packages as labels.
    """
    from longtail import registry
    from longtail.cli import tables
    from longtail.cli.compare import measured
    from longtail.tagger import Tagger

    data = common.read_data("demo")
    assert data.test is not None
    names = list(MODELS)
    with tempfile.TemporaryDirectory(prefix="longtail-") as scratch:
        results = measured(data, MODELS, common.defaults(0, None), Path(scratch))
        failed = [row for row in results if "error" in row]
        if failed:
            common.fail(failed[0]["error"])
        rankers: list[Any] = [registry.load(Path(scratch) / str(at) / "model") for at in (1, 2)]
        tagger = Tagger.from_fitted(rankers[1], data)
        found = [(title, tagger.suggest(title)) for title in text or TITLES]
        rare = rare_labels(data, [ranker.predict(data.test.X, 5) for ranker in rankers])
    if json:
        told = [
            {"text": title, "labels": [{"label": name, "score": score} for name, score in labels]}
            for title, labels in found
        ]
        common.emit({"results": results, "rare": rare, "suggestions": told})
        return
    title = f"Debian packages: {data.n_points:,} to train, {data.test.n_points:,} to test, {data.n_labels:,} labels"
    common.out.print(tables.several(results, title))
    _tell_rare(rare, names[1], names[2])
    common.out.print(
        f"\nWhat {names[2]} suggests that a package of this title depends on:\n", markup=False, style="bold"
    )
    for title, labels in found:
        common.out.print(f"“{title}”", markup=False, highlight=False)
        common.out.print(tables.suggestions(labels))


def rare_labels(data: Dataset, predictions: list[csr_array]) -> dict[str, Any]:
    """Right labels with few training points among the first five of the baseline and of the other model."""
    import numpy as np
    from scipy.sparse import csr_array

    assert data.test is not None
    counts = np.bincount(data.Y.indices, minlength=data.n_labels)

    def rare(matrix: csr_array) -> np.ndarray:
        keep = (counts[matrix.indices] <= RARE) & (counts[matrix.indices] > 0)
        rows = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
        return (rows * data.n_labels + matrix.indices)[keep]

    right = rare(csr_array(data.test.Y))
    baseline, other = (np.intersect1d(right, rare(found)) for found in predictions)
    only = np.setdiff1d(other, baseline)
    examples = []
    for pair in only[np.linspace(0, len(only) - 1, min(SHOWN, len(only))).astype(int)].tolist():
        row, label = divmod(pair, data.n_labels)
        examples.append(
            {
                "text": data.test.texts[row] if data.test.texts is not None else str(row),
                "label": data.label_names[label] if data.label_names is not None else str(label),
                "training_points": int(counts[label]),
            }
        )
    return {
        "at_most": RARE,
        "pairs": len(right),
        "found_by_baseline": len(baseline),
        "found": len(other),
        "found_by_baseline_only": len(np.setdiff1d(baseline, other)),
        "found_only": len(only),
        "examples": examples,
    }


def _tell_rare(rare: dict[str, Any], baseline: str, other: str) -> None:
    common.out.print(f"\nRare labels, of at most {rare['at_most']} training points\n", markup=False, style="bold")
    common.out.print(
        f"{rare['pairs']:,} right ones in the test part. Among the first five, {baseline} finds "
        f"{rare['found_by_baseline']:,} and {other} {rare['found']:,}: {rare['found_only']:,} that {baseline} misses, "
        f"missing {rare['found_by_baseline_only']:,} that it finds. Some that only {other} finds:",
        markup=False, highlight=False,
    )  # fmt: skip
    for example in rare["examples"]:
        points = "1 point" if example["training_points"] == 1 else f"{example['training_points']} points"
        common.out.print(
            f"  “{example['text']}”\n    → {example['label']} ({points})", markup=False, highlight=False, soft_wrap=True
        )
