"""What a person sees while a run goes on: a live line in a terminal, plain lines anywhere else."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from nesht.training.recorder import Record
from nesht.training.setup import Budget

PLAIN_SECONDS, LIVE_SECONDS = 10.0, 0.2
"""Time between two lines when the output is no terminal, and when it is one."""


class ProgressDisplay:
    """Shows the newest records of all runs; a context manager, called once per generation of a fleet."""

    def __init__(self, runs: int, console: Console | None = None):
        self._runs = runs
        self._console = console or Console(stderr=True)
        self._lock = threading.Lock()
        self._latest: dict[int, tuple[Record, float]] = {}
        self._start, self._steps_at_start, self._shown = time.monotonic(), -1, 0.0
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            columns = (BarColumn(bar_width=24), TextColumn("{task.description}"), TimeElapsedColumn())
            self._bar = Progress(*columns, console=self._console)
            self._bar.start()
            self._task = self._bar.add_task("first generation ...", total=1.0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, records: Mapping[int, Record], budget: Budget) -> None:
        """Show the newest records of some of the runs, by a number that tells runs apart."""
        with self._lock:
            self._latest.update({run: (record, _share(record, budget)) for run, record in records.items()})
            if self._steps_at_start < 0:  # those of the first generation took time too, but not those before a resume
                first = all(record["generation"] == 0 for record in records.values())
                self._steps_at_start = 0 if first else self._steps()
            self._show()

    def _steps(self) -> int:
        return sum(record["steps"] for record, _ in self._latest.values())

    def _show(self) -> None:
        """Show a line if it is time for one, or if all is done; to make one takes a while with thousands of runs."""
        now, pause = time.monotonic(), PLAIN_SECONDS if self._bar is None else LIVE_SECONDS
        over = len(self._latest) == self._runs and all(share >= 1 for _, share in self._latest.values())
        if now - self._shown < pause and not over:
            return
        self._shown = now
        line, share = self.line(self._steps())
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=share, description=line)
        else:
            self._console.print(line, highlight=False, soft_wrap=True)

    def line(self, steps: int) -> tuple[str, float]:
        """Return the line to show and the share of the budget that is spent."""
        elapsed = time.monotonic() - self._start
        rate = (steps - self._steps_at_start) / max(elapsed, 1e-9)
        share = sum(each for _, each in self._latest.values()) / self._runs
        parts = [f"{share:4.0%}", f"{_short(steps)} steps", f"{_short(rate)}/s"]
        if 0 < share < 1:
            parts.append(f"{clock(elapsed * (1 - share) / share)} left" if self._steps_at_start == 0 else "")
        runs = [record for record, _ in self._latest.values()]
        scores = [record["recent_score"] for record in runs if record["recent_score"] is not None]
        if scores:
            spread = f" ({min(scores):.0f} to {max(scores):.0f})" if self._runs > 1 else ""
            parts.append(f"score {sum(scores) / len(scores):.0f}{spread}")
        parts.append(f"{sum(record['nonzeros'] for record in runs) / len(runs):.0f} nonzeros")
        shares = [record["real_share"] for record in runs if record["real_share"] is not None]
        if shares:
            parts.append(f"{sum(shares) / len(shares):.0%} on real inputs")
        return " · ".join(part for part in parts if part), share


def _share(record: Record, budget: Budget) -> float:
    """The share of its budget that a run has spent, by the limit that is nearest."""
    spent = [0.0]
    spent += [record["steps"] / steps for steps in (budget.steps, budget.pause) if steps]
    if budget.generations:
        spent.append((record["generation"] + 1) / budget.generations)
    if budget.seconds:
        spent.append(record["seconds"] / budget.seconds)
    return min(1.0, max(spent))


def _short(number: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.1f}{unit}"
    return f"{number:.0f}"


def clock(seconds: float) -> str:
    """Return a time as 3:20, or with hours as 1:03:20."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
