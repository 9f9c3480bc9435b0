"""Find the labels near one label, by a model's label graph and by its label vectors, and show them as a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from longtail import registry
from longtail.cli.console import printable
from longtail.errors import ModelError
from longtail.names import find_label

if TYPE_CHECKING:
    from rich.table import Table

_NEAR_SHOWN = 10


class NearLabels(NamedTuple):
    """A label of a model, and the labels near it."""

    ranker: Any
    label: int
    near: dict[str, Any]
    """``graph``: labels and the weights of their edges; ``vectors``: labels and their cosine similarities."""
    names: Sequence[str]

    def facts(self) -> dict[str, Any]:
        """Return both lists as JSON values, with the names of the labels."""
        facts: dict[str, Any] = {"label": self.names[self.label]}
        for kind, key in (("graph", "weight"), ("vectors", "cosine")):
            labels, values = self.near[kind]
            pairs = zip(labels.tolist(), values.tolist(), strict=True)
            facts[kind] = [{"label": self.names[at], key: value} for at, value in pairs]
        return facts


def find_near_labels(folder: Path, label: str) -> NearLabels:
    """Load a model, and find the labels near a label that is given by name, identifier or number."""
    tagger = registry.load_tagger(folder)
    ranker: Any = tagger.ranker_
    if not hasattr(ranker, "near_labels"):
        raise ModelError(
            f"{folder}: a {ranker.kind} model keeps no label graph and no label vectors. Train a dxml to see them."
        )
    number = find_label(label, tagger.label_names_, tagger.label_ids_, numbered=tagger.label_counts_ is None)
    return NearLabels(ranker, number, ranker.near_labels(number, _NEAR_SHOWN), tagger.label_names_)


def near_labels_table(facts: dict[str, Any]) -> Table:
    """Return a table with both lists side by side."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2), title=Text(facts["label"], "bold"), title_justify="left")
    for head in ("in the graph", "points", "by vectors", "cosine"):
        table.add_column(head, justify="right" if head in ("points", "cosine") else "left")
    graph, vectors = facts["graph"], facts["vectors"]
    for at in range(max(len(graph), len(vectors), 1)):
        left = (Text(printable(graph[at]["label"])), f"{graph[at]['weight']:g}") if at < len(graph) else ("", "")
        if not graph and at == 0:
            left = (Text("no edges", "dim"), "")
        right = (
            (Text(printable(vectors[at]["label"])), f"{vectors[at]['cosine']:.2f}") if at < len(vectors) else ("", "")
        )
        table.add_row(*left, *right)
    return table
