"""Compiled kernels on disk: places that can be written, damage, stale entries, several processes, no place at all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import longtail
from longtail.kernels import cache_folders, compiled_cache, cpu_level

PACKAGE = Path(longtail.__file__).parent
_USE = """
import logging, sys
logging.basicConfig(level=logging.DEBUG)
import numpy as np
from longtail.kernels.check import FINE, point_state
print(point_state(np.array([1, 5], np.int32), np.array([1, 2], np.float32), 4) == FINE)
print(len(point_state.stats.cache_hits), len(point_state.stats.cache_misses), file=sys.stderr)
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the kernels alone, without compiled ones."""
    root = tmp_path / "site"
    (root / "longtail").mkdir(parents=True)
    (root / "longtail" / "__init__.py").touch()
    shutil.copytree(PACKAGE / "kernels", root / "longtail" / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PACKAGE / "sparse.py", root / "longtail")  # the only file below the kernels that they use
    return root


def start(root: Path, tmp_path: Path, code: str = _USE, **more: str) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if "CACHE" not in name}
    environment |= {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(tmp_path / "home")} | more
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def use(root: Path, tmp_path: Path, **more: str) -> str:
    """Run a kernel in a process of its own; its answer must be right. Returns what is logged."""
    process = start(root, tmp_path, **more)
    answer, remarks = process.communicate(timeout=120)
    assert process.returncode == 0, remarks
    assert answer.strip() == "False"
    return remarks


def entries(folder: Path, ending: str = "nbc") -> list[Path]:
    return sorted(folder.rglob(f"*.{ending}"))


def test_the_folder_given_comes_first(package: Path, tmp_path: Path) -> None:
    given, numbas = tmp_path / "given", tmp_path / "numbas"
    use(package, tmp_path, LONGTAIL_CACHE=str(given), NUMBA_CACHE_DIR=str(numbas))
    assert len(entries(given)) == 1
    assert not entries(package)
    assert not entries(numbas)
    assert use(package, tmp_path, LONGTAIL_CACHE=str(given)).splitlines()[-1] == "1 0"


@pytest.mark.parametrize(
    "missing",
    [
        "import numba.core.caching as c; del c.CompileResultCacheImpl",
        "import numba, numba.core.codegen as c; numba.__version__ = '0.99.0'; del c.JITCodeLibrary",
        "import numba, numba.core.lowering as c; numba.__version__ = '0.99.0'; del c.Lower.lower_setitem",
    ],
)
def test_another_numba_compiles_and_keeps_kernels_in_its_own_way(package: Path, tmp_path: Path, missing: str) -> None:
    for misses in (1, 0):
        process = start(package, tmp_path, f"import numba\n{missing}\n{_USE}")
        answer, remarks = process.communicate(timeout=120)
        assert process.returncode == 0, remarks
        assert answer.strip() == "False"
        assert remarks.splitlines()[-1] == f"{1 - misses} {misses}"


def test_the_package_is_the_default(package: Path, tmp_path: Path) -> None:
    use(package, tmp_path)
    assert len(entries(package)) == 1


def test_a_damaged_entry_is_compiled_again(package: Path, tmp_path: Path) -> None:
    use(package, tmp_path)
    for ending in ("nbc", "nbi"):
        (found,) = entries(package, ending)
        for content in (b"", b"no pickle", found.read_bytes()[:-20], found.read_bytes()[:40] + b"x" * 100):
            found.write_bytes(content)
            assert use(package, tmp_path).splitlines()[-1] == "0 1"
    assert use(package, tmp_path).splitlines()[-1] == "1 0"


def test_an_index_with_a_renamed_class_is_compiled_again(package: Path, tmp_path: Path) -> None:
    use(package, tmp_path)
    (index,) = entries(package, "nbi")
    import pickle

    version = pickle.loads(index.read_bytes())  # the first of two pickles
    index.write_bytes(pickle.dumps(version) + b"clongtail.kernels.check\nNoSuchClass\n.")
    assert use(package, tmp_path).splitlines()[-1] == "0 1"


def test_a_change_in_an_imported_kernel_file_is_noticed(package: Path) -> None:
    kernels = package / "longtail" / "kernels"
    code = "from longtail.kernels import compiled_cache as c; print(c._source_stamp(c._PACKAGE.joinpath('combine.py')))"

    def stamp() -> str:
        return subprocess.run(
            [sys.executable, "-P", "-c", code],
            env=os.environ | {"PYTHONPATH": str(package)},
            capture_output=True,
            text=True,
        ).stdout

    first = stamp()
    assert len(first.strip()) == 64
    with (kernels / "topk.py").open("a") as stream:
        stream.write("# changed\n")
    assert stamp() != first


def test_entries_of_another_machine_come_with_the_package(package: Path, tmp_path: Path) -> None:
    built = tmp_path / "built"
    for _ in range(2):  # what lies elsewhere does not count: the folder must be complete
        use(package, tmp_path)
        said = use(package, tmp_path, LONGTAIL_CACHE=str(built), **cpu_level.level_environment())
    assert said.splitlines()[-1] == "1 0"
    shipped = package / "longtail" / "kernels" / "compiled"
    shipped.mkdir()
    for path in (*entries(built), *entries(built, "nbi")):
        shutil.move(path, shipped)
    shutil.rmtree(package / "longtail" / "kernels" / "__pycache__")
    assert use(package, tmp_path).splitlines()[-1] == "1 0"
    assert not entries(package / "longtail" / "kernels" / "__pycache__")


def test_a_processor_below_the_level_gets_none_of_its_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    name, features = cpu_level.level()
    if name == "generic":
        pytest.skip("every processor of this architecture has the level")
    assert cpu_level.level_target(("triple", "host", "+all")) in (("triple", name, features), None)
    lacking = {feature[1:]: feature != "+avx2" for feature in features.split(",")}
    monkeypatch.setattr(cpu_level.binding, "get_host_cpu_features", lambda: lacking)
    cpu_level._has_level.cache_clear()
    assert cpu_level.level_target(("triple", "host", "+all")) is None
    cpu_level._has_level.cache_clear()


def test_eight_processes_at_once(package: Path, tmp_path: Path) -> None:
    processes = [start(package, tmp_path) for _ in range(8)]
    for process in processes:
        answer, remarks = process.communicate(timeout=300)
        assert process.returncode == 0, remarks
        assert answer.strip() == "False"
    assert use(package, tmp_path).splitlines()[-1] == "1 0"
    assert not list(package.rglob("*.tmp.*"))


def test_without_any_place_one_warning_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import numpy as np

    from longtail.kernels.compiling import njit

    monkeypatch.setattr(compiled_cache, "writable_folder", lambda: None)
    monkeypatch.setattr(compiled_cache, "readable_folders", lambda: ())
    monkeypatch.setattr(compiled_cache, "_compilation", compiled_cache._Compilation())

    @njit(cache=True)
    def twice(x):  # type: ignore[no-untyped-def]
        return x + x

    assert twice(2) == 4
    assert twice(np.float32(1.5)) == 3.0
    (record,) = [r for r in caplog.records if r.levelname == "WARNING"]
    assert "LONGTAIL_CACHE" in record.getMessage()


def test_a_temporary_folder_of_somebody_else_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_folders.tempfile, "gettempdir", lambda: str(tmp_path))
    folder = cache_folders._private_temporary_folder()
    if not hasattr(os, "getuid"):
        pytest.skip("the owner of a folder cannot be read here")
    assert folder is not None
    assert folder.stat().st_mode & 0o077 == 0
    folder.chmod(0o777)
    assert cache_folders._private_temporary_folder() is None


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root may become another user")
def test_a_read_only_package_and_a_user_without_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    code = (
        "import os, sys, tempfile\n"
        "from longtail.kernels import cache_folders as c\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "os.environ['HOME'] = '/nonexistent'\n"
        "os.environ.pop('LONGTAIL_CACHE', None); os.environ.pop('NUMBA_CACHE_DIR', None)\n"
        "tempfile.tempdir = sys.argv[1]\n"
        "print(c.writable_folder())\n"
    )
    import tempfile

    with tempfile.TemporaryDirectory() as open_folder:  # pytest's own folders are closed to other users
        os.chmod(open_folder, 0o777)
        for mode, expected in ((0o777, f"{open_folder}/longtail-kernels-65534"), (0o555, "None")):
            os.chmod(open_folder, mode)
            shutil.rmtree(f"{open_folder}/longtail-kernels-65534", ignore_errors=True) if mode == 0o555 else None
            done = subprocess.run([sys.executable, "-c", code, open_folder], capture_output=True, text=True)
            assert done.stdout.strip() == expected, done.stderr
