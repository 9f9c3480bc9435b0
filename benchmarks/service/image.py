"""Run the Dockerfile's steps without Docker, and time the first answer: ``python -m benchmarks.service.image``.

A base image is a fresh Debian with Python, made by ``debootstrap`` from the mirror that apt uses; a step runs in it by
``chroot``. Packages come from a folder of wheels that is filled first, so that the steps need no network. The service
then runs as the image's user, who has no home directory and may write to the feedback folder only. Needs root, apt and
the same version of Python as Debian's.
"""

from __future__ import annotations

import argparse
import fnmatch
import http.client
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import render, results
from benchmarks.paths import HERE, WORK

ROOT = HERE.parent
_WHEELS = "wheels"
_PORT = 8000
_TRIES = 5


def instructions(text: str) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile and their arguments; continued lines are joined, comments left out."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [
        (word, rest.strip()) for line in joined.splitlines() if line.strip() for word, _, rest in [line.partition(" ")]
    ]


def in_context(path: str, ignore: str) -> bool:
    """Return whether ``.dockerignore`` lets a file of the project into the build."""
    taken = True
    for pattern in filter(None, map(str.strip, ignore.splitlines())):
        bare = pattern.removeprefix("!").removeprefix("**/")
        parts = [path, *(str(parent) for parent in Path(path).parents)]
        if bare == "**" or any(fnmatch.fnmatch(part, bare) for part in parts) or bare in Path(path).parts:
            taken = pattern.startswith("!")
    return taken


@dataclass
class Stage:
    """One stage of a build: a root folder, and what its instructions have set."""

    root: Path
    variables: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "0"
    entry: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)

    def command(self, words: Sequence[str]) -> list[str]:
        """Return a command line that runs words inside, with the stage's variables and nothing else."""
        variables = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"} | self.variables
        set_ = ["env", "-i", *(f"{name}={value}" for name, value in variables.items())]
        inside = f"cd {shlex.quote(self.folder)} && exec {shlex.join(words)}"
        return [*set_, "chroot", f"--userspec={self.user}:{self.user}", str(self.root), "/bin/sh", "-c", inside]

    def run(self, line: str) -> None:
        """Run one line of the shell inside."""
        found = subprocess.run(self.command(["/bin/sh", "-ec", line]), capture_output=True, text=True)
        if found.returncode:
            raise RuntimeError(f"{line}\n{found.stdout[-2000:]}\n{found.stderr[-2000:]}")


