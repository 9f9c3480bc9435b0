"""Count requests, texts and corrections as metrics for Prometheus."""

from __future__ import annotations

import functools
import os
from typing import Any

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
    multiprocess,
)

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
MULTIPROCESS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"

requests_total = Counter("longtail_requests_total", "Requests answered.", ["method", "path", "status"])
errors_total = Counter("longtail_errors_total", "Requests answered with an error of the service.", ["path"])
request_seconds = Histogram(
    "longtail_request_seconds", "Time from the first byte of a request to its answer.", ["path"], buckets=_SECONDS
)
texts_total = Counter("longtail_texts_total", "Texts labelled.", ["model"])
feedback_total = Counter("longtail_feedback_total", "Corrections stored.", ["model"])


@functools.lru_cache(maxsize=4096)
def _children(method: str, path: str, status: int) -> tuple[Any, Any]:
    return requests_total.labels(method, path, status), request_seconds.labels(path)


def count_request(method: str, path: str, status: int, seconds: float) -> None:
    """Count one request and its time."""
    requests, times = _children(method, path, status)
    requests.inc()
    times.observe(seconds)
    if status >= 500:
        errors_total.labels(path).inc()


@functools.lru_cache(maxsize=1024)
def texts_of(model: str) -> Any:
    """Return the counter of a model's texts."""
    return texts_total.labels(model)


def exposition() -> tuple[bytes, str]:
    """Return the metrics of all worker processes in Prometheus' text format, and the content type of that format."""
    registry: CollectorRegistry = REGISTRY
    if os.environ.get(MULTIPROCESS_VARIABLE):
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)
    return generate_latest(registry), CONTENT_TYPE_LATEST
