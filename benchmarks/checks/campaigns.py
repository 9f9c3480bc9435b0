"""Campaigns against everything that reads input: ``python -m benchmarks.checks.campaigns readers kills taug``.

The same code as in the tests and in ``make fuzz``, for longer, and recorded: for each kind of input how many cases were
tried and how they ended. A crash, a hang or an exception that is not ours is a finding.
"""

from __future__ import annotations

import argparse
import gc
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from typer.main import get_command
from typer.testing import CliRunner

import longtail
from benchmarks import results
from longtail import registry
from longtail.cli.app import app
from longtail.data import TextVectorizer
from longtail.errors import DataError, SettingsError
from tests.fuzz.models import KINDS, build, data
from tests.fuzz.run import ALL, FILES, MATRICES, fuzz
from tests.store.test_saves import kill_savers
from tests.test_settings import VALUES, VECTORIZER_ALLOWED, kinds_of, made, parameters, wrong_values

FINDINGS = ("raw", "crash", "hang", "wrong")
_SHORT = ("knn", "bonsai", "fastxml", "blend")


def damage(kinds: list[str], count: int) -> None:
    """Try mutations of each kind and record how they ended; what was found is printed."""
    with tempfile.TemporaryDirectory() as name:
        for kind in kinds:
            start = time.monotonic()
            outcomes, findings = fuzz(kind, list(range(count)), Path(name))
            print(f"{kind}: {dict(outcomes)}", *findings, sep="\n", flush=True)
            record(kind, dict(outcomes), time.monotonic() - start)


def record(what: str, outcomes: dict[str, Any], seconds: float) -> None:
    """Put one campaign into the results."""
    results.add("checks", what, {"outcomes": outcomes, "seconds": seconds}, group="parts")


def try_settings() -> None:
    """Give every parameter of every model and of the vectoriser twelve values, in Python and on the command line."""
    for how, use in (("in Python", _set_in_python), ("on the command line", _set_on_command_line)):
        start, outcomes = time.monotonic(), Counter[str]()
        for owner, name, must_be_refused in _settings():
            for word in VALUES:
                ended = use(owner, name, word)
                if ended == "answered" and word in must_be_refused:
                    ended = "wrong"
                if ended in FINDINGS:
                    print(f"settings {how}: {owner}.{name}={word} {ended}", flush=True)
                outcomes[ended] += 1
        print(f"settings {how}: {dict(outcomes)}", flush=True)
        record(f"settings {how}", dict(outcomes), time.monotonic() - start)


def _settings() -> Iterator[tuple[str, str, Collection[str]]]:
    """Yield each parameter as the command line names it, and the values that must be refused."""
    for model in registry.names():
        cls: Any = registry.model_class(model)
        advanced = {name: kinds_of(rule) for name, rule in getattr(cls, "_advanced", {}).items()}
        for name, annotation in (parameters(cls) | advanced).items():
            yield model, name, wrong_values(name, annotation)
    for name, may_be in VECTORIZER_ALLOWED.items():
        yield "text", name, VALUES.keys() - may_be


def _set_in_python(owner: str, name: str, word: str) -> str:
    """Return how a fit to no data ended: settings are compared before data."""
    given = {name: VALUES[word]}
    try:
        if owner == "text":
            TextVectorizer(**given).fit(None)  # type: ignore[arg-type]
        else:
            cls: Any = registry.model_class(owner)
            made(cls, **({"advanced": given} if name in getattr(cls, "_advanced", {}) else given)).fit(None, None)
    except SettingsError as error:
        return "refused" if any(known in str(error) for known in (name, "base", "ranker")) else "raw"
    except DataError:
        return "answered"
    except Exception:
        return "raw"
    return "wrong"


def _set_on_command_line(owner: str, name: str, word: str) -> str:
    """Return how a training on a file that is not there ended."""
    model = "popular" if owner == "text" else owner
    wraps = "base" in registry.model_class(model)._defaults()
    line = ["train", "nowhere.csv", "-m", f"{model}(popular)" if wraps else model, "-o", "nowhere"]
    ended = CliRunner().invoke(app, [*line, "--set", f"{owner}.{name}={word}"])
    if ended.exit_code != 2 or ended.stderr.count("\n") > 2:
        return "raw"
    if "nowhere.csv" in ended.stderr:
        return "answered"
    return "refused" if any(known in ended.stderr for known in (name, "base", "ranker")) else "raw"


def try_options() -> None:
    """Give every argument and option of every verb twelve values, beside files and models that are not there.

    Each must end with exit code 2, in one message, with nothing left in the folder. ``demo`` and ``warm`` need no
    files, and would do their work.
    """
    start, outcomes = time.monotonic(), Counter[str]()
    for verb, command in _verbs(get_command(app)):
        if verb not in (["demo"], ["warm"]):
            for line in _lines(verb, command):
                ended = _end_of_line(line)
                if ended in FINDINGS:
                    print(f"options: {line} {ended}", flush=True)
                outcomes[ended] += 1
    print(f"options of verbs: {dict(outcomes)}", flush=True)
    record("options of verbs", dict(outcomes), time.monotonic() - start)


