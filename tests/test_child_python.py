"""A child process imports what its parent imports, whatever lies in the folder it is started in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import longtail
from longtail.child_python import child_command, child_environment


def test_files_in_the_current_folder_are_not_imported(tmp_path: Path) -> None:
    (tmp_path / "longtail").mkdir()
    for name in ("longtail/__init__.py", "random.py", "numpy.py"):
        (tmp_path / name).write_text("raise SystemExit('a file of the current folder was imported')")
    code = "import longtail, random, numpy; print(longtail.__file__)"
    for words in (["-c", code], ["-m", "longtail", "--version"]):
        command = child_command(*words)
        found = subprocess.run(command, cwd=tmp_path, env=child_environment(), capture_output=True, text=True)
        assert found.returncode == 0, found.stderr
        assert found.stdout.strip() in (longtail.__file__, f"longtail {longtail.__version__}")


def test_more_variables_are_passed_on() -> None:
    code = "import os; print(os.environ['LONGTAIL_TEST'])"
    found = subprocess.run(
        child_command("-c", code), env=child_environment({"LONGTAIL_TEST": "1"}), capture_output=True, text=True
    )
    assert found.stdout == "1\n"
    assert child_command()[0] == sys.executable
