"""Predict for several requests in one call.

While one batch is computed, arriving requests wait. The next batch takes all of them. Under load, the fixed cost of a
call is thus shared by many texts. Without load, a request is computed at once: it never waits for a batch to fill.
Clients see no difference, because a row of a batch has the same scores as the row alone.

One batch is computed at a time. With two, batches are smaller and both wait for the interpreter lock, which increased
the median response time of 32 connections by a tenth. Only if a batch takes long, the next one starts before it ends.

Large requests are computed in a separate thread and in parts, so that a single text never waits for thousands.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from longtail.serve.library import ServedModel
from longtail.serve.problems import Problem, unavailable

AnswerRows = list[list[dict[str, Any]]]
Outcome = TypeVar("Outcome")

_SMALL = 48  # texts of a small request, and of a batch of such requests: one thread computes it in a few milliseconds
_THREADS = 4  # for small requests; one is enough unless texts take long
_SLOW = 0.1  # seconds after which the next batch no longer waits for the previous one
_PART = 512  # texts per part of a large request: enough to use all cores


@dataclass(eq=False)
class _Request:
    model: ServedModel
    texts: list[str]
    k: int
    answer: asyncio.Future[AnswerRows]


@dataclass(eq=False)
class _Turn:
    """The turn of the batch that is being computed. It has ended if there is no timer."""

    timer: asyncio.TimerHandle | None = None


class Batcher:
    """Computes predictions outside the event loop.

    Parameters
    ----------
    max_seconds : float
        Longest time for a request, from its arrival to its answer.
    max_waiting : int
        Largest number of texts that may wait. Further requests are refused.
    """

    def __init__(self, max_seconds: float, max_waiting: int) -> None:
        self.max_seconds, self.max_waiting = max_seconds, max_waiting
        self._small = ThreadPoolExecutor(_THREADS, thread_name_prefix="longtail-small")
        self._large = ThreadPoolExecutor(1, thread_name_prefix="longtail-large")
        self._queue: deque[_Request] = deque()
        self._waiting = 0
        self._idle = True

    async def predict(self, model: ServedModel, texts: list[str], k: int) -> AnswerRows:
        """Return the best `k` labels of each text.

        Raises
        ------
        Problem
            Status 503 if the service is overloaded or the answer takes too long.
        """
        k = min(k, model.n_labels)
        self._admit(len(texts))
        try:
            async with asyncio.timeout(self.max_seconds):
                if len(texts) <= _SMALL:
                    return await self._batched(model, texts, k)
                rows: AnswerRows = []
                for start in range(0, len(texts), _PART):
                    rows += await self._in_thread(model.predict, texts[start : start + _PART], k)
                return rows
        except TimeoutError:
            raise self._too_slow() from None
        finally:
            self._waiting -= len(texts)

    async def run(self, work: Callable[..., Outcome], *args: Any) -> Outcome:
        """Run other work that needs predictions, in the thread for large requests."""
        self._admit(1)
        try:
            async with asyncio.timeout(self.max_seconds):
                return await self._in_thread(work, *args)
        except TimeoutError:
            raise self._too_slow() from None
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """End the threads. Work that has not started is dropped."""
        self._small.shutdown(wait=False, cancel_futures=True)
        self._large.shutdown(wait=False, cancel_futures=True)

    def _admit(self, n_texts: int) -> None:
        if self._waiting and self._waiting + n_texts > self.max_waiting:
            raise unavailable(f"{self._waiting:,} texts are waiting already. Send fewer at a time.")
        self._waiting += n_texts

    def _too_slow(self) -> Problem:
        return unavailable(f"The answer took longer than {self.max_seconds:g} seconds. Send fewer or shorter texts.")

    async def _in_thread(self, work: Callable[..., Outcome], *args: Any) -> Outcome:
        return await asyncio.get_running_loop().run_in_executor(self._large, work, *args)

    def _batched(self, model: ServedModel, texts: list[str], k: int) -> asyncio.Future[AnswerRows]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[AnswerRows] = loop.create_future()
        self._queue.append(_Request(model, texts, k, answer))
        if self._idle:
            self._idle = False
            loop.call_soon(self._next_batch, loop)  # so that requests that have been read already join the batch
        return answer

    def _next_batch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the next batch: the first waiting request, and others for the same model and number of labels."""
        batch: list[_Request] = []
        others: deque[_Request] = deque()
        n_texts = 0
        while self._queue and n_texts < _SMALL:
            request = self._queue.popleft()
            if request.answer.done():  # the client has disconnected, or the time is over
                continue
            if batch and (request.model is not batch[0].model or request.k != batch[0].k):
                others.append(request)
                continue
            batch.append(request)
            n_texts += len(request.texts)
        self._queue.extendleft(reversed(others))
        self._idle = not batch
        if batch:
            turn = _Turn()
            turn.timer = loop.call_later(_SLOW, self._pass_on, loop, turn)
            self._small.submit(self._compute, loop, batch, turn)

    def _pass_on(self, loop: asyncio.AbstractEventLoop, turn: _Turn) -> None:
        """End the turn of a batch, and start the next batch."""
        if turn.timer is not None:
            turn.timer.cancel()
            turn.timer = None
            self._next_batch(loop)

    def _compute(self, loop: asyncio.AbstractEventLoop, batch: list[_Request], turn: _Turn) -> None:
        texts = batch[0].texts if len(batch) == 1 else [text for request in batch for text in request.texts]
        rows: AnswerRows = []
        error: Exception | None = None
        try:
            rows = batch[0].model.predict(texts, batch[0].k)
        except Exception as raised:
            error = raised
        loop.call_soon_threadsafe(self._deliver, batch, rows, error)
        loop.call_soon_threadsafe(self._pass_on, loop, turn)

    def _deliver(self, batch: list[_Request], rows: AnswerRows, error: Exception | None) -> None:
        at = 0
        for request in batch:
            if not request.answer.done():
                if error is not None:
                    request.answer.set_exception(error)
                else:
                    request.answer.set_result(rows[at : at + len(request.texts)])
            at += len(request.texts)
