"""A virtual environment per peer, with pinned versions, so that what one needs cannot disturb another."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
VENVS = HERE.parent / ".venvs"


def python_of(environment: str | None) -> Path:
    """Return the interpreter of a system; its environment is made when absent or when its requirements changed."""
    if environment is None:
        return Path(sys.executable)
    requirements = HERE / f"requirements-{environment}.txt"
    folder = VENVS / environment
    python, stamp = folder / "bin" / "python", folder / "requirements.sha256"
    wanted = hashlib.sha256(requirements.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"making the environment of {environment} …", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(requirements)]
    subprocess.run(install, check=True)
    stamp.write_text(wanted)
    return python
