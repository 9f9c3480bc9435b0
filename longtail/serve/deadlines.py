"""Time limits for requests: one timer for all, because a timer of its own costs a request a tenth of its time."""

from __future__ import annotations

import asyncio

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

    def limit(self) -> _Limit:
        """Limit the time that the current task spends inside a ``with`` block."""
        return _Limit(self)

    def _begin(self) -> asyncio.Task[object]:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        self._open[task] = loop.time() + self.seconds
        if self._timer is None:
            self._timer = loop.call_later(self._pause, self._sweep, loop)
        return task

    def _end(self, task: asyncio.Task[object]) -> bool:
        """Forget a task, and return whether its time was over."""
        self._open.pop(task, None)
        if task not in self._expired:
            return False
        self._expired.remove(task)
        return True

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


class _Limit:
    """One block under a limit; a generator as a context manager would take three times as long."""

    __slots__ = ("_deadlines", "_task")

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines

    def __enter__(self) -> None:
        self._task = self._deadlines._begin()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._deadlines._end(self._task) and kind is asyncio.CancelledError:
            self._task.uncancel()
            raise TimeoutError from None
