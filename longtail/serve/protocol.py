"""Send the headers and the body of an HTTP answer in one write.

uvicorn writes them one after the other, and asyncio sends each immediately. That makes two system calls and two
packets, and the event loop can lose the interpreter lock to the predicting thread twice.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class JoinedWrites:
    """A transport that collects everything written in one turn of the event loop and sends it together."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._parts: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send data at the end of the turn."""
        if not self._parts:
            asyncio.get_running_loop().call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        """Send the remaining data, and close the connection."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._parts:
            joined = b"".join(self._parts)
            self._parts.clear()
            self._transport.write(joined)


class JoinedHttp(HttpToolsProtocol):
    """uvicorn's HTTP protocol on a transport with joined writes."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start serving a connection."""
        super().connection_made(JoinedWrites(transport))  # type: ignore[arg-type]
