"""Answer with errors as problem documents (RFC 9457), in the same way in our API and in Annif's."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

PROBLEM_TYPE = "application/problem+json"


class Problem(Exception):
    """An error that is sent to the client.

    Parameters
    ----------
    status : int
        HTTP status.
    detail : str
        What is wrong and what to do, in complete sentences. It must not contain the text of a request.
    headers : dict, optional
        Additional headers of the answer.
    """

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers or {}

    def body(self) -> bytes:
        """Return the problem document as JSON."""
        return orjson.dumps(self.document())

    def document(self) -> dict[str, Any]:
        """Return the problem document as a dict."""
        title = HTTPStatus(self.status).phrase
        return {"type": "about:blank", "title": title, "status": self.status, "detail": self.detail}


def unavailable(detail: str) -> Problem:
    """Return the error for a service that cannot answer now but can probably answer soon."""
    return Problem(503, detail, {"Retry-After": "1"})


def add_problem_handlers(api: FastAPI) -> None:
    """Make an application answer every error with a problem document."""

    async def on_problem(request: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)
        return Response(error.body(), error.status, error.headers, PROBLEM_TYPE)

    async def on_http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        headers = dict(error.headers or {})
        methods = " or ".join(headers.get("Allow", "another method").split(", "))
        details = {
            404: "There is nothing at this path. GET /openapi.json lists what there is.",
            405: f"This path does not take {request.method}. Use {methods}.",
        }
        return await on_problem(request, Problem(error.status_code, details.get(error.status_code, ""), headers))

    api.add_exception_handler(Problem, on_problem)
    api.add_exception_handler(HTTPException, on_http_error)
