"""What is imported when: light things stay light."""

from __future__ import annotations

import ast
import importlib
import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ["torch", "sklearn", "polars", "numba", "scipy", "numpy", "rich", "typer"]


def modules_after(code: str, *words: str) -> set[str]:
    """Top-level modules that a fresh interpreter holds after some code."""
    tail = (
        "\nimport json, sys; sys.stderr.write('\\n' + json.dumps(sorted({m.partition('.')[0] for m in sys.modules})))"
    )
    ended = subprocess.run([sys.executable, "-c", code + tail, *words], capture_output=True, text=True, check=True)
    return set(json.loads(ended.stderr.rpartition("\n")[2]))


def test_import_longtail_imports_nothing_heavy() -> None:
    assert not modules_after("import longtail; longtail.DEMO, longtail.__version__") & set(HEAVY)


def test_public_names() -> None:
    import longtail

    for name in longtail.__all__:
        assert getattr(longtail, name) is not None
        assert name in dir(longtail)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = longtail.nothing  # type: ignore[attr-defined]


def test_rankers_are_imported_when_they_are_used() -> None:
    code = "import longtail, longtail.models\ndir(longtail), dir(longtail.models)\nfrom longtail.models import MODELS"
    assert not modules_after(code) & set(HEAVY)
    assert "torch" not in modules_after("from longtail import Bonsai, RankNet\nfrom longtail.models import TAug")


def test_every_ranker_is_a_public_name() -> None:
    import longtail
    from longtail import models, registry

    assert registry.MODELS is models.MODELS
    for name in registry.names():
        ranker = registry.model_class(name)
        for module in (longtail, models):
            assert getattr(module, ranker.__name__) is ranker
            assert ranker.__name__ in dir(module)
            assert ranker.__name__ in module.__all__
    with pytest.raises(ImportError, match="nothing"):
        from longtail.models import nothing  # type: ignore[attr-defined]  # noqa: F401


@pytest.mark.parametrize("package", ["longtail", "longtail.models"])
def test_type_checkers_see_every_public_name(package: str) -> None:
    module = importlib.import_module(package)
    tree = ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    seen = {alias.asname for block in blocks for node in ast.walk(block) for alias in getattr(node, "names", [])}
    lazy = {name for name in module.__all__ if name not in {"CLASSES", "DEMO", "MODELS", "__version__"}}
    assert seen == lazy


def processor_seconds() -> float:
    """What the processes started here have used: unlike the clock, it does not mind a busy machine."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_import_is_instant() -> None:
    def seconds(code: str) -> float:
        best = 9.0
        for _ in range(5):
            start = processor_seconds()
            subprocess.run([sys.executable, "-c", code], check=True)
            best = min(best, processor_seconds() - start)
        return best

    assert seconds("import longtail") - seconds("pass") < 0.1


@pytest.fixture
def model(tmp_path: Path) -> Path:
    from longtail import Tagger

    texts = [f"{colour} {fruit}" for colour in ("red", "green", "blue") for fruit in ("apple", "pear", "fig")]
    Tagger("parabel").fit(texts, [text.split() for text in texts]).save(tmp_path / "m")
    return tmp_path / "m"


def test_predicting_needs_neither_torch_nor_sklearn_nor_polars(model: Path) -> None:
    code = (
        "import sys\n"
        "from longtail.cli.app import app\n"
        "app(['predict', sys.argv[1], '--text', 'a red fig', '--json'], standalone_mode=False)\n"
    )
    assert not modules_after(code, str(model)) & {"torch", "sklearn", "polars"}


def test_a_warm_prediction_starts_in_two_seconds(model: Path) -> None:
    command = [sys.executable, "-m", "longtail", "predict", str(model), "--text", "a red fig", "--json"]
    best = 99.0
    for _ in range(3):  # the first may compile what no one has used before
        start = processor_seconds()
        ended = subprocess.run(command, capture_output=True, check=True)
        best = min(best, processor_seconds() - start)
    assert {found["label"] for found in json.loads(ended.stdout)[0]["labels"][:2]} == {"red", "fig"}
    assert best < 2.0
