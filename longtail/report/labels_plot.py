"""Draw a map of the labels near one label, with positions from label vectors and edges from the label graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from longtail.report.figure import new_figure, plain_text, save_figure

_CENTRE_COLOUR, _NEIGHBOUR_COLOUR, _SIMILAR_COLOUR, _EDGE_COLOUR = "#c0392b", "#1f6fb2", "#7f8c8d", "#b8c4d0"
_MAX_MOVES = 200


class Neighbourhood(NamedTuple):
    """The labels of a map. The first one is the label at its centre."""

    names: list[str]
    vectors: np.ndarray  # (n, d)
    edges: list[tuple[int, int, float]]  # positions of two labels in `names`, and how often they occur together
    in_graph: np.ndarray  # (n,) whether a label is a neighbour of the first one in the label graph


def neighbourhood(ranker: Any, label: int, near: dict[str, Any], names: Any) -> Neighbourhood:
    """Collect the labels of a map from a ranker with ``label_vectors_`` and ``edges_``, such as DXML.

    Parameters
    ----------
    ranker : Ranker
        A fitted model with label vectors and a label graph.
    label : int
        The label at the centre of the map.
    near : dict
        The result of ``ranker.near_labels(label)``.
    names : sequence of str
        Names of all labels.
    """
    others = np.unique(np.concatenate([labels for labels, _ in near.values()]))
    shown = np.concatenate([[label], others[others != label]]).astype(int)
    position = {int(number): at for at, number in enumerate(shown)}
    edges = []
    for number, at in position.items():
        for p in range(ranker.edges_.indptr[number], ranker.edges_.indptr[number + 1]):
            other = position.get(int(ranker.edges_.indices[p]))
            if other is not None:
                edges.append((at, other, float(ranker.edges_.data[p])))
    in_graph = np.isin(shown, near["graph"][0])
    vectors = np.asarray(ranker.label_vectors_[shown], np.float64)
    return Neighbourhood([names[int(number)] for number in shown], vectors, edges, in_graph)


def draw_label_map(around: Neighbourhood, path: Path) -> None:
    """Draw the labels in the plane in which their vectors vary most, with the edges between them."""
    from matplotlib.lines import Line2D

    positions = plane_positions(around.vectors)
    figure = new_figure(9, 7)
    axes = figure.add_subplot()
    heaviest = max([1.0, *(weight for _, _, weight in around.edges)])
    for first, second, weight in around.edges:
        (x, y), (u, v) = positions[first], positions[second]
        axes.plot([x, u], [y, v], color=_EDGE_COLOUR, linewidth=0.5 + 2.5 * weight / heaviest, zorder=1)
    texts, middle = [], positions[:, 0].mean()
    for at, (x, y) in enumerate(positions):
        colour = _CENTRE_COLOUR if at == 0 else _NEIGHBOUR_COLOUR if around.in_graph[at] else _SIMILAR_COLOUR
        name_on_left = x > middle  # names of dots on the right half are on their left, so that they stay in the frame
        axes.scatter(x, y, s=90 if at == 0 else 36, color=colour, zorder=2)
        texts.append(
            axes.annotate(
                plain_text(around.names[at]),
                (x, y),
                xytext=(-7 if name_on_left else 7, 4),
                ha="right" if name_on_left else "left",
                textcoords="offset points",
                fontsize=9 if at == 0 else 8,
                fontweight="bold" if at == 0 else "normal",
                arrowprops={
                    "arrowstyle": "-",
                    "color": "#999999",
                    "linewidth": 0.5,
                    "shrinkA": 0,
                    "shrinkB": 3,
                    "relpos": (1.0 if name_on_left else 0.0, 0.5),
                },
                bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.5},
                zorder=3,
            )
        )
    axes.set_title(plain_text(f"Labels near {around.names[0]}", 80))
    axes.margins(0.12)
    axes.set_xticks([])
    axes.set_yticks([])
    kinds = (
        (_CENTRE_COLOUR, "the label"),
        (_NEIGHBOUR_COLOUR, "neighbours in the label graph"),
        (_SIMILAR_COLOUR, "similar vectors only"),
    )
    handles = [Line2D([], [], color=colour, linestyle="", marker="o", label=kind) for colour, kind in kinds]
    handles.append(Line2D([], [], color=_EDGE_COLOUR, linewidth=2, label="edges of the label graph"))
    figure.legend(handles=handles, loc="outside lower center", ncols=4, fontsize="small", frameon=False)
    _spread_texts(figure, texts)
    save_figure(figure, path)


def plane_positions(vectors: np.ndarray) -> np.ndarray:
    """Project label vectors to two dimensions, such that one distant label does not squeeze all others together.

    A distance r from the centre becomes r / (r + median of all distances). Directions and the order of distances do not
    change, and half of the labels lie within half the radius of the map, no matter how far away the others are.
    """
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(lengths > 0, lengths, 1.0)
    centred = unit - np.median(unit, axis=0)
    left, size, _ = np.linalg.svd(centred, full_matrices=False)
    plane = np.zeros((len(vectors), 2))
    plane[:, : min(2, len(size))] = (left * size)[:, :2]
    plane -= np.median(plane, axis=0)
    radius = np.linalg.norm(plane, axis=1, keepdims=True)
    typical = float(np.median(radius)) or 1.0
    return plane / (radius + typical)


def _spread_texts(figure: Any, texts: list[Any]) -> None:
    """Move names up and down until no name covers another one."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # keep all positions from here on
    boxes = [text.get_window_extent() for text in texts]
    shift = np.zeros(len(texts))
    for _ in range(_MAX_MOVES):
        moved = False
        for a in range(len(texts)):
            for b in range(a):
                overlap_x = min(boxes[a].x1, boxes[b].x1) - max(boxes[a].x0, boxes[b].x0)
                top, bottom = boxes[a].y0 + shift[a], boxes[b].y0 + shift[b]
                overlap_y = min(top + boxes[a].height, bottom + boxes[b].height) - max(top, bottom)
                if overlap_x > 0 and overlap_y > 0:
                    up = 1.0 if top >= bottom else -1.0
                    shift[a] += up * (overlap_y / 2 + 0.5)
                    shift[b] -= up * (overlap_y / 2 + 0.5)
                    moved = True
        if not moved:
            break
    for text, pixels in zip(texts, shift, strict=True):
        x, y = text.xyann
        text.xyann = (x, y + pixels * 72 / figure.dpi)
