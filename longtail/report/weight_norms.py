"""Draw the norm of each label's weights next to the label's frequency, for one or more models (TAug, Fig. 1 and 2)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from longtail.report.figure import COLOURS, new_figure, plain_text, save_figure

_GROUPS, _MIN_LABELS = 30, 5


def draw_weight_norms(counts: np.ndarray, norms: dict[str, np.ndarray], path: Path) -> None:
    """Draw the label frequencies on the left, and the norms of the labels in the same order on the right.

    Parameters
    ----------
    counts : array, shape (L,)
        Training points per label. Labels without any are left out.
    norms : dict of str to array, shape (L,)
        Norms of the labels' weights by model name, with NaN for labels without weights.
    path : Path
        A .png, .svg or .pdf file.
    """
    figure = new_figure(11, 4.2)
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] > 0]
    ranks = np.arange(1, len(order) + 1)
    left, right = figure.subplots(1, 2)
    left.plot(ranks, counts[order], color="black")
    left.set(xscale="log", yscale="log", ylabel="training points", title="label frequency")
    for colour, (name, values) in zip(COLOURS, norms.items(), strict=False):
        shown = values[order]
        # With few dots they are opaque, with many transparent, so that both the cloud and the lines are visible.
        opacity = float(np.clip(2000 / max(len(order), 1), 0.15, 0.8))
        right.scatter(ranks, shown, s=9, alpha=opacity, color=colour, linewidths=0, rasterized=True)
        middle = grouped_means(ranks, shown)
        if len(middle):
            right.plot(middle[:, 0], middle[:, 1], color="white", linewidth=4.5)
            right.plot(middle[:, 0], middle[:, 1], color=colour, linewidth=2.2, label=plain_text(name))
    right.set(
        xscale="log", yscale="log", ylabel="norm of a label's weights", title="one dot per label, lines are means"
    )
    right.legend()
    for axes in (left, right):
        axes.set_xlabel("labels, the most frequent first")
        axes.grid(alpha=0.3)
    save_figure(figure, path)


def grouped_means(ranks: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Average values over groups of ranks that are equally wide on a logarithmic axis. Return rows of (rank, mean).

    Groups with few labels, which occur at the first ranks, are merged, as the mean of one or two labels is no trend.
    """
    known = values > 0  # leave out NaN, and zeros, which a logarithmic axis cannot show
    ranks, values = ranks[known], values[known]
    if not len(ranks):
        return np.empty((0, 2))
    edges = np.geomspace(1, ranks[-1] + 1, _GROUPS + 1)
    group = np.digitize(ranks, edges)
    ends = np.append(np.flatnonzero(np.diff(group)) + 1, len(group))
    means, start = [], 0
    for end in ends.tolist():
        if end - start >= _MIN_LABELS or end == len(group):
            means.append((np.exp(np.log(ranks[start:end]).mean()), values[start:end].mean()))
            start = end
    return np.array(means)
