"""``longtail serve``: start an HTTP service and a page for one or more models."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated

import typer

from longtail.cli.console import print_result
from longtail.errors import SettingsError

_NEEDED = ("fastapi", "uvicorn", "prometheus_client")
_ACCESS, _LEARNING, _REQUESTS = "Access", "Learning from feedback", "Limits of a request"
ServedModels = Annotated[
    list[str],
    typer.Argument(metavar="MODEL", help="Model folders, each as DIR or NAME=DIR. The first is the default model."),
]
Host = Annotated[
    str,
    typer.Option(metavar="ADDRESS", help="Address to bind to. The default accepts connections of this machine only."),
]
Port = Annotated[int, typer.Option(min=0, max=65535, metavar="PORT", help="Port; 0 for any free one.")]
Workers = Annotated[
    int, typer.Option(min=1, max=256, metavar="N", help="Number of worker processes. They share the weights in memory.")
]
Tokens = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Accepted bearer tokens, one per line. Without it the variable LONGTAIL_TOKENS is read.",
        show_default=False,
        rich_help_panel=_ACCESS,
    ),
]
FeedbackFolder = Annotated[
    Path | None,
    typer.Option(
        "--feedback",
        metavar="DIR",
        help="Folder of the feedback logs; next to each model by default.",
        show_default=False,
        rich_help_panel=_LEARNING,
    ),
]
LearnOption = Annotated[
    bool,
    typer.Option(help="Train models that can learn on feedback in the background.", rich_help_panel=_LEARNING),
]
MaxBody = Annotated[
    float,
    typer.Option(min=0.001, max=1e5, metavar="MB", help="Largest request body.", rich_help_panel=_REQUESTS),
]
MaxBatch = Annotated[int, typer.Option(min=1, metavar="N", help="Largest number of texts.", rich_help_panel=_REQUESTS)]
MaxK = Annotated[
    int, typer.Option(min=1, metavar="N", help="Largest number of labels per text.", rich_help_panel=_REQUESTS)
]
MaxSeconds = Annotated[
    float, typer.Option(min=0.1, max=1e5, metavar="S", help="Longest time, in seconds.", rich_help_panel=_REQUESTS)
]
LogLevel = Annotated[str, typer.Option(metavar="LEVEL", help="Lowest level to log: debug, info, warning or error.")]

SignatureKey = Annotated[
    Path | None,
    typer.Option(
        metavar="KEYFILE",
        help="Refuse model folders that were not signed with this key (longtail sign); switches learning off.",
        show_default=False,
        rich_help_panel=_ACCESS,
    ),
]

ServeEngine = Annotated[
    str,
    typer.Option(
        metavar="ENGINE",
        help="Where workers run: local, ray, or ray://HOST:PORT for a cluster (replicas of Ray Serve).",
    ),
]


def serve_models(
    models: ServedModels,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    workers: Workers = 1,
    tokens: Tokens = None,
    feedback: FeedbackFolder = None,
    learn: LearnOption = True,
    max_body: MaxBody = 8.0,
    max_batch: MaxBatch = 1000,
    max_k: MaxK = 100,
    max_seconds: MaxSeconds = 30.0,
    log_level: LogLevel = "info",
    require_signature: SignatureKey = None,
    engine: ServeEngine = "local",
) -> None:
    """Serve models over HTTP: our API, Annif's API under /v1, and a page for people at /."""
    from longtail.engine import check_name

    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise SettingsError(f"serve needs {', '.join(missing)}. Install them with: pip install 'longtail[serve]'")
    check_name(engine)
    if log_level not in ("debug", "info", "warning", "error"):
        raise SettingsError(f"--log-level {log_level!r}: choose debug, info, warning or error.")
    if feedback is not None and feedback.exists() and not feedback.is_dir():  # or the first correction would fail
        raise SettingsError(f"--feedback is {feedback}, which is not a folder. Give a folder for the feedback logs.")
    from longtail.serve.process import run_service
    from longtail.serve.settings import ServiceSettings, named_models, read_tokens
    from longtail.store.folder import read_document

    settings = ServiceSettings(
        models=named_models(models),
        max_body=int(max_body * 1024 * 1024),
        max_batch=max_batch,
        max_k=max_k,
        max_seconds=max_seconds,
        tokens=read_tokens(tokens),
        feedback=None if feedback is None else str(feedback.absolute()),
        learn=learn and require_signature is None,  # what the service learns is not signed
        signature_key=None if require_signature is None else str(require_signature.absolute()),
    )

    def announce(url: str) -> None:
        print_result(f"Serving {', '.join(settings.models)} at {url}")

    if engine == "local":
        for folder in settings.models.values():
            read_document(Path(folder))  # raise the error of a wrong name before the service starts
        run_service(settings, host, port, workers, log_level, announce)
        return
    from longtail.serve.ray_serve import run_on_ray

    run_on_ray(settings, engine, host, port, workers, log_level, announce)
