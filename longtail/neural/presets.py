"""DECAF's settings: what each preset says, what may be said, and the plan that follows."""

from __future__ import annotations

from typing import Any

import numpy as np

from longtail.errors import SettingsError
from longtail.neural.loop import SCHEDULES, LoopSettings
from longtail.neural.modules import SHORTLISTS, Plan
from longtail.neural.text_network import FORMS, TextNetworkSettings

PRESETS: dict[str, dict[str, Any]] = {
    "fast": {
        "dim": 256, "instances": 1, "shortlist": "search", "n_trees": None, "neighbours": 32, "matches": 50,
        "mix": True, "shared": True, "candidates": 2048, "n_hard": 4, "correction": 0.1, "forget": 0.1, "drop": 0.1,
        "keep": 1.0, "prior": True, "spectral": False, "spread": 0.3, "block_rate": 0.2, "epochs": 10,
        "surrogate_epochs": 0, "batch_size": None, "learning_rate": 0.03, "schedule": "linear",
        "validation_fraction": 0.1,
    },
    "paper": {
        "dim": 300, "instances": 3, "shortlist": "clusters", "n_trees": 0, "neighbours": 0, "matches": 0,
        "mix": False, "shared": False, "candidates": 8192, "n_hard": 100, "correction": 0.0, "forget": 0.0,
        "drop": 0.2, "keep": 1.0, "prior": False, "spectral": True, "spread": 1.0, "block_rate": 1.0, "epochs": 10,
        "surrogate_epochs": 20, "batch_size": 255, "learning_rate": 0.008, "schedule": "halved",
        "validation_fraction": 0.05,
    },
}  # fmt: skip
_MANY = 20_000  # labels from which on a second and third tree would cost a point more time than they are worth
_WORDS: dict[str, tuple[str, ...]] = {
    "classifier": FORMS,
    "init": ("text", "random"),
    "shortlist": SHORTLISTS,
    "schedule": tuple(SCHEDULES),
    "dtype": ("float32", "int8"),
}
_LOWEST = {
    "dim": 1, "instances": 1, "n_trees": 0, "neighbours": 0, "matches": 0, "candidates": 1, "n_hard": 0,
    "surrogate_epochs": 0, "n_clusters": 1, "beam": 1,
}  # fmt: skip


def resolve(given: dict[str, Any], n_labels: int) -> dict[str, Any]:
    """Every parameter with its value, those that are None from the preset; refuses what cannot be."""
    if given["preset"] not in PRESETS:
        raise SettingsError(f"preset is {given['preset']!r}; choose one of {', '.join(PRESETS)}")
    preset = PRESETS[given["preset"]]
    settings: dict[str, Any] = {
        name: preset.get(name) if value is None else value for name, value in (preset | given).items()
    }
    for name, known in _WORDS.items():
        if settings[name] not in known:
            raise SettingsError(f"{name} is {settings[name]!r}; choose one of {', '.join(known)}")
    for name, least in _LOWEST.items():
        value = settings[name]
        if value is not None and (not isinstance(value, int | np.integer) or value < least):
            raise SettingsError(f"{name} is {value!r}; give a whole number from {least}")
    for name in ("forget", "drop", "validation_fraction"):
        if not 0 <= settings[name] < 1:
            raise SettingsError(f"{name} is {settings[name]!r}; give 0, or a number below 1")
    if not 0 < settings["keep"] <= 1:
        raise SettingsError(f"keep is {settings['keep']!r}; give a number above 0, up to 1")
    if not settings["correction"] >= 0:
        raise SettingsError(f"correction is {settings['correction']!r}; give 0 or a number above it")
    if settings["lite"] and not settings["surrogate_epochs"]:
        raise SettingsError("lite keeps the token vectors of Module I, which surrogate_epochs=0 leaves out")
    if settings["n_trees"] is None:
        settings["n_trees"] = 3 if n_labels < _MANY else 1
    return settings


def make_plan(settings: dict[str, Any], n_points: int, n_labels: int) -> Plan:
    """What :func:`resolve` gave as a plan for data of this size."""
    size = settings["batch_size"]
    if size is None:
        size = int(np.clip(2 ** round(np.log2(max(1, n_points / 100))), 32, 512))
    loop = LoopSettings(
        settings["epochs"], size, settings["learning_rate"], settings["schedule"], 0.0, settings["patience"],
        settings["random_state"], settings["checkpoint"],
    )  # fmt: skip
    loop.check()
    network = TextNetworkSettings(
        settings["dim"], settings["classifier"], settings["drop"], settings["forget"], settings["spread"],
        settings["block_rate"], settings["spectral"], n_jobs=settings["n_jobs"],
    )  # fmt: skip
    other_views = settings["n_trees"] or settings["neighbours"] or settings["matches"]
    return Plan(
        network,
        loop,
        settings["shortlist"],
        settings["surrogate_epochs"],
        n_clusters=settings["n_clusters"] or 1 << max(1, int(np.log2(max(2, n_labels / 8)))),
        beam=settings["beam"],
        candidates=settings["candidates"],
        n_hard=settings["n_hard"],
        shared=settings["shared"],
        correction=settings["correction"],
        keep=settings["keep"],
        prior=settings["prior"],
        recall=0.3 if other_views else 0.9,  # what the search misses, other views list
        start_from_text=settings["init"] == "text",
        lite=settings["lite"],
    )
