"""Define the options that several verbs share, and turn them into data, settings of models and folders to write.

A group of options is a dataclass. A verb takes one parameter of that class, and :func:`expanded` replaces it by one
command-line option per field, so that an option has the same name and help text in every verb.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from longtail import registry
from longtail.cli.progress_bar import doing
from longtail.errors import DataError, SettingsError
from longtail.params import NOT_NEGATIVE, POSITIVE, Jobs

if TYPE_CHECKING:
    from longtail.data import Dataset, TextVectorizer
    from longtail.tagger import Tagger

_TABLE_PANEL, _PROPENSITY_PANEL = "Tables only", "Propensity model of PSP and PSnDCG"
DataPath = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A dataset: a folder or a file, or the word [bold]demo[/bold] for the dataset that comes with longtail.",
        show_default=False,
    ),
]
ModelFolder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a saved model.", show_default=False)]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON on standard output, and nothing else there.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="MODEL.NAME=VALUE",
        help="Set a parameter of a model. Use text.NAME=VALUE for TF-IDF options. Can be repeated.",
    ),
]
SeedOption = Annotated[int, typer.Option(min=0, metavar="INT", help="Seed of all random choices.")]
JobsOption = Annotated[
    int | None, typer.Option(metavar="N", help="Number of threads; by default one per core.", show_default=False)
]
EngineOption = Annotated[
    str,
    typer.Option(
        metavar="ENGINE",
        help="Where work runs: local (the cores of this machine), ray, or ray://HOST:PORT for a cluster.",
    ),
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        metavar="FORMAT",
        help="File format, if file names do not show it: sparse, svmlight, lf, npz, json, table or documents.",
        show_default=False,
    ),
]
TextColumnOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Column with the text. Can be repeated.", rich_help_panel=_TABLE_PANEL),
]


@dataclass(frozen=True)
class DataOptions:
    """Options for reading a dataset."""

    format: FormatOption = None
    text_column: TextColumnOption = None
    labels_column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Column with the labels.", show_default=False, rich_help_panel=_TABLE_PANEL),
    ] = None
    labels_separator: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Separator between labels in one cell.",
            show_default=False,
            rich_help_panel=_TABLE_PANEL,
        ),
    ] = None
    labels_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Names and texts of the labels: CSV, TSV, JSON or SKOS.",
            show_default=False,
        ),
    ] = None

    def refuse_given(self, why: str) -> None:
        """Raise an error if any of these options was given, because they would have no effect."""
        given = [name for name, value in vars(self).items() if value is not None]
        if given:
            raise SettingsError(f"--{given[0].replace('_', '-')} has no effect: {why}. Leave it out.")

    def for_model(self, tagger: Tagger, name: str) -> DataOptions:
        """Return the options with the separator of a model's training data, unless another separator was given."""
        separator = tagger.notes_.get("labels_separator")
        if self.labels_separator is not None or separator is None or not Path(name).exists():
            return self
        from longtail.data.layouts import recognise

        is_table = recognise(Path(name), self.format).format == "table"
        return dataclasses.replace(self, labels_separator=separator) if is_table else self

    def read(self, name: str, vectorizer: Any = "tfidf", *, require_labels: bool = True) -> Dataset:
        """Read the dataset that DATA names."""
        import longtail

        path = longtail.DEMO if name == "demo" and not Path(name).exists() else Path(name)
        in_python = {"text_column": "text", "labels_column": "labels", "labels_file": "label_texts"}
        given = {in_python.get(key, key): value for key, value in vars(self).items() if value is not None}
        compare = getattr(vectorizer, "ngrams", None) == "auto"
        vectors = given.pop("vectors", None) if compare else None
        with doing(f"reading {name}"):
            chosen = None if compare else vectorizer
            data = longtail.read(path, vectorizer=chosen, require_labels=require_labels, **given)
        if compare:
            vectorize_comparing(data, vectorizer, vectors)
        data.name = "demo" if name == "demo" else data.name
        return data


@dataclass(frozen=True)
class VectorDataOptions(DataOptions):
    """Options for reading DATA, with ready vectors of its texts."""

    vectors: Annotated[
        str | None,
        typer.Option(
            metavar="FILES",
            help="Ready vectors for blend: train.npy,test.npy,labels.npy, as far as DATA has such parts.",
            show_default=False,
        ),
    ] = None


def vectorize_comparing(data: Dataset, vectorizer: TextVectorizer, vectors: str | None = None) -> None:
    """Compute features from the texts. If `ngrams` is "auto", choose the n-grams that rank held-out points best.

    `vectors` are the names of files with ready vectors.
    """
    from longtail.data.reading import vectorize
    from longtail.data.vectors import add_vectors, read_vectors
    from longtail.tagger.term_choice import with_chosen_ngrams

    if data.texts is None or data.X is not None:
        raise SettingsError("--set text.ngrams=auto has no effect: the data holds features, not text. Leave it out.")
    if not data.Y.nnz:
        raise SettingsError("--set text.ngrams=auto needs labels to compare by. Give [1,2] or 1 instead.")
    vectorize(data, with_chosen_ngrams(vectorizer, data.texts, data.Y), terms_only=vectors is not None)
    if vectors is not None:
        add_vectors(data, read_vectors(vectors, has_test=data.test is not None))


