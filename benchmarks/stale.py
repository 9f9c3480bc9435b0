"""Name recorded rows that are older than the code they describe: ``python -m benchmarks.stale [NAME ...]``.

A row depends on the files of its models and on every file of longtail that these import, directly or not; a row about
no model depends on what its benchmark imports. It is stale if ``git log`` has a commit to one of these files after the
commit that it was measured with. The check does not weigh changes: a corrected comment counts as a new algorithm does.
The exit code is 1 if any row is stale.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import results
from benchmarks.paths import HERE, RESULTS
from longtail import registry
from longtail.models import MODELS

ROOT = HERE.parent
_BENCHMARKS = {"index": "benchmarks.index.run"}  # benchmarks whose rows are about no model
_NO_EFFECT = ("longtail/__init__.py", "longtail/errors.py", "longtail/models/__init__.py", "longtail/progress.py")


class StaleRow(NamedTuple):
    """A row, the commit that it was measured with, and what has changed since."""

    benchmark: str
    key: str
    commit: str
    changes: int | None  # commits to files that it depends on; None where its commit is unknown
    files: tuple[str, ...]

    def __str__(self) -> str:
        if self.changes is None:
            return f"{self.benchmark}: {self.key} (commit {self.commit} is not in this repository)"
        shown = ", ".join(self.files[:2]) + (f" and {len(self.files) - 2} more" if len(self.files) > 2 else "")
        return f"{self.benchmark}: {self.key} ({self.changes} commits since {self.commit}, to {shown})"


def stale_rows(benchmark: str, known: dict[str, Any], root: Path = ROOT) -> Iterator[StaleRow]:
    """Yield the stale rows in the results of one benchmark.

    Parameters
    ----------
    benchmark : str
        Its name.
    known : dict
        Its results.
    root : Path
        The repository.
    """
    for key, row in results.rows(known):
        modules = _modules(benchmark, key, row)
        if not modules:
            continue  # another library's figures
        commit = row.get("commit", "unknown").removesuffix("+")
        changes = _changes(commit, dependencies(modules, root), root)
        if changes is None or changes:
            files = sorted({file for touched in changes or () for file in touched})
            yield StaleRow(benchmark, key, commit, None if changes is None else len(changes), tuple(files))


def _modules(benchmark: str, key: str, row: dict[str, Any]) -> tuple[str, ...]:
    """Return the modules that a row depends on directly."""
    if "model" in row:
        return tuple(MODELS[name].partition(":")[0] for name in registry.used(row["model"]))
    if benchmark == "micro":
        return (f"benchmarks.micro.{key}",)
    return (_BENCHMARKS[benchmark],) if benchmark in _BENCHMARKS else ()


@cache
def dependencies(modules: tuple[str, ...], root: Path = ROOT) -> tuple[str, ...]:
    """Return the files of longtail that some modules are made of and import, relative to the repository.

    Files that list names, word errors or report progress have no effect on figures and are left out.
    """
    waiting, seen = list(modules), set[str]()
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            waiting += _imports(module, root)
    paths = {path for module in seen if (path := _path(module, root)) is not None}
    files = {path.relative_to(root).as_posix() for path in paths if path.is_relative_to(root / "longtail")}
    return tuple(sorted(files - set(_NO_EFFECT)))


@cache
def _imports(module: str, root: Path) -> tuple[str, ...]:
    """Return the modules of this repository that a module imports, also inside functions; not for types alone."""
    path = _path(module, root)
    if path is None:
        return ()
    found = []
    for node in _executed(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return tuple(name for name in found if name.partition(".")[0] in ("longtail", "benchmarks"))


def _executed(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a syntax tree that are not under ``if TYPE_CHECKING``."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            yield node
            yield from _executed(node)


def _path(module: str, root: Path) -> Path | None:
    """Return the file of a module; None if it has none, as names imported from a module have none."""
    base = root.joinpath(*module.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


@cache
def _changes(commit: str, files: tuple[str, ...], root: Path) -> tuple[tuple[str, ...], ...] | None:
    """Return the files that each commit since this one changed, of those given; None if the commit is unknown."""
    command = ["git", "log", "--no-merges", "--format=%x00", "--name-only", f"{commit}..HEAD", "--", *files]
    ended = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if ended.returncode:
        return None
    return tuple(tuple(part.split()) for part in ended.stdout.split("\0")[1:])


def main(argv: Sequence[str] | None = None, folder: Path = RESULTS, root: Path = ROOT) -> int:
    """Print the stale rows and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stale", description=(__doc__ or "").splitlines()[0])
    known = sorted(path.stem for path in folder.glob("*.json"))
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"benchmarks (default: all): {', '.join(known)}")
    names: Iterable[str] = parser.parse_args(argv).names or known
    for kept in (dependencies, _imports, _changes):
        kept.cache_clear()  # files and history may have changed since an earlier call
    n_rows = n_stale = 0
    for name in names:
        found = results.load(name, folder)
        if found is None:
            parser.error(f"there are no results of {name!r}; choose from {', '.join(known)}")
        for row in stale_rows(name, found, root):
            print(row)
            n_stale += 1
        n_rows += sum(1 for _ in results.rows(found))
    print(f"{n_stale} of {n_rows} rows are older than the code they describe.")
    return 1 if n_stale else 0


if __name__ == "__main__":
    sys.exit(main())
