"""Write predicted labels as a stream: to a file, which can be resumed after an interruption, or to standard output."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from longtail.cli import console
from longtail.errors import DataError, SettingsError, number_of
from longtail.store import atomic_file, check_output

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from longtail.data.streaming import PointBlock
    from longtail.tagger import Tagger

_HEADS = {".tsv": b"point\tlabel\tscore\n", ".csv": b"point,label,score\n"}  # first line of a result
_REMARK_SECONDS = 30.0  # time between two remarks on progress, if there is no terminal
Scored = tuple["PointBlock", "csr_array"]


class ResultRows:
    """Format scores as objects or lines of a result."""

    def __init__(self, tagger: Tagger) -> None:
        self.names, self.ids = tagger.label_names_, tagger.label_ids_
        self._known: dict[int, tuple[str, str | None]] = {}

    def objects(self, block: PointBlock, scores: csr_array) -> Iterator[dict[str, Any]]:
        """Yield one JSON object per point."""
        bounds, labels, values = scores.indptr.tolist(), scores.indices.tolist(), scores.data.tolist()
        for row in range(len(block)):
            suggested = []
            for at in range(bounds[row], bounds[row + 1]):
                name, identifier = self._label(labels[at])
                known = {"label": name} if identifier is None else {"label": name, "id": identifier}
                suggested.append(known | {"score": values[at]})
            yield _described(block, row) | {"labels": suggested}

    def json_lines(self, block: PointBlock, scores: csr_array) -> bytes:
        """Return one line of JSON per point."""
        return b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in self.objects(block, scores))

    def tab_separated(self, block: PointBlock, scores: csr_array) -> bytes:
        """Return one line per suggested label, separated by tabs: point, label, score."""
        cells = self._cells(block, scores)  # a tab or a line break would end a label
        return "".join(f"{point}\t{' '.join(label.split())}\t{score}\n" for point, label, score in cells).encode()

    def comma_separated(self, block: PointBlock, scores: csr_array) -> bytes:
        """Return one line of CSV per suggested label: point, label, score."""
        lines = io.StringIO(newline="")
        csv.writer(lines, lineterminator="\n").writerows(self._cells(block, scores))
        return lines.getvalue().encode()

    def _cells(self, block: PointBlock, scores: csr_array) -> Iterator[tuple[Any, str, str]]:
        """Yield point (identifier or number), label (identifier or name) and score of each suggested label."""
        for number, row in enumerate(self.objects(block, scores), block.start):
            for suggestion in row["labels"]:
                label = suggestion.get("id", suggestion["label"])
                yield row.get("id", number), label, f"{suggestion['score']:.6g}"

    def _label(self, number: int) -> tuple[str, str | None]:
        label = self._known.get(number)
        if label is None:  # cached, because decoding a name from a memory-mapped file is slower than predicting it
            label = self.names[number], None if self.ids is None else self.ids[number]
            if len(self._known) < 100_000:
                self._known[number] = label
        return label


def _described(block: PointBlock, row: int) -> dict[str, Any]:
    """Return the identifier and the text of a point, or its number if it has neither."""
    described: dict[str, Any] = {} if block.ids is None else {"id": block.ids[row]}
    if block.texts is not None:
        described["text"] = block.texts[row]
    return described or {"id": str(block.start + row)}


# Files --------------------------------------------------------------------------------------------------------------


def unfinished_files(path: Path) -> tuple[Path, Path]:
    """Return the paths of an unfinished result: the rows so far, and the state that says how many are complete.

    If `path` is a link, they are next to the file that it points to.
    """
    path = check_output(path)
    return path.with_name(path.name + ".partial"), path.with_name(path.name + ".partial.json")


class ResultFile:
    """A .jsonl, .tsv or .csv file that appears under its name when it is complete.

    Until then its rows are in ``NAME.partial``. ``NAME.partial.json`` has the number of complete rows, and a checksum
    of their points.

    Parameters
    ----------
    path : Path
        File to write.
    made_from : dict
        Model and settings. The rows of an interrupted run must have been made with the same ones.
    resume : bool
        Continue where an interrupted run ended. Without it, it is an error if there are rows of such a run.
    """

    def __init__(self, path: Path, made_from: dict[str, Any], resume: bool) -> None:
        self.path, self.made_from = check_output(path), made_from
        self.head = _HEADS.get(path.suffix, b"")
        self._refuse_other_table()
        self.partial, self.state = unfinished_files(path)
        self.done = self.size = 0
        self._points = hashlib.blake2b(digest_size=16)
        state = self._interrupted_state()
        if resume and state is None:
            console.print_remark(f"There is no {self.partial.name} to resume; starting from the first point")
        elif resume and state is not None:
            self._resume(state)
        elif state is not None and state["points"]:
            raise DataError(
                f"holds {number_of(state['points'], 'point')} of an interrupted run",
                path=self.partial,
                remedy="Continue with --resume, or remove it to start again",
            )

    def _refuse_other_table(self) -> None:
        """Raise an error if the file exists and is another table than a result: it may be the user's own data."""
        if not self.head or not self.path.is_file():
            return
        with self.path.open("rb") as stream:
            first = stream.readline(len(self.head) + 1)
        if first not in (b"", self.head):
            raise DataError(
                "exists and is not a result of longtail predict",
                path=self.path,
                remedy="Choose another --out, or move it away first",
            )

    def _interrupted_state(self) -> dict[str, Any] | None:
        """Return the state of an interrupted run, or None. Raise an error for files that are not from such a run."""
        for path in (self.partial, self.state):
            if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
                raise self._foreign(path)
        try:
            state = orjson.loads(self.state.read_bytes())
        except FileNotFoundError:
            if self.partial.exists():
                raise self._foreign(self.partial) from None
            return None
        except ValueError:
            raise self._foreign(self.state) from None
        if not isinstance(state, dict) or not state.keys() >= {"model", "input", "content"}:
            raise self._foreign(self.state)
        if not all(type(state.get(key)) is int and state[key] >= 0 for key in ("points", "bytes")):
            raise self._foreign(self.state)
        return state if self.partial.exists() else None

    @staticmethod
    def _foreign(path: Path) -> DataError:
        return DataError(
            "is damaged, or not of longtail predict, so it is not overwritten",
            path=path,
            remedy="Move it away, or choose another --out",
        )

    def _resume(self, state: dict[str, Any]) -> None:
        self.done, self.size, self._content = state.pop("points"), state.pop("bytes"), state.pop("content")
        again = f"remove {self.partial} to start again"
        if state != self.made_from:
            differs = next(key for key in {**state, **self.made_from} if state.get(key) != self.made_from.get(key))
            raise SettingsError(
                f"{self.partial} was begun with {differs} {state.get(differs)!r}, not {self.made_from.get(differs)!r}. "
                f"Give the same, or {again}."
            )
        if self.partial.stat().st_size < self.size:
            raise DataError("is shorter than its state says", path=self.partial, remedy=again.capitalize())

    def remaining(self, blocks: Iterable[PointBlock]) -> Iterator[PointBlock]:
        """Yield the points that are not done yet, after checking that the points before them have not changed."""
        done, passed = self.done, 0
        for block in blocks:
            if passed >= done:
                yield block
                continue
            passed += len(block)
            self._add_to_checksum(block)
            if passed >= done and (passed > done or self._points.hexdigest() != self._content):
                passed = -1
                break
        if passed < done:
            raise DataError(
                f"holds other points than those that the first {number_of(done, 'row')} of {self.partial} "
                f"{'is' if done == 1 else 'are'} of",
                path=self.made_from["input"],
                remedy=f"Give the same points, or remove {self.partial} to start again",
            )

    def write(self, blocks: Iterable[Scored], line: Callable[..., bytes]) -> int:
        """Append each block and store that it is done. Return the number of all points."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            if not self.done:
                self._write_state(0)  # before the rows, so that there are never rows without a state
            with self.partial.open("r+b" if self.done else "wb") as stream:
                if self.done:
                    stream.truncate(self.size)
                    stream.seek(self.size)
                else:
                    stream.write(self.head)
                for block, scores in blocks:
                    stream.write(line(block, scores))
                    self.done += len(block)
                    self._add_to_checksum(block)
                    stream.flush()
                    self._write_state(stream.tell())
                stream.flush()
                os.fsync(stream.fileno())
        except BaseException:
            if self.done:
                done = f"{number_of(self.done, 'point')} {'is' if self.done == 1 else 'are'} in {self.partial}"
                console.print_remark(f"{done}. Continue with --resume")
            else:
                self.partial.unlink(missing_ok=True)
                self.state.unlink(missing_ok=True)
            raise
        os.replace(self.partial, self.path)
        self.state.unlink(missing_ok=True)
        return self.done

    def _add_to_checksum(self, block: PointBlock) -> None:
        """Add the content of points to the checksum of all points that are done."""
        for texts in (block.ids, block.texts):
            self._points.update("\0".join(texts or ()).encode("utf-8", "surrogatepass"))
        if block.X is not None:
            for array in (block.X.indptr, block.X.indices, block.X.data):
                self._points.update(array.tobytes())

    def _write_state(self, size: int) -> None:
        facts = {"points": self.done, "bytes": size, "content": self._points.hexdigest()}
        with atomic_file(self.state) as fresh:
            fresh.write_bytes(orjson.dumps(self.made_from | facts))


def write_matrix(path: Path, blocks: Iterable[Scored], tagger: Tagger) -> int:
    """Write all scores as one .npz matrix with the names of its labels. All scores must fit into memory."""
    from scipy.sparse import csr_array, vstack

    from longtail.data.predictions import write_npz_scores

    with atomic_file(path) as fresh:
        parts = [scores for _, scores in blocks] or [csr_array((0, tagger.n_labels_))]
        names = None if tagger.label_counts_ is None else tagger.label_names_  # a ranker saved alone has no names
        with fresh.open("w+b") as stream:
            write_npz_scores(stream, vstack(parts, format="csr"), names, tagger.label_ids_)
    return sum(part.shape[0] for part in parts)


def write_repository_text(path: Path, blocks: Iterable[Scored], n_labels: int) -> int:
    """Write all scores in the repository's text format. They must fit into memory, as the first line counts them."""
    from longtail.data.predictions import write_text_scores

    with atomic_file(path) as fresh:
        parts = [scores for _, scores in blocks]
        n_points = sum(part.shape[0] for part in parts)
        with fresh.open("wb") as stream:
            write_text_scores(stream, iter(parts), n_points, n_labels)
    return n_points


