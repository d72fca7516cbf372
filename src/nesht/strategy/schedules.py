"""Hyper-parameters that change over a run, as functions of its progress in [0, 1].

Written the same way everywhere, `0.02` or `"linear:0.02:0.005"`: a number is constant, the rest is
`kind:start:end` with kind one of linear, exponential, cosine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nesht.errors import UserError

KINDS = ("linear", "exponential", "cosine")


@dataclass(frozen=True)
class Schedule:
    """A value that moves from `start` to `end` while progress goes from 0 to 1."""

    kind: str
    start: float
    end: float

    @classmethod
    def parse(cls, text: float | str, name: str = "schedule") -> Schedule:
        """Read `0.02` or `"cosine:0.02:0.005"`; `name` is the option to blame if it is neither."""
        try:
            if not isinstance(text, str) or ":" not in text:
                return cls("constant", float(text), float(text))
            kind, start, end = text.split(":")
            schedule = cls(kind, float(start), float(end))
        except (TypeError, ValueError):
            raise UserError(f"{name} must be a number or kind:start:end (linear:0.02:0.005), got {text!r}.") from None
        if kind not in KINDS:
            raise UserError(f"{name}: unknown schedule {kind!r}; use one of {', '.join(KINDS)}.")
        if kind == "exponential" and min(schedule.start, schedule.end) <= 0:
            raise UserError(f"{name}: an exponential schedule needs positive ends, got {text!r}.")
        return schedule

    @property
    def is_constant(self) -> bool:
        """Whether the value never moves."""
        return self.start == self.end

    def at(self, progress: np.ndarray) -> np.ndarray:
        """Return the value at each progress (clipped to [0, 1])."""
        p = np.clip(np.asarray(progress, dtype=np.float64), 0.0, 1.0)
        if self.kind == "cosine":
            p = 0.5 - 0.5 * np.cos(math.pi * p)
        if self.kind == "exponential":
            return np.asarray(self.start * (self.end / self.start) ** p)
        return np.asarray(self.start + (self.end - self.start) * p)


@dataclass(frozen=True)
class PerRun:
    """A schedule of its own for every run of a fleet."""

    schedules: tuple[Schedule, ...]

    def at(self, progress: np.ndarray) -> np.ndarray:
        """Return the value of each run at its progress."""
        values = np.array([one.start for one in self.schedules])
        for run, one in enumerate(self.schedules):
            if not one.is_constant:
                values[run] = one.at(progress[run : run + 1])[0]  # an array's last bits are not a number's
        return values
