"""Damaged data files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import longtail
from longtail.data import synthetic

FORMATS = ("sparse", "npz", "json", "csv", "svmlight", "gz", "xz", "zst")
_BITS = [b"", b"\n", b":", b",", b" ", b"-1", b"1e99", b"nan", b"99999999999", b"\0", b"\xff", b'"', b"{", b"]", b"|"]


def build_files(kind: str, folder: Path) -> None:
    """Write a small dataset in one format."""
    drawn = synthetic.make(20, 12, 6, random_state=0)
    drawn.test = None
    folder.mkdir()
    if kind in ("sparse", "npz"):
        longtail.write(drawn, folder / "set", kind)
    elif kind in ("gz", "xz", "zst"):
        longtail.write(drawn, folder / f"set.txt.{kind}")
    elif kind == "csv":
        (folder / "set.csv").write_text("text,labels\n" + "".join(f'"a word{i}",x|y{i % 3}\n' for i in range(20)))
    elif kind == "svmlight":
        (folder / "set.svm").write_text("".join(f"{i % 3},{i % 5} {1 + i % 4}:0.5 7:1.25\n" for i in range(20)))
    else:
        (folder / "set").mkdir()
        rows = "".join(f'{{"uid": "p{i}", "title": "a word{i}", "target_ind": [{i % 3}]}}\n' for i in range(20))
        (folder / "set" / "trn.json").write_text(rows)
        (folder / "set" / "lbl.json").write_text(
            "".join(f'{{"uid": "l{i}", "title": "label {i}"}}\n' for i in range(3))
        )


def mutate_files(folder: Path, rng: np.random.Generator) -> str:
    """Change some bytes of one file."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    path = paths[rng.integers(len(paths))]
    content = path.read_bytes()
    for _ in range(int(rng.choice([1, 1, 2, 5]))):
        at, how = int(rng.integers(len(content) + 1)), rng.integers(4)
        if how == 0:
            content = content[:at] + bytes([rng.integers(256)]) + content[at + 1 :]
        elif how == 1:
            content = content[:at] + _BITS[rng.integers(len(_BITS))] + content[at:]
        elif how == 2:
            content = content[:at] + content[at + int(rng.integers(1, 30)) :]
        else:
            content = content[:at] if rng.random() < 0.3 else content + content[at : at + 50]
    path.write_bytes(content)
    return f"{path.name}: {len(content)} bytes"


def use_files(folder: Path) -> None:
    """Read what is there."""
    found: Any = longtail.read(next(iter(sorted(folder.iterdir()))))
    found.validate(require_labels=False)
