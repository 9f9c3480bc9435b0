"""Load the models of a service, warm them up, and replace them when their folders change.

A folder has changed if ``model.json`` is another file than before (inode, time or size). The new model is loaded and
warmed up while the old one answers requests. Then one reference is exchanged: running requests finish with the old
model, later ones use the new one, and none fails. If the new folder cannot be loaded, an error is logged and the old
model stays.

Replace a folder by renaming, as ``longtail train`` and ``save`` do. As weights are memory-mapped, overwriting the
arrays of a served folder in place would change or truncate the weights of the running service.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import threading
import time
import zlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from longtail import registry, store
from longtail.errors import LongtailError, ModelError
from longtail.metrics.bins import equal_volume
from longtail.serve.learning import can_learn
from longtail.serve.logs import log
from longtail.serve.problems import Problem, unavailable
from longtail.tagger import Tagger

GROUPS = ("head", "middle", "tail")
_CACHED_LABELS = 100_000  # descriptions of labels that are cached: about 30 MB
_WARM_BATCH = 130  # texts: enough to run the code for large batches
_ATTEMPTS = 3


@dataclass(eq=False)
class ServedModel:
    """One loaded model. It is never changed: a new version of its folder becomes a new object.

    Parameters
    ----------
    name : str
        Name of the model in requests.
    folder : Path
        Folder that it was loaded from.
    tagger : Tagger
        The model.
    version : str
        Checksum that changes with every training; see :func:`folder_version`.
    """

    name: str
    folder: Path
    tagger: Tagger
    version: str
    modified: str = ""
    groups: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint8), repr=False)
    _labels: dict[int, dict[str, Any]] = field(default_factory=dict, repr=False)
    _numbers: dict[str, int] | None = field(default=None, repr=False)

    @property
    def learns(self) -> bool:
        """Whether the model can be trained further with ``partial_fit``."""
        return can_learn(self.tagger)

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return len(self.tagger.label_names_)

    def predict(self, texts: list[str], k: int) -> list[list[dict[str, Any]]]:
        """Return the best labels of each text, in the form that clients receive."""
        scores = self.tagger.predict(texts, k)
        labels, ends = scores.indices.tolist(), scores.indptr.tolist()
        probabilities = np.round(scores.data.astype(np.float64), 6).tolist()
        described = [
            {**self.label(label), "probability": probability}
            for label, probability in zip(labels, probabilities, strict=True)
        ]
        return [described[start:end] for start, end in pairwise(ends)]

    def explain(self, text: str, k: int, max_words: int, labels: list[int] | None = None) -> dict[str, Any]:
        """Explain the best labels of a text, or given labels, in the form that clients receive."""
        explanation = self.tagger.explain(text, labels, k, max_words=max_words, exact=False)
        return {
            "labels": [
                {
                    **self.label(label.number),
                    "probability": round(label.score, 6),
                    "words": [
                        {"word": word.word, "effect": round(word.effect, 6), "spans": word.spans}
                        for word in label.words
                    ],
                    "neighbours": [
                        {"similarity": round(near.similarity, 4), "labels": near.labels} for near in label.neighbours
                    ],
                }
                for label in explanation
            ],
            "words_tried": explanation.words_tried,
            "words_left_out": explanation.words_left_out,
        }

    def label(self, number: int) -> dict[str, Any]:
        """Describe a label: its name, identifier, training points and frequency group."""
        description = self._labels.get(number)
        if description is None:
            ids = self.tagger.label_ids_
            description = {
                "label": self.tagger.label_names_[number],
                "id": None if ids is None else ids[number],
                "count": int(self.tagger.label_counts_[number]),
                "group": GROUPS[self.groups[number]],
            }
            if len(self._labels) >= _CACHED_LABELS:
                self._labels.clear()
            self._labels[number] = description
        return description

    async def numbers(self) -> dict[str, int]:
        """Return the column of each label by its name and by its identifier.

        The table is built in a thread when it is first needed, as this takes a second for a million labels.
        """
        if self._numbers is None:
            self._numbers = await asyncio.to_thread(self.tagger.label_numbers)
        return self._numbers

    def facts(self) -> dict[str, Any]:
        """Describe the model for ``GET /models``."""
        return {
            "name": self.name,
            "version": self.version,
            "modified": self.modified,
            "kind": self.tagger.ranker_.kind,
            "n_labels": self.n_labels,
            "n_points": int(self.tagger.n_points_),
            "has_label_ids": self.tagger.label_ids_ is not None,
            "learns": self.learns,
        }

    def warm_up(self) -> None:
        """Run every kernel that a request may need, so that no request has to wait for the compiler."""
        names = self.tagger.label_names_
        texts = [names[i % len(names)] for i in range(_WARM_BATCH)]
        self.predict(texts[:1], 5)
        self.predict(texts[:8], 5)
        self.predict(texts, 5)


def load_model(name: str, folder: str | Path, key: str | None = None) -> ServedModel:
    """Load a model folder and warm it up. If a key file is given, the folder must have been signed with that key.

    Raises
    ------
    ModelError
        If the folder is damaged, not signed, or has a model that does not read text.
    """
    folder = Path(folder)
    for _ in range(_ATTEMPTS):
        before = store.stamp(folder)
        version = folder_version(folder)
        tagger = registry.load(folder, verify_key=key)
        if store.stamp(folder) == before:
            break
    if not isinstance(tagger, Tagger) or tagger.vectorizer_ is None:
        raise ModelError(
            f"{folder}: the model was trained on features, not on text, so it cannot be served. "
            "Train it on data with texts."
        )
    if not tagger.reads_text():
        raise ModelError(
            f"{folder}: the model was trained with ready vectors of texts and has no encoder, so it cannot be served. "
            "Train it with an encoder (--encoder)."
        )
    by_frequency, ends = equal_volume(np.asarray(tagger.label_counts_, np.int64), len(GROUPS))
    groups = np.empty(len(by_frequency), np.uint8)
    groups[by_frequency] = np.repeat(np.arange(len(GROUPS), dtype=np.uint8), np.diff([0, *ends]))
    modified = datetime.fromtimestamp((folder / "model.json").stat().st_mtime, UTC).isoformat(timespec="seconds")
    model = ServedModel(name, folder, tagger, version, modified, groups)
    model.warm_up()
    return model


def folder_version(folder: Path) -> str:
    """Return one checksum over ``model.json`` of a model and of its parts, which have the checksums of all arrays."""
    checksum = 0
    try:
        for path in [folder / "model.json", *sorted(folder.glob("*/**/model.json"))]:
            checksum = zlib.crc32(path.read_bytes(), checksum)
    except OSError as error:
        raise ModelError(
            f"{error.filename}: cannot be read ({error.strerror}). Give a folder made by train or save."
        ) from error
    return f"{checksum:08x}"


def return_free_memory() -> None:
    """Return freed memory to the system, if the C library can. glibc would keep pieces of it.

    Without it, a service grew by about 10 MB with each replacement of a model of 116 MB.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


