"""Successive halving (Jamieson and Talwalkar, 2016): many settings for a short time, the better half for longer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Rung:
    """One round of a search."""

    trials: int
    """How many settings take part."""
    steps: int
    """Environment steps after which each of their runs pauses, counted from its start."""


def plan(budget: int, trials: int, seeds: int, longest: int | None = None) -> list[Rung]:
    """Return the rounds that a budget in steps pays for: every one has half the trials, which get twice as far.

    Runs go on from round to round, so that a round costs only what it adds. `longest` is as far as a run may get.
    """
    sizes = [trials]
    while sizes[-1] > 2:
        sizes.append((sizes[-1] + 1) // 2)
    reach = [2**i for i in range(len(sizes))]
    unit = budget / (seeds * cost([Rung(*each) for each in zip(sizes, reach, strict=True)], 0))
    if longest is not None:
        unit = min(unit, longest / reach[-1])
    return [Rung(size, int(unit * far)) for size, far in zip(sizes, reach, strict=True)]


def cost(rungs: Sequence[Rung], start: float) -> float:
    """Return the steps of all trials, with one run each, that rounds still need from where their runs are now."""
    total = 0.0
    for rung in rungs:
        total += rung.trials * max(0.0, rung.steps - start)
        start = max(start, rung.steps)
    return total


def afford(rungs: Sequence[Rung], start: float, left: float) -> int:
    """Return how far the first of some rounds may go with the steps that are left for all of them, per seed.

    Generations are whole, so that earlier rounds may have cost more than was planned.
    """
    needed = cost(rungs, start)
    share = min(1.0, max(0.0, left) / needed) if needed else 0.0
    return int(start + max(0.0, rungs[0].steps - start) * share)
