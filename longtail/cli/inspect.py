"""``longtail inspect``: what a model folder holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from longtail.cli import common, curves
from longtail.cli.common import Json, ModelFolder
from longtail.errors import SettingsError

SHOWN = 5  # labels
_KEPT = ("n_points", "n_features", "n_labels", "params", "vectorizer", "history", "report", "why")
Verify = Annotated[bool, typer.Option("--verify", help="Compare every array with its checksum.")]
Plot = Annotated[
    bool, typer.Option("--plot", help="Draw train against validation P@1 by epoch to FILE, or to curves.png here.")
]
Picture = Annotated[Path | None, typer.Argument(metavar="FILE", help="Where --plot draws.", show_default=False)]

Norms = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Draw how long label classifiers are against label frequency.", show_default=False
    ),
]
Label = Annotated[
    str | None,
    typer.Option(help="Show the labels near this one (of a dxml); --plot draws them.", show_default=False),
]
Beside = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Another model for the same picture.", show_default=False)
]


def inspect(
    folder: ModelFolder,
    file: Picture = None,
    plot: Plot = False,
    norms: Norms = None,
    beside: Beside = None,
    label: Label = None,
    verify: Verify = False,
    json: Json = False,
) -> None:
    """Show what a model is, how it was trained and what it holds, without loading it."""
    if file is not None and not plot:
        raise SettingsError(f"{file} is where --plot would draw, but --plot is not given.")
    if label is not None:
        from longtail.cli import neighbours

        neighbours.show(folder, label, (file or Path("neighbours.png")) if plot else None, json)
        return
    if norms is not None:
        from longtail.cli.norms import draw

        draw(norms, folder, beside)
    facts = describe(folder, verify)
    if plot:
        file = Path("curves.png") if file is None else file
        curves.draw(curves.collect(facts), str(folder), file)
        if json:
            common.emit(facts | {"plot": file})
        else:
            common.out.print(f"Drew {file}", markup=False, highlight=False, soft_wrap=True)
    elif json:
        common.emit(facts)
    else:
        _show(facts)


def describe(folder: Path, verify: bool) -> dict[str, Any]:
    """The facts of a folder and of the folders in it."""
    import json

    from longtail import store
    from longtail.cli.measure import folder_mb

    stored = store.read(folder, verify=verify)
    document = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    meta = stored.meta
    facts: dict[str, Any] = {
        "folder": str(folder),
        "kind": stored.kind,
        "longtail": document["longtail"],
        "format": document["format"],
        "mb": folder_mb(folder),
        "verified": verify,
    }
    facts |= {key: meta[key] for key in _KEPT if key in meta}
    facts |= meta.get("notes", {})
    if "names" in stored.arrays:
        facts["labels"] = _labels(stored.arrays)
    facts["arrays"] = {
        name: {"dtype": str(array.dtype), "shape": list(array.shape), "mb": array.nbytes / 1e6}
        for name, array in stored.arrays.items()
    }
    facts["parts"] = {name: describe(folder / name, verify) for name in meta.get("parts", [])}
    return facts


def _labels(arrays: dict[str, Any]) -> dict[str, Any]:
    """The most frequent labels, and how many are rare."""
    import numpy as np

    from longtail.names import Names

    names, counts = Names(arrays["names"], arrays["names_offsets"]), arrays["label_counts"]
    first = np.argsort(-counts, kind="stable")[:SHOWN]
    return {
        "frequent": [{"label": names[int(i)], "points": int(counts[i])} for i in first],
        "with_one_point": int((counts == 1).sum()),
        "without_points": int((counts == 0).sum()),
    }


def _show(facts: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text
    from rich.tree import Tree

    from longtail.cli import tried

    def line(*parts: tuple[str, str] | str) -> Text:
        return Text.assemble(*parts)

    checked = ", every array as it was saved" if facts["verified"] else ""
    common.out.print(line((facts["folder"], "bold"), f"  {facts['mb']:.1f} MB, longtail {facts['longtail']}{checked}"))

    def grow(tree: Tree, part: dict[str, Any]) -> None:
        sizes = [f"{part[key]:,} {key[2:]}" for key in ("n_points", "n_features", "n_labels") if key in part]
        tree.add(line(", ".join(sizes)))
        for key in ("params", "vectorizer"):
            if part.get(key):
                settings = ", ".join(f"{name}={value!r}" for name, value in part[key].items())
                tree.add(line((f"{key}: ", "dim"), settings))
        if "training" in part:
            training = part["training"]
            told = (
                f"on {training['data']} in {training['train_seconds']:.1f} s, peak {training['peak_memory_mb']:,.0f} MB"
            )
            tree.add(line(("trained: ", "dim"), told))
        if part.get("report"):
            tree.add(tried.table(part["report"]))
        if "why" in part:
            tree.add(line(("chosen: ", "dim"), part["why"]))
        if "labels" in part:
            labels = part["labels"]
            most = ", ".join(f"{found['label']} ({found['points']:,})" for found in labels["frequent"])
            tree.add(line(("most frequent: ", "dim"), most))
            rare = (
                f"{labels['with_one_point']:,} labels have one training point, {labels['without_points']:,} have none"
            )
            tree.add(line(("rare: ", "dim"), rare))
        if part.get("history"):
            rows = Table.grid(padding=(0, 2))
            for row in curves.lines(part["history"]):
                rows.add_row(*row)
            tree.add(line(("training, by epoch: ", "dim"))).add(rows)
        table = Table.grid(padding=(0, 2))
        for name, array in part["arrays"].items():
            table.add_row(
                Text(name), array["dtype"], " × ".join(f"{n:,}" for n in array["shape"]), f"{array['mb']:.2f} MB"
            )
        if part["arrays"]:
            tree.add(table)
        for name, inner in part["parts"].items():
            grow(tree.add(line((f"{name}: ", "dim"), (inner["kind"], "bold"), f"  {inner['mb']:.1f} MB")), inner)

    tree = Tree(line((facts["kind"], "bold")))
    grow(tree, facts)
    common.out.print(tree)
