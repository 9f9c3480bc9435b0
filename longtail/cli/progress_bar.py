"""Show the progress of long work on a terminal: one bar per stage, with elapsed and remaining time.

If standard error is not a terminal, each stage is printed as one line.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from longtail import progress
from longtail.cli import console

_BAR_WIDTH = 18


@contextmanager
def doing(message: str) -> Iterator[None]:
    """Show a message, and the stages that the library reports, while the block runs."""
    if not console.err.is_terminal or console.err.is_dumb_terminal:
        console.print_remark(f"{message} …")
        with progress.listen(_line_listener()):
            yield
        return
    bars = _Bars(message)
    with bars.shown, progress.listen(bars.update):
        yield


def _line_listener() -> progress.Listener:
    """Return a listener that prints each stage once per stage that contains it."""
    seen: set[tuple[str, ...]] = set()
    running: list[str] = []

    def show(stage: str, share: float) -> None:
        if stage not in running or (share <= 0 and running[-1] != stage):
            running.append(stage)
        else:
            del running[len(running) - running[::-1].index(stage) :]
        if tuple(running) not in seen:
            seen.add(tuple(running))
            console.print_remark("  " * len(running) + stage)
        if share >= 1:
            running.pop()

    return show


class _Bars:
    """One bar for the whole work, and below it one for each running stage.

    A stage that starts while another one is running is a part of it, and is shown below it.
    """

    def __init__(self, message: str) -> None:
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.table import Column

        described = TextColumn(
            "{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")
        )
        self.shown = Progress(
            described, BarColumn(_BAR_WIDTH), _time_columns(), console=console.err, transient=True, expand=True
        )
        self.shown.add_task(message, total=None)
        self.running: list[tuple[str, Any]] = []

    def update(self, stage: str, share: float) -> None:
        """Show how much of a stage is done. Stages inside it have ended."""
        names = [name for name, _ in self.running]
        if stage not in names or (share <= 0 and names[-1] != stage):  # a share of 0 may be reported more than once
            task = self.shown.add_task("  " * (len(self.running) + 1) + stage, total=None)
            self.running.append((stage, task))
        else:
            self._close(len(names) - names[::-1].index(stage))
        if share >= 1:
            self._close(len(self.running) - 1)
        elif share > 0:
            self.shown.update(self.running[-1][1], total=1.0, completed=share)

    def _close(self, keep: int) -> None:
        for _, task in self.running[keep:]:
            self.shown.remove_task(task)
        del self.running[keep:]


def _time_columns() -> Any:
    """Return the column with elapsed and remaining time."""
    from rich.progress import ProgressColumn, Task
    from rich.table import Column
    from rich.text import Text

    class Times(ProgressColumn):
        max_refresh = 0.5

        def render(self, task: Task) -> Text:
            elapsed, share = task.elapsed or 0.0, task.completed if task.total else 0.0
            left = f", {clock(elapsed * (1 - share) / share)} left" if share > 0 else ""
            return Text(f"{clock(elapsed)}{left}", style="cyan")

    return Times(table_column=Column(no_wrap=True, min_width=17))


def clock(seconds: float) -> str:
    """Format a duration as minutes and seconds, with hours if there are any."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
