"""``longtail labels``: list, add, rename, merge and retire labels of a saved model, without training."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longtail import registry
from longtail.cli.console import out, print_json, print_remark, print_result, printable, written
from longtail.cli.options import JsonFlag, ModelFolder
from longtail.errors import SettingsError, number_of

if TYPE_CHECKING:
    from longtail.tagger import Tagger


class LabelChange(enum.StrEnum):
    """The kinds of changes to labels."""

    list = "list"
    add = "add"
    rename = "rename"
    merge = "merge"
    retire = "retire"


ChangeArgument = Annotated[
    LabelChange,
    typer.Argument(
        metavar="CHANGE",
        help="list: print labels, or those whose name or identifier contains LABEL; "
        "add: suggest new labels by their text, or retired ones again; rename OLD NEW; "
        "merge: suggest --into LABEL instead of them; retire: stop suggesting them.",
        show_default=False,
    ),
]
LabelNames = Annotated[
    list[str] | None, typer.Argument(metavar="LABEL", help="Labels, by name or identifier.", show_default=False)
]
IntoOption = Annotated[
    str | None, typer.Option(metavar="LABEL", help="merge: the label to suggest instead.", show_default=False)
]
LabelTextOption = Annotated[
    str | None,
    typer.Option(
        "--text", metavar="TEXT", help="add: text of the one new label; its name by default.", show_default=False
    ),
]
IdOption = Annotated[
    str | None,
    typer.Option("--id", metavar="ID", help="add: identifier of the one new label, such as a URI.", show_default=False),
]
FileOption = Annotated[
    Path | None,
    typer.Option(
        "--labels-file",
        metavar="FILE",
        help="add: new labels with names, texts and identifiers: CSV, TSV, JSON or SKOS.",
        show_default=False,
    ),
]


def change_labels(
    folder: ModelFolder,
    change: ChangeArgument,
    labels: LabelNames = None,
    into: IntoOption = None,
    text: LabelTextOption = None,
    id_: IdOption = None,
    labels_file: FileOption = None,
    json: JsonFlag = False,
) -> None:
    """List or change the labels of a saved model without training. A running service loads the changed model.

    The model folder is replaced in one step. If anything fails, the old one stays.
    """
    from longtail import store

    names = list(labels or [])
    _check_options(change, names, {"--into": into, "--text": text, "--id": id_, "--labels-file": labels_file})
    if change is LabelChange.list:
        _print_labels(folder, names, json)
        return
    with store.locked(folder.absolute()):  # no other process may change it between loading and saving
        tagger: Any = registry.load(folder, mmap=False)
        _check_named(tagger, folder)
        if change is LabelChange.add:
            names = _add(tagger, names, text, id_, labels_file)
        elif change is LabelChange.rename:
            tagger.rename_labels({names[0]: names[1]})
        elif change is LabelChange.merge:
            assert into is not None
            tagger.merge_labels(names, into)
        else:
            tagger.retire_labels(names)
        tagger.save(folder)
    moved = tagger.moved_labels()
    n_labels = tagger.n_labels_ - len(moved)
    facts = {
        "model": folder,
        "n_labels": n_labels,
        "merged": {label: to for label, to in moved.items() if to is not None},
        "retired": [label for label, to in moved.items() if to is None],
    }
    if json:
        print_json(facts)
        return
    done = {
        LabelChange.add: f"added {len(names):,}",
        LabelChange.rename: "renamed 1",
        LabelChange.merge: f"merged {len(names):,} into {into}",
        LabelChange.retire: f"retired {len(names):,}",
    }
    print_result(written(folder, f"{done[change]}; the model has {number_of(n_labels, 'label')} now"))


def _check_named(tagger: Any, folder: Path) -> None:
    from longtail.tagger import Tagger

    if not isinstance(tagger, Tagger):
        raise SettingsError(f"{folder}: holds a ranker alone, whose labels have no names.")


def _print_labels(folder: Path, parts: list[str], json: bool) -> None:
    """Print labels with their training points, the most frequent first: all labels, or those with one of `parts`."""
    tagger: Any = registry.load(folder)
    _check_named(tagger, folder)
    moved = tagger.moved_labels()
    names, ids = list(tagger.label_names_), list(tagger.label_ids_ or tagger.label_names_)
    wanted = [part.lower() for part in parts]
    shown = [
        at
        for at, (name, identifier) in enumerate(zip(names, ids, strict=True))
        if name not in moved and (not wanted or any(part in f"{name}\n{identifier}".lower() for part in wanted))
    ]
    shown.sort(key=lambda at: -tagger.label_counts_[at])
    rows = [
        {
            "label": names[at],
            **({} if ids[at] == names[at] else {"id": ids[at]}),
            "count": int(tagger.label_counts_[at]),
        }
        for at in shown
    ]
    if json:
        print_json(rows)
        return
    width = max((len(f"{row['count']:,}") for row in rows), default=0)
    for row in rows:
        identifier = f"  {row['id']}" if "id" in row else ""
        out.file.write(
            f"{row['count']:>{width},}  {printable(' '.join(row['label'].split()))}{printable(identifier)}\n"
        )
    if not rows:
        print_remark(f"No label contains {' or '.join(map(repr, parts))}.")


def _check_options(change: LabelChange, names: list[str], options: dict[str, Any]) -> None:
    """Raise an error for options of another change, and for too few or too many labels."""
    allowed = {LabelChange.add: {"--text", "--id", "--labels-file"}, LabelChange.merge: {"--into"}}.get(change, set())
    given = {name for name, value in options.items() if value is not None}
    if given - allowed:
        raise SettingsError(f"{min(given - allowed)} does not go with {change.value}.")
    if change is LabelChange.rename and len(names) != 2:
        raise SettingsError("Give the old name and the new one: longtail labels DIR rename OLD NEW.")
    if change is LabelChange.merge and "--into" not in given:
        raise SettingsError("Name the label to merge into: longtail labels DIR merge LABEL… --into LABEL.")
    if not names and "--labels-file" not in given and change is not LabelChange.list:
        raise SettingsError(f"Name at least one label to {change.value}.")
    if given & {"--text", "--id"} and (len(names) != 1 or "--labels-file" in given):
        raise SettingsError("--text and --id describe one label. Give one, or describe several with --labels-file.")


def _add(tagger: Tagger, names: list[str], text: str | None, id_: str | None, path: Path | None) -> list[str]:
    """Add labels from the command line and from a file, and return the names of all of them."""
    if path is None:
        tagger.add_labels(names, None if text is None else [text], None if id_ is None else [id_])
        return names
    from longtail.data.label_file import read_label_texts

    entries = read_label_texts(path)
    listed = [entry.name or entry.id or "" for entry in entries]
    ids = [entry.id or name for entry, name in zip(entries, listed, strict=True)]
    texts = [entry.text or name for entry, name in zip(entries, listed, strict=True)]
    tagger.add_labels([*names, *listed], [*names, *texts], [*names, *ids] if ids != listed else None)
    return [*names, *listed]
