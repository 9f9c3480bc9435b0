"""The report: what it computes, and a page that is whole, self-contained and safe."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from longtail.metrics import evaluate, inverse_propensity
from longtail.report import analysis
from longtail.report.blocks import Chart, Section, Strong, Table, Tag
from longtail.report.html_report import html_page
from longtail.report.learning_curves import HELD_OUT_KEY, collect_histories, kept_epoch
from longtail.report.markdown_report import markdown_page, plain_markdown
from longtail.report.sections import MeasuredModel, ReportData, build_sections
from longtail.report.svg_chart import Axis, Series, bar_chart, line_chart

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)> `a` | b *c* [d](javascript:e) </style>"


def ranked(rng: np.random.Generator, n: int, L: int, k: int) -> csr_array:
    labels = np.argsort(rng.random((n, L)), axis=1)[:, :k]
    scores = -np.sort(-rng.random((n, k)), axis=1)
    return csr_array((scores.ravel(), labels.ravel(), np.arange(0, n * k + 1, k)), shape=(n, L))


@pytest.fixture
def data() -> ReportData:
    return report_data(np.arange(12)[::-1] * 3 + 1)


def report_data(counts: np.ndarray) -> ReportData:
    """Two models of random scores, with labels of such frequencies."""
    from longtail.metrics import frequency_bins, full_report

    rng = np.random.default_rng(0)
    n, L = 60, len(counts)
    Y = csr_array(rng.random((n, L)) < 0.2, dtype=np.float32)
    Y = Y[np.diff(Y.indptr) > 0]
    weights = inverse_propensity(counts=counts, n_points=500)
    models = []
    for name in (EVIL, "other"):
        scores = ranked(rng, Y.shape[0], L, min(L, 8))
        report = full_report(Y, scores, inv_propensity=weights)
        row = report | {"model": name, "train_seconds": None, "predict_ms_per_point": 0.1, "model_mb": 1.0}
        row["tradeoff"] = [point for point in report["frontier"] if point["beta"] >= 0]
        row["bins"] = frequency_bins(Y, scores, analysis.labels_with_counts(counts), inv_propensity=weights)
        history = [{"loss": 1.0, "train_P@1": 50.0 + i, "validation_P@1": 40.0 + i, "monitor": i} for i in range(3)]
        norms = np.where(counts > 5, counts, np.nan)
        models.append(MeasuredModel(name, scores, row, norms, {EVIL: history}, EVIL))
    return ReportData(EVIL, Y, [f"{EVIL} {j}" for j in range(L)], counts, weights, [EVIL] * Y.shape[0], models)


class Tags(HTMLParser):
    """Collect the elements and attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def test_text_cannot_inject_html(data: ReportData) -> None:
    page = html_page(EVIL, EVIL, build_sections(data))
    found = Tags(page)
    assert not found.names & {"script", "img", "iframe", "object", "link", "base", "form"}
    assert not [name for name in found.attributes if name.startswith("on") or name in ("src", "srcset", "action")]
    assert EVIL in found.text
    assert re.findall(r'href="([^"]*)"', page) == [f"#s{i}" for i in range(10)]


def test_the_page_needs_nothing_else(data: ReportData) -> None:
    page = html_page("a", "b", build_sections(data))
    assert "http://" not in page.replace("javascript", "")
    assert "https://" not in page
    assert "@import" not in page
    assert "default-src 'none'" in page


def test_every_section_is_there(data: ReportData) -> None:
    titles = [section.title for section in build_sections(data)]
    assert titles == [
        "Summary",
        "Differences between the models",
        "Frequent against rare labels",
        "Contribution by label frequency",
        "Are scores probabilities?",
        "Learning curves",
        "Norms of the classifiers",
        "Best and worst labels",
        "Confusions",
        "Twenty examples",
    ]
    examples = build_sections(data)[-1].blocks[0]
    assert isinstance(examples, Table)
    assert len(examples.rows) == 20


def test_markdown_describes_no_picture_that_is_not_there(data: ReportData) -> None:
    sections = build_sections(data)
    page = markdown_page("a", "b", sections)
    for word in ("dot", "diagonal", "drawn", "star", "bars"):
        assert word not in page
    for title in ("Norms of the classifiers", "Are scores probabilities?"):
        (section,) = (one for one in sections if one.title == title)
        last = section.blocks[-1]
        assert isinstance(last, Table)
        assert last.folded
        assert len(last.rows) > 2
        assert plain_markdown(last.heading[1]) in page
    html = html_page("a", "b", sections)
    assert "the further right a curve, the better" in html
    assert "without error lies on the diagonal" in html


