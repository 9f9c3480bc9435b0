"""What is imported when: light things stay light."""

from __future__ import annotations

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
