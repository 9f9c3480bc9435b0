"""``longtail warm``: compile kernels in advance, so that the first training and prediction need not wait for it."""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from longtail import progress, registry
from longtail.child_python import child_command, child_environment
from longtail.cli.console import print_json, print_remark, print_result
from longtail.cli.options import JsonFlag
from longtail.cli.progress_bar import doing
from longtail.errors import LongtailError, SettingsError, number_of

_TITLE_WORDS = ("moss", "bread", "mail", "music", "weather", "desktop", "python", "red")
_LABELS = 240
_FIRST_MODEL, _FURTHER_MODEL = 20.0, 2.6  # seconds if nothing has been compiled: 66 s for all 19 models on two cores
_SIZE_LIMITS = (  # constants: sizes of data above which other kernels or other types are used
    ("longtail.index", "_EXACT_BELOW"),
    ("longtail.linear.train", "_SHORT"),
    ("longtail.models.decaf.modules", "ONE_BY_ONE"),
)
WarmedModels = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME",
        help="A model or a composition whose kernels are compiled. Can be repeated; by default all models.",
        show_default=False,
    ),
]
PortableFlag = Annotated[
    bool,
    typer.Option("--portable", help="Compile for other machines too, with AVX2 on x86: for images and wheels."),
]


def warm_kernels(model: WarmedModels = None, portable: PortableFlag = False, json: JsonFlag = False) -> None:
    """Compile the kernels of training and prediction, once per machine."""
    from longtail.kernels.cache_folders import writable_folder
    from longtail.kernels.cpu_level import compiles_for_level, level_environment

    wanted = model or registry.names()
    for name in wanted if model else ():
        registry.make(name)  # raise the error of a wrong name before anything is compiled
    if portable and not compiles_for_level():  # Numba reads these variables once, when it is imported
        command = child_command("-m", "longtail", "warm", "--portable", *(["--json"] if json else []))
        command += [word for name in model or () for word in ("--model", name)]
        raise typer.Exit(subprocess.run(command, env=child_environment(level_environment())).returncode)
    folder, began = writable_folder(), time.perf_counter()
    if folder is None:
        raise SettingsError(
            "Compiled kernels cannot be stored: no folder for them is writable. Set LONGTAIL_CACHE to one that is."
        )
    done, left_out = [], []
    logging.getLogger("longtail").setLevel(logging.WARNING)  # hide remarks about the made-up data
    duration = expected_duration(len(wanted), anything_compiled())
    with doing(f"compiling kernels of {number_of(len(wanted), 'model')}, once per machine; {duration}"):
        for i, name in enumerate(wanted):
            with progress.stage(f"{name} ({i + 1} of {len(wanted)})"):
                try:
                    _train_and_predict(name if model else _complete(name))
                except (LongtailError, ImportError) as error:
                    if model:
                        raise
                    print_remark(f"{name}: not compiled ({error})")
                    left_out.append(name)
                else:
                    done.append(name)
    seconds = time.perf_counter() - began
    if json:
        print_json({"folder": folder, "models": done, "left_out": left_out, "seconds": seconds})
        return
    print_result(f"Compiled the kernels of {', '.join(done)} in {seconds:.1f} s; they are in {folder}")


def expected_duration(n_models: int, compiled: bool) -> str:
    """Return about how long compiling takes for a number of models. `compiled`: some may have been compiled before."""
    seconds = round(_FIRST_MODEL + (n_models - 1) * _FURTHER_MODEL, -1)
    return f"about {seconds:.0f} s" + (", and less where they are compiled already" if compiled else "")


def anything_compiled() -> bool:
    """Return whether there are any compiled kernels, perhaps of other models or of another version."""
    from longtail.kernels.cache_folders import readable_folders

    return any(True for folder in readable_folders() for _ in folder.glob("*.nbi"))


def _complete(name: str) -> str:
    """Return the name of a model that can be fitted. A wrapper gets a base model."""
    try:
        registry.make(name).check_params()
    except (LongtailError, TypeError):
        return f"{name}(bonsai)"
    return name


def _train_and_predict(name: str) -> None:
    """Train a model on made-up texts, and predict one point and a batch with it, before and after it is saved.

    Large data needs other kernels, or the same kernels for other types. They are compiled in a second round, with
    limits so low that this data counts as large.
    """
    from longtail.tagger import Tagger

    texts, labels, names = _made_up_data()
    for large in (False, True):
        with _lowered_limits() if large else nullcontext(), tempfile.TemporaryDirectory() as folder:
            tagger = Tagger(name).fit(texts, labels, label_texts=names)
            tagger.save(Path(folder) / "model")
            loaded = registry.load_tagger(Path(folder) / "model")
            for model in (tagger, loaded):
                model.suggest(texts[0])
                model.suggest(texts)
            del loaded, model  # some systems cannot remove memory-mapped files while they are open


def _made_up_data() -> tuple[list[str], list[list[str]], dict[str, Any]]:
    """Return texts, their labels, and label texts. There are more labels than fit into one leaf of a label tree."""
    words = [f"{_TITLE_WORDS[i % len(_TITLE_WORDS)]} x{i}" for i in range(_LABELS)]
    chosen = [[words[i % _LABELS], words[7 * i % _LABELS]] for i in range(2 * _LABELS)]
    return [f"a {first} and {second} guide" for first, second in chosen], chosen, {word: word for word in words}


@contextmanager
def _lowered_limits() -> Iterator[None]:
    """Make all data count as large, in the modules that have been imported."""
    limits = [(sys.modules[module], name) for module, name in _SIZE_LIMITS if module in sys.modules]
    before = [getattr(module, name) for module, name in limits]
    for module, name in limits:
        setattr(module, name, 0)
    try:
        yield
    finally:
        for (module, name), value in zip(limits, before, strict=True):
            setattr(module, name, value)
