"""Schemas of requests and answers. Requests are checked with them, and both OpenAPI documents are made from them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, TypeVar

import orjson
import pydantic
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, create_model

from longtail.serve.problems import PROBLEM_TYPE, Problem
from longtail.serve.settings import ServiceSettings

Shape = TypeVar("Shape")

Text = Annotated[str, StringConstraints(min_length=1)]


def _whole(value: Any) -> Any:
    """Convert 5.0 to 5, as JSON has only one type of numbers."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WholeNumber = Annotated[int, BeforeValidator(_whole)]
LabelName = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
CorrectionId = Annotated[str, StringConstraints(min_length=1, max_length=200)]
_ONE_TEXT = "a web browser for the console"
_TEXTS = "One text, or several. A text of the list that is empty or has no word that the model knows gets no label."
Threshold = Annotated[float, Field(ge=0, le=1)] | Literal["auto"]
_THRESHOLD = (
    'Lowest probability of a suggested label. "auto" is the threshold that the model holds, as `longtail optimize '
    "--save` and the training of a blend choose it; it comes with a number of labels, which `k` replaces."
)
_LEFT_OUT: Any = None  # default of a field that may be left out but must not be null
_MAX_SHOWN = 3  # errors that one answer lists


class _Strict(BaseModel):
    """A request. Unknown fields and wrong types are errors, so that typing errors are found at once."""

    model_config = ConfigDict(strict=True, extra="forbid")


# Answers ---------------------------------------------------------------------------------------------------------