def _verbs(command: Any, path: Sequence[str] = ()) -> Iterator[tuple[list[str], Any]]:
    """Yield each verb as words of the command line, and its command."""
    if not hasattr(command, "commands"):
        yield list(path), command
        return
    for name, inner in command.commands.items():
        yield from _verbs(inner, (*path, name))


def _lines(verb: list[str], command: Any) -> Iterator[list[str]]:
    """Yield one command line per value of each argument and option of a verb; arguments of the others are "nothing"."""
    places = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    needed = [word for option in command.params if option.required and option not in places for word in _given(option)]
    for parameter in command.params:
        for word in VALUES:
            if parameter in places:
                yield [*verb, *(word if place is parameter else "nothing" for place in places), *needed]
            elif not parameter.is_flag:
                yield [*verb, *("nothing" for _ in places), *needed, parameter.opts[0], word]


def _given(option: Any) -> list[str]:
    return [option.opts[0], "popular" if option.name == "model" else "nothing"]


def _end_of_line(line: list[str]) -> str:
    """Return how a command ended in an empty folder."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            ended = CliRunner().invoke(app, line, input="")
            left = os.listdir(folder)
        finally:
            os.chdir(before)
    if not isinstance(ended.exception, SystemExit) or ended.exit_code != 2 or "Traceback" in ended.output:
        return "raw"
    return "wrong" if left else "refused"


def kill(count: int) -> None:
    """Kill saves and replacements, with and without a swap in one step; a model that is not whole ends the campaign."""
    for how in ("swapped", "moved"):
        with tempfile.TemporaryDirectory() as name:
            start = time.monotonic()
            kill_savers(Path(name) / "m", count, how)
            record(f"kills of saves, folders {how}", {"whole": count}, time.monotonic() - start)
            print(f"{count} kills, folders {how}: the old model or the new one, nothing left", flush=True)


def predict_in_threads(seconds: int) -> None:
    """Predict from eight threads and compare every answer."""
    for kind in _SHORT:
        model, X = _model(kind), data().X
        expected = _answer(model, X)
        end = time.monotonic() + seconds / len(_SHORT)
        with ThreadPoolExecutor(8) as threads:
            counted = list(threads.map(partial(_answers_until, end, model, X, expected), range(8)))
        outcomes = {"same": sum(same for same, _ in counted), "wrong": sum(wrong for _, wrong in counted)}
        print(f"8 threads, {kind}: {outcomes}", flush=True)
        record(f"8 threads, {kind}", outcomes, seconds / len(_SHORT))


def _answers_until(end: float, model: Any, X: Any, expected: bytes, thread: int) -> tuple[int, int]:
    """Return how many answers were as expected, and how many were not."""
    same = wrong = 0
    while time.monotonic() < end:
        right = _answer(model, X) == expected
        same, wrong = same + right, wrong + (not right)
    return same, wrong


def watch_memory(n_points: int, n_loads: int) -> None:
    """Predict one point and load a model over and over, and compare the memory of the process."""
    for kind in _SHORT:
        with tempfile.TemporaryDirectory() as name:
            build(kind, Path(name) / "m")
            X = data().X
            points = [(X.indices[a:b], X.data[a:b]) for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)]
            model: Any = longtail.load(Path(name) / "m")
            loops: dict[str, tuple[int, Callable[[int], Any]]] = {
                f"{n_points} predictions, {kind}": (n_points, lambda i, m=model, p=points: m.rank(*p[i % len(p)])),
                f"{n_loads} loads, {kind}": (n_loads, lambda i, p=Path(name) / "m": longtail.load(p)),
            }
            for what, (count, once) in loops.items():
                for i in range(count // 10):
                    once(i)
                before, start = _resident(), time.monotonic()
                for i in range(count):
                    once(i)
                grown = (_resident() - before) / 2**20
                print(f"{what}: {grown:+.2f} MB", flush=True)
                record(what, {"MB more": grown}, time.monotonic() - start)


def _resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _model(kind: str) -> Any:
    with tempfile.TemporaryDirectory() as name:
        build(kind, Path(name) / "m")
        return longtail.load(Path(name) / "m", mmap=False)


def _answer(model: Any, X: Any) -> bytes:
    scores = model.predict(X, 4)
    return scores.indices.tobytes() + scores.data.tobytes()


CAMPAIGNS: dict[str, Callable[[], None]] = {
    "memory": lambda: watch_memory(20_000, 200),
    "threads": lambda: predict_in_threads(60),
    "settings": try_settings,
    "options": try_options,
    "kills": lambda: kill(200),
    "matrices": lambda: damage(list(MATRICES), 500),
    "models": lambda: damage([*KINDS, "tagger"], 2000),
    "readers": lambda: damage(list(FILES), 5000),
}


def main() -> None:
    """Run the campaigns that are named, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "campaigns", nargs="*", default=list(CAMPAIGNS), help=f"{' '.join(CAMPAIGNS)}, or one kind of input: {ALL}"
    )
    for name in parser.parse_args().campaigns:
        if name in CAMPAIGNS:
            CAMPAIGNS[name]()
        else:
            damage([name], 5000 if name in FILES else 500 if name in MATRICES else 2000)


if __name__ == "__main__":
    main()
