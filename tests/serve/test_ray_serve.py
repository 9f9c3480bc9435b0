"""The service on Ray Serve: the same answers, an orderly end, and clear errors."""

from __future__ import annotations

import builtins
import importlib.util
from pathlib import Path
from typing import Any

import pytest

from longtail.cli.serve import serve_models
from longtail.errors import SettingsError
from tests.serve.conftest import Server, Start

_HAS_SERVE = all(importlib.util.find_spec(name) is not None for name in ("ray", "grpc", "aiohttp"))


@pytest.mark.timeout(600)
@pytest.mark.skipif(not _HAS_SERVE, reason="Ray Serve is not installed: pip install 'ray[serve]'")
def test_answers_are_those_of_the_service_without_ray(server: Server, folders: dict[str, Path], start: Start) -> None:
    env = {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_memory_monitor_refresh_ms": "0"}
    there = start(f"tree={folders['tree']}", "--engine", "ray", "--no-learn", env=env).until_ready()
    texts = ["a red apple", "a blue fig"]
    assert there.suggest(texts).json() == server.suggest(texts).json()
    assert there.suggest([1]).status_code == 422
    assert there.stop() == 0


def test_ray_serve_that_is_missing_is_reported(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    found = builtins.__import__

    def without_ray(name: str, *rest: Any, **more: Any) -> Any:
        if name == "ray":
            raise ModuleNotFoundError("No module named 'ray'", name="ray")
        return found(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without_ray)
    with pytest.raises(SettingsError, match=r"needs Ray Serve \(ray is missing\).*pip install"):
        serve_models([str(folders["tree"])], engine="ray", port=0)


def test_an_engine_that_does_not_exist_is_refused(folders: dict[str, Path]) -> None:
    with pytest.raises(SettingsError, match="There is no engine 'cloud'"):
        serve_models([str(folders["tree"])], engine="cloud")