class ProblemDocument(BaseModel):
    """An error, as RFC 9457 describes it."""

    type: str = "about:blank"
    title: str = Field(examples=["Not Found"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["No model is called 'x'. Models: model."])


class SuggestedLabel(BaseModel):
    """One suggested label."""

    label: str = Field(description="Name of the label.", examples=["libncurses6"])
    id: str | None = Field(description="Identifier of the label, such as a URI, if the model has them.")
    count: int = Field(description="Training points of the label.", examples=[412])
    group: Literal["head", "middle", "tail"] = Field(
        description="Frequency group. Each group has about a third of all (training point, label) pairs."
    )
    probability: float = Field(description="Probability that the label is correct.", ge=0, le=1, examples=[0.83])


class SuggestAnswer(BaseModel):
    """Suggestions for each text, in the order of the request."""

    model: str
    version: str = Field(description="Changes whenever the model is trained again.")
    results: list[list[SuggestedLabel]]


class WordEffect(BaseModel):
    """What one word adds to the probability of a label."""

    word: str
    effect: float = Field(description="Probability with the word minus probability without it.")
    spans: list[tuple[int, int]] = Field(description="Start and end of each occurrence, in Unicode characters.")


class SimilarPoint(BaseModel):
    """A training point that is similar to the text and has the label."""

    similarity: float = Field(description="Cosine similarity of the two texts.", examples=[0.71])
    labels: list[str] = Field(description="Its labels, at most ten.", examples=[["libncurses6", "libc6"]])


class ExplainedLabel(SuggestedLabel):
    """One label, the words that changed its probability, and similar training points that have it."""

    words: list[WordEffect] = Field(description="Words, those with the largest effect first.")
    neighbours: list[SimilarPoint] = Field(
        description="The most similar training points with this label, if the model stores training points."
    )


class ExplainAnswer(BaseModel):
    """The labels of a text, with the words that changed their probabilities."""

    model: str
    version: str
    labels: list[ExplainedLabel]
    words_tried: int = Field(description="Different words that were left out one by one.")
    words_left_out: int = Field(description="Different words of a long text that were not tried.")


class LearnAnswer(BaseModel):
    """The result of storing corrections."""

    model: str
    accepted: int = Field(description="Number of corrections that this request has stored.")
    duplicates: int = Field(description="Number of corrections whose id was stored before. They are not stored again.")
    ids: list[str] = Field(description="Id of each correction, in the order of the request.")
    unknown_labels: list[str] = Field(description="Labels that the model does not have. They are stored nevertheless.")
    learning: Literal["background", "next training"] = Field(
        description="Whether this model learns in the background, or only when it is trained the next time."
    )


class UndoAnswer(BaseModel):
    """The result of removing corrections."""

    model: str
    removed: int = Field(description="Corrections removed from the log. No later training uses them.")
    missing: list[str] = Field(description="Ids that no stored correction has.")
    learnt: int = Field(
        description="Removed corrections that the model has learnt from. It keeps that until it is trained anew."
    )


class ModelFacts(BaseModel):
    """One model of the service."""

    name: str
    version: str
    modified: str = Field(description="When the model folder was written, in UTC.")
    kind: str = Field(description="Registered name of the algorithm.", examples=["bonsai"])
    n_labels: int
    n_points: int = Field(description="Number of points that the model was trained on.")
    has_label_ids: bool
    learns: bool = Field(description="Whether the model can learn from feedback without being trained from scratch.")


class ModelsAnswer(BaseModel):
    """All models of the service."""

    default: str = Field(description="Name of the model for requests that do not name one.")
    models: list[ModelFacts]
    max_k: int
    max_batch: int
    max_body: int


class Health(BaseModel):
    """State of the service."""

    status: Literal["ok", "loading"]


# Requests --------------------------------------------------------------------------------------------------------


class Correction(_Strict):
    """One text with all labels that a person gave it, or with single labels that are correct or wrong."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        json_schema_extra={"anyOf": [{"required": [name]} for name in ("labels", "right", "wrong")]},
    )

    text: Text = Field(examples=[_ONE_TEXT])
    labels: list[LabelName] = Field(
        default=_LEFT_OUT,
        max_length=1000,
        description="All correct labels, by name or identifier.",
        examples=[["libncurses6"]],
    )
    right: list[LabelName] = Field(default=_LEFT_OUT, max_length=1000, description="Correct labels, perhaps not all.")
    wrong: list[LabelName] = Field(default=_LEFT_OUT, max_length=1000, description="Labels that are wrong.")
    id: CorrectionId | None = Field(
        None, description="Id chosen by the client. A correction with a known id is not stored twice."
    )


class RequestShapes:
    """Schemas of requests with the limits of one service."""

    def __init__(self, settings: ServiceSettings) -> None:
        # Unlike a single text, a text of a list may be empty: it must not make a whole batch fail.
        texts = Annotated[list[str], Field(min_length=1, max_length=settings.max_batch)]
        name: Any = Annotated[str, StringConstraints(max_length=100)] | None
        model: Any = (name, Field(None, description="Name of the model. Without it, the default model is used."))
        self.suggest: Any = create_model(
            "SuggestRequest",
            __base__=_Strict,
            __doc__="One text or a list of texts.",
            texts=(Text | texts, Field(description=_TEXTS, examples=[_ONE_TEXT, [_ONE_TEXT, "mail"]])),
            k=(WholeNumber, Field(5, ge=1, le=settings.max_k, description="Maximum number of labels per text.")),
            threshold=(Threshold, Field(0.0, description=_THRESHOLD, examples=[0.1, "auto"])),
            model=model,
        )
        labels = list[LabelName] | None
        self.explain: Any = create_model(
            "ExplainRequest",
            __base__=_Strict,
            __doc__="One text whose labels should be explained.",
            text=(Text, Field(examples=[_ONE_TEXT])),
            k=(WholeNumber, Field(5, ge=1, le=min(20, settings.max_k), description="Number of labels to explain.")),
            labels=(labels, Field(None, min_length=1, max_length=20, description="Explain these labels instead.")),
            model=model,
        )
        self.learn: Any = create_model(
            "LearnRequest",
            __base__=_Strict,
            __doc__="Corrections to store and to learn from.",
            corrections=(list[Correction], Field(min_length=1, max_length=settings.max_batch)),
            model=model,
        )
        self.undo: Any = create_model(
            "UndoRequest",
            __base__=_Strict,
            __doc__="Corrections to take back, by the ids that the answer to /learn has.",
            ids=(list[CorrectionId], Field(min_length=1, max_length=settings.max_batch)),
            model=model,
        )


def parse(read: Callable[[bytes], Shape], body: bytes, content_type: str) -> Shape:
    """Check a JSON body and return it as an object.

    Parameters
    ----------
    read : function
        ``model_validate_json`` of a schema, or ``validate_json`` of a type adapter.
    body : bytes
        The body of the request.
    content_type : str
        The content type of the request.

    Raises
    ------
    Problem
        Status 415 for another content type, 400 for a body that is not JSON, 422 for JSON that breaks the schema.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind and kind != "application/json" and not kind.endswith("+json"):
        raise Problem(415, "The body is not JSON. Send it with 'Content-Type: application/json'.")
    try:
        return read(body)
    except pydantic.ValidationError as error:
        raise _invalid(error) from None


def _invalid(error: pydantic.ValidationError) -> Problem:
    """Return the problem that says what is wrong and where, without quoting the body."""
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    if errors[0]["type"] == "json_invalid":
        reason = errors[0]["msg"].removeprefix("Invalid JSON: ")
        return Problem(400, f"The body is not valid JSON in UTF-8: {reason}.")
    errors = [entry for entry in errors if not _other_alternative(entry, errors)]
    shown = [f"{_location(entry['loc'])}: {entry['msg'][0].lower()}{entry['msg'][1:]}" for entry in errors[:_MAX_SHOWN]]
    more = f" (and {len(errors) - _MAX_SHOWN} more)" if len(errors) > _MAX_SHOWN else ""
    return Problem(422, f"{'; '.join(shown)}{more}.")


def _other_alternative(error: Any, errors: Sequence[Any]) -> bool:
    """Return whether an error is only about the other one of two allowed types of a field."""
    alone = error["type"] in ("string_type", "list_type") and len(error["loc"]) == 2
    return alone and any(
        other is not error
        and other["loc"][0] == error["loc"][0]
        and (len(other["loc"]) > 2 or other["type"] not in ("string_type", "list_type"))
        for other in errors
    )


def _location(location: tuple[int | str, ...]) -> str:
    """Return a location in a document, such as ``texts[3]``, without the names of types that pydantic adds."""
    words = [part for part in location if isinstance(part, int) or part.isidentifier()]
    words = [part for part in words if part not in ("str", "constrained")]
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in words)
    return text.removeprefix(".") or "body"


