"""Show the accuracy on training and held-out points by epoch, for models that are trained in epochs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from longtail.errors import ModelError
from longtail.report.figure import new_figure, percent_axis, plain_text, save_figure

TRAIN_KEY, HELD_OUT_KEY = "train_P@1", "validation_P@1"
History = list[dict[str, float]]  # one dict per epoch
_EPOCHS_SHOWN = 12


def collect_histories(facts: dict[str, Any]) -> dict[str, History]:
    """Return the training histories of a model and of the models inside it, named by their kinds: "blend › decaf".

    If two have the same kinds, the name of the part is appended: "taug › decaf (tail)".
    """
    histories = list(_histories(facts, (), ""))
    kinds = Counter(path for path, _, _ in histories)
    return {
        " › ".join(path) + (f" ({name})" if name and kinds[path] > 1 else ""): history
        for path, name, history in histories
    }


def _histories(
    facts: dict[str, Any], above: tuple[str, ...], name: str
) -> Iterator[tuple[tuple[str, ...], str, History]]:
    """Yield, for each model with a history, the kinds on the path to it, the name of its part, and the history."""
    path = above if facts["kind"] == "tagger" else (*above, facts["kind"])
    if facts.get("history"):
        yield path, name, facts["history"]
    for part_name, part in facts.get("parts", {}).items():
        yield from _histories(part, path, f"{name}/{part_name}" if above else part_name)


def kept_epoch(history: History) -> int | None:
    """Return the epoch with the best value on held-out points, counted from 0, or None if none was measured."""
    best = max(range(len(history)), key=lambda at: history[at].get("monitor", at))
    return best if "monitor" in history[best] else None


def history_rows(history: History) -> list[list[str]]:
    """Return the rows of a table with its heading: some epochs spread over the run, the best one (*) and the last."""
    columns = [("loss", "loss"), (TRAIN_KEY, "train P@1"), (HELD_OUT_KEY, "validation P@1")]
    columns = [("epoch", "epoch"), *(column for column in columns if any(column[0] in entry for entry in history))]
    gap = {TRAIN_KEY, HELD_OUT_KEY} <= {key for key, _ in columns}
    best = kept_epoch(history)
    stride = -(-len(history) // _EPOCHS_SHOWN)
    chosen = sorted({*range(0, len(history), stride), *([] if best is None else [best]), len(history) - 1})
    rows = [[heading for _, heading in columns] + (["gap"] if gap else [])]
    for at in chosen:
        entry = history[at]
        cells = [str(at + 1)] + [_cell(key, entry.get(key)) for key, _ in columns[1:]]
        if gap:
            both = {TRAIN_KEY, HELD_OUT_KEY} <= entry.keys()
            cells.append(_cell("gap", entry[TRAIN_KEY] - entry[HELD_OUT_KEY]) if both else "")
        if at == best:
            cells[0] += " *"
        rows.append(cells)
    return rows


def _cell(key: str, value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if key == "loss" else f"{value:.1f}"


def draw_learning_curves(histories: dict[str, History], title: str, path: Path) -> None:
    """Draw P@1 on training and held-out points by epoch, with one panel per model that was trained in epochs.

    A model that measures only one of the two, such as DECAF, has one curve.
    """
    shown = {TRAIN_KEY, HELD_OUT_KEY}
    histories = {name: history for name, history in histories.items() if any(shown & epoch.keys() for epoch in history)}
    if not histories:
        raise ModelError(f"{title} holds no training curves. Only models that train in epochs keep them, such as glas.")
    figure = new_figure(6.5, 3.6 * len(histories))
    panels = figure.subplots(len(histories), squeeze=False)[:, 0]
    for axes, (name, history) in zip(panels, histories.items(), strict=True):
        for key, label, style in ((TRAIN_KEY, "training points", "--"), (HELD_OUT_KEY, "held-out points", "-")):
            points = [(at + 1, entry[key]) for at, entry in enumerate(history) if key in entry]
            if points:
                axes.plot(*zip(*points, strict=True), style, marker="o", markersize=3, label=label)
        axes.set(title=plain_text(f"{title} ({name})", 70), xlabel="epoch", ylabel="P@1")
        percent_axis(axes.yaxis)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(alpha=0.3)
        axes.legend()
    save_figure(figure, path)
