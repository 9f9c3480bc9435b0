"""Progress of long work on a terminal: one bar per stage, with elapsed and remaining time.

Where standard error is not a terminal, each stage is one plain line.
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
    """Show what is going on, and the stages that the library reports, while the block runs."""
    if not console.err.is_terminal or console.err.is_dumb_terminal:
        console.print_remark(f"{message} …")
        with progress.listen(_line_listener()):
            yield
        return
    bars = _Bars(message)
    with bars.shown, progress.listen(bars.update):
        yield


def _line_listener() -> progress.Listener:
    """Return a listener that prints each stage once, and once more where it is part of another stage."""
    seen: set[tuple[str, ...]] = set()
    under_way: list[str] = []

    def show(stage: str, share: float) -> None:
        if stage not in under_way or (share <= 0 and under_way[-1] != stage):
            under_way.append(stage)
        else:
            del under_way[len(under_way) - under_way[::-1].index(stage) :]
        if tuple(under_way) not in seen:
            seen.add(tuple(under_way))
            console.print_remark("  " * len(under_way) + stage)
        if share >= 1:
            under_way.pop()

    return show


class _Bars:
    """One bar for the whole work, and under it one for each stage that is under way.

    A stage that starts while another is under way is a part of it, and is shown below it.
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
        self.open: list[tuple[str, Any]] = []

    def update(self, stage: str, share: float) -> None:
        """Show how much of a stage is done; the stages inside it have ended."""
        names = [name for name, _ in self.open]
        if stage not in names or (share <= 0 and names[-1] != stage):  # 0 again: the stage has begun, no more
            task = self.shown.add_task("  " * (len(self.open) + 1) + stage, total=None)
            self.open.append((stage, task))
        else:
            self._close(len(names) - names[::-1].index(stage))
        if share >= 1:
            self._close(len(self.open) - 1)
        elif share > 0:
            self.shown.update(self.open[-1][1], total=1.0, completed=share)

    def _close(self, keep: int) -> None:
        for _, task in self.open[keep:]:
            self.shown.remove_task(task)
        del self.open[keep:]


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
    """Write a duration as minutes and seconds, with hours where there are any."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
