"""Provide Annif's REST API (version 1), so that clients that were written for Annif work with longtail unchanged.

A model is what Annif calls a project, and a label with its identifier is a subject with its URI. If a model has no
identifiers, the name of a label is used as its URI. An Annif project with ``backend=http`` and
``endpoint=http://HOST:PORT/v1/projects/NAME/suggest`` can use a model of longtail as a member of its ensembles.

Annif: Suominen, Inkinen and Lehtinen, "Annif and Finto AI", JLIS.it 13(1), 2022. The schemas below follow its OpenAPI
document.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qs

import orjson
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter

from longtail._version import __version__
from longtail.serve import schemas
from longtail.serve.library import ServedModel
from longtail.serve.problems import Problem, add_problem_handlers

if TYPE_CHECKING:
    from longtail.serve.service import Service

_MAX_DOCUMENTS = 32  # per batch, as in Annif
_FORM = "application/x-www-form-urlencoded"
_DEFAULT_LIMIT = 10


class _Open(BaseModel):
    """A request of Annif's API. Fields that longtail does not use are accepted and ignored."""

    model_config = ConfigDict(strict=True, extra="ignore")


class AnnifDocument(_Open):
    """A document with an optional identifier and metadata."""

    text: str = Field(examples=["A quick brown fox jumped over the lazy dog."])
    document_id: str | None = Field(None, examples=["doc-1234"])
    metadata: dict[str, str] | None = None


class DocumentBatch(_Open):
    """Up to 32 documents."""

    documents: list[AnnifDocument] = Field(max_length=_MAX_DOCUMENTS)


class SubjectReference(_Open):
    """A subject, by its URI or its label."""

    uri: Annotated[str, StringConstraints(min_length=1, max_length=2000)]
    label: str | None = None


class IndexedDocument(_Open):
    """A document with its correct subjects."""

    text: str | None = Field(None, examples=["A quick brown fox jumped over the lazy dog."])
    metadata: dict[str, str] | None = None
    subjects: list[SubjectReference] | None = Field(None, max_length=1000)


class ApiInfo(BaseModel):
    """Title and version of the API."""

    title: str
    version: str


class ProjectBackend(BaseModel):
    """The algorithm of a project."""

    backend_id: str


class ProjectVocabulary(BaseModel):
    """The labels of a project."""

    vocab_id: str
    languages: list[str]
    size: int
    loaded: bool


class Project(BaseModel):
    """A model of longtail as Annif describes a project."""

    project_id: str
    name: str
    language: str
    backend: ProjectBackend
    vocab: ProjectVocabulary
    vocab_language: str
    is_trained: bool
    modification_time: str


class ProjectList(BaseModel):
    """All models."""

    projects: list[Project]


class SubjectSuggestion(BaseModel):
    """One suggested subject."""

    uri: str
    label: str
    notation: str | None
    score: float


class SuggestionResults(BaseModel):
    """The suggestions for one document."""

    results: list[SubjectSuggestion]


class BatchResults(SuggestionResults):
    """The suggestions for one document of a batch."""

    document_id: str | None


_INDEXED = TypeAdapter(list[IndexedDocument])
_BATCH_LIST = {"type": "array", "items": {"$ref": "#/components/schemas/BatchResults"}}
_LANGUAGE = "en"  # Annif requires one; models of longtail do not depend on it


def make_annif_app(service: Service) -> FastAPI:
    """Build the application that is mounted at ``/v1``."""
    api = FastAPI(
        title="Annif REST API of longtail",
        version="v1",
        description="Annif's REST API for the models of longtail. A project is a model.",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    add_problem_handlers(api)

    @api.get(
        "/",
        summary="Get basic information about the API service",
        responses={200: {"model": ApiInfo}} | schemas.problems(401),
    )
    async def info() -> Response:
        return _answer({"title": "Annif REST API of longtail", "version": __version__})

    @api.get(
        "/projects",
        summary="Get a list of projects",
        responses={200: {"model": ProjectList}} | schemas.problems(401),
    )
    async def projects() -> Response:
        return _answer({"projects": [_project(model) for model in service.library.all()]})

    @api.get(
        "/projects/{project_id}",
        summary="Show project information",
        responses={200: {"model": Project}} | schemas.problems(401, 404, 503),
    )
    async def project(project_id: str) -> Response:
        return _answer(_project(service.library.get(project_id)))

    @api.post(
        "/projects/{project_id}/suggest",
        summary="Suggest subjects for a text",
        responses={200: {"model": SuggestionResults}} | schemas.problems(400, 401, 404, 408, 413, 415, 422, 503),
        openapi_extra={"requestBody": {"required": True, "content": {_FORM: {"schema": _FORM_SCHEMA}}}},
    )
    async def suggest(project_id: str, request: Request) -> Response:
        model = service.library.get(project_id)
        form = _read_form(await request.body(), request.headers.get("content-type", ""))
        (results,) = await _suggestions(service, model, [form.text], form.limit, form.threshold)
        return _answer({"results": results})

    @api.post(
        "/projects/{project_id}/suggest-batch",
        summary=f"Suggest subjects for up to {_MAX_DOCUMENTS} documents",
        responses={200: {"content": {"application/json": {"schema": _BATCH_LIST}}}}
        | schemas.problems(400, 401, 404, 408, 413, 415, 422, 503),
        openapi_extra={
            **schemas.json_body(DocumentBatch, {"one": {"documents": [{"text": "fox", "document_id": "doc-1"}]}}),
            "parameters": [
                {"in": "query", "name": "limit", "schema": _FORM_SCHEMA["properties"]["limit"]},
                {"in": "query", "name": "threshold", "schema": _FORM_SCHEMA["properties"]["threshold"]},
            ],
        },
    )
    async def suggest_batch(project_id: str, request: Request) -> Response:
        model = service.library.get(project_id)
        content_type = request.headers.get("content-type", "")
        documents = schemas.parse(DocumentBatch.model_validate_json, await request.body(), content_type).documents
        limit, threshold = _limit(request.query_params.get("limit")), _threshold(request.query_params.get("threshold"))
        rows = await _suggestions(service, model, [document.text for document in documents], limit, threshold)
        return _answer(
            [
                {"results": row, "document_id": document.document_id}
                for row, document in zip(rows, documents, strict=True)
            ]
        )

    @api.post(
        "/projects/{project_id}/learn",
        status_code=204,
        summary="Learn from manually indexed documents",
        response_class=Response,
        responses=schemas.problems(400, 401, 404, 408, 413, 415, 422, 503, 507),
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {
                    "application/json": {
                        "schema": {"type": "array", "items": {"$ref": "#/components/schemas/IndexedDocument"}}
                    }
                },
            }
        },
    )
    async def learn(project_id: str, request: Request) -> Response:
        model = service.library.get(project_id)
        content_type = request.headers.get("content-type", "")
        documents = schemas.parse(_INDEXED.validate_json, await request.body(), content_type)
        numbers = await model.numbers()
        corrections = [
            {"text": document.text, "labels": [_label_name(model, numbers, subject) for subject in document.subjects]}
            for document in documents
            if document.text and document.subjects
        ]
        if corrections:
            await service.store(model, "annif", corrections)
        return Response(status_code=204)

    document = schemas.openapi_document(
        api, service.settings, [BatchResults, AnnifDocument, IndexedDocument], servers=[{"url": "/v1"}]
    )

    @api.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return Response(document(), media_type="application/json")

    return api


