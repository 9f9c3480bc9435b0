"""The systems that are measured, and the settings they are measured with."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

_WORKERS = "benchmarks.peers.workers"


@dataclass(frozen=True)
class System:
    """One row of the tables."""

    name: str
    worker: str  # module that runs it
    environment: str | None  # requirements-NAME.txt that it is installed from; None for longtail itself
    params: dict[str, Any] = field(default_factory=dict)
    about: str = ""
    seeded: bool = False  # whether each repeat gets a seed of its own, in params
    max_labels: int | None = None  # where more would take hours
    with_text: bool = False  # whether it takes the text of labels, and is measured only where there is some

    @property
    def model(self) -> str:
        """One of our models with its settings, as for `longtail.make`."""
        settings = ", ".join(f"{name}={value!r}" for name, value in self.params["settings"].items())
        return f"{self.params['model']}({settings})" if settings else self.params["model"]


def _ours(name: str, model: str, about: str, **settings: Any) -> System:
    params = {"model": model, "settings": settings}
    return System(name, f"{_WORKERS}.longtail", None, params, about, seeded=True)


OURS = (
    _ours("parabel", "parabel", "3 balanced binary trees, squared hinge, C = 1", n_trees=3),
    _ours("bonsai", "bonsai", "3 shallow trees, 100-means", n_trees=3),
    _ours("bonsai-1", "bonsai", "the same with 1 tree", n_trees=1),
    _ours("dismec", "dismec", "one classifier per label, squared hinge, C = 1"),
    replace(
        _ours("blend", "blend", "the default: members chosen by the data, and label text, which peers do not take"),
        with_text=True,
    ),
)

PEERS = (
    System(
        "pecos-xrlinear",
        f"{_WORKERS}.pecos",
        "pecos",
        about="1 tree, 16-means on mean label features, ≤ 100 labels per leaf, beam 10, l3-hinge, pruned at 0.1",
    ),
    System(
        "omikuji-parabel",
        f"{_WORKERS}.omikuji",
        "omikuji",
        about="the library's defaults: 3 trees, balanced 2-means, squared hinge, C = 1, pruned at 0.1, beam 10",
    ),
    System(
        "omikuji-bonsai",
        f"{_WORKERS}.omikuji",
        "omikuji",
        {"cluster_balanced": False, "cluster_k": 100, "max_depth": 3},
        about="the settings of its documentation for Bonsai: 3 trees, unbalanced 100-means, depth 3",
    ),
    System(
        "napkinxc-plt",
        f"{_WORKERS}.napkinxc",
        "napkinxc",
        about="the library's defaults: 1 tree, balanced 2-means, logistic loss, C = 10, pruned at 0.1, exact search",
    ),
    System(
        "fasttext-ova",
        f"{_WORKERS}.fasttext",
        "fasttext",
        {"loss": "ova", "lr": 0.1, "epoch": 25, "dim": 50},
        about="one-vs-all loss, 50 dimensions, 25 epochs, rate 0.1; up to 5,000 labels, since time grows with them",
        max_labels=5000,
    ),
    System(
        "fasttext-hs",
        f"{_WORKERS}.fasttext",
        "fasttext",
        {"loss": "hs", "lr": 0.5, "epoch": 25, "dim": 100},
        about="hierarchical softmax, its loss for many labels; 100 dimensions, 25 epochs, rate 0.5",
    ),
)

ONE_TREE = "bonsai-1"  # our answer to the peers that have one tree
SYSTEMS = {system.name: system for system in (*OURS, *PEERS)}
DATA = ("bibtex", "delicious", "tate", "debian-packages", "eurlex57k")


def chosen(names: str | None) -> list[System]:
    """Systems of a comma-separated list; ``ours`` and ``peers`` stand for all of a kind."""
    groups = {"ours": OURS, "peers": PEERS} | {name: (system,) for name, system in SYSTEMS.items()}
    found: dict[str, System] = {}
    for name in (names or "ours,peers").split(","):
        if name not in groups:
            raise SystemExit(f"No system is called {name!r}. Systems: ours, peers, {', '.join(SYSTEMS)}.")
        found |= {system.name: system for system in groups[name]}
    return list(found.values())
