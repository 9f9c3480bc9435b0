"""Run the service on a Ray cluster: Ray Serve starts replicas of the same application and sends requests to them.

Every machine of the cluster must be able to read the model folders and the folder of the feedback logs. As without Ray,
models learn from feedback in the process that was started.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from longtail import engine, registry
from longtail.engine.ray_cluster import first_line
from longtail.errors import SettingsError
from longtail.serve.logs import log, log_to_stderr
from longtail.serve.process import background_learner, open_port, stop_event, url
from longtail.serve.settings import ServiceSettings

_NAME = "longtail"
_MAX_REQUESTS = 256  # requests that one replica handles at a time; the service itself refuses more than it can handle
_INSTALL = "Install it with: pip install 'longtail[serve,ray]' 'ray[serve]'"


def run_on_ray(
    settings: ServiceSettings,
    cluster: str,
    host: str,
    port: int,
    replicas: int = 1,
    log_level: str = "info",
    announce: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve on a Ray cluster until the process is stopped (SIGTERM or Ctrl+C).

    Parameters
    ----------
    settings : ServiceSettings
        Models, limits and tokens.
    cluster : str
        "ray", or "ray://HOST:PORT" for the cluster whose head has this address.
    host, port
        Address to bind to on every machine of the cluster.
    replicas : int
        Number of replicas. Each uses one core.
    log_level : str
        Lowest level that is logged.
    announce : function, optional
        Called with the address of the service when it is ready.
    """
    serve = _import_serve()
    log_to_stderr(log_level)
    for folder in settings.models.values():  # load here first: errors of replicas come late and among many others
        registry.load(folder)
    with open_port(host, port) as opened:
        port = opened.getsockname()[1]

    def build() -> Any:
        from longtail.serve.service import make_app

        log_to_stderr(log_level)
        return make_app(settings)

    with engine.use(cluster), stop_event() as stopped:
        deployment = serve.deployment(
            serve.ingress(build)(),
            name=_NAME,
            num_replicas=replicas,
            max_ongoing_requests=_MAX_REQUESTS,
            ray_actor_options={"num_cpus": 1},
        )
        learner = background_learner(settings)
        try:
            serve.start(http_options={"host": host, "port": port})
            serve.run(deployment.bind(), name=_NAME, route_prefix="/")
            announce(url(host, port))
            if settings.learn:
                learner.start()
            stopped.wait()
        except RuntimeError as error:
            raise SettingsError(f"Ray Serve cannot run the service: {first_line(error)}") from None
        finally:
            learner.stop()
            serve.shutdown()
            log.info("stopped")


def _import_serve() -> Any:
    try:
        from ray import serve
    except ImportError as error:
        raise SettingsError(f"serve --engine ray needs Ray Serve ({error.name} is missing). {_INSTALL}") from None
    return serve
