"""The harness that measures peers, with a peer that is made up: no network, no other library, no real data."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from benchmarks import machine, render, results
from benchmarks.peers import bars, environments, runner, section, systems
from benchmarks.peers import prepare as preparation
from benchmarks.peers import run as command
from benchmarks.peers.generated import GENERATED
from benchmarks.peers.prepare import prepare, prepare_generated, unit_rows
from benchmarks.peers.summary import error, summary
from benchmarks.peers.systems import SYSTEMS, System
from longtail.data import synthetic

FAKE = '''
import json, sys, time
import scipy.sparse as sp
from benchmarks.peers.workers import protocol

protocol.SINGLE_ROWS, protocol.SINGLE_PASSES, protocol.BATCH_REPEATS = 3, 1, 2

class Fake(protocol.Worker):
    """Names the most frequent labels for everything; breaks or sleeps when told to."""
    def version(self): return "fake 1.0"
    def load_train(self, data): self.Y = protocol.load_matrix(data / "Y.trn.npz")
    def fit(self):
        if self.params.get("break"): raise RuntimeError("the tree fell over")
        time.sleep(self.params.get("sleep", 0))
        counts = self.Y.sum(axis=0).A1
        self.order = counts.argsort()[::-1].tolist()
    def save(self):
        self.folder.mkdir()
        (self.folder / "order.json").write_text(json.dumps([self.order, self.params]))
    def load(self): self.order, self.trained_with = json.loads((self.folder / "order.json").read_text())
    def load_test(self, data): self.n, self.n_labels = protocol.load_matrix(data / "Y.tst.npz").shape
    def predict(self, k, threads):
        return [[(label, 0.9 / (1 + i)) for i, label in enumerate(self.order[:k])]] * self.n
    def point(self, row): return row
    def predict_one(self, point, k): return self.order[:k]
    def scores(self, answer): return protocol.pairs_to_csr(answer, self.n_labels)

if __name__ == "__main__":
    protocol.main(Fake)
'''


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small data set in sparse text, one training point of which has no features."""
    folder = tmp_path_factory.mktemp("sets") / "tiny"
    folder.mkdir()
    (folder / "train.txt").write_text("4 3 3\n0,1 0:3 1:4\n0 2:1\n2 \n0 1:2\n")
    (folder / "test.txt").write_text("2 3 3\n0 0:1\n1,2 1:1\n")
    return folder