# OpenAPI ---------------------------------------------------------------------------------------------------------


def json_body(shape: type[BaseModel], examples: dict[str, Any]) -> dict[str, Any]:
    """Return the OpenAPI description of a JSON body."""
    schema = shape.model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("$defs", None)
    named = {name: {"value": value} for name, value in examples.items()}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema, "examples": named}}}}


def problems(*statuses: int) -> dict[Any, dict[str, Any]]:
    """Return the OpenAPI description of the errors that an operation may return."""
    reasons = {
        400: "The body is not valid JSON in UTF-8.",
        401: "A token is missing or wrong.",
        404: "There is no such model.",
        408: "The body did not arrive in time.",
        409: "The model has no threshold of its own.",
        413: "The body is too large.",
        415: "The body has another content type.",
        422: "A field of the request is missing, unknown or invalid.",
        500: "The service failed.",
        503: "The service is still starting, overloaded, or the answer took too long.",
        507: "The feedback log cannot be written, for example because the disk is full.",
    }
    schema = {"$ref": "#/components/schemas/ProblemDocument"}
    return {
        status: {"description": reasons[status], "content": {PROBLEM_TYPE: {"schema": schema}}} for status in statuses
    }


def openapi_document(
    api: FastAPI, settings: ServiceSettings, more: Sequence[type[BaseModel]], **options: Any
) -> Callable[[], bytes]:
    """Return a function that returns the OpenAPI document of an application. It is built at the first call.

    Parameters
    ----------
    api : FastAPI
        The application.
    settings : ServiceSettings
        Settings of the service: the document says whether a token is required.
    more : list of schemas
        Schemas that operations refer to but that FastAPI does not know.
    **options
        Further parts of the document.
    """

    @functools.cache
    def write() -> bytes:
        document = get_openapi(
            title=api.title, version=api.version, description=api.description, routes=api.routes, **options
        )
        parts = document.setdefault("components", {}).setdefault("schemas", {})
        for name in ("HTTPValidationError", "ValidationError"):  # FastAPI's own schemas, which are not used
            parts.pop(name, None)
        for operation in (entry for path in document["paths"].values() for entry in path.values()):
            if "HTTPValidationError" in str(operation["responses"].get("422")):
                del operation["responses"]["422"]
        shapes: list[type[BaseModel]] = [ProblemDocument, *more]
        for shape in shapes:
            schema = shape.model_json_schema(ref_template="#/components/schemas/{model}")
            parts |= schema.pop("$defs", {}) | {shape.__name__: schema}
        if settings.tokens:
            document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            document["security"] = [{"token": []}]
        return orjson.dumps(document)

    return write