def test_long_names_are_shortened_and_bins_of_few_suggestions_not_drawn(data: ReportData) -> None:
    long = replace(data, label_names=["x" * 500] * len(data.label_names))
    assert len(long.tag(0).name) == 120
    calibration = next(one for one in build_sections(data) if one.title == "Are scores probabilities?")
    few = build_sections(replace(data, Y=data.Y[:19], models=[replace(m, scores=m.scores[:19]) for m in data.models]))
    alone = next(one for one in few if one.title == "Are scores probabilities?")
    assert _points_drawn(calibration) > 0
    assert _points_drawn(alone) == 0


def _points_drawn(section: Section) -> int:
    """Count the points of the lines of all charts."""
    pictures = "".join(block.svg for block in section.blocks if isinstance(block, Chart))
    return sum(len(points.split()) for points in re.findall(r'<polyline [^>]*points="([^"]*)"', pictures))


def test_markdown_keeps_text_as_text(data: ReportData) -> None:
    page = markdown_page(EVIL, "b", build_sections(data))
    assert "<script" not in page.replace("\\<script", "")
    assert all(line.count(" | ") >= 1 for line in page.splitlines() if line.startswith("| "))
    assert markdown_page("t", "", [Section("s", "", [Table(["a", "b"], [["x|y", Strong("1")]])])]).endswith(
        "| a | b |\n|---|---:|\n| x\\|y | **1** |\n"
    )


def test_gains_of_points_sum_to_the_metrics(data: ReportData) -> None:
    Y, scores, w = data.Y, data.models[0].scores, data.weights
    metrics = evaluate(Y, scores, inv_propensity=w)
    for k in (1, 5):
        plain, weighted = analysis.point_gains(Y, scores, None, k), analysis.point_gains(Y, scores, w, k)
        assert 100 * plain.gained.sum() / plain.possible.sum() == pytest.approx(metrics[f"P@{k}"])
        assert 100 * weighted.gained.sum() / weighted.possible.sum() == pytest.approx(metrics[f"PSP@{k}"])


def test_bootstrap_intervals() -> None:
    rng = np.random.default_rng(1)
    ones = np.ones(2000)
    worse = analysis.PointGains(rng.random(2000) < 0.4, ones)
    better = analysis.PointGains(rng.random(2000) < 0.6, ones)
    mean, low, high = analysis.bootstrap_difference(
        analysis.PointGains(better.gained.astype(float), ones), analysis.PointGains(worse.gained.astype(float), ones)
    )
    assert 15 < low < mean < high < 25
    spread = 100 * np.sqrt(0.48 / 2000) * 1.96
    assert (high - low) / 2 == pytest.approx(spread, rel=0.15)
    same = analysis.PointGains(ones, ones)
    assert analysis.bootstrap_difference(same, same) == (0, 0, 0)


def test_labels_and_confusions() -> None:
    # Label 0 is always found; label 1 is always missed and label 2 suggested instead.
    Y = csr_array(np.tile([[1.0, 1.0, 0.0, 0.0]], (6, 1)))
    scores = csr_array((np.tile([0.9, 0.5], 6), np.tile([0, 2], 6), np.arange(0, 13, 2)), shape=(6, 4))
    assert analysis.confusions(Y, scores, 5) == [(1, 2, 6)]
    best, worst = analysis.best_and_worst(Y, scores, 1)
    assert (best[0].label, best[0].f1, worst[0].label, worst[0].f1) == (0, 100, 1, 0)
    best, worst = analysis.best_and_worst(Y, scores, 5)
    assert ([one.label for one in best], worst) == ([0, 1], [])  # each label once where they are few
    counts = np.array([100, 3, 2, 1])
    assert analysis.labels_with_counts(counts).sum(axis=0).tolist() == counts.tolist()


