"""``longtail learn``: store corrections in a model's feedback log and train it on them, or take corrections back."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longtail import registry
from longtail.cli.console import as_word, print_json, print_remark, print_result
from longtail.cli.options import DataOptions, JsonFlag, ModelFolder
from longtail.cli.progress_bar import doing
from longtail.errors import DataError, ModelError, SettingsError, number_of

if TYPE_CHECKING:
    from longtail.data import Dataset
    from longtail.serve.feedback import FeedbackLog
    from longtail.tagger import Tagger

Corrections = Annotated[
    str | None,
    typer.Argument(
        metavar="DATA",
        help="Texts with their correct labels. Without DATA, the model is trained on the corrections in its log.",
        show_default=False,
    ),
]
LogFile = Annotated[
    Path | None,
    typer.Option("--feedback", metavar="FILE", help="Feedback log; next to the model by default.", show_default=False),
]
NewLabelsFlag = Annotated[
    bool,
    typer.Option("--new-labels", help="Store labels of DATA as new ones, even if they look like joined known labels."),
]
UndoFlag = Annotated[
    bool, typer.Option("--undo", help="Take corrections out of the log: those of DATA, or those that --id names.")
]
IdsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--id", metavar="ID", help="With --undo: id of a correction, from the answer of a service. Can be repeated."
    ),
]
_PER_TRANSACTION = 1000


def learn_corrections(
    folder: ModelFolder,
    data: Corrections = None,
    feedback: LogFile = None,
    new_labels: NewLabelsFlag = False,
    undo: UndoFlag = False,
    ids: IdsOption = None,
    json: JsonFlag = False,
    *,
    options: DataOptions,
) -> None:
    """Store corrections durably, and train the model on them if it can learn without a new training.

    Reading the same data twice stores it once.
    """
    from longtail.serve.feedback import FeedbackLog
    from longtail.serve.learning import can_learn, learn_from_log
    from longtail.serve.settings import default_feedback_path
    from longtail.tagger import Tagger

    if new_labels and data is None:
        raise SettingsError("--new-labels has no effect without DATA. Leave it out.")
    if ids and not undo:
        raise SettingsError("--id has no effect without --undo. Leave it out.")
    if undo and (data is None) == (not ids):
        raise SettingsError("Name the corrections to take back: either DATA, with which they were stored, or --id ID.")
    tagger: Any = registry.load(folder)
    if not isinstance(tagger, Tagger) or tagger.vectorizer_ is None:
        raise ModelError(f"{folder}: the model was trained on features, not on text, so it cannot learn from texts.")
    log = FeedbackLog(feedback or default_feedback_path(folder))
    if undo:
        named = ids or [
            correction["id"]
            for part in _corrections(_read(str(data), options.for_model(tagger, str(data))))
            for correction in part
        ]
        _take_back(folder, tagger, log, named, json=json)
        return
    facts: dict[str, Any] = {"model": folder, "feedback": log.path, "stored": 0, "duplicates": 0}
    if data is not None:
        given = _read(data, options.for_model(tagger, data))
        all_names = given.shown_label_names()
        names = [all_names[label] for label in sorted(set(given.Y.indices.tolist()))]
        known = tagger.label_numbers()
        if not new_labels:
            _refuse_uncut_labels(data, names, known)
        for part in _corrections(given):
            (receipt,) = log.append(folder.absolute().name, "file", [part])
            facts["stored"] += receipt.accepted
            facts["duplicates"] += receipt.duplicates
        facts["unknown_labels"] = sorted(name for name in names if name not in known)
    if can_learn(tagger):
        with doing(f"learning from {log.path.name}"):
            learnt = learn_from_log(folder, log)
        facts |= {"learnt": learnt.points, "unknown_labels": list(learnt.unknown_labels)}
        if hasattr(tagger.ranker_, "learning_members"):  # in a blend, some members can only learn in a new training
            facts["learnt_by"] = list(dict.fromkeys(member.kind for member in tagger.ranker_.learning_members()))
    if json:
        print_json(facts)
        return
    if data is not None:
        again = f" (there already: {facts['duplicates']:,})" if facts["duplicates"] else ""
        print_result(f"Stored {number_of(facts['stored'], 'correction')} in {log.path}{again}")
    if "learnt" in facts:
        print_result(_what_learnt(tagger.ranker_, folder, facts))
    else:
        use = f"To use its corrections, train again with --feedback {as_word(log.path)}"
        print_remark(f"{tagger.ranker_.kind} cannot learn without a new training. {use}.")
    if unknown := facts.get("unknown_labels"):
        shown = ", ".join(unknown[:5]) + (", …" if len(unknown) > 5 else "")
        print_remark(f"Labels that are not in the model and wait in the log: {len(unknown):,} ({shown})")


def _take_back(folder: Path, tagger: Tagger, log: FeedbackLog, ids: list[str], *, json: bool) -> None:
    """Remove corrections from the log, and print what became of them."""
    from longtail.serve.learning import take_back

    done = take_back(tagger, log, ids)
    if json:
        print_json({"model": folder, "feedback": log.path, **vars(done)})
        return
    missing = f" (not there: {len(done.missing):,})" if done.missing else ""
    print_result(f"Took {number_of(done.removed, 'correction')} out of {log.path}{missing}")
    if done.learnt:
        advice = f"To make it forget them, train again, with --feedback {as_word(log.path)} for the others"
        print_remark(f"{folder} has learnt from {done.learnt:,} of them already. {advice}.")


def _what_learnt(ranker: Any, folder: Path, facts: dict[str, Any]) -> str:
    """Return a sentence about what was trained: the whole model, or those members of a blend that can learn."""
    if not facts["learnt"]:
        return f"No new correction to train {folder} on"
    corrections = number_of(facts["learnt"], "correction")
    if "learnt_by" not in facts:
        return f"Trained {folder} on {corrections}"
    others = list(dict.fromkeys(member.kind for member in ranker.members_ if member.kind not in facts["learnt_by"]))
    rest = f"; {', '.join(others)} will learn from them in the next training with --feedback" if others else ""
    return f"Trained {' and '.join(facts['learnt_by'])} in {folder} on {corrections}{rest}"


def _read(name: str, options: DataOptions) -> Dataset:
    """Read texts with their labels."""
    data = options.read(name, None)
    if data.texts is None:
        raise DataError("has no texts", path=name, remedy="Give texts with their labels, such as a CSV file")
    return data


def _corrections(data: Dataset) -> Iterator[list[dict[str, Any]]]:
    """Yield batches of corrections. The id of each is computed from its content, so that it is stored only once."""
    names, bounds, indices = data.shown_label_names(), data.Y.indptr.tolist(), data.Y.indices.tolist()
    batch: list[dict[str, Any]] = []
    for i, text in enumerate(data.texts or ()):
        labels = [names[label] for label in indices[bounds[i] : bounds[i + 1]]]
        if not labels:
            continue
        content = "\0".join([text, *sorted(labels)]).encode("utf-8", "replace")
        batch.append({"text": text, "labels": labels, "id": f"file-{hashlib.sha256(content).hexdigest()[:32]}"})
        if len(batch) == _PER_TRANSACTION:
            yield batch
            batch = []
    if batch:
        yield batch


def _refuse_uncut_labels(data: str, names: Sequence[str], known: Container[str]) -> None:
    """Raise an error if labels are probably several known labels joined, as a model cannot unlearn them."""
    from longtail.data.separators import separator_of_known

    separator = separator_of_known(names, known)
    if separator is None:
        return
    unknown = [name for name in names if name not in known]
    verb = "is" if len(unknown) == 1 else "are"
    raise DataError(
        f"{len(unknown):,} of {number_of(len(names), 'label')} {verb} not in the model, such as "
        f"{next(name for name in unknown if separator in name)!r}, but most of their parts between {separator!r} are",
        path=data,
        remedy=f"Give --labels-separator {shlex.quote(separator)}, or --new-labels if they are meant as they are",
    )
