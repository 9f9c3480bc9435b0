"""``longtail inspect --label``: the labels near one, in the label graph and by their vectors, and a picture of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from longtail.cli import common
from longtail.errors import DataError, SettingsError

SHOWN = 10  # labels of each list


def show(folder: Path, label: str, plot: Path | None, json: bool) -> None:
    """List the labels near `label`, and draw them if wanted."""
    from longtail import registry

    model = registry.load(folder)
    ranker: Any = common.ranker_of(model)
    if not hasattr(ranker, "near_labels"):
        raise SettingsError(
            f"{folder}: a {ranker.kind} keeps no label graph and no label vectors. Train a dxml to look at them."
        )
    names: Any = getattr(model, "label_names_", None)
    number = _number(label, names, getattr(model, "label_ids_", None), ranker.n_labels_)

    def name(at: int) -> str:
        return str(at) if names is None else names[at]

    near = ranker.near_labels(number, SHOWN)
    facts = {"label": name(number)} | {
        kind: [{"label": name(at), key: value} for at, value in zip(labels.tolist(), values.tolist(), strict=True)]
        for (kind, (labels, values)), key in zip(near.items(), ("weight", "cosine"), strict=True)
    }
    if plot is not None:
        draw(ranker, number, near, name, plot)
        facts["picture"] = str(plot)
    if json:
        common.emit(facts)
    else:
        _tell(facts)


def _number(label: str, names: Any, ids: Any, n_labels: int) -> int:
    """The number of a label given by name, by identifier or, where there are no names, by number."""
    if names is None:
        if label.isdecimal() and int(label) < n_labels:
            return int(label)
        raise DataError(
            f"there is no label {label!r}", remedy=f"This model numbers its labels from 0 to {n_labels - 1}"
        )
    for known in (names, ids or ()):
        found = next((at for at, name in enumerate(known) if name == label), None)
        if found is not None:
            return found
    import difflib

    close = difflib.get_close_matches(label, list(names), n=3, cutoff=0.4)
    close += [name for name in names if label.lower() in name.lower() and name not in close][:3]
    hint = f"Did you mean {' or '.join(map(repr, close))}?" if close else "Names are written as in the training data"
    raise DataError(f"there is no label {label!r}", remedy=hint)


def _tell(facts: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2), title=Text(facts["label"], "bold"), title_justify="left")
    for head in ("in the graph", "points", "by vectors", "cosine"):
        table.add_column(head, justify="right" if head in ("points", "cosine") else "left")
    graph, vectors = facts["graph"], facts["vectors"]
    for at in range(max(len(graph), len(vectors), 1)):
        left = (Text(graph[at]["label"]), f"{graph[at]['weight']:g}") if at < len(graph) else ("", "")
        if not graph and at == 0:
            left = (Text("no edges", "dim"), "")
        right = (Text(vectors[at]["label"]), f"{vectors[at]['cosine']:.2f}") if at < len(vectors) else ("", "")
        table.add_row(*left, *right)
    common.out.print(table)
    if "picture" in facts:
        common.say(f"Picture in {facts['picture']}")


def draw(ranker: Any, number: int, near: dict[str, Any], name: Any, path: Path) -> None:
    """Draw the labels around one on the plane in which their vectors differ most, with the edges among them."""
    import numpy as np

    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise SettingsError('--plot needs matplotlib: pip install "longtail[report]".') from error
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise SettingsError(f"{path}: a picture is written as .png, .svg or .pdf. Name one of these.")
    others = np.unique(np.concatenate([labels for labels, _ in near.values()]))
    shown = np.concatenate([[number], others[others != number]]).astype(int)
    vectors = np.asarray(ranker.label_vectors_[shown], np.float64)
    centred = vectors - vectors.mean(axis=0)
    left, size, _ = np.linalg.svd(centred, full_matrices=False)
    plane = np.zeros((len(shown), 2))
    plane[:, : min(2, len(size))] = (left * size)[:, :2]
    place = {int(label): plane[at] for at, label in enumerate(shown)}

    def shown_name(label: int) -> str:
        return name(label)[:40].replace("$", r"\$")  # which would begin a formula

    figure = Figure(figsize=(9, 7), layout="constrained")
    axes = figure.add_subplot()
    edges, heaviest = ranker.edges_, max([1.0, *near["graph"][1].tolist()])
    for label in place:
        for p in range(edges.indptr[label], edges.indptr[label + 1]):
            if (other := int(edges.indices[p])) in place:
                (x, y), (u, v) = place[label], place[other]
                width = 0.5 + 2.5 * min(1.0, float(edges.data[p]) / heaviest)
                axes.plot([x, u], [y, v], color="#b8c4d0", linewidth=width, zorder=1)
    in_graph = set(near["graph"][0].tolist())
    for label, (x, y) in place.items():
        colour = "#c0392b" if label == number else "#1f6fb2" if label in in_graph else "#7f8c8d"
        axes.scatter(x, y, s=60 if label == number else 28, color=colour, zorder=2)
        axes.annotate(shown_name(label), (x, y), xytext=(4, 4), textcoords="offset points", fontsize=8)
    axes.set_title(f"Labels around {shown_name(number)}")
    axes.set_xlabel("blue: neighbours in the graph; grey: near by vectors only; lines: edges of the label graph")
    axes.set_xticks([])
    axes.set_yticks([])
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
