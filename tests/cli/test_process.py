"""The command line as a process: how it ends when it is interrupted, and what reaches standard output."""

from __future__ import annotations

import gc
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from longtail.cli import main

LONGTAIL = [sys.executable, "-m", "longtail"]


@pytest.fixture
def never_ends(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training that takes for ever, in this test's processes and in those that they start."""
    (here / "sitecustomize.py").write_text(
        "import time\nfrom longtail.models.popular import Popular\nPopular._fit = lambda *args: time.sleep(60)\n"
    )
    (here / "d.csv").write_text("text,labels\n" + "red apple,fruit\nfast car,vehicle\n" * 10)
    monkeypatch.setenv("PYTHONPATH", str(here))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize(
    "words", [["train", "d.csv", "--model", "popular", "--out", "m"], ["compare", "d.csv", "-m", "popular"]]
)
def test_an_interrupt_leaves_nothing_behind(
    words: list[str], number: signal.Signals, code: int, never_ends: None, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = here / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    before = sorted(here.iterdir())
    process = subprocess.Popen([*LONGTAIL, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if "training" in line:
            break
    time.sleep(1)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == code, err
    assert "Traceback" not in err
    assert out == ""
    assert sorted(here.iterdir()) == before
    assert not list(scratch.iterdir())


def test_an_interrupt_while_saving_keeps_the_old_model(here: Path) -> None:
    (here / "d.csv").write_text("text,labels\nred apple,fruit\nfast car,vehicle\n")
    train = ["train", "d.csv", "--model", "popular", "--out", "m"]
    subprocess.run([*LONGTAIL, *train], check=True, capture_output=True)
    document = (here / "m" / "model.json").read_bytes()
    (here / "stop.py").write_text(
        "import os, signal\n"
        "from longtail.models.popular import Popular\n"
        "def stop(self):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "Popular._state = stop\n"
        "from longtail.cli import main\n"
        "main()\n"
    )
    ended = subprocess.run([sys.executable, "stop.py", *train], capture_output=True, text=True, check=False)
    assert ended.returncode == 130
    assert sorted(path.name for path in here.iterdir()) == ["d.csv", "m", "stop.py"]
    assert (here / "m" / "model.json").read_bytes() == document


@pytest.mark.parametrize(("cause", "code"), [(KeyboardInterrupt(), 130), (SystemExit(143), 143), (None, None)])
def test_a_signal_that_a_kernel_turns_into_an_error_of_its_own(
    monkeypatch: pytest.MonkeyPatch, cause: BaseException | None, code: int | None
) -> None:
    def app() -> None:
        raise SystemError("returned a result with an exception set") from cause

    monkeypatch.setattr("longtail.cli.app.app", app)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(gc, "set_threshold", lambda *_: None)
    with pytest.raises(SystemError if code is None else SystemExit) as ended:
        main()
    assert code is None or ended.value.code == code


def test_a_process_ends_without_a_search_for_cycles() -> None:
    code = (
        "import atexit, gc, sys; from longtail.cli import main; sys.argv[1:] = ['--version'];"
        "atexit.register(lambda: print(gc.get_freeze_count() > 0)); main()"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "True"


def test_nothing_but_json_on_standard_output_and_no_complaint_about_a_closed_pipe(here: Path) -> None:
    (here / "d.csv").write_text("text,labels\n" + "red apple,fruit\nfast car,vehicle\n" * 40)
    compared = subprocess.run([*LONGTAIL, "compare", "d.csv", "--models", "popular", "--json"], capture_output=True)
    assert compared.returncode == 0, compared.stderr
    assert json.loads(compared.stdout)[0]["model"] == "popular"
    subprocess.run([*LONGTAIL, "train", "d.csv", "--model", "popular", "--out", "m"], check=True, capture_output=True)
    (here / "many.txt").write_text("red apple\n" * 20000)
    command = f"'{sys.executable}' -m longtail predict m --input many.txt | head -n 1"
    piped = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert piped.stdout.strip() == "red apple"
    assert "Traceback" not in piped.stderr
    assert "Exception" not in piped.stderr