class ModelLibrary:
    """The models of one process, by name. A thread reloads those whose folders have changed.

    Parameters
    ----------
    folders : dict of str to str
        Folder of each model by its name. The first is the default model.
    poll_seconds : float
        Time between two checks of the folders.
    key : str, optional
        Key file. Folders that were not signed with it are refused.
    """

    def __init__(self, folders: dict[str, str], poll_seconds: float = 1.0, key: str | None = None) -> None:
        self.folders = {name: Path(folder) for name, folder in folders.items()}
        self.poll_seconds, self.key = poll_seconds, key
        self.default = next(iter(folders))
        self.error: LongtailError | None = None
        self.reloads = 0
        self._replaced = False
        self._models: dict[str, ServedModel] = {}
        self._stamps: dict[str, tuple[int, int, int] | None] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="longtail-models", daemon=True)

    @property
    def ready(self) -> bool:
        """Whether all models have been loaded and warmed up."""
        return len(self._models) == len(self.folders)

    def start(self) -> None:
        """Start the thread that loads the models and then watches their folders."""
        self._thread.start()

    def stop(self) -> None:
        """End the watching thread."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def get(self, name: str | None = None) -> ServedModel:
        """Return the model with a name, or the default model if there is no name."""
        name = self.default if name is None else name
        if name not in self.folders:
            raise Problem(404, f"No model is called {name[:100]!r}. Models: {', '.join(self.folders)}.")
        try:
            return self._models[name]
        except KeyError:
            raise unavailable(f"The model {name!r} is still being loaded. Try again in a second.") from None

    def all(self) -> list[ServedModel]:
        """Return all loaded models, the default model first."""
        return [self._models[name] for name in self.folders if name in self._models]

    def load(self) -> None:
        """Load all models, or raise the error of the first one that cannot be loaded."""
        for name in self.folders:
            self._load(name)

    def refresh(self) -> None:
        """Replace the models whose folders have changed. If a folder cannot be loaded, the old model stays."""
        if self._replaced:  # the old model is no longer in use
            self._replaced = False
            return_free_memory()
        for name, folder in self.folders.items():
            stamp = store.stamp(folder)
            if stamp is None or stamp == self._stamps.get(name):
                continue
            try:
                self._load(name)
                self.reloads += 1
                self._replaced = True
            except Exception as error:  # whatever is wrong with the new folder, the old model must go on
                self._stamps[name] = stamp
                reason = str(error) if isinstance(error, LongtailError | OSError) else type(error).__name__
                log.error("model not replaced", extra={"facts": {"model": name, "reason": reason}})

    def _load(self, name: str) -> None:
        folder, start = self.folders[name], time.perf_counter()
        stamp = store.stamp(folder)
        model = load_model(name, folder, self.key)
        self._models[name], self._stamps[name] = model, stamp
        facts = {"model": name, "version": model.version, "seconds": round(time.perf_counter() - start, 3)}
        log.info("model loaded", extra={"facts": facts})

    def _run(self) -> None:
        try:
            self.load()
        except LongtailError as error:
            self.error = error
            log.error("model not loaded", extra={"facts": {"reason": str(error)}})
            return
        except Exception as error:
            self.error = ModelError(f"A model cannot be loaded: {type(error).__name__}: {error}")
            log.exception("model not loaded")
            return
        while not self._stopped.wait(self.poll_seconds):
            self.refresh()
