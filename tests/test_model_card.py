"""The model card says what was measured while the model was trained."""

from __future__ import annotations

import pytest

from longtail import Tagger
from longtail.model_card import model_card

TEXTS = [
    f"a {colour} {fruit} number{i % 7}" for i in range(15) for colour in ("red", "green") for fruit in ("fig", "pear")
]
LABELS = [text.split()[1:3] for text in TEXTS]


def held_out_section(tagger: Tagger) -> str:
    return model_card(tagger).partition("## Metrics on held-out training points")[2].partition("\n## ")[0]


@pytest.mark.parametrize(
    ("model", "row"),
    [
        ("glas(epochs=3, dim=8)", "| glas, epoch "),
        ("mnn(epochs=3, dim=8)", "| mnn, epoch "),
        ("dxml(epochs=3, dim=8)", "| dxml, epoch "),
        ("calibrated(glas(epochs=3, dim=8))", "| calibrated › glas, epoch "),
    ],
)
def test_a_network_shows_its_best_epoch(model: str, row: str) -> None:
    tagger = Tagger(model).fit(TEXTS, LABELS)
    section = held_out_section(tagger)
    (line,) = [line for line in section.splitlines() if line.startswith(row)]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert all(0 <= float(cell) <= 100 for cell in cells[1:5])
    assert cells[5:] == ["", ""]  # balance is not measured in epochs
    assert "Measured during training" in section
    if model.startswith("glas"):
        best = max(tagger.ranker_.history_, key=lambda entry: entry["monitor"])
        assert cells[0] == f"glas, epoch {best['epoch'] + 1}"
        assert float(cells[1]) == pytest.approx(best["validation_P@1"], abs=0.005)


def test_a_report_comes_before_the_epochs_of_members() -> None:
    section = held_out_section(Tagger("blend([glas, knn])").fit(TEXTS, LABELS))
    assert "| blend |" in section
    assert "epoch" not in section


@pytest.mark.parametrize("model", ["popular", "knn", "bonsai", "glas(epochs=2, dim=8, validation_fraction=0)"])
def test_a_model_that_keeps_no_metrics_says_so(model: str) -> None:
    assert "None are kept with this model" in held_out_section(Tagger(model).fit(TEXTS, LABELS))
