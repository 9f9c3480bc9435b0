"""Build our HTTP API and the page as one ASGI application."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from fastapi import FastAPI, Request, Response

from longtail._version import __version__
from longtail.errors import ModelError
from longtail.serve import annif, schemas, telemetry
from longtail.serve.batching import Batcher
from longtail.serve.feedback import FeedbackLog, FeedbackWriter, Receipt
from longtail.serve.gate import Gate
from longtail.serve.learning import take_back
from longtail.serve.library import ModelLibrary, ServedModel
from longtail.serve.logs import log
from longtail.serve.problems import Problem, add_problem_handlers
from longtail.serve.settings import ServiceSettings

PAGE = Path(__file__).parent / "page"
_PAGE_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_TEXT = "a web browser for the console"
_DESCRIPTION = """Suggests labels for texts. Every error is a problem document (RFC 9457) whose `detail` says what is
wrong and what to do. If the service needs a token, send it as `Authorization: Bearer TOKEN`."""


class Service:
    """The models, threads and logs of the API, with one method per operation.

    Parameters
    ----------
    settings : ServiceSettings
        Models, limits and tokens.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self.library = ModelLibrary(dict(settings.models), settings.poll_seconds, settings.signature_key)
        self.batcher = Batcher(settings.max_seconds, settings.max_waiting)
        self.shapes = schemas.RequestShapes(settings)
        self.writers = {
            name: FeedbackWriter(FeedbackLog(settings.feedback_path(name)), name) for name in settings.models
        }

    async def suggest(self, body: bytes, content_type: str) -> bytes:
        """Answer ``POST /suggest``."""
        request = schemas.parse(self.shapes.suggest.model_validate_json, body, content_type)
        model = self.library.get(request.model)
        texts = [request.texts] if isinstance(request.texts, str) else request.texts
        if request.threshold == "auto":
            rows = await self._decided(model, texts, request.k if "k" in request.model_fields_set else None)
        else:
            rows = await self.labelled(model, texts, request.k, request.threshold)
        return orjson.dumps({"model": model.name, "version": model.version, "results": rows})

    async def labelled(
        self, model: ServedModel, texts: list[str], k: int, threshold: float = 0.0
    ) -> list[list[dict[str, Any]]]:
        """Return, for each text, the `k` best labels whose probability reaches the threshold."""
        rows = await self.batcher.predict(model, texts, k)
        telemetry.texts_of(model.name).inc(len(texts))
        if threshold > 0:
            rows = [[label for label in row if label["probability"] >= threshold] for row in rows]
        return rows

    async def _decided(self, model: ServedModel, texts: list[str], k: int | None) -> list[list[dict[str, Any]]]:
        """Return the labels of each text that reach the model's own threshold, which may depend on their frequency."""
        try:
            chosen = model.tagger.thresholds("auto", k)
        except ModelError as error:
            raise Problem(409, str(error)) from None
        rows = await self.labelled(model, texts, min(chosen.limit, self.settings.max_k))
        decided = []
        for row in rows:
            least = chosen.of_labels(np.arange(len(row)), np.array([label["count"] for label in row], np.int64))
            decided.append(list(compress(row, np.array([label["probability"] for label in row]) >= least)))
        return decided

    async def explain(self, body: bytes, content_type: str) -> bytes:
        """Answer ``POST /explain``."""
        request = schemas.parse(self.shapes.explain.model_validate_json, body, content_type)
        model = self.library.get(request.model)
        labels = None if request.labels is None else await _known(model, request.labels)
        explained = await self.batcher.run(model.explain, request.text, request.k, self.settings.max_words, labels)
        return orjson.dumps({"model": model.name, "version": model.version, **explained})

    async def learn(self, body: bytes, content_type: str, source: str) -> bytes:
        """Answer ``POST /learn`` after the corrections have been written to disk."""
        request = schemas.parse(self.shapes.learn.model_validate_json, body, content_type)
        model = self.library.get(request.model)
        corrections = [correction.model_dump(exclude_unset=True) for correction in request.corrections]
        named = [
            label
            for correction in corrections
            for field in ("labels", "right", "wrong")
            for label in correction.get(field, ())
        ]
        for i, correction in enumerate(corrections):
            if not correction.keys() & {"labels", "right", "wrong"}:
                raise Problem(422, f"corrections[{i}]: names no label. Give labels, or right and wrong.")
        receipt = await self.store(model, source, corrections)
        numbers = await model.numbers()
        unknown = [label for label in dict.fromkeys(named) if label not in numbers]
        answer = {
            "model": model.name,
            "accepted": receipt.accepted,
            "duplicates": receipt.duplicates,
            "ids": receipt.ids,
            "unknown_labels": unknown,
            "learning": "background" if self.settings.learn and model.learns else "next training",
        }
        return orjson.dumps(answer)

    async def undo(self, body: bytes, content_type: str) -> bytes:
        """Answer ``POST /learn/undo`` after the corrections have been removed from the log."""
        request = schemas.parse(self.shapes.undo.model_validate_json, body, content_type)
        model = self.library.get(request.model)
        try:
            done = await asyncio.to_thread(take_back, model.tagger, self.writers[model.name].log, request.ids)
        except OSError as error:
            log.error("feedback not removed", extra={"facts": {"model": model.name, "reason": str(error)}})
            raise Problem(
                507, "The feedback log cannot be written. Nothing was removed; send it again later."
            ) from None
        return orjson.dumps({"model": model.name, **vars(done)})

    async def store(self, model: ServedModel, source: str, corrections: list[dict[str, Any]]) -> Receipt:
        """Store corrections, and return after they have been written to disk."""
        try:
            receipt = await asyncio.wrap_future(self.writers[model.name].store(source, corrections))
        except OSError as error:
            log.error("feedback not stored", extra={"facts": {"model": model.name, "reason": str(error)}})
            raise Problem(507, "The feedback log cannot be written. Nothing was stored; send it again later.") from None
        telemetry.feedback_total.labels(model.name).inc(receipt.accepted)
        return receipt

    def models(self) -> dict[str, Any]:
        """Answer ``GET /models``."""
        settings = self.settings
        return {
            "default": self.library.default,
            "models": [model.facts() for model in self.library.all()],
            "max_k": settings.max_k,
            "max_batch": settings.max_batch,
            "max_body": settings.max_body,
        }

    def start(self) -> None:
        """Start loading the models."""
        self.library.start()

    def stop(self) -> None:
        """End all threads, after all corrections have been written to disk."""
        self.library.stop()
        self.batcher.close()
        for writer in self.writers.values():
            writer.close()


