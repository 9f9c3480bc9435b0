"""Pictures: what they show and what they refuse."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longtail.errors import ModelError, SettingsError
from longtail.report.bin_bars import bin_name, draw_bin_bars, short_number
from longtail.report.figure import check_picture, line_style, new_figure, plain_text, save_figure
from longtail.report.html_report import html_page
from longtail.report.labels_plot import Neighbourhood, draw_label_map, plane_positions
from longtail.report.learning_curves import draw_learning_curves, history_rows
from longtail.report.svg_chart import Axis, Series, line_chart
from longtail.report.trade_off import choose_view, draw_trade_off
from longtail.report.weight_norms import draw_weight_norms, grouped_means


def row(model: str, plain: float, tail: float, knob: str = "beta") -> dict[str, Any]:
    curve = [
        {knob: share}
        | {f"P@{k}": plain - 10 * share for k in (1, 3, 5)}
        | {f"PSP@{k}": tail + 8 * share for k in (1, 3, 5)}
        for share in (0.0, 0.5, 1.0)
    ]
    return {"model": model, "tradeoff": curve} | {key: value for key, value in curve[0].items() if key != knob}


def text_of(path: Path) -> str:
    """Text of a picture in SVG; matplotlib leaves it in comments beside the glyphs."""
    return path.read_text()


def test_a_far_baseline_is_named_and_does_not_squeeze_the_rest() -> None:
    rows = [row("popular", 20, 2), row("parabel", 75, 20), row("bonsai", 76, 22)]
    view, outside = choose_view(rows, 1)
    assert [found["model"] for found in outside] == ["popular"]
    assert (view.left, view.right, view.low, view.high) == (65, 76, 20, 30)
    assert choose_view(rows[1:], 1)[1] == []
    assert choose_view(rows[:1], 1)[1] == []


def test_every_model_that_is_no_far_baseline_is_in_view() -> None:
    """The model with the largest sum of P@1 and PSP@1 was alone in view, and all others "not in view"."""
    rows = [row("bonsai", 80, 29), row("popular", 12, 2), row("parabel", 79, 27), row("ranknet(parabel)", 58, 54)]
    view, outside = choose_view(rows, 1)
    assert [found["model"] for found in outside] == ["popular"]
    for one in (rows[0], rows[2], rows[3]):
        assert view.contains(one["P@1"], one["PSP@1"])


def test_eight_models_differ_in_colour_dash_and_marker() -> None:
    styles = [line_style(at) for at in range(8)]
    for key in ("color", "linestyle", "marker"):
        assert len({str(style[key]) for style in styles}) == 8
    assert len({str(line_style(at)) for at in range(24)}) == 24
    chart = line_chart([Series(str(at), [(0, at), (1, at)]) for at in range(8)], Axis("x"), Axis("y"))
    lines = re.findall(r'<polyline class="line (s\d)"[^>]*?(stroke-dasharray="[^"]*")?/>', chart)
    assert len(set(lines)) == len({dash for _, dash in lines}) == 8
    page = html_page("a", "b", [])
    assert all(f"svg .line.s{at}" in page and f"--c{at}:" in page for at in range(8))


def test_a_rival_some_points_below_a_short_curve_is_in_view() -> None:
    points = [{"beta": 0.0, "P@1": 69.0, "PSP@1": 16.0}, {"beta": 1.0, "P@1": 66.0, "PSP@1": 19.0}]
    rows = [{"model": "bonsai", "tradeoff": points} | points[0]]
    rows.append({"model": "knn", "tradeoff": [points[0] | {"P@1": 61.0}], "P@1": 61.0, "PSP@1": 14.0})
    view, outside = choose_view(rows, 1)
    assert outside == []
    assert view.left == 61
    rows[1]["tradeoff"] = [*rows[1]["tradeoff"], {"beta": 1.0, "P@1": 30.0, "PSP@1": 14.0}]
    assert choose_view(rows, 1) == (view, [])


def test_one_point_alone_has_axes_around_it() -> None:
    single = {"model": "popular", "P@1": 40.0, "PSP@1": 7.0, "tradeoff": [{"beta": 0.0, "P@1": 40.0, "PSP@1": 7.0}]}
    view, _ = choose_view([single], 1)
    assert view.left < 40 < view.right
    assert view.low < 7 < view.high


def test_the_trade_off_has_star_and_beta_in_its_legend(tmp_path: Path) -> None:
    rows = [row("popular", 20, 2), row("cost $1 [x]", 75, 20), row("ranknet(bonsai)", 76, 22, "tail")]
    draw_trade_off(rows, "data", tmp_path / "t.svg")
    shown = text_of(tmp_path / "t.svg")
    for words in (
        "the model's own ranking",
        "β or tail = 0, ¼, ½, ¾, 1",
        "ranknet(bonsai) (tail)",
        "not in view",
        "70 %",
    ):
        assert words in shown
    assert [path.name for path in tmp_path.iterdir()] == ["t.svg"]


def test_names_of_bins_are_short() -> None:
    assert [short_number(n) for n in (0, 812, 1000, 12_345, 1_234_567)] == ["0", "812", "1k", "12.3k", "1.23M"]
    assert bin_name({"frequency_max": 17_400, "frequency_min": 1_150, "labels": 11}) == "1.15k – 17.4k\n11 labels"
    assert bin_name({"frequency_max": 1, "frequency_min": 1, "labels": 1}) == "1\n1 label"


def test_bins_are_drawn_and_empty_ones_left_out(tmp_path: Path) -> None:
    parts = [
        {"bin": at, "labels": labels, "frequency_max": 9 - at, "frequency_min": 8 - at, "P@5": 3.0, "PSP@5": 1.0}
        for at, labels in enumerate((3, 5, 0), 1)
    ]
    draw_bin_bars([{"model": "a", "bins": parts}, {"model": "b", "bins": parts}], "data", tmp_path / "b.svg")
    shown = text_of(tmp_path / "b.svg")
    assert "5 labels" in shown
    assert "0 labels" not in shown


def test_means_of_norms_join_the_first_few_labels() -> None:
    values = np.append(np.full(100, 2.0), [np.nan, 0.0])
    means = grouped_means(np.arange(1, 103), values)
    assert (means[:, 1] == 2).all()
    assert 1 < means[0, 0] < 5
    assert (np.diff(means[:, 0]) > 0).all()
    assert grouped_means(np.arange(1, 3), np.full(2, np.nan)).shape == (0, 2)


@pytest.mark.parametrize("n_labels", [1, 4, 500])
def test_norms_are_drawn(n_labels: int, tmp_path: Path) -> None:
    counts = np.arange(n_labels, 0, -1)
    draw_weight_norms(counts, {"a": np.sqrt(counts), "b": np.full(n_labels, np.nan)}, tmp_path / "n.png")
    assert (tmp_path / "n.png").stat().st_size > 1000


def test_an_outlier_does_not_squeeze_the_map() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(12, 8))
    places = plane_positions(vectors)
    far = plane_positions(np.concatenate([vectors, [np.full(8, 1e6)]]))
    assert np.abs(far).max() < 1
    spread = np.ptp(places, axis=0)
    assert (np.ptp(far[:12], axis=0) > 0.5 * spread).all()


@pytest.mark.parametrize("vectors", [np.zeros((1, 4)), np.ones((2, 1)), np.eye(3)])
def test_small_maps_are_drawn(vectors: np.ndarray, tmp_path: Path) -> None:
    n = len(vectors)
    around = Neighbourhood([f"label ${at}$" for at in range(n)], vectors, [(0, n - 1, 3.0)], np.zeros(n, bool))
    draw_label_map(around, tmp_path / "map.png")
    assert (tmp_path / "map.png").stat().st_size > 1000


def test_a_long_history_is_shown_in_part_with_its_best_epoch() -> None:
    history = [
        {"epoch": at, "loss": 1 / (at + 1), "train_P@1": 50.0 + at, "validation_P@1": 50.0, "monitor": -abs(at - 31)}
        for at in range(100)
    ]
    heading, *rows = history_rows(history)
    assert heading == ["epoch", "loss", "train P@1", "validation P@1", "gap"]
    assert len(rows) <= 14
    assert rows[0][0] == "1"
    assert rows[-1][0] == "100"
    assert [found for found in rows if found[0].endswith("*")] == [["32 *", "0.0312", "81.0", "50.0", "31.0"]]


def test_a_model_that_measures_held_out_points_alone_has_one_curve(tmp_path: Path) -> None:
    history = [{"loss": 1.0, "validation_P@1": 50.0}, {"loss": 0.5, "validation_P@1": 60.0}]
    draw_learning_curves({"decaf": history}, "m", tmp_path / "c.svg")
    picture = (tmp_path / "c.svg").read_text()
    assert "held-out points" in picture
    assert "training points" not in picture


def test_models_without_curves_say_so(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no training curves"):
        draw_learning_curves({"glas": [{"loss": 1.0}]}, "m", tmp_path / "c.png")


def test_pictures_that_cannot_be_written_are_refused_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_picture(tmp_path / "new" / "x.PNG")
    with pytest.raises(SettingsError, match=r"ends in \.png, \.svg or \.pdf"):
        check_picture(tmp_path / "x.jpg")
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="not a folder that can be written to"):
        check_picture(tmp_path / "file" / "x.png")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(SettingsError, match=r"pip install 'longtail\[report\]'"):
        check_picture(tmp_path / "x.png")


def test_a_picture_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = new_figure(1, 1)
    monkeypatch.setattr(figure, "savefig", lambda *args, **kwargs: (_ for _ in ()).throw(OSError(28, "No space")))
    with pytest.raises(OSError, match="No space"):
        save_figure(figure, tmp_path / "x.png")
    assert os.listdir(tmp_path) == []


def test_names_are_drawn_as_they_are() -> None:
    assert plain_text("a" * 50) == "a" * 39 + "…"
    assert plain_text("$x$") == r"\$x\$"
