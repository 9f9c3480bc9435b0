"""``longtail train``: train a model on a dataset and save it to a folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longtail import registry
from longtail.cli.console import as_word, out, print_json, print_remark, print_result, written
from longtail.cli.options import (
    DataOptions,
    DataPath,
    EngineOption,
    JobsOption,
    JsonFlag,
    PropensityOptions,
    SeedOption,
    SetOption,
    VectorDataOptions,
    check_model_folder,
    model_defaults,
    split_settings,
    vectorize_comparing,
)
from longtail.cli.progress_bar import doing
from longtail.errors import DataError, SettingsError, number_of, size

ModelOption = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME",
        help=f"A model, or a composition such as labeltext(bonsai): {', '.join(registry.names())}.",
    ),
]
OutFolder = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="DIR", help="Folder to write the model to.", show_default=False)
]

EncoderOption = Annotated[
    str | None,
    typer.Option(
        metavar="ENCODER",
        help="Encoder of texts for blend, used as it is: an ONNX file, a folder of a sentence-transformers model, or "
        "package.module:function.",
        show_default=False,
    ),
]
FeedbackOption = Annotated[
    Path | None,
    typer.Option(
        metavar="LOG",
        help="Feedback log of a service. Its corrections are applied to DATA before training.",
        show_default=False,
    ),
]

if TYPE_CHECKING:
    from longtail.data import Dataset, TextVectorizer
    from longtail.models.base import Ranker


@dataclass(frozen=True)
class RunOptions:
    """Options for running a training."""

    seed: SeedOption = 0
    jobs: JobsOption = None
    engine: EngineOption = "local"
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start again: remove the checkpoint that an interrupted training left.")
    ] = False
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Print the expected memory, time and model size, and do not train.")
    ] = False
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Largest memory of the process, such as 8GB. Training that cannot fit is refused before it starts.",
            show_default=False,
        ),
    ] = None


def checkpoint_of(out_folder: Path, fresh: bool) -> Path:
    """Return the folder of a training's checkpoint, next to the model. With `fresh`, remove an existing checkpoint."""
    from longtail.engine.checkpoints import check_steps_folder, remove_steps

    folder = out_folder.with_name(f".{out_folder.name}.checkpoint")
    check_steps_folder(folder)
    if fresh and folder.exists() and remove_steps(folder):
        print_remark(f"Removed {folder}; training starts again.")
    return folder


@contextmanager
def _kept_steps_named(checkpoint: Path) -> Iterator[None]:
    """If the training is interrupted, print where its finished steps are stored."""
    try:
        yield
    except KeyboardInterrupt:
        if checkpoint.exists():
            print_remark(f"{checkpoint.name} keeps the finished steps: the same command goes on from there.")
        raise


