"""Check every request before it reaches the API (token, size and time of its body), and measure and log it afterwards.

The gate is plain ASGI. It reads the complete body first, so that a slow client does not block a thread. It answers
``POST /suggest`` without the router, which would take longer than a prediction.
"""

from __future__ import annotations

import asyncio
import hmac
import itertools
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from longtail.serve import telemetry
from longtail.serve.logs import log, write_soon
from longtail.serve.problems import PROBLEM_TYPE, Problem

if TYPE_CHECKING:
    from longtail.serve.service import Service

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Shortcut = Callable[[bytes, str], Awaitable[bytes]]

OPEN_PATHS = frozenset({"/", "/health", "/ready", "/openapi.json", "/v1/openapi.json"})
OPEN_PREFIX = "/page/"
_JSON = b"application/json"


class ClientGone(Exception):
    """The client closed the connection before its request was complete."""


class Gate:
    """ASGI middleware around the whole service.

    Parameters
    ----------
    app : ASGI application
    service : Service
        Its settings have the limits and the tokens.
    shortcuts : dict of str to function
        For some paths, a function from the body and content type of a POST request to the JSON answer.
    """

    def __init__(self, app: App, service: Service, shortcuts: dict[str, Shortcut]) -> None:
        self.app, self.service, self.shortcuts = app, service, shortcuts
        self.settings = service.settings
        self._tokens = [token.encode() for token in self.settings.tokens]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request. Pass everything else on to the application."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start = time.perf_counter()
        headers = dict(scope["headers"])
        request_id = _request_id(headers)
        answer = _Answer(send, request_id)
        try:
            await self._answer(scope, receive, headers, answer)
        except Problem as problem:
            await answer.problem(problem)
        except ClientGone:
            answer.status = 499  # nginx's number for it; only logged, as there is no client to send it to
        except Exception:
            log.exception("request failed", extra={"facts": {"request": request_id, "path": _route(scope)}})
            await answer.problem(Problem(500, "The service failed. Its log has the details under this request's id."))
        finally:
            self._record(scope, answer, request_id, time.perf_counter() - start)

    async def _answer(self, scope: Scope, receive: Receive, headers: dict[bytes, bytes], answer: _Answer) -> None:
        self._check_token(scope["path"], headers)
        body = await self._body(receive, headers)
        shortcut = self.shortcuts.get(scope["path"]) if scope["method"] == "POST" else None
        if shortcut is not None:
            content = await shortcut(body, headers.get(b"content-type", b"").decode("latin-1"))
            await answer.json(content)
            return
        sent = False

        async def replay() -> Message:
            nonlocal sent
            if not sent:
                sent = True
                return {"type": "http.request", "body": body, "more_body": False}
            return await receive()

        await self.app(scope, replay, answer)

    def _check_token(self, path: str, headers: dict[bytes, bytes]) -> None:
        if not self._tokens or path in OPEN_PATHS or path.startswith(OPEN_PREFIX):
            return
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        matches = [hmac.compare_digest(token, given.strip()) for token in self._tokens]  # compare all: constant time
        if scheme.lower() != b"bearer" or not any(matches):
            detail = "This service needs a token. Send it as 'Authorization: Bearer TOKEN'."
            raise Problem(401, detail, {"WWW-Authenticate": "Bearer"})

    async def _body(self, receive: Receive, headers: dict[bytes, bytes]) -> bytes:
        most = self.settings.max_body
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > most:
            raise self._too_large()
        try:
            async with asyncio.timeout(self.settings.max_seconds):
                message = await receive()
                if not message.get("more_body") and message["type"] == "http.request":
                    return self._checked(message.get("body", b""))
                parts: list[bytes] = []
                size = 0
                while True:
                    if message["type"] == "http.disconnect":
                        raise ClientGone
                    part = message.get("body", b"")
                    size += len(part)
                    if size > most:
                        raise self._too_large()
                    parts.append(part)
                    if not message.get("more_body"):
                        return b"".join(parts)
                    message = await receive()
        except TimeoutError:
            detail = f"The body did not arrive within {self.settings.max_seconds:g} seconds."
            raise Problem(408, detail, {"Connection": "close"}) from None

    def _checked(self, body: bytes) -> bytes:
        if len(body) > self.settings.max_body:
            raise self._too_large()
        return body

    def _too_large(self) -> Problem:
        detail = f"The body is larger than {self.settings.max_body:,} bytes. Send fewer or shorter texts per request."
        return Problem(413, detail, {"Connection": "close"})

    def _record(self, scope: Scope, answer: _Answer, request_id: str, seconds: float) -> None:
        path = _route(scope) if scope["path"] not in self.shortcuts else scope["path"]
        method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        telemetry.count_request(method, path, answer.status, seconds)
        if self.settings.log_requests and log.isEnabledFor(logging.INFO):
            facts = {
                "request": request_id,
                "method": method,
                "path": path,
                "status": answer.status,
                "ms": round(seconds * 1000, 2),
            }
            write_soon("info", "request", facts)


_PROCESS = secrets.token_hex(4)
_numbers = itertools.count(1)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class _Answer:
    """Sends an answer to the client. It records the status, and adds the headers that every answer has."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._request_id = request_id.encode()
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", []), *self._common()]
        await self._send(message)

    async def json(self, content: bytes, status: int = 200, type_: bytes = _JSON, extra_headers: Any = ()) -> None:
        self.status = status
        headers = [
            (b"content-type", type_),
            (b"content-length", str(len(content)).encode()),
            *self._common(),
            *extra_headers,
        ]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": content})

    async def problem(self, problem: Problem) -> None:
        if self.status:  # part of an answer has been sent already
            return
        extra_headers = [(name.lower().encode(), value.encode()) for name, value in problem.headers.items()]
        await self.json(problem.body(), problem.status, PROBLEM_TYPE.encode(), extra_headers)

    def _common(self) -> list[tuple[bytes, bytes]]:
        return [(b"x-request-id", self._request_id), (b"x-content-type-options", b"nosniff")]


def _request_id(headers: dict[bytes, bytes]) -> str:
    """Return the client's request id if it is safe to write to a log, else a new one."""
    given = headers.get(b"x-request-id", b"").decode("latin-1")
    if 0 < len(given) <= 64 and given.isascii() and given.replace("-", "").replace("_", "").isalnum():
        return given
    return f"{_PROCESS}-{next(_numbers)}"


def _route(scope: Scope) -> str:
    """Return the pattern of the path, so that the number of metrics is limited, whatever clients send."""
    route = scope.get("route")
    path = getattr(route, "path", None)
    if path is None:
        return "other"
    root = scope.get("root_path", "")
    return f"{root}{path}" if root and not path.startswith(root) else path
