"""One model trained and measured in a process of its own, so that its peak of memory is its own and its failure too.

The process that compares writes the data once as plain arrays and starts ``python -m longtail.cli.worker FOLDER`` for
each model; what is to be done stands in ``task.json`` there, and the worker leaves ``result.json``.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longtail.errors import LongtailError

if TYPE_CHECKING:
    import numpy as np
    from scipy.sparse import csr_array

    from longtail.data import Dataset


@dataclass
class Prepared:
    """A dataset without names: what rankers see."""

    X: csr_array  # (N, D)
    Y: csr_array  # (N, L)
    Z: csr_array | None  # (L, D)
    X_test: csr_array
    Y_test: csr_array
    ignore: np.ndarray | None  # (P, 2)
    ignore_test: np.ndarray | None

    @classmethod
    def of(cls, data: Dataset) -> Prepared:
        """The matrices of a dataset with a test part."""
        test = data.test
        assert data.X is not None
        assert test is not None
        assert test.X is not None
        return cls(data.X, data.Y, data.Z, test.X, test.Y, data.ignore, test.ignore)

    def save(self, folder: Path) -> None:
        """Write the arrays."""
        from longtail import store

        shapes, arrays = {}, {}
        for name, value in vars(self).items():
            if name.startswith("ignore") and value is not None:
                arrays[name] = value
            elif value is not None:
                shapes[name] = list(value.shape)
                arrays |= {f"{name}.{part}": getattr(value, part) for part in ("data", "indices", "indptr")}
        folder.mkdir()
        store.write(folder, "prepared", {"shapes": shapes}, arrays)

    @classmethod
    def load(cls, folder: Path) -> Prepared:
        """Read them back, into memory of its own as training expects."""
        from scipy.sparse import csr_array

        from longtail import store

        stored = store.read(folder, mmap=False, verify=False)
        held: dict[str, Any] = {name: stored.arrays.get(name) for name in ("Z", "ignore", "ignore_test")}
        for name, shape in stored.meta["shapes"].items():
            parts = [stored.arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr")]
            held[name] = csr_array(tuple(parts), shape=tuple(shape))
        return cls(**held)


def run(
    data: Path,
    model: str,
    settings: dict[str, Any],
    defaults: dict[str, Any],
    folder: Path,
    extras: Sequence[str] = (),
) -> dict[str, Any]:
    """Train and measure one model in its own process.

    Parameters
    ----------
    data : Path
        Where ``Prepared.save`` wrote.
    model, settings, defaults
        As for :func:`longtail.registry.make`.
    folder : Path
        A new folder for the task, its result and, under ``model``, the fitted ranker.
    extras : sequence of str
        Further measures: "tradeoff", "bins".

    Returns
    -------
    dict
        The model's object as ``compare --json`` prints it, or ``model`` and ``error``.
    """
    folder.mkdir()
    task = {"data": str(data), "model": model, "settings": settings, "defaults": defaults, "extras": list(extras)}
    (folder / "task.json").write_text(json.dumps(task))
    code = _process(folder)
    try:
        return json.loads((folder / "result.json").read_text())
    except FileNotFoundError:
        why = f"ended with code {code}"
        if code == -signal.SIGKILL:
            why = "was killed, most likely because memory ran out"
        return {"model": model, "error": f"the process that trained it {why}"}


def _process(folder: Path) -> int:
    """Work in a process of its own; its exit code."""
    # What a library may print there must not get among our own output: 2 is standard error.
    return subprocess.run([sys.executable, "-m", "longtail.cli.worker", str(folder)], stdout=2, check=False).returncode


def work(folder: Path) -> None:
    """What the process does."""
    from longtail import registry
    from longtail.cli import measure
    from longtail.metrics import frequency_bins, inverse_propensity
    from longtail.tagger import without

    task = json.loads((folder / "task.json").read_text())
    model = task["model"]
    try:
        data = Prepared.load(Path(task["data"]))
        ranker = registry.make(model, task["settings"], defaults=task["defaults"])
        with measure.stopwatch() as watch:
            ranker.fit(data.X, without(data.Y, data.ignore), label_features=data.Z)
        ranker.save(folder / "model")
        weights = inverse_propensity(data.Y)
        report = measure.accuracy(ranker, data.X_test, data.Y_test, weights, data.ignore_test)
        found = measure.result(
            model,
            report,
            train_seconds=watch.seconds,
            peak_memory_mb=measure.peak_memory_mb(),
            model_mb=measure.folder_mb(folder / "model"),
        )
        if "tradeoff" in task["extras"]:
            found["tradeoff"] = measure.tradeoff(ranker, data.X_test, data.Y_test, weights, data.ignore_test, report)
        if "bins" in task["extras"]:
            scores = ranker.predict(data.X_test, k=max(measure.KS))
            found["bins"] = frequency_bins(data.Y_test, scores, data.Y, ignore=data.ignore_test)
    except LongtailError as error:
        found = {"model": model, "error": str(error)}
    (folder / "result.json").write_text(json.dumps(found))


if __name__ == "__main__":
    try:
        work(Path(sys.argv[1]))
    except KeyboardInterrupt:
        sys.exit(130)
