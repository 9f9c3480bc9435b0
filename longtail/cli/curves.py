"""Training curves of a stored model: as a table, or drawn to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from longtail.errors import ModelError, SettingsError

SHOWN = 12  # epochs of a table
TRAIN, HELD = "train_P@1", "validation_P@1"
Curves = dict[str, list[dict[str, float]]]  # by the path of the part that was trained


def collect(facts: dict[str, Any], path: str = "") -> Curves:
    """The histories in what ``inspect`` knows of a model and of its parts."""
    found = {path or facts["kind"]: facts["history"]} if facts.get("history") else {}
    for name, part in facts.get("parts", {}).items():
        found |= collect(part, f"{path}/{name}: {part['kind']}" if path else f"{name}: {part['kind']}")
    return found


def lines(history: list[dict[str, float]]) -> list[list[str]]:
    """Rows of a table, the heading first: some epochs spread over the run, the best and the last among them."""
    columns = [("loss", "loss"), (TRAIN, "train P@1"), (HELD, "validation P@1")]
    columns = [("epoch", "epoch"), *(column for column in columns if any(column[0] in entry for entry in history))]
    gap = {TRAIN, HELD} <= {key for key, _ in columns}
    best = max(range(len(history)), key=lambda at: history[at].get("monitor", at))
    stride = -(-len(history) // SHOWN)
    chosen = sorted({*range(0, len(history), stride), best, len(history) - 1})
    rows = [[heading for _, heading in columns] + (["gap"] if gap else [])]
    for at in chosen:
        entry = history[at]
        cells = [str(at + 1)] + [_cell(key, entry.get(key)) for key, _ in columns[1:]]
        if gap:
            cells.append(_cell("gap", entry[TRAIN] - entry[HELD]) if {TRAIN, HELD} <= entry.keys() else "")
        if at == best and "monitor" in entry:
            cells[0] += " *"
        rows.append(cells)
    return rows


def _cell(key: str, value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if key == "loss" else f"{value:.1f}"


def draw(curves: Curves, title: str, file: Path) -> None:
    """Train against validation P@1 by epoch, a picture for each part that was trained."""
    curves = {name: history for name, history in curves.items() if any(TRAIN in entry for entry in history)}
    if not curves:
        raise ModelError(
            f"{title}: holds no training curves. Models that train in epochs keep them; this one, or the version of "
            "longtail that trained it, does not."
        )
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
    except ImportError:
        raise SettingsError(
            "Drawing needs matplotlib, which is not installed. Run: pip install 'longtail[report]'. "
            "Without --plot, inspect shows the same curves as a table."
        ) from None
    figure = Figure(figsize=(6, 3.6 * len(curves)), layout="constrained")
    for axes, (name, history) in zip(figure.subplots(len(curves), squeeze=False)[:, 0], curves.items(), strict=True):
        for key, label, style in ((TRAIN, "train", "--"), (HELD, "validation", "-")):
            points = [(at + 1, entry[key]) for at, entry in enumerate(history) if key in entry]
            if points:
                axes.plot(*zip(*points, strict=True), style, marker=".", label=label)
        axes.set(title=f"{title} ({name})", xlabel="epoch", ylabel="P@1")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(alpha=0.3)
        axes.legend()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=150)
    except ValueError as error:
        raise SettingsError(f"{file}: cannot be drawn ({error}). Name a .png, .svg or .pdf file.") from None
    except OSError as error:
        raise SettingsError(f"{file}: cannot be written ({error.strerror}). Name another file.") from None
