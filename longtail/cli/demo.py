"""``longtail demo``: the whole path on the data that ships with longtail."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from longtail.cli import common
from longtail.cli.common import Json

MODELS = ("popular", "parabel", "bonsai")  # the first is the baseline, the last makes the suggestions
TITLES = (
    "console music player with playlists",
    "Python bindings for a machine learning library, with numpy and scipy",
    "web based mail client written in PHP",
    "KDE desktop widget that shows the weather",
)
Titles = Annotated[list[str] | None, typer.Option("--text", "-t", help="A title of your own; may be repeated.")]


def demo(text: Titles = None, json: Json = False) -> None:
    """Train on Debian packages, measure beside a baseline, and suggest dependencies for titles typed as you would.

    The data: 45,611 packages to learn from, 11,025 to test on, 37,907 packages as labels.
    """
    from longtail import registry
    from longtail.cli import tables
    from longtail.cli.compare import measured
    from longtail.tagger import Tagger

    data = common.read_data("demo")
    with tempfile.TemporaryDirectory(prefix="longtail-") as scratch:
        results = measured(data, {model: {} for model in MODELS}, common.defaults(0, None), Path(scratch))
        failed = [row for row in results if "error" in row]
        if failed:
            common.fail(failed[0]["error"])
        ranker: Any = registry.load(Path(scratch) / str(len(MODELS) - 1) / "model")
        tagger = Tagger.from_fitted(ranker, data)
        found = [(title, tagger.suggest(title)) for title in text or TITLES]
    if json:
        told = [
            {"text": title, "labels": [{"label": name, "score": score} for name, score in labels]}
            for title, labels in found
        ]
        common.emit({"results": results, "suggestions": told})
        return
    assert data.test is not None
    title = f"Debian packages: {data.n_points:,} to train, {data.test.n_points:,} to test, {data.n_labels:,} labels"
    common.out.print(tables.several(results, title))
    common.out.print(
        f"\nWhat {MODELS[-1]} suggests that a package of this title depends on:\n", markup=False, style="bold"
    )
    for title, labels in found:
        common.out.print(f"“{title}”", markup=False, highlight=False)
        common.out.print(tables.suggestions(labels))
