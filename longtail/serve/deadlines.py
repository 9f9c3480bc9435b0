"""Time limits for requests: one timer for all, because a timer of its own costs a request a tenth of its time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

_SHORTEST_PAUSE = 0.05


class Deadlines:
    """Ends waiting that takes too long with ``TimeoutError``.

    Parameters
    ----------
    seconds : float
        Longest time to wait. Waiting ends up to a tenth of it late.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._open: dict[asyncio.Task[object], float] = {}
        self._expired: set[asyncio.Task[object]] = set()
        self._timer: asyncio.TimerHandle | None = None

    @contextlib.contextmanager
    def limit(self) -> Iterator[None]:
        """Limit the time that the current task spends inside."""
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        self._open[task] = loop.time() + self.seconds
        if self._timer is None:
            self._timer = loop.call_later(self._pause, self._sweep, loop)
        try:
            yield
        except asyncio.CancelledError:
            if task not in self._expired:
                raise
            task.uncancel()
            raise TimeoutError from None
        finally:
            self._expired.discard(task)
            self._open.pop(task, None)

    @property
    def _pause(self) -> float:
        return max(_SHORTEST_PAUSE, self.seconds / 10)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for task in [task for task, deadline in self._open.items() if deadline <= now]:
            del self._open[task]
            self._expired.add(task)
            task.cancel()
        self._timer = loop.call_later(self._pause, self._sweep, loop) if self._open else None
