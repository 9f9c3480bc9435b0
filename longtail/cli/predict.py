"""``longtail predict``: suggest labels for texts, or for the points of a file of any length."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from zlib import crc32

import typer

from longtail import registry
from longtail.cli.console import out, print_json, print_remark, print_result, written
from longtail.cli.decisions import DecisionOptions, read_threshold
from longtail.cli.options import DataOptions, EngineOption, JsonFlag, ModelFolder, check_output_file
from longtail.cli.progress_bar import doing
from longtail.cli.shards import is_pattern, predict_files
from longtail.errors import DataError, SettingsError, number_of

if TYPE_CHECKING:
    from longtail.cli.results import Scored
    from longtail.data.streaming import PointBlock
    from longtail.metrics.thresholds import Thresholds
    from longtail.tagger import Tagger

_ROW_ENDINGS = (".jsonl", ".tsv", ".csv")  # endings of files that are written block by block
_RESULT_ENDINGS = (*_ROW_ENDINGS, ".npz", ".txt")
TextsOption = Annotated[
    list[str] | None, typer.Option("--text", "-t", metavar="TEXT", help="A text to label. Can be repeated.")
]
InputOption = Annotated[
    str | None,
    typer.Option(
        "--input",
        "-i",
        metavar="FILE",
        help="A text file with one text per line (- for standard input), any dataset, or a pattern such as '*.csv'.",
        show_default=False,
    ),
]
TextArguments = Annotated[
    list[str] | None, typer.Argument(metavar="TEXT", help="Texts to label, as with --text.", show_default=False)
]
OutFile = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="FILE",
        help="Write to this .jsonl, .tsv, .csv, .npz or .txt file (many inputs: a folder); - prints JSON lines.",
        show_default=False,
    ),
]
ResumeFlag = Annotated[bool, typer.Option("--resume", help="Continue an interrupted --out file where it ended.")]


def predict_labels(
    folder: ModelFolder,
    texts: TextArguments = None,
    text: TextsOption = None,
    input: InputOption = None,
    out_file: OutFile = None,
    resume: ResumeFlag = False,
    engine: EngineOption = "local",
    json: JsonFlag = False,
    *,
    decisions: DecisionOptions,
    options: DataOptions,
) -> None:
    """Suggest labels for texts, for every point of a file, or for many files: --input 'parts/*.parquet' --out DIR."""
    files = [name for name in texts or () if os.path.exists(name)]  # Path.exists raises for long texts
    if files and os.path.exists(os.path.join(files[0], "model.json")):
        raise SettingsError(f"{files[0]} is a model. Name it first: longtail predict {files[0]} --input {folder}.")
    if files:
        kind = "folder" if os.path.isdir(files[0]) else "file"
        raise SettingsError(f"{files[0]} is a {kind}. To label its points, give --input {files[0]}.")
    text = [*(texts or ()), *(text or ())]
    _check(text, input, out_file, resume, engine)
    from longtail.cli import results

    if out_file is not None and str(out_file) != "-" and not is_pattern(input):
        check_output_file(out_file, "--out", input, options.labels_file)
        if out_file.suffix in _ROW_ENDINGS:
            read: list[str | Path] = [name for name in (input, options.labels_file) if name and not os.path.isdir(name)]
            for path in results.unfinished_files(out_file):
                check_output_file(path, "--out", *read)
    if text:
        options.refuse_given("the texts are given with --text, and no file is read")
    options = _without_labels(options)
    read_threshold(decisions.threshold)
    from longtail import store

    version = f"{crc32(repr(store.stamp(folder)).encode()):08x}"
    tagger = registry.load_tagger(folder)
    wanted = decisions.of(tagger)
    made_from = {"model": str(folder.resolve()), "model version": version, "input": str(input), "k": wanted.limit}
    made_from |= {"thresholds": [float(value) for value in wanted.values]}
    if is_pattern(input):
        from longtail.engine import use

        assert input is not None
        assert out_file is not None
        with use(engine), doing(f"predicting {input}"):
            facts = predict_files(input, out_file, tagger, wanted, options, made_from)
        n_files, n = facts["n_files"], facts["n_points"]
        print_json({"out": out_file, **facts}) if json else print_result(
            written(out_file, f"{number_of(n_files, 'file')}, {number_of(n, 'point')} now")
        )
        return
    rows, file = results.ResultRows(tagger), None
    if out_file is not None and out_file.suffix in _ROW_ENDINGS:
        file = results.ResultFile(out_file, made_from, resume)
    blocks = _given(text) if text else _or_remark(read_blocks(str(input), tagger, options), str(input))
    blocks = blocks if file is None else file.remaining(blocks)
    in_table, remarks = out_file is None and not json, list[str]()
    remark = remarks.append if out_file is None and json else print_remark  # later: not inside the JSON array
    with results.counted(scored(tagger, blocks, wanted, in_table, remark)) as (stream, count):
        if out_file is None:
            objects = (row for block in stream for row in rows.objects(*block))
            _print_suggestions(objects, tagger) if in_table else results.print_array(objects)
            for message in remarks:
                print_remark(message)
            return
        if str(out_file) == "-":
            results.print_lines(stream, rows.json_lines)
            return
        if out_file.suffix == ".txt":
            n = results.write_repository_text(out_file, stream, tagger.n_labels_)
        elif file is None:
            n = results.write_matrix(out_file, stream, tagger)
        elif out_file.suffix == ".tsv":
            n = file.write(stream, rows.tab_separated)
        elif out_file.suffix == ".csv":
            n = file.write(stream, rows.comma_separated)
        else:
            n = file.write(stream, rows.json_lines)
    what = written(out_file, f"labels for {number_of(n, 'point')}")
    if input is not None and count.points >= 10_000:
        print_remark(str(count))
    print_json({"out": out_file, "n_points": n}) if json else print_result(what)


def _check(text: list[str] | None, input: str | None, out_file: Path | None, resume: bool, engine: str) -> None:
    """Raise an error for options that cannot be combined."""
    if bool(text) == (input is not None):
        raise SettingsError('Give either --text "…" (one or more) or --input FILE.')
    if input == "":
        raise SettingsError("--input is empty. Give the name of a file, or - for standard input.")
    if engine != "local":
        from longtail.engine import check_installed

        if not is_pattern(input):
            raise SettingsError("--engine is for many files: --input 'parts/*.parquet' --out DIR.")
        check_installed(engine)
    if is_pattern(input):
        if out_file is None or str(out_file) == "-" or out_file.suffix in _RESULT_ENDINGS:
            raise SettingsError(f"{input} means several files; give --out DIR, a folder for one .jsonl file each.")
        return
    if out_file is not None and str(out_file) != "-" and out_file.suffix not in _RESULT_ENDINGS:
        endings = " or ".join((", ".join(_RESULT_ENDINGS[:-1]), _RESULT_ENDINGS[-1]))
        raise SettingsError(f"Cannot write labels to {out_file}: use a name that ends in {endings}.")
    if resume and (out_file is None or out_file.suffix not in _ROW_ENDINGS or input in (None, "-")):
        raise SettingsError("--resume needs --input FILE and --out FILE with a name that ends in .jsonl, .tsv or .csv.")


def _without_labels(options: DataOptions) -> DataOptions:
    """Remove the options for reading labels, and print a remark that they have no effect.

    They are allowed because all verbs that read data have the same options. The column of labels is kept: in a table of
    two columns, the text is in the other one.
    """
    given = [name for name in ("labels_separator", "labels_file") if getattr(options, name) is not None]
    if given:
        names = " and ".join(f"--{name.replace('_', '-')}" for name in given)
        print_remark(f"{names} {'has' if len(given) == 1 else 'have'} no effect: predict does not read labels.")
    return replace(options, labels_separator=None, labels_file=None)


# Points -------------------------------------------------------------------------------------------------------------


def _given(texts: list[str]) -> Iterator[PointBlock]:
    from longtail.data.streaming import PointBlock

    yield PointBlock(0, [text_from_shell(text) for text in texts], None)


def _or_remark(blocks: Iterator[PointBlock], name: str) -> Iterator[PointBlock]:
    """Yield the points of a file, and print a remark if there are none."""
    empty = True
    for block in blocks:
        empty = False
        yield block
    if empty:
        print_remark(f"{'Standard input' if name == '-' else name} is empty, so there is nothing to label.")


def read_blocks(name: str, tagger: Tagger, options: DataOptions) -> Iterator[PointBlock]:
    """Return the points of a file in blocks. If its format cannot be read in blocks, read the whole file first."""
    from longtail.data import streaming

    reads_text = tagger.vectorizer_ is not None
    plain = name.removesuffix(".gz").removesuffix(".xz").removesuffix(".zst")
    if name == "-":
        if sys.stdin is None:
            raise SettingsError("Standard input is closed, so there is nothing to read with --input -.")
        options.refuse_given("standard input is read as one text per line")
        return streaming.line_blocks_of(sys.stdin.buffer, "standard input")
    path = Path(name)
    if reads_text and options.format is None and plain.endswith(".txt") and path.is_file():
        options.refuse_given(f"{name} is read as one text per line")
        return streaming.text_file_blocks(path)
    kind = streaming.streamable(path, options.format)
    if kind == "table" and reads_text:
        return streaming.table_blocks(path, options.text_column, options.labels_column)
    if kind == "sparse" and not reads_text:
        replace(options, format=None).refuse_given(f"{name} is not a table")
        return streaming.sparse_blocks(path)
    return _read_whole(name, reads_text, options.for_model(tagger, name))


def _read_whole(name: str, reads_text: bool, options: DataOptions) -> Iterator[PointBlock]:
    """Read a whole dataset, and yield its points in blocks."""
    from longtail.data.streaming import BLOCK, PointBlock

    data = options.read(name, None, require_labels=False)
    if data.test is not None:
        print_remark(f"{data.name} has a test part; labels are predicted for that part")
        data = data.test
    if reads_text and data.texts is None:
        raise DataError("the model reads text, and this data has none", path=name, remedy="Give texts, or other data")
    if not reads_text and data.X is None:
        raise DataError("the model was trained on features, and this is text", path=name, remedy="Give its features")
    for start in range(0, data.n_points, BLOCK):
        part = slice(start, start + BLOCK)
        ids = None if data.ids is None else data.ids[part]
        if reads_text and data.texts is not None:
            yield PointBlock(start, data.texts[part], None, ids)
        elif data.X is not None:
            yield PointBlock(start, None, data.X[part], ids)


def text_from_shell(text: str) -> str:
    """Return a text from the command line, even if the locale is ASCII and the bytes are UTF-8."""
    if not any("\ud800" <= character <= "\udfff" for character in text):
        return text
    try:
        return os.fsencode(text).decode("utf-8")
    except UnicodeError:
        remedy = "Convert the text, for example with iconv -f latin1 -t utf-8"
        raise SettingsError(f"The text of --text is not UTF-8. {remedy}.") from None


# Labels -------------------------------------------------------------------------------------------------------------


def scored(
    tagger: Tagger,
    blocks: Iterator[PointBlock],
    wanted: Thresholds,
    in_table: bool = False,
    remark: Callable[[str], None] = print_remark,
) -> Iterator[Scored]:
    """Predict block by block. At the end, call `remark` with the number of texts without a known word.

    With `in_table`, the result of each text shows this already, so that a single text needs no remark.
    """
    n_blank = n_texts = 0
    for block in blocks:
        scores = tagger.predict(block.texts if block.texts is not None else block.X, wanted.limit)
        if block.texts is not None:
            n_texts += len(block.texts)
            empty = (scores.indptr[1:] == scores.indptr[:-1]).nonzero()[0]
            n_blank += len(tagger.blank_rows([block.texts[row] for row in empty])) if len(empty) else 0
        yield block, wanted.decide(scores, tagger.label_counts_)
    if n_blank and not (in_table and n_texts == 1):
        which = (
            "The text has" if n_texts == 1 else f"{n_blank:,} of {n_texts:,} texts {'has' if n_blank == 1 else 'have'}"
        )
        remark(f"{which} no word of the model's vocabulary, and no label.")


def _print_suggestions(rows: Iterable[dict[str, Any]], tagger: Tagger) -> None:
    from rich.text import Text

    from longtail.cli.tables import plain_lines, suggestion_cells, suggestions_table

    width = None if out.is_terminal or out.encoding not in ("utf-8", "utf8") else out.width

    def show(lines: list[str], rendered: Callable[[], Any]) -> None:
        plain = None if width is None else plain_lines(lines, width)
        out.print(rendered()) if plain is None else out.file.write(plain)

    for row in rows:
        heading = row.get("text") or row.get("id") or "(empty text)"
        show([heading], partial(Text, heading, "bold"))
        if row["labels"]:
            suggestions = [(suggestion["label"], suggestion["score"]) for suggestion in row["labels"]]
            lines = [f"{'  '.join(suggestion_cells(score))}  {label}" for label, score in suggestions]
            show(lines, partial(suggestions_table, suggestions))
        else:
            blank = "text" in row and tagger.blank_rows([row["text"]]).size
            why = ": no word of this text is in the model's vocabulary" if blank else ""
            out.print(f"  no label{why}", style="dim")
