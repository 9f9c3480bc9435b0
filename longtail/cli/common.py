"""What the verbs share: their options, where words go, how errors end."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console

from longtail import progress, registry
from longtail.errors import DataError, LongtailError, SettingsError

if TYPE_CHECKING:
    from longtail.data import Dataset, TextVectorizer
    from longtail.models.base import Ranker

out = Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 100)  # room for tables in a file
err = Console(stderr=True)

# Options ---------------------------------------------------------------------------------------------------------

_DATA_HELP = "A folder or file of data, or the word [bold]demo[/bold] for the data that ships with longtail."
_COLUMNS = "Tables only"
DataPath = Annotated[str, typer.Argument(metavar="DATA", help=_DATA_HELP, show_default=False)]
ModelFolder = Annotated[Path, typer.Argument(metavar="DIR", help="A saved model.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output and nothing else there.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="MODEL.NAME=VALUE", help="Set a parameter; may be repeated. text.NAME is TF-IDF's."),
]
Seed = Annotated[int, typer.Option(help="Seed of every random choice.")]
Jobs = Annotated[int | None, typer.Option(help="Threads; all cores by default.", show_default=False)]
Format = Annotated[str | None, typer.Option(help="Layout of the data, where names do not tell.", show_default=False)]
TextColumn = Annotated[
    list[str] | None, typer.Option(help="Column that holds the text; may be repeated.", rich_help_panel=_COLUMNS)
]
LabelsColumn = Annotated[
    str | None, typer.Option(help="Column that holds the labels.", show_default=False, rich_help_panel=_COLUMNS)
]
LabelsSeparator = Annotated[
    str | None, typer.Option(help="What separates labels in one string.", show_default=False, rich_help_panel=_COLUMNS)
]

# Ends ------------------------------------------------------------------------------------------------------------


def guarded(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb, with mistakes of the user's ending in one message and exit code 2."""

    @functools.wraps(verb)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            verb(*args, **kwargs)
            sys.stdout.flush()
        except LongtailError as error:
            fail(str(error))
        except BrokenPipeError:  # the reader has seen enough, as `head` does
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except OSError as error:
            named = f"{error.filename}: " if error.filename is not None else ""
            fail(f"{named}{error.strerror or error}")
        except MemoryError:
            fail("There is not enough memory for this. Use a smaller model or fewer threads, or a larger machine.")

    return run


def fail(message: str) -> NoReturn:
    """Say what is wrong and end."""
    err.print(f"error: {message}", style="bold red", markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(2)


def say(message: str) -> None:
    """A remark beside the result."""
    err.print(message, style="dim", markup=False, highlight=False, soft_wrap=True)


@contextmanager
def doing(message: str) -> Iterator[None]:
    """Show what is going on while it goes on: a bar on a terminal, one line elsewhere."""
    if not err.is_terminal:
        say(f"{message} …")
        yield
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task(f"{message} …", total=None)

        def show(stage: str, share: float) -> None:
            bar.update(task, description=f"{message}: {stage}", total=1.0, completed=share)

        with progress.listen(show):
            yield


def emit(document: Any) -> None:
    """Print JSON."""
    sys.stdout.write(json.dumps(document, indent=1, ensure_ascii=False, default=_plain) + "\n")


def _plain(value: Any) -> Any:
    """Numbers of NumPy and paths as JSON's own."""
    if hasattr(value, "item"):
        return value.item()
    return os.fspath(value)


# Data ------------------------------------------------------------------------------------------------------------


def data_path(name: str) -> Path:
    """The path that DATA means."""
    from longtail import DEMO

    return DEMO if name == "demo" and not Path(name).exists() else Path(name)


def read_data(name: str, vectorizer: Any = "tfidf", **options: Any) -> Dataset:
    """Read DATA, with the options of the command line."""
    from longtail.data import read

    path = data_path(name)
    with doing(f"reading {name}"):
        data = read(path, vectorizer=vectorizer, **{key: value for key, value in options.items() if value is not None})
    data.name = "demo" if name == "demo" else data.name
    return data


# Settings --------------------------------------------------------------------------------------------------------


def split_settings(texts: list[str] | None) -> tuple[dict[str, Any], TextVectorizer | None]:
    """``--set`` options: those of models, and the vectoriser that ``text.…`` ones describe, if there are any."""
    settings = dict(registry.parse_setting(text) for text in texts or [])
    own = {key.removeprefix("text."): settings.pop(key) for key in list(settings) if key.startswith("text.")}
    if not own:
        return settings, None
    from longtail.data import TextVectorizer

    known = TextVectorizer().get_params()
    for key, value in own.items():
        if key not in known:
            raise SettingsError(f"TF-IDF has no parameter {key!r}. Its parameters: {', '.join(sorted(known))}.")
        own[key] = tuple(value) if isinstance(value, list) else value
    return settings, TextVectorizer(**own)


def defaults(seed: int, jobs: int | None) -> dict[str, Any]:
    """Parameters for every model that has them."""
    return {"random_state": seed} | ({} if jobs is None else {"n_jobs": jobs})


def check_out(folder: Path) -> None:
    """Refuse, before any work, to put a model in the place of something else."""
    remedy = "Choose another --out"
    above = next(parent for parent in folder.absolute().parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise DataError("no folder can be made here", path=above, remedy=remedy)
    fresh = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    if not fresh and not (folder / "model.json").is_file():
        raise DataError("exists and is not a model folder", path=folder, remedy=remedy)


def ranker_of(model: Any) -> Ranker:
    """The ranker of a loaded model, be it a tagger's or alone."""
    return getattr(model, "ranker_", model)
