"""Both OpenAPI documents are true: schemathesis sends what they allow and what they forbid, and checks the answers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.serve.conftest import Server


@pytest.mark.parametrize("document", ["openapi.json", "v1/openapi.json"])
def test_the_service_keeps_to_its_document(server: Server, document: str, tmp_path: Path) -> None:
    tool = Path(sys.executable).with_name("schemathesis")
    if not tool.exists():
        pytest.skip("schemathesis is not installed (pip install schemathesis)")
    options = ["--phases", "examples,coverage,fuzzing", "--max-examples", "15", "--seed", "0", "--no-color"]
    ended = subprocess.run(
        [tool, "run", f"{server.url}/{document}", *options], cwd=tmp_path, capture_output=True, text=True, timeout=280
    )
    assert ended.returncode == 0, ended.stdout
    assert "WARNINGS" not in ended.stdout, ended.stdout
