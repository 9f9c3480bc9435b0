"""Answers leave in one piece."""

from __future__ import annotations

import asyncio

from longtail.serve.protocol import JoinedWrites


class Sent(asyncio.Transport):
    """A transport that notes what is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed
        self.parts.append(bytes(data))

    def close(self) -> None:
        self.closed = True


def test_writes_of_one_turn_are_sent_at_once() -> None:
    async def answers() -> Sent:
        sent = Sent()
        joined = JoinedWrites(sent)
        joined.write(b"headers, ")
        joined.write(b"body")
        assert not sent.parts
        await asyncio.sleep(0)
        assert sent.parts == [b"headers, body"]
        joined.write(b"the next")
        await asyncio.sleep(0)
        return sent

    assert asyncio.run(answers()).parts == [b"headers, body", b"the next"]


def test_what_was_written_is_sent_before_the_connection_closes() -> None:
    async def last() -> Sent:
        sent = Sent()
        joined = JoinedWrites(sent)
        joined.write(b"the last")
        joined.close()
        assert sent.closed
        await asyncio.sleep(0)  # nothing is sent twice or after the end
        return sent

    assert asyncio.run(last()).parts == [b"the last"]