def test_confusions_of_large_data_stay_sparse() -> None:
    rng = np.random.default_rng(3)
    Y = csr_array(random_array((3000, 50_000), density=1e-4, rng=rng, format="csr"))
    scores = ranked(rng, 3000, 40, 5)
    scores = csr_array((scores.data, scores.indices, scores.indptr), shape=Y.shape)
    assert len(analysis.confusions(Y, scores, 7)) == 7


@pytest.mark.parametrize("points", [[], [(1.0, 2.0)], [(0.0, 0.0), (1e-9, 1e9)], [(5.0, 5.0), (5.0, 5.0)]])
@pytest.mark.parametrize("log", [False, True])
def test_charts_of_hardly_any_points(points: list[tuple[float, float]], log: bool) -> None:
    axes = Axis("x", log=log), Axis("y", " %", log=log)
    for chart in (line_chart([Series(EVIL, points)], *axes), bar_chart([EVIL], [Series(EVIL, points[:1])], *axes)):
        assert "nan" not in chart
        assert Tags(chart).names <= {"svg", "line", "text", "polyline", "circle", "polygon", "rect"}


def test_rare_labels_and_missed_ones_are_marked_without_colour() -> None:
    tags = [Tag("a", "right", True, "0.9"), Tag("b", "wrong"), Tag("c", "missed")]
    section = Section("s", "", [Table(["x", "y"], [["t", tags]], numeric=False), Chart("<svg></svg>", "c")])
    page = html_page("t", "", [section])
    assert "✓ a ◆" in page
    assert "✗ b" in page
    assert "○ c" in page
    assert "✓ a ◆ (0.9)<br>✗ b<br>○ c" in markdown_page("t", "", [section])


def test_the_summary_counts_one_label_as_one(data: ReportData) -> None:
    summary = build_sections(data)[0].text
    assert f"{data.Y.shape[0]} test points with labels, 12 labels, " in summary
    assert "rarest labels (◆), which together have a fifth of all training labels, have " in summary
    one = build_sections(report_data(np.array([50, 40, 30, 20, 20])))[0].text
    assert "The rarest label (◆), which has a fifth of all training labels, has 20 training points at most." in one


def test_ticks_of_a_short_logarithmic_axis_are_round() -> None:
    chart = line_chart([Series("a", [(1, 0.853), (2000, 7.6)])], Axis("x", log=True), Axis("y", log=True))
    assert re.findall(r'class="tick y"[^>]*>([^<]*)<', chart) == ["1", "2", "5"]
    assert re.findall(r'class="tick x"[^>]*>([^<]*)<', chart) == ["1", "10", "100", "1k"]


def test_headings_break_in_long_names_only_and_counts_stand_right() -> None:
    heading = ["label", "a_long_name_of_a_folder", "suggestions", "points"]
    table = Table(heading, [["a", "b", "c", "1,204"], ["d", "e", "f", "7"]], numeric=False)
    page = html_page("t", "s", [Section("one", "text", [table])])
    assert ">a_long_name_<wbr>of_a_folder</th>" in page
    assert ">suggestions</th>" in page
    assert page.count('class="number"') == 3  # the heading and two rows
    assert 'class="cards short"' in page  # kept on one page of paper
    empty = html_page("t", "s", [Section("one", "text", [Table(["a"], [], numeric=False)])])
    assert ">a</th>" in empty


def test_learning_curves_are_named_by_kind_and_mark_the_epoch_that_was_kept(data: ReportData) -> None:
    history = [{"epoch": i, HELD_OUT_KEY: 40.0 + i, "monitor": -abs(i - 1)} for i in range(3)]
    decaf = {"kind": "decaf", "history": history}
    blend = {"kind": "blend", "parts": {"member_1": decaf, "member_2": {"kind": "knn"}}}
    assert list(collect_histories({"kind": "tagger", "parts": {"ranker": blend}})) == ["blend › decaf"]
    taug = {"kind": "taug", "parts": {"head": decaf, "tail": decaf}}
    assert list(collect_histories(taug)) == ["taug › decaf (head)", "taug › decaf (tail)"]
    assert kept_epoch(history) == 1
    assert kept_epoch([{"loss": 1.0}]) is None
    model = replace(data.models[0], name="mine", histories={"blend › decaf": history})
    (curves,) = (one for one in build_sections(replace(data, models=[model])) if one.title == "Learning curves")
    assert curves.blocks[0].caption == "mine: blend › decaf"
    assert 'class="star' in curves.blocks[0].svg
