"""Kill ``longtail train`` with signal 9 at random moments and check that the same command ends with the same model.

``python -m benchmarks.kills --models bonsai decaf blend --kills 20`` prints one line per model, and keeps it. For each
kill, a training of synthetic data is started, killed, and run again to its end. The model must equal that of a training
that nobody disturbed, byte for byte, and nothing but the model may be left in the folder. A moment is an amount of CPU
time, so that it does not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import results

MODELS = {
    "bonsai": "bonsai(n_trees=24)",
    "decaf": "decaf(n_networks=1, dim=32, epochs=12)",
    "blend": "blend([bonsai, knn, textmatch, decaf(n_networks=1, dim=32, epochs=6)])",
}


def write_points(folder: Path, n_points: int = 2000, n_labels: int = 200) -> Path:
    """Write a small dataset of made-up texts whose labels have text, and return its path."""
    rng = random.Random(0)
    words = [f"word{i}" for i in range(600)]
    topics = [rng.sample(words, 4) for _ in range(n_labels)]
    folder.mkdir()
    with (folder / "trn.json").open("w") as lines:
        for i in range(n_points):
            own = sorted({min(int(rng.paretovariate(0.7)) - 1, n_labels - 1) for _ in range(2)} | {i % n_labels})
            text = [word for label in own for word in rng.sample(topics[label], 3)] + rng.sample(words, 4)
            lines.write(json.dumps({"uid": f"p{i}", "title": " ".join(text), "target_ind": own}) + "\n")
    with (folder / "lbl.json").open("w") as lines:
        for label, topic in enumerate(topics):
            lines.write(json.dumps({"uid": f"L{label}", "title": " ".join(topic[:2])}) + "\n")
    return folder


def command(data: Path, model: str, out: Path) -> list[str]:
    """Return the command that trains a model."""
    return [sys.executable, "-m", "longtail", "train", str(data), "-m", model, "--out", str(out)]


def content(folder: Path) -> dict[str, bytes]:
    """Return the files of a model that depend on the training alone, by name."""
    inner = folder / "ranker"
    return {str(path.relative_to(inner)): path.read_bytes() for path in sorted(inner.rglob("*")) if path.is_file()}


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process so far; infinite when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("inf")
    ended = fields[0] == "Z"
    return float("inf") if ended else (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def kill_and_resume(line: list[str], seconds: float) -> str:
    """Start a training, kill it after some CPU seconds, run it to the end, and return what the second run reported."""
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while cpu_seconds(process.pid) < seconds:
        time.sleep(0.001)
    time.sleep(seconds % 0.02)  # CPU time is counted in hundredths of a second
    process.kill()
    process.wait()
    return subprocess.run(line, check=True, capture_output=True, text=True).stderr


def trials(data: Path, model: str, folder: Path, kills: int, seed: int) -> Iterator[tuple[bool, bool, bool]]:
    """Yield for each kill whether the model is the same, whether nothing was left, and whether steps were reused."""
    reference = folder / "reference"
    for _ in range(2):  # the first may compile kernels
        before = os.times()
        subprocess.run(command(data, model, reference), check=True, capture_output=True)
        usual = sum(os.times()[2:4]) - sum(before[2:4])  # of processes that have ended
    rng = random.Random(seed)
    for number in range(kills):
        place = folder / f"kill{number}"
        place.mkdir()
        report = kill_and_resume(command(data, model, place / "m"), rng.uniform(0.2 * usual, usual))
        same = content(place / "m") == content(reference)
        yield same, [path.name for path in place.iterdir()] == ["m"], "Resuming from" in report


def main() -> None:
    """Print and keep one line per model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        data = write_points(Path(name) / "data")
        for model in given.models:
            folder = Path(name) / model
            folder.mkdir()
            found = list(trials(data, MODELS[model], folder, given.kills, given.seed))
            same, clean, resumed = (sum(column) for column in zip(*found, strict=True))
            print(
                f"{model}: {len(found)} kills, {same} identical models, {clean} with nothing left, "
                f"{resumed} resumed from finished steps",
                flush=True,
            )
            row = {"kills": len(found), "identical": same, "nothing_left": clean, "resumed": resumed}
            results.add("scale", model, row, MODELS[model], group="kills")


if __name__ == "__main__":
    main()
