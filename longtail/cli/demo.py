"""``longtail demo``: train, measure and suggest on the dataset that comes with longtail."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longtail import registry
from longtail.cli.console import fail, out, print_json, print_result
from longtail.cli.options import DataOptions, JsonFlag, model_defaults
from longtail.errors import number_of

if TYPE_CHECKING:
    import numpy as np
    from scipy.sparse import csr_array

    from longtail.data import Dataset

DEMO_MODELS = ("popular", "bonsai", registry.DEFAULT_MODEL)
"""The most frequent labels, a linear baseline, and the default model, which makes the suggestions."""
_MAX_RARE = 3  # a label with at most so many training points is rare
_EXAMPLES = 5
TITLES = (
    "console music player with playlists",
    "Python bindings for a machine learning library, with numpy and scipy",
    "web based mail client written in PHP",
    "KDE desktop widget that shows the weather",
)
TitlesOption = Annotated[
    list[str] | None, typer.Option("--text", "-t", metavar="TITLE", help="A title to label. Can be repeated.")
]


def run_demo(text: TitlesOption = None, json: JsonFlag = False) -> None:
    """Train on Debian packages, compare with baselines, and suggest the dependencies of a package from its title.

    The dataset has 45,611 packages for training, 11,025 for testing, and 37,907 packages as labels.
    """
    from longtail.cli import tables
    from longtail.cli.compare import run_tasks
    from longtail.cli.worker import ModelTask
    from longtail.tagger import Tagger

    data = DataOptions().read("demo")
    assert data.test is not None
    _, baseline, best = DEMO_MODELS
    with tempfile.TemporaryDirectory(prefix="longtail-") as scratch:
        tasks = [ModelTask("", model, {}, model_defaults(0, None)) for model in DEMO_MODELS]
        results = run_tasks(data, tasks, Path(scratch))
        for name, row in zip(DEMO_MODELS, results, strict=True):
            row["model"] = name
        failed = [row for row in results if "error" in row]
        if failed:
            fail(failed[0]["error"])
        rankers: list[Any] = [registry.load(Path(scratch) / str(at) / "model") for at in (1, 2)]
        tagger = Tagger.from_fitted(rankers[1], data)
        suggestions = [(title, tagger.suggest(title)) for title in text or TITLES]
        rare = rare_labels(data, [ranker.predict(data.test.X, 5) for ranker in rankers])
    if json:
        suggested = [
            {"text": title, "labels": [{"label": name, "score": score} for name, score in labels]}
            for title, labels in suggestions
        ]
        print_json({"results": results, "rare": rare, "suggestions": suggested})
        return
    sizes = f"{data.n_points:,} for training, {data.test.n_points:,} for testing, {data.n_labels:,} labels"
    out.print(tables.comparison_table(results, f"Debian packages: {sizes}"))
    _print_rare(rare, baseline, best)
    print_result(f"\nDependencies that {best} suggests for a package with this title:\n", style="bold")
    for title, labels in suggestions:
        print_result(f"“{title}”")
        out.print(tables.suggestions_table(labels))


def rare_labels(data: Dataset, predictions: list[csr_array]) -> dict[str, Any]:
    """Count the correct labels with few training points in the top five of the baseline and of the other model."""
    import numpy as np
    from scipy.sparse import csr_array

    from longtail.sparse import entry_keys, label_counts

    assert data.test is not None
    counts = label_counts(data.Y)

    def rare_pairs(matrix: csr_array) -> np.ndarray:
        frequency = counts[matrix.indices]
        return entry_keys(matrix)[(frequency <= _MAX_RARE) & (frequency > 0)]

    right = rare_pairs(csr_array(data.test.Y))
    baseline, other = (np.intersect1d(right, rare_pairs(scores)) for scores in predictions)
    only = np.setdiff1d(other, baseline)
    examples = []
    for pair in only[np.linspace(0, len(only) - 1, min(_EXAMPLES, len(only))).astype(int)].tolist():
        row, label = divmod(pair, data.n_labels)
        examples.append(
            {
                "text": data.test.texts[row] if data.test.texts is not None else str(row),
                "label": data.label_names[label] if data.label_names is not None else str(label),
                "training_points": int(counts[label]),
            }
        )
    return {
        "at_most": _MAX_RARE,
        "pairs": len(right),
        "found_by_baseline": len(baseline),
        "found": len(other),
        "found_by_baseline_only": len(np.setdiff1d(baseline, other)),
        "found_only": len(only),
        "examples": examples,
    }


def _print_rare(rare: dict[str, Any], baseline: str, best: str) -> None:
    print_result(f"Rare labels, with at most {rare['at_most']} training points\n", style="bold")
    out.print(
        f"The test part has {rare['pairs']:,} occurrences of such labels. The top five contain "
        f"{rare['found_by_baseline']:,} of them for {baseline} and {rare['found']:,} for {best}; {best} finds "
        f"{rare['found_only']:,} that {baseline} misses, and misses {rare['found_by_baseline_only']:,} that {baseline} "
        f"finds. Some that only {best} finds:",
        markup=False,
        highlight=False,
    )
    for example in rare["examples"]:
        points = example["training_points"]
        print_result(f"  “{example['text']}”\n    → {example['label']} ({number_of(points, 'training point')})")
