"""Accuracy on training and held-out points by epoch, for models that train in epochs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from longtail.errors import ModelError
from longtail.report.figure import new_figure, percent_axis, plain_text, save_figure

TRAIN_KEY, HELD_OUT_KEY = "train_P@1", "validation_P@1"
History = list[dict[str, float]]  # one dict per epoch
_EPOCHS_SHOWN = 12


def collect_histories(facts: dict[str, Any], path: str = "") -> dict[str, History]:
    """Find the training histories of a model and of the models in it, by the path of each."""
    histories = {path or facts["kind"]: facts["history"]} if facts.get("history") else {}
    for name, part in facts.get("parts", {}).items():
        histories |= collect_histories(part, f"{path}/{name}: {part['kind']}" if path else f"{name}: {part['kind']}")
    return histories


def history_rows(history: History) -> list[list[str]]:
    """Return rows of a table, the heading first: epochs spread over the run, with the best (*) and the last."""
    columns = [("loss", "loss"), (TRAIN_KEY, "train P@1"), (HELD_OUT_KEY, "validation P@1")]
    columns = [("epoch", "epoch"), *(column for column in columns if any(column[0] in entry for entry in history))]
    gap = {TRAIN_KEY, HELD_OUT_KEY} <= {key for key, _ in columns}
    best = max(range(len(history)), key=lambda at: history[at].get("monitor", at))
    stride = -(-len(history) // _EPOCHS_SHOWN)
    chosen = sorted({*range(0, len(history), stride), best, len(history) - 1})
    rows = [[heading for _, heading in columns] + (["gap"] if gap else [])]
    for at in chosen:
        entry = history[at]
        cells = [str(at + 1)] + [_cell(key, entry.get(key)) for key, _ in columns[1:]]
        if gap:
            both = {TRAIN_KEY, HELD_OUT_KEY} <= entry.keys()
            cells.append(_cell("gap", entry[TRAIN_KEY] - entry[HELD_OUT_KEY]) if both else "")
        if at == best and "monitor" in entry:
            cells[0] += " *"
        rows.append(cells)
    return rows


def _cell(key: str, value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if key == "loss" else f"{value:.1f}"


def draw_learning_curves(histories: dict[str, History], title: str, path: Path) -> None:
    """Draw P@1 on training and on held-out points by epoch, one panel per model that was trained in epochs.

    A model that measures one of the two only, as DECAF does, has one curve.
    """
    shown = {TRAIN_KEY, HELD_OUT_KEY}
    histories = {name: held for name, held in histories.items() if any(shown & entry.keys() for entry in held)}
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
