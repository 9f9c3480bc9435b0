"""Saves that are killed, or that meet each other, leave the old model or the new one, whole and under its name."""

from __future__ import annotations

import errno
import io
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from longtail import store
from longtail.errors import DataError
from longtail.store import atomic, owner

_SAVER = """
import sys, numpy as np
from longtail import store
from longtail.store import atomic
if sys.argv[2] == "moved":
    atomic._exchange = lambda first, second: False
print("ready", flush=True)
n = 0
while True:
    n += 1
    with store.atomic_folder(sys.argv[1]) as fresh:
        store.write(fresh, "test", {"n": n}, {f"w{i}": np.full(1000, n) for i in range(3)})
"""


def written(folder: Path, n: int = 0) -> Path:
    with store.atomic_folder(folder) as fresh:
        store.write(fresh, "test", {"n": n}, {"w": np.full(3, n)})
    return folder


def dead_signature() -> str:
    """Return the identity of a process that is gone."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        text = str(owner.this_process()._replace(pid=process.pid, start=owner.start_time(process.pid) or 0))
        process.communicate(b"")
    return text


def kill_savers(folder: Path, times: int, how: str = "swapped") -> None:
    """Kill processes while they replace a model over and over; what is left must be whole each time."""
    written(folder)
    clock = random.Random(0)
    for _ in range(times):
        with subprocess.Popen([sys.executable, "-c", _SAVER, folder, how], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(clock.uniform(0, 0.03))
            os.kill(process.pid, signal.SIGKILL)
        stored = store.read(folder, verify=True)
        assert all((array == stored.meta["n"]).all() for array in stored.arrays.values())
    written(folder)
    assert [entry.name for entry in folder.parent.iterdir()] == [folder.name]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="start times of processes")
@pytest.mark.parametrize("how", ["swapped", "moved"])
def test_a_killed_save_leaves_a_whole_model(tmp_path: Path, how: str) -> None:
    kill_savers(tmp_path / "m", int(os.environ.get("LONGTAIL_KILLS", "6")), how)


def test_leftovers_of_the_dead_go_and_those_of_the_living_stay(tmp_path: Path) -> None:
    written(tmp_path / "m")
    gone, here = dead_signature(), owner.this_process()
    for name in (f".m.new-{gone}-0123abcd", f".m.old-{gone}-0123abcd", f".m.new-{here}-0123abcd"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "w.npy").write_text("half")
    mine = tmp_path / ".m.new-notes"
    mine.mkdir()
    (tmp_path / ".m.lock").write_text(gone)
    written(tmp_path / "m")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [f".m.new-{here}-0123abcd", ".m.new-notes", "m"]


def test_what_a_killed_swap_moved_aside_is_put_back(tmp_path: Path) -> None:
    written(tmp_path / "m", 7)
    (tmp_path / "m").rename(tmp_path / f".m.old-{dead_signature()}-0123abcd")
    assert store.read(tmp_path / "m").meta["n"] == 7
    (tmp_path / "m").rename(tmp_path / f".m.old-{dead_signature()}-0123abcd")
    with pytest.raises(RuntimeError), store.atomic_folder(tmp_path / "m"):
        raise RuntimeError
    assert store.read(tmp_path / "m").meta["n"] == 7


def test_a_second_writer_is_refused_with_the_name_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, "_LOCK_WAIT_SECONDS", 0.1)
    parent = owner.this_process()._replace(pid=os.getppid(), start=owner.start_time(os.getppid()) or 0)
    (tmp_path / ".m.lock").write_text(str(parent))
    with pytest.raises(DataError, match=f"process {os.getppid()} is writing"):
        written(tmp_path / "m")
    (tmp_path / ".m.lock").write_text("")  # named by nobody
    written(tmp_path / "m")
    assert [entry.name for entry in tmp_path.iterdir()] == ["m"]


def test_two_savers_at_once_both_end_whole(tmp_path: Path) -> None:
    code = _SAVER.replace("while True", "while n < 30")
    savers = [
        subprocess.Popen([sys.executable, "-c", code, tmp_path / "m", "swapped"], stdout=subprocess.DEVNULL)
        for _ in range(2)
    ]
    assert [saver.wait(60) for saver in savers] == [0, 0]
    assert store.read(tmp_path / "m", verify=True).meta["n"] == 30
    assert [entry.name for entry in tmp_path.iterdir()] == ["m"]


def test_saves_inside_one_process_do_not_wait_for_each_other(tmp_path: Path) -> None:
    with store.atomic_folder(tmp_path / "m") as fresh:
        written(tmp_path / "m", 1)
        store.write(fresh, "test", {"n": 2}, {})
    assert store.read(tmp_path / "m").meta["n"] == 2


@pytest.mark.parametrize("lock", ["", "signed"])
def test_a_checkpoint_killed_in_its_first_save_is_still_one(tmp_path: Path, lock: str) -> None:
    gone = dead_signature()
    (tmp_path / f".network.new-{gone}-0123abcd").mkdir()
    (tmp_path / ".network.lock").write_text(lock and gone)
    assert store.check_checkpoint(tmp_path) == tmp_path
    (tmp_path / ".mine.lock").write_text("my notes")
    with pytest.raises(DataError, match="not a checkpoint of longtail"):
        store.check_checkpoint(tmp_path)


def test_a_file_killed_in_writing_is_removed_by_the_next(tmp_path: Path) -> None:
    (tmp_path / f".f.new-{dead_signature()}-0123abcd").write_text("half")
    with atomic.atomic_file(tmp_path / "f") as path:
        path.write_text("whole")
    assert [entry.name for entry in tmp_path.iterdir()] == ["f"]


def test_a_lock_that_cannot_be_written_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a full disk, where a file can be made and nothing written to it."""

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(owner.os, "fdopen", lambda descriptor, mode: os.close(descriptor) or Full())
    with pytest.raises(OSError, match="No space left"), owner.locked(tmp_path / "m"):
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="containers")
@pytest.mark.parametrize("held", [True, False])
def test_a_save_of_another_container_is_alive_while_it_has_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: bool
) -> None:
    """There, the same number means another process, or none."""
    monkeypatch.setattr(owner, "_LOCK_WAIT_SECONDS", 0.1)
    other = owner.this_process()._replace(pid=4194303, start=1, space="0000")
    lock, leftover = tmp_path / ".m.lock", tmp_path / f".m.new-{other}-0123abcd"
    leftover.mkdir()
    lock.write_text(str(other))
    with lock.open("r+") as file:
        if held:
            assert owner._lock_of_system(file)
            with pytest.raises(DataError, match=rf"process 4194303 of another container.*remove .*{lock.name}"):
                written(tmp_path / "m")
            assert leftover.is_dir()
        else:
            written(tmp_path / "m")
            assert [entry.name for entry in tmp_path.iterdir()] == ["m"]


