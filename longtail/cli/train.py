"""``longtail train``: from data to a model folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from longtail import registry
from longtail.cli import common
from longtail.cli.common import DataPath, Format, Jobs, Json, LabelsColumn, LabelsSeparator, Seed, Settings, TextColumn

Model = Annotated[
    str, typer.Option("--model", "-m", help=f"Name or composition. Names: {', '.join(registry.names())}.")
]
Out = Annotated[
    Path, typer.Option("--out", "-o", metavar="DIR", help="Folder to write the model to.", show_default=False)
]


def train(
    data: DataPath,
    out: Out,
    model: Model = "bonsai",
    set_: Settings = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    format: Format = None,
    text_column: TextColumn = None,
    labels_column: LabelsColumn = None,
    labels_separator: LabelsSeparator = None,
    json: Json = False,
) -> None:
    """Train a model on DATA (its train part, where it has a test part) and save it."""
    settings, vectorizer = common.split_settings(set_)
    ranker = registry.make(model, settings, defaults=common.defaults(seed, jobs))
    common.check_out(out)
    read = common.read_data(
        data,
        vectorizer or "tfidf",
        format=format,
        text_column=text_column,
        labels_column=labels_column,
        labels_separator=labels_separator,
    )
    from longtail.cli import measure
    from longtail.tagger import Tagger

    tagger = Tagger(ranker)
    with (
        common.doing(f"training {model} on {read.n_points:,} points, {read.n_labels:,} labels"),
        measure.stopwatch() as watch,
    ):
        tagger.fit_dataset(read)
    facts: dict[str, Any] = {
        "model": model,
        "data": read.name,
        "n_points": read.n_points,
        "n_features": read.n_features,
        "n_labels": read.n_labels,
        "train_seconds": watch.seconds,
        "compile_seconds": watch.compiling,
        "peak_memory_mb": measure.peak_memory_mb(),
    }
    tagger.notes_["training"] = facts
    tagger.save(out)
    facts = {"out": out, **facts, "model_mb": measure.folder_mb(out / "ranker")}
    facts |= {name: found for name in ("why", "report") if (found := getattr(ranker, f"{name}_", None))}
    if json:
        common.emit(facts)
        return
    if "report" in facts:
        from longtail.cli import tried

        common.out.print(tried.table(facts["report"]))
    if "why" in facts:
        common.out.print(f"Chosen: {facts['why']}", markup=False, highlight=False)
    compiled = f" (and {watch.compiling:.1f} s once, to compile kernels)" if watch.compiling > 0.05 else ""
    common.out.print(
        f"Trained [bold]{model}[/] on {read.name} in {watch.seconds:.1f} s{compiled}; "
        f"{facts['model_mb']:.1f} MB, peak memory {facts['peak_memory_mb']:,.0f} MB",
        highlight=False,
    )
    use = '--text "…"' if tagger.vectorizer_ is not None else "--input FILE"
    common.out.print(
        f"Saved in {out}. Try: longtail predict {out} {use}", markup=False, highlight=False, soft_wrap=True
    )
