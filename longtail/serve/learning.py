"""Learn from feedback: train models that have ``partial_fit`` further on the corrections of their log.

A model stores which corrections it has learnt (``notes_["feedback"]``). It is trained on the later ones, and its folder
is replaced in one step. A process that is killed at any moment thus leaves either the old model or the new one, and no
correction is learnt twice or lost. A model that has been trained again from scratch learns the whole log, unless it was
trained with ``longtail train --feedback``, which stores what it has used (:mod:`longtail.serve.corrections`).

The service learns in a child process of low priority, so that training neither slows down requests nor can crash the
service.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from longtail import registry, store
from longtail.child_python import child_command, child_environment
from longtail.errors import ModelError
from longtail.serve.feedback import Feedback, FeedbackLog
from longtail.serve.logs import log
from longtail.tagger import Tagger

_POLL_SECONDS = 2.0
_PAUSE_AFTER_ERROR = 60.0
_PAUSE_FACTOR = 4.0  # pause after learning, relative to its duration: learning uses at most a fifth of one core
_NICENESS = 10
_ATTEMPTS = 5  # another training or a change of labels may replace the folder in the meantime
_EXIT_UNABLE = 3  # exit code of a child process whose model cannot be trained further


class UnableToLearn(ModelError):
    """The model cannot be trained further."""


@dataclass(frozen=True)
class Learnt:
    """Summary of what a model has learnt from its log.

    Parameters
    ----------
    corrections : int
        Number of corrections that the model had not learnt before.
    points : int
        Number of them with at least one correct label that the model has. The model was trained on these.
    unknown_labels : tuple of str
        Labels that the model does not have. The next training from scratch uses them.
    """

    corrections: int
    points: int
    unknown_labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class TakenBack:
    """Corrections that were removed from a log.

    Parameters
    ----------
    removed : int
        Corrections that were removed.
    missing : tuple of str
        Identifiers that no correction in the log has.
    learnt : int
        Removed corrections that the model has learnt from already.
    """

    removed: int
    missing: tuple[str, ...]
    learnt: int


def can_learn(tagger: Tagger) -> bool:
    """Return whether a model can be trained further. A blend can if one of its members is a nearest-neighbour model."""
    return hasattr(tagger.ranker_, "partial_fit")


def learn_from_log(folder: str | os.PathLike[str], feedback: FeedbackLog) -> Learnt:
    """Train a model folder on the corrections that it has not learnt yet, and replace the folder.

    Parameters
    ----------
    folder : path-like
        Folder of a model that reads text and whose ranker has ``partial_fit``.
    feedback : FeedbackLog
        Feedback log of the model.
    """
    with _sole_learner(feedback.path):
        for _ in range(_ATTEMPTS):
            learnt = _learn_once(Path(folder), feedback)
            if learnt is not None:
                return learnt
    raise ModelError(f"{os.fspath(folder)}: was replaced again and again while it was learning. Try again later.")


def _learn_once(folder: Path, feedback: FeedbackLog) -> Learnt | None:
    """Train and save a model. Return None if its folder was replaced in the meantime, for example by a training."""
    before = store.stamp(folder)
    tagger: Any = registry.load(folder, mmap=False)
    if not isinstance(tagger, Tagger) or not can_learn(tagger):
        raise UnableToLearn(
            f"{folder}: this model cannot be trained further. Its feedback is kept in {feedback.path} "
            "for the next training."
        )
    entries = list(feedback.after(learnt_until(tagger, feedback)))
    if not entries:
        return Learnt(0, 0)
    texts, rows, unknown = _training_points(tagger, entries)
    if texts:
        indptr = np.cumsum([0, *map(len, rows)])
        labels = np.concatenate([np.asarray(row, np.int32) for row in rows])
        shape = len(texts), len(tagger.label_names_)
        Y = csr_array((np.ones(len(labels), np.float32), labels, indptr), shape=shape)
        ranker: Any = tagger.ranker_
        ranker.partial_fit(tagger.features(texts), Y)
        tagger.label_counts_ = tagger.label_counts_ + np.bincount(labels, minlength=shape[1]).astype(np.int32)
        tagger.n_points_ += len(texts)
    learnt = _learnt_logs(tagger) | {feedback.identity(): entries[-1].seq}
    tagger.notes_ = {**tagger.notes_, "feedback": {"learnt": learnt}}
    with store.locked(store.check_replaceable(folder)):
        if store.stamp(folder) != before:
            return None
        tagger.save(folder)
    return Learnt(len(entries), len(texts), tuple(unknown))


def take_back(tagger: Tagger, feedback: FeedbackLog, ids: Sequence[str]) -> TakenBack:
    """Remove corrections from a log, so that no later training uses them.

    A model that has learnt from them keeps that until it is trained again from scratch.

    Parameters
    ----------
    tagger : Tagger
        The model of the log.
    feedback : FeedbackLog
    ids : list of str
        Identifiers of the corrections.
    """
    removed, until = feedback.remove(ids), learnt_until(tagger, feedback)
    missing = tuple(identifier for identifier in dict.fromkeys(ids) if identifier not in removed)
    return TakenBack(len(removed), missing, sum(number <= until for number in removed.values()))


def learnt_until(tagger: Tagger, feedback: FeedbackLog) -> int:
    """Return the number of the last correction of a log that a model has learnt, or 0 if there is none."""
    return int(_learnt_logs(tagger).get(feedback.identity(), 0))


def _learnt_logs(tagger: Tagger) -> dict[str, int]:
    """Return the number of the last learnt correction for each log, by the log's identity."""
    return (tagger.notes_.get("feedback") or {}).get("learnt") or {}