@dataclass(frozen=True)
class PropensityOptions:
    """Parameters of the propensity model behind PSP and PSnDCG."""

    # The defaults are those of inverse_propensity; importing it here would make every command start slowly.
    propensity_a: Annotated[
        float,
        typer.Option(
            metavar="NUMBER", help="A: 0.5 for Wikipedia data, 0.6 for Amazon data.", rich_help_panel=_PROPENSITY_PANEL
        ),
    ] = 0.55
    propensity_b: Annotated[
        float,
        typer.Option(
            metavar="NUMBER", help="B: 0.4 for Wikipedia data, 2.6 for Amazon data.", rich_help_panel=_PROPENSITY_PANEL
        ),
    ] = 1.5

    def __post_init__(self) -> None:
        if not (NOT_NEGATIVE.allows(self.propensity_a) and POSITIVE.allows(self.propensity_b)):
            raise SettingsError(
                f"--propensity-a is {self.propensity_a:g} and --propensity-b {self.propensity_b:g}; "
                "give a number from 0 and a number above 0."
            )

    def a_and_b(self) -> tuple[float, float]:
        """Return the parameters in the order of :func:`longtail.metrics.inverse_propensity`."""
        return self.propensity_a, self.propensity_b


def expanded(verb: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter of a verb that is a group of options by one command-line option per field."""
    hints = get_type_hints(verb, include_extras=True)
    hints.pop("return", None)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if dataclasses.is_dataclass(hint)}
    shown: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(verb).parameters.items():
        if name in groups:
            fields = get_type_hints(groups[name], include_extras=True)
            shown += [
                inspect.Parameter(
                    field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=fields[field.name]
                )
                for field in dataclasses.fields(groups[name])
            ]
        else:
            shown.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name]))
    for parameter in shown:
        kind, info = get_args(parameter.annotation)
        if kind is bool and info.metavar is None:
            info.metavar = ""  # a flag takes no value, but typer would print <bool> after it

    @functools.wraps(verb)
    def run_expanded(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in dataclasses.fields(group)})
        verb(**given)

    run_expanded.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    run_expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return run_expanded


def split_settings(texts: list[str] | None) -> tuple[dict[str, Any], TextVectorizer | None]:
    """Return the ``--set`` options of models, and the vectoriser of the ``text.…`` options, or None without such."""
    settings = dict(registry.parse_setting(text) for text in texts or [])
    of_text = {key.removeprefix("text."): settings.pop(key) for key in list(settings) if key.startswith("text.")}
    if not of_text:
        return settings, None
    from longtail.data.text import TextVectorizer

    known = TextVectorizer().get_params()
    for key, value in of_text.items():
        if key not in known:
            raise SettingsError(f"TF-IDF has no parameter {key!r}. Its parameters: {', '.join(sorted(known))}.")
        of_text[key] = tuple(value) if isinstance(value, list) else value
    vectorizer = TextVectorizer(**of_text)
    try:
        vectorizer.check_params()
    except SettingsError as error:  # the message begins with the name of the parameter
        raise SettingsError(f"--set text.{error}") from None
    return settings, vectorizer


def model_defaults(seed: int, jobs: int | None, propensities: PropensityOptions | None = None) -> dict[str, Any]:
    """Return the parameters to set on every model that has them: seed, threads and propensities."""
    if not Jobs().allows(jobs):
        raise SettingsError(f"--jobs is {jobs}; give {str(Jobs()).removeprefix('None or ')}.")
    shared = {"random_state": seed} | ({} if jobs is None else {"n_jobs": jobs})
    return shared | ({} if propensities is None else vars(propensities))


def check_model_folder(folder: Path) -> Path:
    """Return the folder that a model will be written to, or raise an error before any work if that is impossible."""
    from longtail import store

    remedy = "Choose another --out"
    absolute = Path(os.path.abspath(folder))
    if absolute.parent == absolute:
        raise DataError("is the root of the file system, not a folder for a model", path=folder, remedy=remedy)
    above = next(parent for parent in absolute.parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise DataError("no folder can be made here", path=above, remedy=remedy)
    return store.check_replaceable(folder)


def check_output_file(path: Path, option: str, *inputs: str | Path | None) -> None:
    """Raise an error, before any work, if results would overwrite an input of the command or lie in a model folder.

    Parameters
    ----------
    path : Path
        File to write.
    option : str
        The option with this file, for the message.
    inputs : str or Path, optional
        Files and folders that the command reads.
    """
    remedy = f"Choose another {option}"
    if path.is_dir():
        raise DataError("is a folder, not a file to write", path=path, remedy=remedy)
    from longtail.store import check_output

    check_output(path)
    target = Path(os.path.realpath(path))
    if (target.parent / "model.json").is_file():  # a save would refuse to replace a folder with other files in it
        raise DataError("is inside a model folder, which holds only the model", path=path, remedy=remedy)
    for given in inputs:
        if given is None or not path.exists() or not Path(given).exists():
            continue
        if os.path.samefile(path, given):
            raise DataError("is the file to be read, and would be lost", path=path, remedy=remedy)
        if Path(given).is_dir() and Path(os.path.realpath(given)) in target.parents:
            raise DataError(f"exists in {given} and may be part of the data", path=path, remedy=remedy)


def default_output(name: str) -> Path:
    """Return the file that a command writes without ``--out``, or raise an error if it exists already."""
    if os.path.lexists(name):
        raise DataError("exists", path=name, remedy=f"Replace it with --out {name}, or choose another name")
    return Path(name)
