"""What ships: the package with its demo data, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import longtail

ROOT = Path(__file__).resolve().parents[1]


def test_the_wheel_holds_the_package_and_the_demo_data(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("longtail-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"longtail/data/demo/{part}.json.xz" for part in ("trn", "tst", "lbl")} < names
    assert {
        "longtail/data/demo/NOTICE.md",
        "longtail/py.typed",
        "longtail/cli/app.py",
        "longtail/report/page.css",
    } < names
    assert not any("__pycache__" in name for name in names)
    assert {name.partition("/")[0] for name in names} == {"longtail", f"longtail-{longtail.__version__}.dist-info"}


def test_a_wheel_with_compiled_kernels_names_its_platform(tmp_path: Path) -> None:
    kernels = tmp_path / "kernels" / "kernels_0123"
    kernels.mkdir(parents=True)
    for name in ("a.py311.nbi", "a.py311.1.nbc", "a.txt"):
        (kernels / name).write_bytes(b"x")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    environment = os.environ | {"LONGTAIL_KERNELS": str(kernels.parent)}
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env=environment)
    (wheel,) = tmp_path.glob("longtail-*.whl")
    assert f"-cp{sys.version_info.major}{sys.version_info.minor}-none-" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    shipped = {name for name in names if name.startswith("longtail/kernels/compiled/")}
    assert shipped == {f"longtail/kernels/compiled/{name}" for name in ("a.py311.nbi", "a.py311.1.nbc")}


def test_the_demo_data_is_small_and_says_its_licence() -> None:
    assert sum(path.stat().st_size for path in longtail.DEMO.iterdir()) < 3_000_000
    assert "licence" in (longtail.DEMO / "NOTICE.md").read_text()


def test_the_wheel_says_who_can_use_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("longtail-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(f"longtail-{longtail.__version__}.dist-info/METADATA").decode()
        tags = archive.read(f"longtail-{longtail.__version__}.dist-info/WHEEL").decode()
    assert "Tag: py3-none-any" in tags  # one wheel for every platform
    assert "Classifier: Typing :: Typed" in metadata
    required = [line for line in metadata.splitlines() if line.startswith("Requires-Dist:") and "extra ==" not in line]
    assert not [line for line in required if any(heavy in line for heavy in ("torch", "polars", "matplotlib", "faiss"))]
