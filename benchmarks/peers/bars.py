"""What longtail wants to reach beside its peers, as rows of pass or fail.

Speed and memory are compared with the best of the tree and linear peers, whichever that is for each data set. fastText
is measured but sets no bar: it is another kind of model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.peers.summary import KS
from benchmarks.peers.systems import ONE_TREE, PEERS

Figures = dict[str, dict[str, Any]]  # system -> figures, of one data set
LEEWAY = 0.3  # points of accuracy
_TREES = tuple(peer.name for peer in PEERS if peer.environment != "fasttext")
_ACCURACY = [f"{metric}@{k}" for metric in ("P", "PSP", "B") for k in KS]


@dataclass(frozen=True)
class Cell:
    """One bar on one data set."""

    text: str
    passed: bool


@dataclass(frozen=True)
class Bar:
    """A goal, and how to see on one data set whether it is reached."""

    goal: str
    limit: str
    judge: Callable[[Figures], Cell | None]  # None when a system that it needs was not measured
    ours: str


def bars() -> list[Bar]:
    """Every bar, in the order of the table."""
    training = _ratio("train_seconds", "parabel", ["omikuji-parabel"], 0.6)
    rows = [
        Bar("Parabel: P, PSP, B @1, 3, 5 − omikuji Parabel's, the worst", "≥ −0.3", _accuracy("parabel"), "parabel"),
        Bar("Bonsai: P, PSP, B @1, 3, 5 − omikuji Bonsai's, the worst", "≥ −0.3", _accuracy("bonsai"), "bonsai"),
        Bar("DiSMEC: P@5, PSP@5 − the best tree's, the worst", "≥ −0.3", _dismec, "dismec"),
        Bar("training, Parabel / omikuji Parabel", "≤ 0.6", training, "parabel"),
        Bar("training, 1 tree / PECOS, at P@5 no lower", "≤ 1.0", _one_tree, ONE_TREE),
    ]
    for what, key, limit in (
        ("batch time, 2 threads", "batch_ms_2", 1.0),
        ("time of one point, p50", "single_ms_p50", 0.5),
        ("training memory", "train_peak_mb", 1.5),
        ("training memory above data and imports", "train_peak_above_start_mb", 1.5),
        ("prediction memory", "predict_peak_mb", 1.5),
        ("prediction memory above data and imports", "predict_peak_above_start_mb", 1.5),
        ("model size", "model_mb", 1.5),
    ):
        rows += [
            Bar(f"{what}, {label} / least of all peers", f"≤ {limit}", _ratio(key, name, list(_TREES), limit), name)
            for name, label in ((ONE_TREE, "1 tree"), ("parabel", "Parabel"), ("bonsai", "Bonsai"))
        ]
    rows += [
        Bar(
            "Blend, training, CPU time / PECOS",
            "≤ 8",
            _ratio("train_cpu_seconds", "blend", ["pecos-xrlinear"], 8.0),
            "blend",
        ),
        Bar(
            "Blend, batch time, 2 threads / PECOS",
            "≤ 1.0",
            _ratio("batch_ms_2", "blend", ["pecos-xrlinear"], 1.0),
            "blend",
        ),
    ]
    return rows


def _accuracy(ours: str) -> Callable[[Figures], Cell | None]:
    def judge(figures: Figures) -> Cell | None:
        return _worst(figures.get(ours), figures.get(f"omikuji-{ours}"), _ACCURACY)

    return judge


def _worst(ours: dict[str, Any] | None, theirs: dict[str, Any] | None, keys: list[str]) -> Cell | None:
    if ours is None or theirs is None:
        return None
    difference, key = min((ours[key] - theirs[key], key) for key in keys)
    return Cell(f"{difference:+.2f} ({key})", difference >= -LEEWAY)


def _dismec(figures: Figures) -> Cell | None:
    trees = [figures[name] for name in ("parabel", ONE_TREE, "bonsai", *_TREES) if name in figures]
    keys = ["P@5", "PSP@5"]
    best = {key: max(tree[key] for tree in trees) for key in keys} if trees else None
    return _worst(figures.get("dismec"), best, keys)


def _ratio(key: str, ours: str, peers: list[str], limit: float) -> Callable[[Figures], Cell | None]:
    def judge(figures: Figures) -> Cell | None:
        known = [(figures[peer][key], peer) for peer in peers if peer in figures]
        if ours not in figures or not known:
            return None
        best, peer = min(known)
        text = f"{_over(figures[ours][key], best):.2f}"
        if len(peers) > 1:
            text += f" ({peer.partition('-')[0]})"
            same = f"omikuji-{ours}"
            if same in figures and same != peer:
                text += f", {_over(figures[ours][key], figures[same][key]):.2f} (same trees)"
        return Cell(text, _over(figures[ours][key], best) <= limit)

    return judge


def _over(ours: float, theirs: float) -> float:
    """Return a ratio; below a thousandth (of a second, a millisecond, a megabyte) it would be one of noise."""
    return max(ours, 1e-3) / max(theirs, 1e-3)


def _one_tree(figures: Figures) -> Cell | None:
    time = _ratio("train_seconds", ONE_TREE, ["pecos-xrlinear"], 1.0)(figures)
    if time is None:
        return None
    gain = figures[ONE_TREE]["P@5"] - figures["pecos-xrlinear"]["P@5"]
    return Cell(f"{time.text} (P@5 {gain:+.2f})", time.passed and gain >= 0)