def build(folder: Path, base: Path, wheels: Path) -> Stage:
    """Carry out the Dockerfile, and return its last stage."""
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8")
    stages: dict[str, Stage] = {}
    stage = Stage(folder)
    for word, rest in instructions((ROOT / "Dockerfile").read_text(encoding="utf-8")):
        print(f"{word} {rest}"[:110], flush=True)
        if word == "FROM":
            stage = Stage(folder / f"stage-{len(stages)}")
            subprocess.run(["cp", "-a", str(base), str(stage.root)], check=True)
            stage.variables = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": f"/{_WHEELS}"}
            stages[rest.rpartition(" AS ")[2]] = stage
            if len(stages) == 1:
                shutil.copytree(wheels, stage.root / _WHEELS)
        elif word == "ENV":
            expanded = {name: value for name, _, value in (pair.partition("=") for pair in shlex.split(rest))}
            old = stage.variables.get("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
            stage.variables |= {name: value.replace("$PATH", old) for name, value in expanded.items()}
        elif word == "WORKDIR":
            stage.folder = rest
            (stage.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif word == "COPY":
            _copy(shlex.split(rest), stage, stages, ignore)
        elif word == "RUN":
            stage.run(rest)
        elif word == "USER":
            stage.user = rest
        elif word in ("ENTRYPOINT", "CMD"):
            setattr(stage, "entry" if word == "ENTRYPOINT" else "words", json.loads(rest))
    return stage


def _copy(words: list[str], stage: Stage, stages: dict[str, Stage], ignore: str) -> None:
    source = ROOT
    if words[0].startswith("--from="):
        source = stages[words.pop(0).removeprefix("--from=")].root
    *names, to = words
    target = stage.root / (to if to.startswith("/") else f"{stage.folder}/{to}").lstrip("/")
    for name in names:
        path = source / name.lstrip("/")
        if source == ROOT and not in_context(name, ignore):
            raise RuntimeError(f"COPY {name}: .dockerignore keeps it out of the build")
        if path.is_dir():
            skipped = shutil.ignore_patterns("__pycache__") if source == ROOT else None
            shutil.copytree(path, target, symlinks=True, dirs_exist_ok=True, ignore=skipped)
        else:
            (target if to.endswith("/") else target.parent).mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)


def base_system(folder: Path) -> Path:
    """Return a fresh Debian with Python."""
    if not folder.exists():
        release = platform.freedesktop_os_release()["VERSION_CODENAME"]
        shown = subprocess.run(
            ["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE)"], capture_output=True, text=True, check=True
        ).stdout
        mirror = next(line.split()[0] for line in shown.splitlines() if line.split()[1] == release)
        command = ["debootstrap", "--variant=minbase", "--include=python3,python3-venv", release, str(folder), mirror]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        for name in ("python", "pip"):
            (folder / "usr/local/bin" / name).symlink_to(f"/usr/bin/{name}3")
    return folder


def wheels_of(folder: Path) -> Path:
    """Return a folder of wheels of everything that the steps install."""
    command = [sys.executable, "-m", "pip", "wheel", "-q", "-c", str(ROOT / "constraints.txt"), "-w", str(folder)]
    subprocess.run([*command, f"{ROOT}[serve]", "hatchling", "setuptools"], check=True)
    for own in folder.glob("longtail-*.whl"):
        own.unlink()
    return folder


def first_answers(stage: Stage, text: str) -> list[float]:
    """Return the seconds from the start of the image to its first answer, for several starts."""
    found = []
    for _ in range(_TRIES):
        with tempfile.TemporaryFile("w+") as log:
            begin = time.perf_counter()
            process = subprocess.Popen(stage.command([*stage.entry, *stage.words]), stderr=log)
            try:
                while not _answers(text):
                    if process.poll() is not None:
                        log.seek(0)
                        raise RuntimeError(log.read())
                    time.sleep(0.01)
                found.append(time.perf_counter() - begin)
            finally:
                process.terminate()
                process.wait(60)
    compiled = [path.name for path in (stage.root / "tmp").rglob("*.nbc")]
    if compiled:
        raise RuntimeError(f"kernels were compiled after the build: {', '.join(sorted(compiled)[:5])}")
    return found


def _answers(text: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", _PORT, timeout=60)
    try:
        connection.request("POST", "/suggest", json.dumps({"texts": text}), {"Content-Type": "application/json"})
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def main(argv: Sequence[str] | None = None) -> None:
    """Build the image in a folder of its own, start it, and record the time to the first answer."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.service.image", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--model", type=Path, default=WORK / "service-blend", metavar="DIR", help="a model of texts")
    parser.add_argument(
        "--base", type=Path, default=WORK / "debian", metavar="DIR", help="where the fresh Debian is kept"
    )
    given = parser.parse_args(argv)
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stage = build(folder, base_system(given.base), wheels_of(folder / _WHEELS))
        shutil.copytree(given.model, stage.root / "models/model")
        seconds = first_answers(stage, "web based mail client")
        size = subprocess.run(["du", "-sm", str(stage.root / "opt")], capture_output=True, text=True, check=True).stdout
        row: dict[str, Any] = {"seconds": min(seconds), "all": seconds, "opt_mb": int(size.split()[0])}
    print(row)
    results.add("service", "image", row | {"load_before": load}, "blend")
    render.render()


if __name__ == "__main__":
    main()