# Standard output ----------------------------------------------------------------------------------------------------


def print_array(rows: Iterable[dict[str, Any]]) -> None:
    """Print one JSON array object by object, in the form of :func:`longtail.cli.console.print_json`."""
    import json

    ascii_only = not (sys.stdout.encoding or "").lower().startswith("utf")
    empty = True
    for row in rows:
        text = json.dumps(row, indent=1, ensure_ascii=ascii_only).replace("\n", "\n ")
        sys.stdout.write(("[\n " if empty else ",\n ") + text)
        empty = False
    sys.stdout.write("[]\n" if empty else "\n]\n")
    sys.stdout.flush()  # so that remarks come after the array


def print_lines(blocks: Iterable[Scored], line: Callable[..., bytes]) -> None:
    """Print one line per point, and flush after each block."""
    sys.stdout.flush()
    for block, scores in blocks:
        sys.stdout.buffer.write(line(block, scores))
        sys.stdout.buffer.flush()


# Progress -----------------------------------------------------------------------------------------------------------


class Throughput:
    """Number of points so far, and points per second."""

    def __init__(self) -> None:
        self.points, self.began = 0, time.perf_counter()

    def __str__(self) -> str:
        seconds = max(time.perf_counter() - self.began, 1e-9)
        return f"{number_of(self.points, 'point')}, {self.points / seconds:,.0f} per second"


@contextmanager
def counted(blocks: Iterator[Scored]) -> Iterator[tuple[Iterator[Scored], Throughput]]:
    """Show the number of points and the speed: live on a terminal, otherwise as a remark from time to time."""
    count = Throughput()

    def counting(report: Callable[[], None]) -> Iterator[Scored]:
        for scored in blocks:
            yield scored
            count.points += len(scored[0])
            report()

    if console.err.is_terminal and not console.err.is_dumb_terminal:
        with console.err.status("predicting") as status:
            yield counting(lambda: status.update(f"predicting: {count}")), count
        return
    last = [count.began]

    def remark() -> None:
        if time.perf_counter() - last[0] > _REMARK_SECONDS:
            last[0] = time.perf_counter()
            console.print_remark(f"{count}")

    yield counting(remark), count