def _training_points(tagger: Tagger, entries: list[Feedback]) -> tuple[list[str], list[list[int]], list[str]]:
    numbers = tagger.label_numbers()
    texts, rows = [], []
    unknown: dict[str, None] = {}
    for entry in entries:
        row = sorted({numbers[label] for label in entry.labels if label in numbers})
        unknown |= {label: None for label in entry.labels if label not in numbers}
        if row:
            texts.append(entry.correction["text"])
            rows.append(row)
    return texts, rows, list(unknown)


@contextlib.contextmanager
def _sole_learner(path: Path) -> Iterator[None]:
    """Wait until no other process learns from the same log."""
    try:
        import fcntl
    except ImportError:  # on Windows, where no other process is expected to learn
        yield
        return
    with path.with_name(f"{path.name}.lock").open("a") as lock:  # "a" keeps the content, as the file may be the user's
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class BackgroundLearner:
    """Watch feedback logs in a thread, and start a child process to learn whenever a log has new corrections.

    Parameters
    ----------
    models : dict of str to (folder, FeedbackLog)
        Folder and log of each model, by name.
    """

    def __init__(self, models: dict[str, tuple[Path, FeedbackLog]]) -> None:
        self.models = models
        self._tried: dict[str, int] = {}
        self._not_before: dict[str, float] = {}
        self._child: subprocess.Popen[bytes] | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="longtail-learner", daemon=True)

    def start(self) -> None:
        """Start watching the logs."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching. A child process that is learning is ended, too; the next service starts it again."""
        self._stopped.set()
        child = self._child
        if child is not None and child.poll() is None:
            child.terminate()
        if self._thread.is_alive():
            self._thread.join(timeout=30)

    def _run(self) -> None:
        while not self._stopped.wait(_POLL_SECONDS):
            for name, (folder, feedback) in self.models.items():
                last = feedback.last()
                if last > self._tried.get(name, 0) and time.monotonic() >= self._not_before.get(name, 0.0):
                    self._learn(name, folder, feedback, last)
                if self._stopped.is_set():
                    return

    def _learn(self, name: str, folder: Path, feedback: FeedbackLog, last: int) -> None:
        command = child_command("-m", "longtail.serve.learning", str(folder), str(feedback.path))
        begin = time.monotonic()
        self._child = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=child_environment()
        )
        _, errors = self._child.communicate()
        code = self._child.returncode
        if code == 0:
            self._tried[name] = last
            self._not_before[name] = time.monotonic() + _PAUSE_FACTOR * (time.monotonic() - begin)
            log.info("feedback learnt", extra={"facts": {"model": name, "last": last}})
        elif code == _EXIT_UNABLE:
            self._tried[name] = last  # the corrections stay in the log for the next training
        elif not self._stopped.is_set():
            self._not_before[name] = time.monotonic() + _PAUSE_AFTER_ERROR
            reason = errors.decode(errors="replace").strip().rpartition("\n")[2][:500]
            log.error("feedback not learnt", extra={"facts": {"model": name, "code": code, "reason": reason}})


def _learn_as_child() -> None:
    """Learn from a log in this process: ``python -m longtail.serve.learning FOLDER LOG``."""
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    folder, path = sys.argv[1:]
    try:
        learn_from_log(folder, FeedbackLog(path))
    except UnableToLearn:
        sys.exit(_EXIT_UNABLE)


if __name__ == "__main__":
    _learn_as_child()
