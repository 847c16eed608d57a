"""A progress bar on the error stream of a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from .output import duration


class HowFar(ProgressColumn):
    """How much is done, of how much, and the time that is left: "2 of 8 plans, about 12 s left"."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def render(self, task: Task) -> Text:
        if not task.completed:
            return Text("")
        done, left = f"{task.completed:,.0f}", task.time_remaining
        if task.total is not None:
            done = f"{done} of {task.total:,.0f}"
        time = f", about {duration(left)} left" if left else ""
        return Text(f"{done} {self.unit}{time}")


@contextmanager
def terminal_progress(label: str, unit: str) -> Iterator[Any]:
    """The bar; a callback with (done, total or None). It is gone when all is done."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        HowFar(unit),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(label, total=None)

        def on_progress(done: int, total: int | None = None) -> None:
            bar.update(task, completed=done, total=total)

        yield on_progress