_FORM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["text"],
    "properties": {
        "text": {"type": "string", "description": "Input text.", "example": "A quick brown fox."},
        "limit": {
            "type": "integer",
            "description": "Largest number of results.",
            "default": _DEFAULT_LIMIT,
            "minimum": 0,
            "maximum": 2**31 - 1,
        },
        "threshold": {"type": "number", "description": "Lowest score.", "default": 0.0, "minimum": 0, "maximum": 1},
    },
}


class _Form(BaseModel):
    text: str
    limit: int
    threshold: float


def _read_form(body: bytes, content_type: str) -> _Form:
    if content_type.partition(";")[0].strip().lower() != _FORM:
        raise Problem(415, f"The body is not a form. Send it with 'Content-Type: {_FORM}'.")
    try:
        fields = parse_qs(body.decode("utf-8"), keep_blank_values=True, encoding="utf-8", errors="strict")
    except (UnicodeDecodeError, ValueError):
        raise Problem(400, "The form is not in UTF-8.") from None
    if "text" not in fields:
        raise Problem(422, "text: the form has no field of this name.")
    text = fields["text"][0]
    return _Form(
        text=text,
        limit=_limit(fields.get("limit", [None])[0]),
        threshold=_threshold(fields.get("threshold", [None])[0]),
    )


def _limit(text: str | None) -> int:
    if text is None:
        return _DEFAULT_LIMIT
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) < 2**31):
        raise Problem(422, f"limit: {text[:20]!r} is not a whole number from 0.")
    return int(text)


def _threshold(text: str | None) -> float:
    try:
        value = 0.0 if text is None else float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise Problem(422, "threshold: give a number from 0 to 1.")
    return value


async def _suggestions(
    service: Service, model: ServedModel, texts: list[str], limit: int, threshold: float
) -> list[list[dict[str, Any]]]:
    """Suggest subjects for each text. As in Annif, an empty text gets none."""
    results: list[list[dict[str, Any]]] = [[] for _ in texts]
    not_empty = [i for i, text in enumerate(texts) if text.strip()]
    if not limit or not not_empty:
        return results
    k = min(limit, service.settings.max_k)
    rows = await service.labelled(model, [texts[i] for i in not_empty], k, threshold)
    for i, row in zip(not_empty, rows, strict=True):
        results[i] = [
            {
                "uri": label["id"] or label["label"],
                "label": label["label"],
                "notation": None,
                "score": label["probability"],
            }
            for label in row
        ]
    return results


def _label_name(model: ServedModel, numbers: dict[str, int], subject: SubjectReference) -> str:
    """Return the name of the label that a subject's URI or label means. Return the URI if the label is unknown."""
    for name in (subject.uri, subject.label):
        if name is not None and name in numbers:
            return model.tagger.label_names_[numbers[name]]
    return subject.uri


def _project(model: ServedModel) -> dict[str, Any]:
    return {
        "project_id": model.name,
        "name": model.name,
        "language": _LANGUAGE,
        "backend": {"backend_id": f"longtail-{model.tagger.ranker_.kind}"},
        "vocab": {"vocab_id": model.name, "languages": [_LANGUAGE], "size": model.n_labels, "loaded": True},
        "vocab_language": _LANGUAGE,
        "is_trained": True,
        "modification_time": model.modified,
    }


def _answer(content: Any) -> Response:
    return Response(orjson.dumps(content), media_type="application/json")