async def _known(model: ServedModel, labels: list[str]) -> list[int]:
    """Return the columns of labels, or raise an error if the model does not have one of them."""
    numbers = await model.numbers()
    for label in labels:
        if label not in numbers:
            raise Problem(404, f"The model {model.name!r} has no label of the name {label[:100]!r}.")
    return [numbers[label] for label in labels]


def make_app(settings: ServiceSettings) -> Gate:
    """Build the ASGI application of one worker process."""
    service = Service(settings)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.start()
        watch = asyncio.create_task(_end_if_broken(service.library))
        yield
        watch.cancel()
        service.stop()

    api = FastAPI(
        title="longtail",
        version=__version__,
        description=_DESCRIPTION,
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    add_problem_handlers(api)
    _add_operations(api, service)
    _add_page(api)
    api.mount("/v1", annif.make_annif_app(service))
    return Gate(api, service, {"/suggest": service.suggest})


async def _end_if_broken(library: ModelLibrary) -> None:
    """End the process if a model cannot be loaded at the start."""
    while not library.ready:
        if library.error is not None:
            os.kill(os.getpid(), signal.SIGTERM)
            return
        await asyncio.sleep(0.05)
    log.info("ready", extra={"facts": {"models": list(library.folders)}})


def _json_answer(content: bytes, status: int = 200) -> Response:
    return Response(content, status, media_type="application/json")


def _add_operations(api: FastAPI, service: Service) -> None:
    shapes = service.shapes

    async def call(work: Callable[..., Any], request: Request, *args: Any, status: int = 200) -> Response:
        return _json_answer(await work(await request.body(), request.headers.get("content-type", ""), *args), status)

    @api.post(
        "/suggest",
        summary="Suggest labels for one or more texts",
        responses={200: {"model": schemas.SuggestAnswer}}
        | schemas.problems(400, 401, 404, 408, 409, 413, 415, 422, 503),
        openapi_extra=schemas.json_body(
            shapes.suggest,
            {"one text": {"texts": _TEXT}, "several": {"texts": [_TEXT, "mail server"], "k": 10, "threshold": 0.1}},
        ),
    )
    async def suggest(request: Request) -> Response:
        return await call(service.suggest, request)

    @api.post(
        "/explain",
        summary="Find the words that mattered for the labels of a text",
        responses={200: {"model": schemas.ExplainAnswer}} | schemas.problems(400, 401, 404, 408, 413, 415, 422, 503),
        openapi_extra=schemas.json_body(shapes.explain, {"one text": {"text": _TEXT, "k": 3}}),
    )
    async def explain(request: Request) -> Response:
        return await call(service.explain, request)

    @api.post(
        "/learn",
        status_code=202,
        summary="Store corrections, and learn from them if the model can",
        responses={202: {"model": schemas.LearnAnswer}} | schemas.problems(400, 401, 404, 408, 413, 415, 422, 503, 507),
        openapi_extra=schemas.json_body(
            shapes.learn,
            {
                "all labels": {"corrections": [{"text": _TEXT, "labels": ["libncurses6"], "id": "catalogue-17"}]},
                "thumbs": {"corrections": [{"text": _TEXT, "right": ["libncurses6"], "wrong": ["libqt6core6"]}]},
            },
        ),
    )
    async def learn(request: Request) -> Response:
        source = "page" if request.headers.get("x-longtail-page") else "api"
        return await call(service.learn, request, source, status=202)

    @api.post(
        "/learn/undo",
        summary="Take corrections back, so that no later training uses them",
        responses={200: {"model": schemas.UndoAnswer}} | schemas.problems(400, 401, 404, 408, 413, 415, 422, 503, 507),
        openapi_extra=schemas.json_body(shapes.undo, {"one correction": {"ids": ["catalogue-17"]}}),
    )
    async def undo(request: Request) -> Response:
        return await call(service.undo, request)

    @api.get(
        "/models",
        summary="List the models and the limits",
        responses={200: {"model": schemas.ModelsAnswer}} | schemas.problems(401),
    )
    async def models() -> Response:
        return _json_answer(orjson.dumps(service.models()))

    @api.get("/health", summary="Check whether the process is alive", responses={200: {"model": schemas.Health}})
    async def health() -> Response:
        return _json_answer(b'{"status":"ok"}')

    @api.get(
        "/ready",
        summary="Check whether all models have been loaded",
        responses={200: {"model": schemas.Health}} | schemas.problems(503),
    )
    async def ready() -> Response:
        if not service.library.ready:
            raise Problem(503, "The models are still being loaded.", {"Retry-After": "1"})
        return _json_answer(b'{"status":"ok"}')

    @api.get(
        "/metrics",
        summary="Metrics in the text format of Prometheus",
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}} | schemas.problems(401),
        response_class=Response,
    )
    async def metrics() -> Response:
        content, kind = telemetry.exposition()
        return Response(content, media_type=kind)

    document = schemas.openapi_document(api, service.settings, [schemas.Correction])

    @api.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return _json_answer(document())


def _add_page(api: FastAPI) -> None:
    """Serve the page and its files from memory."""

    def add(path: str, file: Path) -> None:
        content, kind = file.read_bytes(), _PAGE_TYPES[file.suffix]

        async def show() -> Response:
            return Response(content, headers=_PAGE_HEADERS, media_type=kind)

        api.add_api_route(path, show, methods=["GET", "HEAD"], include_in_schema=False)

    add("/", PAGE / "index.html")
    for file in PAGE.iterdir():
        if file.suffix in _PAGE_TYPES:
            add(f"/page/{file.name}", file)
