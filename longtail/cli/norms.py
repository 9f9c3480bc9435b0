"""A picture of how long label classifiers are against how frequent labels are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from longtail.errors import DataError, SettingsError

if TYPE_CHECKING:
    import numpy as np


def draw(file: Path, folder: Path, beside: Path | None = None) -> None:
    """Write the picture of a saved model, beside that of another one if wanted.

    Left, the frequency of labels from the most to the least frequent; right, the norm of their classifiers in the same
    order, as dots and as the mean of fifty groups.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise SettingsError(
            "Drawing needs matplotlib, which is not installed. Install it: pip install 'longtail[report]'"
        ) from None
    if file.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise DataError("is no name for a picture", path=file, remedy="End it in .png, .svg or .pdf")
    counts, norms = _known(folder)
    shown = {folder.name or str(folder): norms}
    if beside is not None:
        other_counts, other = _known(beside)
        if other_counts.shape != counts.shape:
            raise DataError(
                f"knows {len(other_counts):,} labels, and {folder} {len(counts):,}",
                path=beside,
                remedy="Compare models of the same data",
            )
        shown[beside.name or str(beside)] = other
    _picture(Figure(figsize=(10, 4), layout="constrained"), counts, shown).savefig(file, dpi=120)


def _known(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """How many points each label of a saved model has, and the norm of its classifier."""
    import longtail
    from longtail.cli.common import ranker_of
    from longtail.models.norms import label_norms

    model: Any = longtail.load(folder)
    if not hasattr(model, "label_counts_"):
        raise DataError(
            "is a ranker alone and does not say how frequent labels are",
            path=folder,
            remedy="Give a model that longtail train or Tagger.save has written",
        )
    return model.label_counts_, label_norms(ranker_of(model))


def _picture(figure: Any, counts: np.ndarray, norms: dict[str, np.ndarray]) -> Any:
    import numpy as np

    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] > 0]
    places = np.arange(1, len(order) + 1)
    left, right = figure.subplots(1, 2)
    left.plot(places, counts[order], color="black")
    left.set(xscale="log", yscale="log", ylabel="training points", title="label frequency")
    for colour, (name, values) in zip(("tab:blue", "tab:orange"), norms.items(), strict=False):
        right.scatter(places, values[order], s=2, alpha=0.2, color=colour, linewidths=0)
        groups = [group for group in np.array_split(np.arange(len(order)), min(50, len(order))) if len(group)]
        known = [(places[g].mean(), values[order[g]]) for g in groups]
        known = [(place, some[~np.isnan(some)]) for place, some in known]
        lines = [(place, some.mean()) for place, some in known if len(some)]
        right.plot(*zip(*lines, strict=True), color=colour, label=name)
    right.set(xscale="log", ylabel="norm of the classifier", title="label classifiers")
    right.legend()
    for axes in (left, right):
        axes.set_xlabel("labels, the most frequent first")
    return figure