def train_model(
    data: DataPath,
    out_folder: OutFolder = None,
    model: ModelOption = registry.DEFAULT_MODEL,
    set_: SetOption = None,
    feedback: FeedbackOption = None,
    encoder: EncoderOption = None,
    json: JsonFlag = False,
    *,
    run: RunOptions,
    options: VectorDataOptions,
    propensities: PropensityOptions,
) -> None:
    """Train a model on DATA and save it. Of a test part, only the names of its labels are used.

    If training is interrupted, the same command continues after the last finished step.
    """
    settings, vectorizer = split_settings([*(set_ or []), *([f"text.encoder={encoder}"] if encoder else [])])
    ranker = registry.make(model, settings, defaults=model_defaults(run.seed, run.jobs, propensities))
    ranker.check_params()
    if options.vectors is not None or getattr(vectorizer, "encoder", None) is not None:
        from longtail.tagger.matrices import check_takes_vectors

        check_takes_vectors(ranker)
    from longtail import engine
    from longtail.engine.memory import set_limit

    engine.check_installed(run.engine)
    set_limit(run.memory)
    if run.estimate:
        _print_estimate(ranker, model, _read_data(data, options, vectorizer, feedback)[0], json)
        return
    if out_folder is None:
        raise SettingsError("Missing option '--out': name a folder to write the model to, or give --estimate.")
    place = check_model_folder(out_folder)
    read, learnt = _read_data(data, options, vectorizer, feedback)
    from longtail import store
    from longtail.cli import measure
    from longtail.models.wrapper import Wrapper
    from longtail.tagger import Tagger

    tagger = Tagger(ranker)
    fits = ranker.n_fits()
    if sum(fits.values()) > 1 and not isinstance(ranker, Wrapper):  # a wrapper logs this itself
        print_remark(f"{model} trains {', '.join(f'{n:,} {kind}' for kind, n in fits.items())}")
    checkpoint = checkpoint_of(place, run.fresh)
    with _kept_steps_named(checkpoint), engine.use(run.engine), ranker.resumable(checkpoint):
        with (
            doing(f"training {model} on {number_of(read.n_points, 'point')}, {number_of(read.n_labels, 'label')}"),
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
        tagger.notes_ |= {"training": facts, **learnt}
        tagger.save(out_folder)
        store.remove_leftovers(place)
    facts = {"out": out_folder, **facts, "model_mb": measure.folder_mb(out_folder / "ranker")}
    facts |= {name: value for name in ("why", "report") if (value := getattr(ranker, f"{name}_", None))}
    if json:
        print_json(facts)
        return
    if "report" in facts:
        from longtail.cli.tables import held_out_table

        out.print(held_out_table(facts["report"]))
    if "why" in facts:
        print_result(f"Chosen: {facts['why']}")
    compiled = f" (and {watch.compiling:.1f} s once, to compile kernels)" if watch.compiling > 0.05 else ""
    print_result(
        f"Trained {model} on {read.name} in {watch.seconds:.1f} s{compiled}; "
        f"{size(facts['model_mb'])}, peak memory {facts['peak_memory_mb']:,.0f} MB"
    )
    use = '--text "…"' if tagger.vectorizer_ is not None else "--input FILE"
    usable = tagger.reads_text() or tagger.vectorizer_ is None
    hint = f" Try: longtail predict {as_word(out_folder)} {use}" if usable else ""
    print_result(f"{written(out_folder)}.{hint}")


def _read_data(
    data: str, options: DataOptions, vectorizer: TextVectorizer | None, feedback: Path | None
) -> tuple[Dataset, dict[str, Any]]:
    """Read DATA and apply the corrections of a log. Return also a note for the model of what it has learnt."""
    if feedback is None:
        return options.read(data, vectorizer or "tfidf"), {}
    from longtail.data.text import TextVectorizer
    from longtail.serve.corrections import apply_corrections
    from longtail.serve.feedback import FeedbackLog

    if not feedback.is_file():
        raise DataError("there is no such file", path=feedback, remedy="Give the feedback log of a service")
    log = FeedbackLog(feedback)
    if getattr(options, "vectors", None) is not None:
        raise SettingsError("--vectors and --feedback: corrected texts have no ready vectors. Use --encoder instead.")
    corrected = apply_corrections(options.read(data, None), log.after())
    vectorize_comparing(corrected.data, vectorizer or TextVectorizer())
    print_remark(
        f"{number_of(corrected.corrections, 'correction')}: {number_of(corrected.changed, 'text')} changed, "
        f"{corrected.added:,} added, {number_of(len(corrected.new_labels), 'new label')}"
    )
    counts = {"corrections": corrected.corrections, "changed": corrected.changed, "added": corrected.added}
    return corrected.data.validate(), {"feedback": {"learnt": {log.identity(): corrected.last}, **counts}}


def _print_estimate(ranker: Ranker, model: str, data: Dataset, json: bool) -> None:
    """Print the expected memory, time and model size of a training."""
    from longtail.cli.estimate import estimate
    from longtail.tagger.matrices import given_vectors, training_matrices

    ranker = given_vectors(ranker, data.vector_size)
    with doing(f"fitting {model} to samples"):
        expected = estimate(ranker, *training_matrices(data))
    facts = {
        "model": model,
        "data": data.name,
        "n_points": data.n_points,
        "n_features": data.n_features,
        "n_labels": data.n_labels,
        "n_sample": expected.n_sample,
        "memory_mb": expected.memory_bytes / 1e6,
        "train_seconds": expected.seconds,
        "model_mb": expected.model_bytes / 1e6,
    }
    if json:
        print_json(facts)
        return
    print_result(
        f"Training {model} on {data.name} ({number_of(data.n_points, 'point')}, "
        f"{number_of(data.n_features, 'feature')}, "
        f"{number_of(data.n_labels, 'label')}) needs about {facts['memory_mb']:,.0f} MB of memory and "
        f"{facts['train_seconds']:,.1f} s; the model about {size(expected.model_bytes / 1e6)}. "
        f"Time and size are extrapolated from {number_of(expected.n_sample, 'point')}."
    )
