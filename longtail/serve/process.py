"""The processes of a service: the port, the workers, the background learner, and an orderly end.

One worker runs in this process. Several are started by uvicorn, which replaces a worker that dies; they share the port,
and the memory-mapped weights are in memory once.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.supervisors import Multiprocess

from longtail import registry
from longtail.errors import SettingsError
from longtail.serve.feedback import FeedbackLog
from longtail.serve.learning import BackgroundLearner
from longtail.serve.logs import log, log_to_stderr
from longtail.serve.protocol import JoinedHttp
from longtail.serve.settings import SETTINGS_VARIABLE, ServiceSettings

_BACKLOG = 1024
_GRACE_SECONDS = 20  # for requests that have begun when the service is told to stop
_HEALTH_SECONDS = 30  # a worker that does not answer for so long is replaced
_SWITCH_SECONDS = 0.001  # the event loop and the predicting thread take turns more often than Python's 5 ms


def run_service(
    settings: ServiceSettings,
    host: str,
    port: int,
    workers: int = 1,
    log_level: str = "info",
    announce: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until the process is told to stop (SIGTERM or Ctrl+C), then finish what has begun.

    Parameters
    ----------
    settings : ServiceSettings
        Models, limits and tokens.
    host : str
        Address to bind to. A loopback address accepts connections of this machine only.
    port : int
        Port; 0 for any free one.
    workers : int
        Worker processes.
    log_level : str
        Lowest level that is logged: ``"debug"``, ``"info"``, ``"warning"`` or ``"error"``.
    announce : function, optional
        Receives the address of the service when the port is open.

    Raises
    ------
    SettingsError
        Where the port is in use or cannot be opened.
    LongtailError
        Where a model cannot be loaded.
    """
    log_to_stderr(log_level)
    opened = open_port(host, port)
    kept = [registry.load(folder) for folder in settings.models.values()] if workers > 1 else []  # before any worker
    del kept
    announce(url(host, opened.getsockname()[1]))
    options: dict[str, Any] = {
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,
        "date_header": True,
        "timeout_graceful_shutdown": _GRACE_SECONDS,
        "backlog": _BACKLOG,
        "timeout_worker_healthcheck": _HEALTH_SECONDS,
        "ws": "none",
        "http": JoinedHttp,
    }
    learner = background_learner(settings)
    try:
        with _quiet_signals():
            if settings.learn:
                learner.start()
            if workers == 1:
                _serve_here(settings, opened, options)
            else:
                _serve_with_workers(settings, opened, options, workers, log_level)
    finally:
        learner.stop()
        opened.close()
        log.info("stopped")


def open_port(host: str, port: int) -> socket.socket:
    """Bind a socket, or say why it cannot be bound."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        opened = socket.socket(family, kind, protocol)
    except OSError as error:
        raise SettingsError(f"{host!r} is not an address of this machine ({error.strerror}). Choose --host.") from error
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(_BACKLOG)
    except OSError as error:
        opened.close()
        raise SettingsError(
            f"Port {port} of {host} cannot be used: {error.strerror}. Choose another one with --port."
        ) from error
    opened.set_inheritable(True)
    return opened


def worker_app() -> Any:
    """Build the application of a worker process from the settings in its environment."""
    from longtail.serve.service import make_app

    log_to_stderr(os.environ.get("LONGTAIL_LOG_LEVEL", "info"))
    sys.setswitchinterval(_SWITCH_SECONDS)
    return make_app(ServiceSettings.from_environment())


def _serve_here(settings: ServiceSettings, opened: socket.socket, options: dict[str, Any]) -> None:
    from longtail.serve.service import make_app

    sys.setswitchinterval(_SWITCH_SECONDS)
    app = make_app(settings)
    uvicorn.Server(uvicorn.Config(app, **options)).run(sockets=[opened])
    if app.service.library.error is not None:
        raise app.service.library.error


def _serve_with_workers(
    settings: ServiceSettings, opened: socket.socket, options: dict[str, Any], workers: int, log_level: str
) -> None:
    counters = tempfile.mkdtemp(prefix="longtail-metrics-")
    os.environ[SETTINGS_VARIABLE] = settings.to_environment()
    os.environ["LONGTAIL_LOG_LEVEL"] = log_level
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = counters
    config = uvicorn.Config("longtail.serve.process:worker_app", factory=True, workers=workers, **options)
    try:
        Multiprocess(config, sockets=[opened]).run()
    finally:
        shutil.rmtree(counters, ignore_errors=True)


def background_learner(settings: ServiceSettings) -> BackgroundLearner:
    """Return what trains the models of a service on their feedback."""
    logs = {name: (Path(folder), FeedbackLog(settings.feedback_path(name))) for name, folder in settings.models.items()}
    return BackgroundLearner(logs)


@contextlib.contextmanager
def _quiet_signals() -> Iterator[None]:
    """Let a signal that uvicorn has obeyed, and raises again when it is done, end in an ordinary return."""
    old = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def url(host: str, port: int) -> str:
    """Return the address of a service."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
