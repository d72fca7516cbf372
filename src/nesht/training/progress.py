"""What a person sees while a run goes on: a live line in a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from nesht.training.recorder import Record
from nesht.training.setup import Budget

PLAIN_SECONDS = 10.0
"""Time between two lines when the output is no terminal."""


class ProgressDisplay:
    """Shows a fleet's records; a context manager, called once per generation with one record per active run."""

    def __init__(self, budget: Budget, runs: int, console: Console | None = None):
        self._budget, self._runs = budget, runs
        self._console = console or Console(stderr=True)
        self._latest: dict[int, Record] = {}
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

    def __call__(self, records: Sequence[Record]) -> None:
        """Show the newest records."""
        self._latest.update({record["seed"]: record for record in records})
        steps = sum(record["steps"] for record in self._latest.values())
        if self._steps_at_start < 0:  # the steps of the first generation took time too, but not those before a resume
            self._steps_at_start = 0 if all(record["generation"] == 0 for record in records) else steps
        line, share = self.line(steps)
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=share, description=line)
        elif time.monotonic() - self._shown >= PLAIN_SECONDS or share >= 1:
            self._shown = time.monotonic()
            self._console.print(line, highlight=False, soft_wrap=True)

    def line(self, steps: int) -> tuple[str, float]:
        """Return the line to show and the share of the budget that is spent."""
        elapsed = time.monotonic() - self._start
        rate = (steps - self._steps_at_start) / max(elapsed, 1e-9)
        share = self._share()
        parts = [f"{share:4.0%}", f"{_short(steps)} steps", f"{_short(rate)}/s"]
        if 0 < share < 1:
            parts.append(f"{_clock(elapsed * (1 - share) / share)} left" if self._steps_at_start == 0 else "")
        runs = self._latest.values()
        scores = [record["recent_score"] for record in runs if record["recent_score"] is not None]
        if scores:
            spread = f" ({min(scores):.0f} to {max(scores):.0f})" if self._runs > 1 else ""
            parts.append(f"score {sum(scores) / len(scores):.0f}{spread}")
        parts.append(f"{sum(record['nonzeros'] for record in runs) / len(runs):.0f} nonzeros")
        shares = [record["real_share"] for record in runs if record["real_share"] is not None]
        if shares:
            parts.append(f"{sum(shares) / len(shares):.0%} on real inputs")
        return " · ".join(part for part in parts if part), share

    def _share(self) -> float:
        """The share of the budget that the fleet has spent, by the limit that is nearest."""
        shares = []
        for record in self._latest.values():
            spent = [0.0]
            if self._budget.steps:
                spent.append(record["steps"] / self._budget.steps)
            if self._budget.generations:
                spent.append((record["generation"] + 1) / self._budget.generations)
            if self._budget.seconds:
                spent.append(record["seconds"] / self._budget.seconds)
            shares.append(min(1.0, max(spent)))
        return sum(shares) / self._runs


def _short(number: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.1f}{unit}"
    return f"{number:.0f}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