def test_a_save_of_another_machine_is_alive_and_one_before_a_restart_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, "_LOCK_WAIT_SECONDS", 0.1)
    before = owner.this_process()._replace(boot="0000")
    (tmp_path / ".m.lock").write_text(str(before._replace(machine="0000")))
    with pytest.raises(DataError, match="another container or machine"):
        written(tmp_path / "m")
    (tmp_path / ".m.lock").write_text(str(before))
    written(tmp_path / "m")
    assert [entry.name for entry in tmp_path.iterdir()] == ["m"]


def test_a_file_of_the_user_with_the_name_of_a_lock_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / ".m.lock").write_text("my notes")
    (tmp_path / ".n.lock").mkdir()
    (tmp_path / ".o.lock").symlink_to("nowhere")
    for name in "mno":
        with pytest.raises(DataError, match=rf"\.{name}\.lock: is not a lock of longtail"):
            written(tmp_path / name)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".m.lock", ".n.lock", ".o.lock"]
    assert (tmp_path / ".m.lock").read_text() == "my notes"


def test_a_link_to_a_file_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "link").symlink_to("deep/real")  # which is not there yet
    for content in ("old", "new"):
        with atomic.atomic_file(tmp_path / "link") as path:
            path.write_text(content)
        assert (tmp_path / "link").is_symlink()
        assert {entry.name: entry.read_text() for entry in (tmp_path / "deep").iterdir()} == {"real": content}


def test_a_device_a_fifo_a_folder_and_a_circle_of_links_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "device").symlink_to(os.devnull)
    (tmp_path / "folder").mkdir()
    (tmp_path / "circle").symlink_to("circle")
    before = {entry.name: entry.lstat().st_mode for entry in tmp_path.iterdir()}
    for name in (*before, os.devnull):
        with pytest.raises(DataError, match="not a file to write"), atomic.atomic_file(tmp_path / name) as path:
            path.write_text("x")
    assert {entry.name: entry.lstat().st_mode for entry in tmp_path.iterdir()} == before
