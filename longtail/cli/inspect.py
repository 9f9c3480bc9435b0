"""``longtail inspect``: show the content of a model folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longtail.cli.console import out, print_json
from longtail.cli.options import JsonFlag, ModelFolder
from longtail.errors import LongtailError, ModelError, number_of, size

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree

_LABELS_SHOWN = 5
_META_KEPT = ("n_points", "n_features", "n_labels", "params", "vectorizer", "history", "report", "why")
VerifyFlag = Annotated[
    bool, typer.Option("--verify", help="Check every array: its checksum, and that its values fit the model.")
]
LabelOption = Annotated[
    str | None,
    typer.Option(
        metavar="LABEL", help="List the labels near this one (dxml only), by name or identifier.", show_default=False
    ),
]


def inspect_model(
    folder: ModelFolder, label: LabelOption = None, verify: VerifyFlag = False, json: JsonFlag = False
) -> None:
    """Show what a saved model is, how it was trained, and its arrays and parts."""
    if label is not None:
        from longtail.cli import near_labels

        near = near_labels.find_near_labels(folder, label)
        print_json(near.facts()) if json else out.print(near_labels.near_labels_table(near.facts()))
        return
    if verify:
        from longtail import registry

        registry.load(folder, verify=True)
    try:
        facts = describe_folder(folder, verify)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        if isinstance(error, LongtailError):
            raise
        raise ModelError(f"{folder}: model.json is damaged ({error}). Train or copy the model again.") from error
    print_json(facts) if json else _print_facts(facts)


def describe_folder(folder: Path, verify: bool) -> dict[str, Any]:
    """Collect the facts about a model folder and its parts, without loading the model."""
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
    facts |= {key: meta[key] for key in _META_KEPT if key in meta}
    facts |= meta.get("notes", {})
    if "names" in stored.arrays:
        facts["labels"] = _label_facts(stored.arrays)
    facts["arrays"] = {
        name: {"dtype": str(array.dtype), "shape": list(array.shape), "mb": array.nbytes / 1e6}
        for name, array in stored.arrays.items()
    }
    facts["parts"] = {name: describe_folder(folder / name, verify) for name in meta.get("parts", [])}
    return facts


def _label_facts(arrays: dict[str, Any]) -> dict[str, Any]:
    """Return the most frequent labels, and the numbers of labels with one training point and with none."""
    import numpy as np

    from longtail.names import Names

    names, counts = Names(arrays["names"], arrays["names_offsets"]), arrays["label_counts"]
    first = np.argsort(-counts, kind="stable")[:_LABELS_SHOWN]
    return {
        "frequent": [{"label": names[int(i)], "points": int(counts[i])} for i in first],
        "with_one_point": int((counts == 1).sum()),
        "without_points": int((counts == 0).sum()),
    }


def _print_facts(facts: dict[str, Any]) -> None:
    from rich.tree import Tree

    checked = ", all checksums and arrays are correct" if facts["verified"] else ""
    out.print(_styled_line((facts["folder"], "bold"), f"  {size(facts['mb'])}, longtail {facts['longtail']}{checked}"))
    tree = Tree(_styled_line((facts["kind"], "bold")))
    _add_facts(tree, facts)
    out.print(tree)


def _styled_line(*parts: tuple[str, str] | str) -> Text:
    from rich.text import Text

    return Text.assemble(*parts)


def _add_facts(tree: Tree, part: dict[str, Any]) -> None:
    """Add the facts about one model, and about the models inside it, to a printed tree."""
    from rich.table import Table

    from longtail.cli.tables import held_out_table
    from longtail.report.learning_curves import history_rows

    nouns = ("point", "feature", "label")
    sizes = [number_of(part[f"n_{noun}s"], noun) for noun in nouns if f"n_{noun}s" in part]
    tree.add(_styled_line(", ".join(sizes)))
    for key in ("params", "vectorizer"):
        if part.get(key):
            settings = ", ".join(f"{name}={value!r}" for name, value in part[key].items())
            tree.add(_styled_line((f"{key}: ", "dim"), settings))
    if "training" in part:
        training = part["training"]
        cost = f"in {training['train_seconds']:.1f} s, peak memory {training['peak_memory_mb']:,.0f} MB"
        tree.add(_styled_line(("trained: ", "dim"), f"on {training['data']} {cost}"))
    if part.get("report"):
        tree.add(held_out_table(part["report"]))
    if "why" in part:
        tree.add(_styled_line(("chosen: ", "dim"), part["why"]))
    if "labels" in part:
        labels = part["labels"]
        most = ", ".join(f"{frequent['label']} ({frequent['points']:,})" for frequent in labels["frequent"])
        single = number_of(labels["with_one_point"], "label")
        rare = f"{single} with one training point, {labels['without_points']:,} with none"
        tree.add(_styled_line(("most frequent: ", "dim"), most))
        tree.add(_styled_line(("rare: ", "dim"), rare))
    if part.get("history"):
        rows = Table.grid(padding=(0, 2))
        for row in history_rows(part["history"]):
            rows.add_row(*row)
        tree.add(_styled_line(("training, by epoch: ", "dim"))).add(rows)
    if part["arrays"]:
        table = Table.grid(padding=(0, 2))
        for name, array in part["arrays"].items():
            shape = " × ".join(f"{n:,}" for n in array["shape"])
            table.add_row(_styled_line(name), array["dtype"], shape, size(array["mb"]))
        tree.add(table)
    for name, inner in part["parts"].items():
        heading = _styled_line((f"{name}: ", "dim"), (inner["kind"], "bold"), f"  {size(inner['mb'])}")
        _add_facts(tree.add(heading), inner)
