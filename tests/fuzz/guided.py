"""Fuzzing guided by coverage, with atheris: ``python -m tests.fuzz.guided --seconds 60 [TARGET ...]``.

Where `tests.fuzz.run` damages files at random, atheris changes bytes so that lines are reached that were not reached
before. Its targets are all readers of the library, ``model.json``, and what passes arrays and texts on to kernels:
``rank``, ``predict`` and ``suggest``. Each runs in a process of its own; anything but an answer or an error of ours is
a finding, printed with its traceback. Needs the extra ``fuzz``; without it, nothing is done and the reason is printed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

_KINDS = ("<i4", "<i8", "<u2", "<u8", "<f4", "<f8", "|b1", "|i1")
_MODELS = ("knn", "bonsai", "fastxml")
_KERNELS = ("rank", "predict", "suggest", "model.json")
_HANG = 60  # seconds of one input


def reader(name: str, folder: Path) -> tuple[Callable[[bytes], Any], list[bytes]]:
    """Return what reads one format, the first byte being the number of the file that is replaced, and examples."""
    from tests.fuzz.readers import build_files, use_files

    build_files(name, folder)
    sound = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    paths = list(sound)

    def use(content: bytes) -> None:
        path = paths[content[0] % len(paths)] if content else paths[0]
        path.write_bytes(content[1:])
        try:
            use_files(name, folder)
        finally:
            path.write_bytes(sound[path])

    return use, [bytes([i]) + sound[path] for i, path in enumerate(paths)]


def kernels(name: str, folder: Path) -> tuple[Callable[[bytes], Any], list[bytes]]:
    """Return what passes bytes on to the kernels as arrays, texts or settings, and examples."""
    import longtail
    from tests.fuzz.models import build, use

    if name == "suggest":
        build("tagger", folder)
        tagger: Any = longtail.load(folder)
        return lambda content: tagger.suggest(content.decode("utf-8", "surrogateescape"), k=3), [b"word0 word1"]
    if name == "model.json":
        build("bonsai", folder)
        document = folder / "model.json"
        examples = [document.read_bytes()]

        def load(content: bytes) -> None:
            document.write_bytes(content)
            use(folder)

        return load, examples
    models: list[Any] = []
    for kind in _MODELS:
        build(kind, folder / kind)
        models.append(longtail.load(folder / kind))

    def apply(content: bytes) -> None:
        head = content[:8].ljust(8, b"\0")
        parts = _arrays(content[8:], head)
        model = models[head[0] % len(models)]
        if name == "rank":
            model.rank(parts[0], parts[1], 1 + head[1] % 20)
        else:
            model.predict(_matrix(*parts), 1 + head[1] % 20)

    point = np.array([1, 5], "<i4").tobytes() + np.array([0.5, 2], "<f4").tobytes()
    row = np.array([1, 2], "<i4").tobytes() + np.array([0.5, 2], "<f4").tobytes() + np.array([0, 2], "<i4").tobytes()
    return apply, [bytes([m, 3, 0, 4, 0, 8, 8, 8]) + (point if name == "rank" else row) for m in range(len(models))]


def _arrays(content: bytes, head: bytes) -> list[np.ndarray]:
    """Cut bytes into three arrays: two bytes give the types, three the lengths in bytes."""
    kinds = [_KINDS[head[2] % len(_KINDS)], _KINDS[head[3] % len(_KINDS)], _KINDS[head[4] % len(_KINDS)]]
    found = []
    for kind, length in zip(kinds, head[5:], strict=True):
        width = np.dtype(kind).itemsize
        part, content = content[:length], content[length:]
        found.append(np.frombuffer(part[: len(part) // width * width], kind).copy())
    return found


def _matrix(indices: np.ndarray, values: np.ndarray, indptr: np.ndarray) -> Any:
    """Return a CSR matrix of any arrays, as SciPy never makes it."""
    from scipy.sparse import csr_array

    X = csr_array((max(len(indptr) - 1, 0), 40), dtype=np.float32)
    X.indices, X.data, X.indptr = indices, values, indptr
    return X


def run(target: str, seconds: int) -> None:
    """Fuzz one target in this process, which ends with it."""
    import atheris

    with atheris.instrument_imports(include=["longtail.data", "longtail.models.checks", "longtail.store"]):
        import longtail.data.reading
        import longtail.models.checks
        import longtail.registry
        import longtail.store  # noqa: F401
    from longtail.errors import LongtailError

    folder = Path(tempfile.mkdtemp())
    use, examples = (kernels if target in _KERNELS else reader)(target, folder / "things")
    corpus = folder / "corpus"
    corpus.mkdir()
    for i, example in enumerate(examples):
        (corpus / str(i)).write_bytes(example)
        use(example)  # sound, and compiled before the clock runs

    def once(content: bytes) -> None:
        with contextlib.suppress(LongtailError):
            use(content)

    os.chdir(folder)  # where atheris leaves the input of a finding
    limits = [f"-max_total_time={seconds}", f"-timeout={_HANG}", "-rss_limit_mb=4096", "-max_len=4096", "-verbosity=0"]
    atheris.Setup([sys.argv[0], *limits, "-print_final_stats=1", str(corpus)], once)
    atheris.Fuzz()


def main() -> int:
    """Fuzz all targets, or those that are named, one after the other; 1 if there was a finding."""
    from tests.fuzz.readers import FORMATS

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=int, default=30, help="for each target")
    parser.add_argument("--here", action="store_true", help="run the one target that is named in this process")
    parser.add_argument("targets", nargs="*", default=[*_KERNELS, *FORMATS], help=" ".join([*_KERNELS, *FORMATS]))
    given = parser.parse_args()
    try:
        import atheris  # noqa: F401
    except ImportError as error:
        print(f'Nothing is fuzzed by coverage: {error}. Install it with: pip install "longtail[fuzz]"')
        return 0
    if given.here:
        run(given.targets[0], given.seconds)
    failed = 0
    for target in given.targets:
        line = [sys.executable, "-m", "tests.fuzz.guided", "--here", "--seconds", str(given.seconds), target]
        ended = subprocess.run(line, capture_output=True, text=True, errors="replace")
        tried = [line.split()[-1] for line in ended.stderr.splitlines() if "number_of_executed_units" in line]
        print(f"{target:14s} {tried[0] if tried else '?'} inputs, {'a finding' if ended.returncode else 'no finding'}")
        if ended.returncode:
            failed = 1
            print("\n".join((ended.stdout + ended.stderr).splitlines()[-40:]), flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
