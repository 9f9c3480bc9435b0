"""Which models are measured for which table of which paper, and on what data.

Small data sets are taken whole. Of the others `N_TRAIN` training points and `N_TEST` test points are drawn once, the
same for all models: the papers' presets are slow, and the claims are about differences between models.
"""

from __future__ import annotations

from typing import Any, NamedTuple

SMALL = ("bibtex", "delicious")
N_TRAIN, N_TEST = 12_000, 4_000
N_MODULES = 4_000  # training points for DECAF's four modules, which take an hour otherwise


class Experiment(NamedTuple):
    """One row of a table.

    Attributes
    ----------
    paper : str
        Section of the page.
    name : str
        Name of the row.
    model : str
        As for `longtail.make`.
    data : tuple of str
    seeds : int
        Number of seeds, from 0 up.
    base : str
        Name of the row whose ranking this one changes: then P against PSP is followed along its curve.
    n_train : int
        Training points that are drawn of large data sets.
    seen : bool
        Whether labels without training points are left out; otherwise only models that use label text suggest them.
    """

    paper: str
    name: str
    model: str
    data: tuple[str, ...]
    seeds: int = 3
    base: str = ""
    n_train: int = N_TRAIN
    seen: bool = False


def _glas(name: str, advanced: dict[str, Any] | None = None, **changed: Any) -> Experiment:
    """Return a row of GLaS's Table 1: its base setting with one parameter changed."""
    given = {"preset": "paper"} | changed | ({"advanced": advanced} if advanced else {})
    return Experiment("glas", name, _call("glas", given), ("bibtex",))


def _call(model: str, given: dict[str, Any], *inner: str) -> str:
    return f"{model}({', '.join([*inner, *(f'{name}={value!r}' for name, value in given.items())])})"


def _tail(name: str, model: str, *more: str) -> Experiment:
    return Experiment("ranknet", name, model, ("eurlex57k", "tate", *more), base="Bonsai")


def _decaf(name: str, **changed: Any) -> Experiment:
    """Return a row of DECAF's Tables 5 and 6: the four modules, one network, one part changed."""
    model = _call("decaf", {"preset": "paper", "n_networks": 1} | changed)
    return Experiment("decaf", name, model, ("tate",), n_train=N_MODULES, seen=True)


EXPERIMENTS = [
    Experiment("glas", "fast", "glas", SMALL),
    Experiment("glas", "base", "glas(preset='paper')", SMALL),
    Experiment("glas", "softmax", "glas(preset='paper', loss='softmax')", SMALL),
    _glas("regulariser none", regularizer="none"),
    _glas("regulariser spread-out", regularizer="spreadout"),
    _glas("regulariser gravity", regularizer="gravity"),
    _glas("λ = 1", regularization=1.0),
    _glas("λ = 100", regularization=100.0),
    _glas("ρ = 1.0", input_dropout=0.0),
    _glas("ρ = 0.6", input_dropout=0.4),
    _glas("half the batch", batch_size=24),
    _glas("a quarter of the batch", batch_size=12),
    _glas("d = 512", dim=512),
    _glas("d = 256", dim=256),
    _glas("linear", {"relu": False}),
    Experiment("dxml", "fast", "dxml", SMALL),
    Experiment("dxml", "paper", "dxml(preset='paper')", SMALL),
    Experiment("dxml", "paper, linear", "dxml(preset='paper', advanced={'relu': False})", SMALL),
    Experiment(
        "dxml",
        "fast, one network, plain vote",
        "dxml(n_networks=1, advanced={'sharpness': 0.0, 'feature_weight': 0.0, 'label_weight': 0.0})",
        SMALL,
    ),
    Experiment("mnn", "fast", "mnn", SMALL),
    Experiment("mnn", "paper", "mnn(preset='paper')", SMALL),
    Experiment("mnn", "fast, h = 1", "mnn(n_negatives=1)", SMALL),
    Experiment("mnn", "fast, h = 5", "mnn(n_negatives=5)", SMALL),
    _tail("Bonsai", "bonsai", "debian-packages"),
    _tail("RankNet", "ranknet(bonsai, preset='paper')"),
    _tail("RankNet, fast, without text", "ranknet(bonsai, text=False)", "debian-packages"),
    _tail("RankNet, fast, without blocks", "ranknet(bonsai, text=False, n_blocks=0)", "debian-packages"),
    _tail("TAug", "taug(bonsai, preset='paper')"),
    _tail("TAug without augmentation", "taug(bonsai, preset='paper', n_aug=0)"),
    _tail("TAug-d", "taug(bonsai, preset='paper', swap=0.0)"),
    _tail("TAug-s", "taug(bonsai, preset='paper', dropout=0.0)"),
    _tail("TAug, fast", "taug(bonsai)", "debian-packages"),
    _tail("TAug, fast, without augmentation", "taug(bonsai, n_aug=0)", "debian-packages"),
    _tail("RankNet of TAug", "ranknet(taug(bonsai, preset='paper'), preset='paper')"),
    *(
        Experiment("decaf", name, model, ("tate", "debian-packages"), seen=True)
        for name, model in (
            ("fast", "decaf"),
            ("Parabel", "parabel"),
            ("Parabel + metadata", "labeltext(parabel, method='formula')"),
            ("Bonsai", "bonsai"),
            ("Bonsai + metadata", "labeltext(bonsai, method='formula')"),
            ("DiSMEC", "dismec"),
            ("DiSMEC + metadata", "labeltext(dismec, method='formula')"),
        )
    ),
    Experiment("decaf", "three networks", "decaf(preset='paper')", ("tate",), n_train=N_MODULES, seen=True),
    _decaf("one network"),
    _decaf("few clusters", n_clusters=256),
    _decaf("no-init", advanced={"init": "random"}),
    _decaf("ẑ¹", classifier="text"),
    _decaf("ẑ²", classifier="refinement"),
    _decaf("lite", advanced={"lite": True}),
    _decaf("HNSW shortlist", shortlist="hnsw"),
    _decaf("Parabel shortlist", shortlist="tree"),
    Experiment("decaf", "Bonsai of the same points", "bonsai", ("tate",), n_train=N_MODULES, seen=True),
]
"""All rows, in the order of the page."""
