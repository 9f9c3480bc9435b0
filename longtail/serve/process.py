"""Run the processes of a service: open the port, start workers and the background learner, and shut down in order.

A single worker runs in this process. Several workers are started by uvicorn, which replaces a worker that dies. They
share the port, and the memory-mapped weights are in memory only once.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
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
# Seconds after which an unused connection is closed. Many clients give theirs up after 5: if the service closed it in
# the same moment, their next request would fail.
_IDLE_SECONDS = 20
_GRACE_SECONDS = 20  # time to finish running requests when the service is stopped
_HEALTH_SECONDS = 30  # a worker that does not respond for so long is replaced
_SWITCH_SECONDS = 0.001  # the event loop and the predicting thread take turns more often than by default (5 ms)


def run_service(
    settings: ServiceSettings,
    host: str,
    port: int,
    workers: int = 1,
    log_level: str = "info",
    announce: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until the process is stopped (SIGTERM or Ctrl+C), then finish running requests.

    Parameters
    ----------
    settings : ServiceSettings
        Models, limits and tokens.
    host : str
        Address to bind to. A loopback address accepts only connections from this machine.
    port : int
        Port; 0 for any free port.
    workers : int
        Number of worker processes.
    log_level : str
        Lowest level that is logged: ``"debug"``, ``"info"``, ``"warning"`` or ``"error"``.
    announce : function, optional
        Called with the address of the service when the port is open.

    Raises
    ------
    SettingsError
        If the port is in use or cannot be opened.
    LongtailError
        If a model cannot be loaded.
    """
    log_to_stderr(log_level)
    opened = open_port(host, port)
    if workers > 1:  # raise the error of a model that cannot be loaded here, before any worker is started
        for folder in settings.models.values():
            registry.load(folder)
    announce(url(host, opened.getsockname()[1]))
    options: dict[str, Any] = {
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,
        "date_header": True,
        "timeout_graceful_shutdown": _GRACE_SECONDS,
        "timeout_keep_alive": _IDLE_SECONDS,
        "backlog": _BACKLOG,
        "timeout_worker_healthcheck": _HEALTH_SECONDS,
        "ws": "none",
        "http": JoinedHttp,
    }
    learner = background_learner(settings)
    try:
        with stop_event():  # uvicorn raises the signals that it has handled again, which must not end this process
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
    """Bind a socket to an address, or raise an error that explains why that is impossible."""
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
    """Build the application of a worker process from the settings in the environment."""
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
    """Return the thread that trains the models of a service on their feedback."""
    logs = {name: (Path(folder), FeedbackLog(settings.feedback_path(name))) for name, folder in settings.models.items()}
    return BackgroundLearner(logs)


@contextlib.contextmanager
def stop_event() -> Iterator[threading.Event]:
    """Yield an event that SIGTERM and Ctrl+C set, instead of ending the process."""
    stopped = threading.Event()
    old = {number: signal.signal(number, lambda *_: stopped.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def url(host: str, port: int) -> str:
    """Return the address of a service."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
