"""Train and measure one model in a separate process, to measure its peak memory and to survive if it is killed.

The parent process writes the dataset once, and starts ``python -m longtail.cli.worker FOLDER`` for each model. The
worker reads the task from ``task.json`` in that folder and writes ``result.json``. While it works, it reports stages
and remarks as JSON lines, which the parent process prints as its own.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from longtail import progress
from longtail.child_python import child_command, child_environment
from longtail.errors import LongtailError

if TYPE_CHECKING:
    from longtail.data import Dataset

_MIN_STEP = 0.005  # smallest change of a stage's progress that is reported
_log = logging.getLogger("longtail.cli")


@dataclass(frozen=True)
class ModelTask:
    """A model to train and measure. All values can be written as JSON."""

    data: str
    """Folder that :func:`save_matrices` wrote."""
    model: str
    settings: dict[str, Any] = field(default_factory=dict)
    """Parameters by ``model.parameter``. These and `defaults` are those of :func:`longtail.registry.make`."""
    defaults: dict[str, Any] = field(default_factory=dict)
    extras: list[str] = field(default_factory=list)
    """Additional results: "tradeoff", "bins"."""
    vector_size: int = 0
    """Size of the dense vector of the text in the last features."""
    propensity: tuple[float, ...] = ()
    """A and B of the propensity model, if not the default ones."""


def save_matrices(data: Dataset, folder: Path) -> None:
    """Write the matrices and pairs to ignore of a dataset with a test part: rankers need neither texts nor names."""
    from longtail.data.writing import write

    bare: dict[str, Any] = dict.fromkeys(("ids", "texts", "label_ids", "label_names", "label_texts", "vectorizer"))
    bare["vector_size"] = 0  # the task has it
    assert data.test is not None
    write(replace(data, **bare, test=replace(data.test, **bare)), folder, "npz")


def run_task(task: ModelTask, folder: Path) -> dict[str, Any]:
    """Train and measure one model in a separate process.

    Parameters
    ----------
    task : ModelTask
        The model, and how to train and measure it.
    folder : Path
        A new folder for the task, its result and, in ``model``, the fitted ranker.

    Returns
    -------
    dict
        The model's results as ``compare --json`` prints them, or ``model`` and ``error``.
    """
    folder.mkdir()
    (folder / "task.json").write_text(json.dumps(asdict(task)))
    code = _process(folder)
    try:
        return json.loads((folder / "result.json").read_text())
    except FileNotFoundError:
        why = f"ended with code {code}"
        if code == -signal.SIGKILL:
            why = "was killed, most likely because memory ran out"
        return {"model": task.model, "error": f"the process that trained it {why}"}


def _process(folder: Path) -> int | None:
    """Run the task in a separate process, pass on its reports, and return its exit code."""
    command = child_command("-m", "longtail.cli.worker", str(folder))
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, encoding="utf-8", env=child_environment()
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                report = json.loads(line)
                if "stage" in report:
                    progress.relay(report["stage"], report["share"])
                else:
                    _log.log(report["level"], "%s", report["remark"])
        except BaseException:
            process.kill()
            raise
    return process.returncode


def do_task(folder: Path) -> None:
    """Read the task of a folder, train and measure the model, and write the result."""
    from longtail import registry
    from longtail.cli import measure
    from longtail.data.reading import read
    from longtail.metrics import frequency_bins, inverse_propensity
    from longtail.sparse import label_counts
    from longtail.tagger.matrices import given_vectors, without

    task = ModelTask(**json.loads((folder / "task.json").read_text()))
    try:
        data = read(task.data, vectorizer=None)
        assert data.test is not None
        ranker = registry.make(task.model, task.settings, defaults=task.defaults)
        ranker = given_vectors(ranker, task.vector_size)
        with measure.stopwatch() as watch:
            ranker.fit(data.X, without(data.Y, data.ignore), label_features=data.Z)
        ranker.save(folder / "model")
        weights = inverse_propensity(data.Y, *task.propensity)
        counts = label_counts(data.Y)
        test = measure.EvaluationSet(data.test.X, data.test.Y, weights, data.test.ignore, counts)
        report = measure.accuracy(ranker, test)
        result = measure.result_row(
            task.model,
            report,
            train_seconds=watch.seconds,
            peak_memory_mb=measure.peak_memory_mb(),
            model_mb=measure.folder_mb(folder / "model"),
        )
        if "tradeoff" in task.extras:
            result["tradeoff"] = measure.trade_off(ranker, test, report)
        if "bins" in task.extras:
            scores = ranker.predict(test.X, k=max(measure.KS))
            result["bins"] = frequency_bins(test.Y, scores, data.Y, inv_propensity=weights, ignore=test.ignore)
    except LongtailError as error:
        result = {"model": task.model, "error": str(error)}
    (folder / "result.json").write_text(json.dumps(result))


class _Reports(logging.Handler):
    """Write stages and remarks as JSON lines for the parent process."""

    def __init__(self, lines: TextIO) -> None:
        super().__init__()
        self.lines = lines
        self.last = ("", -1.0)

    def emit(self, record: logging.LogRecord) -> None:
        self.write({"level": record.levelno, "remark": record.getMessage()})

    def stage(self, name: str, share: float) -> None:
        """Report the progress of a stage, unless it has hardly changed: some stages report many thousand times."""
        if name == self.last[0] and 0 < share < min(1.0, self.last[1] + _MIN_STEP):
            return
        self.last = (name, share)
        self.write({"stage": name, "share": share})

    def write(self, report: dict[str, Any]) -> None:
        self.lines.write(json.dumps(report) + "\n")
        self.lines.flush()


def _main(folder: Path) -> None:
    from longtail.cli.console import logged_remarks

    reports = _Reports(os.fdopen(os.dup(1), "w", encoding="utf-8"))
    os.dup2(2, 1)  # anything that a library prints goes to standard error, not between the reports
    with logged_remarks(reports), progress.listen(reports.stage):
        do_task(folder)


if __name__ == "__main__":
    try:
        _main(Path(sys.argv[1]))
    except KeyboardInterrupt:
        sys.exit(130)
