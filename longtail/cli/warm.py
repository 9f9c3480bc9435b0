"""``longtail warm``: compile kernels beforehand, so that the first training and the first prediction do not wait."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from longtail import progress, registry
from longtail.cli.console import emit, say, tell
from longtail.cli.options import JsonFlag
from longtail.cli.progress_bar import doing
from longtail.errors import LongtailError, SettingsError

_WORDS = ("moss", "bread", "mail", "music", "weather", "desktop", "python", "red")
_POINTS = 160
ModelsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME",
        help="A model or a composition whose kernels are compiled. Can be repeated; by default all models.",
        show_default=False,
    ),
]


def warm_kernels(model: ModelsOption = None, json: JsonFlag = False) -> None:
    """Compile the kernels of training and prediction, once per machine."""
    from longtail.kernels.compiled_cache import writable_folder

    wanted = model or registry.names()
    for name in wanted if model else ():
        registry.make(name)  # a wrong name is an error before anything is compiled
    folder, began = writable_folder(), time.perf_counter()
    if folder is None:
        raise SettingsError(
            "Compiled kernels cannot be kept: no folder for them can be written. Set LONGTAIL_CACHE to one that can."
        )
    done, left_out = [], []
    with doing(f"compiling kernels of {len(wanted)} models, once per machine"):
        for i, name in enumerate(wanted):
            with progress.stage(f"{name} ({i + 1} of {len(wanted)})"):
                try:
                    _train_and_predict(name if model else _complete(name))
                except (LongtailError, ImportError) as error:
                    if model:
                        raise
                    say(f"{name}: not compiled ({error})")
                    left_out.append(name)
                else:
                    done.append(name)
    seconds = time.perf_counter() - began
    if json:
        emit({"folder": folder, "models": done, "left_out": left_out, "seconds": seconds})
        return
    tell(f"Compiled the kernels of {', '.join(done)} in {seconds:.1f} s; they are in {folder}")


def _complete(name: str) -> str:
    """Return a model that can be fitted: a wrapper gets a base."""
    try:
        registry.make(name).check_params()
    except (LongtailError, TypeError):
        return f"{name}(bonsai)"
    return name


def _train_and_predict(name: str) -> None:
    """Train a model on a few made-up texts, and use it as it is and after it was saved: one point and a batch."""
    from longtail.tagger import Tagger

    texts = [f"a {_WORDS[i % 8]} and {_WORDS[3 * i % 8]} guide number{i}" for i in range(_POINTS)]
    labels = [[_WORDS[i % 8], _WORDS[3 * i % 8]] for i in range(_POINTS)]
    names: dict[str, Any] = {word: word for word in _WORDS}
    tagger = Tagger(name).fit(texts, labels, label_texts=names)
    with tempfile.TemporaryDirectory() as folder:
        tagger.save(Path(folder) / "model")
        loaded = registry.load_tagger(Path(folder) / "model")
        for user in (tagger, loaded):
            user.suggest(texts[0])
            user.suggest(texts)
        user.suggest([*texts, *texts], k=3)
        del loaded, user  # memory-mapped files cannot be removed while they are open, on some systems
