"""``longtail predict``: labels for texts, or for the points of a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from longtail import registry
from longtail.cli import common
from longtail.cli.common import Format, Json, ModelFolder, TextColumn
from longtail.errors import DataError, SettingsError

BATCH = 4096
Texts = Annotated[list[str] | None, typer.Option("--text", "-t", help="A text to label; may be repeated.")]
Input = Annotated[
    str | None,
    typer.Option(
        "--input",
        "-i",
        metavar="FILE",
        help="Text a line (.txt, or - for standard input), or any data.",
        show_default=False,
    ),
]
K = Annotated[int, typer.Option("-k", min=1, help="How many labels a text, at most.")]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", metavar="FILE", help="Write to a .jsonl, .tsv or .npz file instead.", show_default=False
    ),
]
ENDINGS = (".jsonl", ".tsv", ".npz")


def predict(
    folder: ModelFolder,
    text: Texts = None,
    input: Input = None,
    k: K = 5,
    out: Out = None,
    format: Format = None,
    text_column: TextColumn = None,
    json: Json = False,
) -> None:
    """Suggest labels for texts, or for every point of a file."""
    if bool(text) == (input is not None):
        raise SettingsError('Give either --text "…" (one or more) or --input FILE.')
    if out is not None and out.suffix not in ENDINGS:
        raise SettingsError(f"{out}: the file's ending tells its format. Use one of {', '.join(ENDINGS)}.")
    model: Any = registry.load(folder)
    points = _Points(text, None, None) if text else _read(str(input), model, format, text_column)
    if out is not None:
        _write(out, model, points, k)
        facts = {"out": out, "n_points": len(points)}
        common.emit(facts) if json else common.say(f"wrote {out}: labels for {len(points):,} points")
    elif json:
        common.emit([row for _, rows in _rows(model, points, k) for row in rows])
    else:
        _show(model, points, k)


class _Points:
    """What is to be labelled: texts or a matrix of features, and names for the points if there are any."""

    def __init__(self, texts: list[str] | None, X: Any, ids: list[str] | None) -> None:
        self.texts, self.X, self.ids = texts, X, ids

    def __len__(self) -> int:
        return len(self.texts) if self.texts is not None else int(self.X.shape[0])

    def some(self, start: int, stop: int) -> Any:
        return self.texts[start:stop] if self.texts is not None else self.X[start:stop]

    def named(self, i: int) -> dict[str, Any]:
        row: dict[str, Any] = {} if self.ids is None else {"id": self.ids[i]}
        return row | ({"text": self.texts[i]} if self.texts is not None else {} if row else {"id": str(i)})


def _read(name: str, model: Any, format: str | None, text_column: list[str] | None) -> _Points:
    reads_text = getattr(model, "vectorizer_", None) is not None
    plain = name.removesuffix(".gz").removesuffix(".xz").removesuffix(".zst")
    if name == "-":
        return _Points([line.rstrip("\n") for line in sys.stdin], None, None)
    if reads_text and format is None and plain.endswith(".txt") and Path(name).is_file():
        from longtail.data.files import lines

        return _Points([line.decode().rstrip("\r\n") for _, line in lines(Path(name))], None, None)
    data = common.read_data(name, None, format=format, text_column=text_column, require_labels=False)
    if data.test is not None:
        common.say(f"{data.name} has a test part; labels are for that one")
        data = data.test
    if reads_text and data.texts is None:
        raise DataError("the model reads text, and this data has none", path=name, remedy="Give texts, or other data")
    if not reads_text and data.X is None:
        raise DataError("the model was trained on features, and this is text", path=name, remedy="Give its features")
    return _Points(data.texts, None, data.ids) if reads_text else _Points(None, data.X, data.ids)


def _scores(model: Any, points: _Points, k: int) -> Iterator[tuple[int, Any]]:
    """Scores of some thousand points at a time, with the place of the first."""
    from rich.progress import track

    starts = range(0, len(points), BATCH)
    quiet = len(starts) < 3 or not common.err.is_terminal
    for start in track(starts, "predicting", console=common.err, transient=True, disable=quiet):
        yield start, model.predict(points.some(start, start + BATCH), k)


def _rows(model: Any, points: _Points, k: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    names, ids = getattr(model, "label_names_", None), getattr(model, "label_ids_", None)
    for start, scores in _scores(model, points, k):
        bounds = scores.indptr.tolist()
        rows = []
        for i in range(scores.shape[0]):
            labels = []
            for at in range(bounds[i], bounds[i + 1]):
                label = int(scores.indices[at])
                found: dict[str, Any] = {"label": str(label) if names is None else names[label]}
                found |= {} if ids is None else {"id": ids[label]}
                labels.append(found | {"score": float(scores.data[at])})
            rows.append(points.named(start + i) | {"labels": labels})
        yield start, rows


def _show(model: Any, points: _Points, k: int) -> None:
    from rich.text import Text

    from longtail.cli.tables import suggestions

    for _, rows in _rows(model, points, k):
        for row in rows:
            common.out.print(Text(row.get("text") or row.get("id", ""), "bold"))
            if row["labels"]:
                common.out.print(suggestions([(found["label"], found["score"]) for found in row["labels"]]))
            else:
                common.out.print("  no label", style="dim")


def _write(path: Path, model: Any, points: _Points, k: int) -> None:
    """All or nothing, in the format of the file's ending."""
    import json

    from longtail.store import atomic_file

    with atomic_file(path) as fresh:
        if path.suffix == ".npz":
            from scipy.sparse import save_npz, vstack

            with fresh.open("wb") as stream:
                save_npz(stream, vstack([scores for _, scores in _scores(model, points, k)], format="csr"))
            return
        with fresh.open("w", encoding="utf-8") as text:
            if path.suffix == ".tsv":
                text.write("point\tlabel\tscore\n")
            for start, rows in _rows(model, points, k):
                for i, row in enumerate(rows):
                    if path.suffix == ".jsonl":
                        text.write(json.dumps(row, ensure_ascii=False) + "\n")
                        continue
                    point = row.get("id", start + i)
                    for found in row["labels"]:
                        name = " ".join(found["label"].split())  # a tab or a line break would end the cell
                        text.write(f"{point}\t{found.get('id', name)}\t{found['score']:.6g}\n")