@pytest.fixture(scope="module")
def data(source: Path) -> Path:
    folder = source.parent / "prepared"
    prepare(source, folder)
    return folder


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> System:
    (tmp_path / "fake_worker.py").write_text(FAKE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return System("fake", "fake_worker", None, {}, "made up", seeded=True)


# Preparing ---------------------------------------------------------------------------------------------------------


def test_prepared_matrices_have_rows_of_length_one_and_files_for_all(source: Path, data: Path) -> None:
    from scipy.sparse import load_npz

    X = load_npz(data / "X.trn.npz")
    np.testing.assert_allclose(X.toarray(), [[0.6, 0.8, 0], [0, 0, 1], [0, 0, 0], [0, 1, 0]], rtol=1e-6)
    assert (data / "words.trn.txt").read_text().splitlines()[0] == "__label__0 __label__1 f0 f1"
    assert (data / "words.tst.txt").read_text().splitlines() == ["f0", "f1"]
    assert (data / "train.txt").read_text().startswith("3 3 3\n")  # the empty point is kept from omikuji
    facts = json.loads((data / "prepared.json").read_text())["facts"]
    assert facts["n_without_features"] == 1
    assert facts["n_labels"] == 3


def test_preparing_again_does_nothing_until_the_source_changes(
    source: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(source, data)
    assert "preparing" not in capsys.readouterr().out


def test_a_generated_set_is_made_again_only_when_its_settings_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"n_points": 40, "n_features": 50, "n_labels": 20}
    facts = prepare_generated("small", settings, tmp_path)
    assert (facts["n_train"], facts["n_test"], facts["n_labels"]) == (40, 8, 20)
    assert capsys.readouterr().out.startswith("preparing small")
    assert prepare_generated("small", settings, tmp_path) == facts
    assert not capsys.readouterr().out
    assert prepare_generated("small", settings | {"n_points": 41}, tmp_path)["n_train"] == 41


def test_the_command_measures_generated_sets_without_a_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(GENERATED, "synthetic-tiny", {"n_points": 1_000, "n_features": 50, "n_labels": 20})
    monkeypatch.setattr(command, "measure", lambda *_, **__: _record(1.0))
    folders = {"work": tmp_path, "results": tmp_path, "page": tmp_path / "RESULTS.md"}
    arguments = [
        "--data",
        "synthetic-tiny",
        "--models",
        "bonsai-1",
        "--repeat",
        "1",
        "--data-root",
        str(tmp_path / "x"),
    ]
    command.main(arguments, **folders)
    assert results.load("peers", tmp_path)["data"]["synthetic-tiny"]["n_labels"] == 20  # type: ignore[index]
    page = (tmp_path / "RESULTS.md").read_text()
    assert "Generated by `longtail.data.synthetic.make(n_points=1_000, n_features=50, n_labels=20)`." in page


def test_unit_rows_keeps_empty_rows_at_either_end() -> None:
    X = csr_array(np.array([[0, 0], [3, 4], [0, 0], [0, 2], [0, 0]], np.float32))
    np.testing.assert_allclose(unit_rows(X).toarray(), [[0, 0], [0.6, 0.8], [0, 0], [0, 1], [0, 0]], rtol=1e-6)


# Measuring ---------------------------------------------------------------------------------------------------------


def test_a_measurement_has_every_figure(fake: System, data: Path, tmp_path: Path) -> None:
    record = runner.measure(fake, Path(sys.executable), data, tmp_path / "run", repeat=7)
    assert "error" not in record, record
    assert record["version"] == "fake 1.0"
    for key in ("train_seconds", "train_cpu_seconds", "batch_ms_1", "batch_ms_2", "single_ms_p50", "model_mb"):
        assert record[key] >= 0
    assert record["train_peak_mb"] >= record["train_peak_above_start_mb"]
    assert record["metrics"]["P@1"] == 50.0  # label 0 is the most frequent, and right for one of two points
    assert len(record["metrics"]["frontier"]) == 9
    assert not (tmp_path / "run" / "model").exists()  # models are large, and measured


def test_a_failing_worker_gives_its_last_words(fake: System, data: Path, tmp_path: Path) -> None:
    broken = System("fake", fake.worker, None, {"break": True})
    record = runner.measure(broken, Path(sys.executable), data, tmp_path / "run")
    assert record == {"error": "fit: RuntimeError: the tree fell over"}


def test_a_slow_worker_is_stopped(fake: System, data: Path, tmp_path: Path) -> None:
    slow = System("fake", fake.worker, None, {"sleep": 60})
    record = runner.measure(slow, Path(sys.executable), data, tmp_path / "run", timeout=1.5)
    assert record["error"].startswith("fit: not done after")


def test_the_command_interleaves_merges_and_renders(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[tuple[str, int]] = []

    def measure(system: System, *_: Any, repeat: int, **__: Any) -> dict[str, Any]:
        order.append((system.name, repeat))
        return {"error": "fit: no memory"} if system.name == "dismec" else _record(1.0 + repeat)

    monkeypatch.setattr(command, "measure", measure)
    monkeypatch.setattr(command, "python_of", lambda environment: Path(sys.executable))
    args = ["--data", "tiny", "--data-root", str(source.parent), "--repeat", "2", "--lock", str(tmp_path / "lock")]
    page = tmp_path / "RESULTS.md"
    folders = {"work": tmp_path / "work", "results": tmp_path / "results", "page": page}
    command.main([*args, "--models", "parabel,dismec,omikuji-parabel"], **folders)
    assert order == [(n, 0) for n in ("parabel", "dismec", "omikuji-parabel")] + [
        ("parabel", 1),
        ("omikuji-parabel", 1),
    ]
    text = page.read_text()
    assert "failed: fit: no memory" in text
    assert "1.00 **✗** |" in text  # training as slow as the peer's is not 0.6 of it
    assert "†" not in text.partition("| goal |")[2]
    order.clear()
    command.main([*args, "--models", "parabel"], **folders)  # figures of one system are replaced, the others stay
    known = json.loads((tmp_path / "results" / "peers.json").read_text())
    assert set(known["results"]["tiny"]) == {"parabel", "dismec", "omikuji-parabel"}


def test_blend_is_measured_with_label_text_and_only_where_there_is_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = synthetic.make(n_points=1_000, n_features=60, n_labels=20, label_text=True)
    assert train.test is not None
    monkeypatch.setattr(preparation, "read", lambda path: train)
    monkeypatch.setattr(command, "python_of", lambda environment: Path(sys.executable))
    blend = SYSTEMS["blend"]
    for name, text in (("with", True), ("without", False)):
        (tmp_path / "sets" / name).mkdir(parents=True)
        if not text:
            train.Z = None
        facts = prepare(tmp_path / "sets" / name, tmp_path / name)
        assert command._suits(blend, facts, tmp_path / name) == text
        assert command._suits(SYSTEMS["parabel"], facts, tmp_path / name)
    record = runner.measure(blend, Path(sys.executable), tmp_path / "with", tmp_path / "run")
    assert "error" not in record, record
    assert record["metrics"]["P@1"] > 50


# Results -----------------------------------------------------------------------------------------------------------


def _record(seconds: float = 1.0, precision: float = 50.0, **figures: float) -> dict[str, Any]:
    point = {f"{metric}@{k}": precision for metric in ("P", "PSP") for k in (1, 3, 5)}
    metrics = {f"{m}@{k}": precision for m in ("P", "nDCG", "PSP", "PSnDCG", "R", "C", "B") for k in (1, 3, 5)}
    keys = ("train_cpu_seconds", "warm_up_seconds", "batch_ms_1", "batch_ms_2", "single_ms_p50", "model_mb")
    keys += ("train_peak_mb", "train_peak_above_start_mb", "predict_peak_mb", "predict_peak_above_start_mb")
    record = dict.fromkeys(keys, 1.0) | {"train_seconds": seconds} | figures
    return record | {"version": "fake 1.0", "metrics": metrics | {"frontier": [{"beta": 0.0, **point}]}}


def test_summary_takes_the_best_time_and_the_mean_metric() -> None:
    known = summary({"runs": [_record(3.0, 50.0), _record(2.0, 60.0)]})
    assert known is not None
    assert known["train_seconds"] == 2.0
    assert known["P@1"] == 55.0
    assert known["frontier"][0]["PSP@5"] == 55.0
    assert known["n_runs"] == 2


def test_summary_of_failures_is_none() -> None:
    entry = {"runs": [{"error": "fit: broke"}]}
    assert summary(entry) is None
    assert error(entry) == "fit: broke"
    assert summary(None) is None


def _judged(goal: str, figures: bars.Figures) -> bars.Cell | None:
    return next(bar.judge(figures) for bar in bars.bars() if bar.goal.startswith(goal))


def _figures(seconds: float = 1.0, precision: float = 50.0, **more: float) -> dict[str, Any]:
    known = summary({"runs": [_record(seconds, precision, **more)]})
    assert known is not None
    return known


def test_accuracy_bar_takes_the_worst_metric_with_leeway() -> None:
    ours, theirs = _figures(precision=49.8), _figures()
    assert _judged("Parabel: P", {"parabel": ours, "omikuji-parabel": theirs}).passed  # type: ignore[union-attr]
    ours["PSP@3"] = 49.6
    cell = _judged("Parabel: P", {"parabel": ours, "omikuji-parabel": theirs})
    assert cell == bars.Cell("-0.40 (PSP@3)", False)


def test_speed_bars_compare_with_the_best_peer_but_not_with_fasttext() -> None:
    figures = {
        systems.ONE_TREE: _figures(batch_ms_2=0.2),
        "pecos-xrlinear": _figures(batch_ms_2=0.4),
        "napkinxc-plt": _figures(batch_ms_2=0.25),
        "fasttext-ova": _figures(batch_ms_2=0.01),
    }
    assert _judged("batch time, 2 threads, 1 tree", figures) == bars.Cell("0.80 (napkinxc)", True)
    figures |= {"parabel": _figures(batch_ms_2=0.3), "omikuji-parabel": _figures(batch_ms_2=0.5)}
    cell = _judged("batch time, 2 threads, Parabel", figures)
    assert cell == bars.Cell("1.20 (napkinxc), 0.60 (same trees)", False)


def test_one_tree_must_be_as_fast_and_as_right_as_pecos() -> None:
    peers = {"pecos-xrlinear": _figures(seconds=2.0)}
    fast = peers | {systems.ONE_TREE: _figures(seconds=1.0)}
    worse = peers | {systems.ONE_TREE: _figures(seconds=1.0, precision=49.9)}
    assert _judged("training, 1 tree", fast) == bars.Cell("0.50 (P@5 +0.00)", True)
    assert _judged("training, 1 tree", worse) == bars.Cell("0.50 (P@5 -0.10)", False)


def test_a_bar_without_figures_is_left_open() -> None:
    assert all(bar.judge({}) is None for bar in bars.bars())
    assert _judged("DiSMEC", {"dismec": _figures()}) is None


def test_merge_keeps_other_entries_and_drops_those_of_other_matrices_or_machines(tmp_path: Path) -> None:
    facts = {"n_train": 10}
    command.merge("a", facts, {"x": {"runs": [1]}}, tmp_path)
    command.merge("b", facts, {"x": {"runs": [2]}}, tmp_path)
    command.merge("a", facts, {"y": {"runs": [3]}}, tmp_path)
    known = results.load("peers", tmp_path)
    assert known is not None
    assert {name: set(part) for name, part in known["results"].items()} == {"a": {"x", "y"}, "b": {"x"}}
    command.merge("a", {"n_train": 11}, {"y": {"runs": [4]}}, tmp_path)
    known = results.load("peers", tmp_path)
    assert known is not None
    assert set(known["results"]["a"]) == {"y"}
    results.save("peers", known | {"machine": {"processor": "another"}}, tmp_path)
    command.merge("c", facts, {"z": {"runs": [5]}}, tmp_path)
    known = results.load("peers", tmp_path)
    assert known is not None
    assert set(known["results"]) == {"c"}


def test_figures_of_different_runs_are_marked() -> None:
    entry = {"date": "2026-01-01", "params": {}, "runs": [_record()]}
    facts = {"n_train": 1, "n_test": 1, "n_features": 1, "n_labels": 1, "n_nonzeros": 1, "n_without_features": 2}
    known: dict[str, Any] = {"machine": machine.facts(), "versions": machine.versions(), "data": {"a": facts}}
    known["results"] = {"a": {"parabel": entry | {"run": "1"}, "omikuji-parabel": entry | {"run": "1"}}}
    assert "† |" not in section.render(known)
    known["results"]["a"]["parabel"]["run"] = "2"
    text = section.render(known)
    assert "† |" in text
    assert "2 training points without features are kept from omikuji" in text


def test_the_page_holds_the_sections_that_have_results(tmp_path: Path) -> None:
    page = render.render(tmp_path / "RESULTS.md", tmp_path / "none")
    assert page.read_text().startswith("# Results")
    assert "##" not in page.read_text()[2:]


def test_rounding_keeps_five_digits() -> None:
    assert results.rounded({"a": [1.23456789, 123456.789], "b": "x", "c": 7}) == {
        "a": [1.2346, 123460.0],
        "b": "x",
        "c": 7,
    }


def test_facts_of_the_machine_name_no_host() -> None:
    import platform

    assert set(machine.facts()) == {"processor", "cores", "memory", "system", "python"}
    assert platform.node() not in " ".join(machine.facts().values())


# Choosing ----------------------------------------------------------------------------------------------------------


def test_systems_are_chosen_by_name_or_group() -> None:
    assert [s.name for s in systems.chosen("omikuji-bonsai,parabel")] == ["omikuji-bonsai", "parabel"]
    assert {s.name for s in systems.chosen(None)} == set(systems.SYSTEMS)
    assert next(s.name for s in systems.chosen("parabel,ours")) == "parabel"
    with pytest.raises(SystemExit, match="No system is called 'parbel'"):
        systems.chosen("parbel")


def test_every_peer_has_a_worker_and_pinned_requirements() -> None:
    root = Path(systems.__file__).parents[2]
    for system in systems.SYSTEMS.values():
        assert (root / (system.worker.replace(".", "/") + ".py")).exists()
        if system.environment is not None:
            lines = (environments.HERE / f"requirements-{system.environment}.txt").read_text().splitlines()
            assert all("==" in line for line in lines if line and not line.startswith("#"))


def test_our_own_interpreter_needs_no_environment() -> None:
    assert environments.python_of(None) == Path(sys.executable)
