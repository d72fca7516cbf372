"""L0-constrained black-box optimisation, shaped like a SciPy optimiser, for people with no environment at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nesht.errors import UserError
from nesht.keys import WORD
from nesht.strategy.nes import Strategy
from nesht.strategy.optimisers import Adam
from nesht.strategy.sparsify import HardThreshold
from nesht.strategy.units import Units


@dataclass(frozen=True)
class MaximizeResult:
    """What `maximize` found."""

    x: np.ndarray
    """The final point, with at most k nonzero entries."""
    support: np.ndarray
    """The positions of its nonzero entries."""
    fun: float
    """f(x)."""
    nfev: int
    """How many times f was called."""
    nit: int
    """How many generations were run."""
    history: np.ndarray
    """The mean fitness of every generation."""


def maximize(
    f: Callable[[np.ndarray], float],
    x0: np.ndarray,
    *,
    k: int | None = None,
    groups: np.ndarray | None = None,
    memory: float = 0.95,
    n: int = 64,
    sigma: float | str = 0.1,
    lr: float | str = "cosine:0.05:0.005",
    shaping: str = "centered_rank",
    generations: int = 200,
    seed: int = 0,
    callback: Callable[[int, np.ndarray, float], bool | None] | None = None,
) -> MaximizeResult:
    """Maximise a noisy black-box function over vectors with at most k nonzero entries.

    Args:
        f: takes a vector like x0, returns a number, higher is better. NaN counts as worst.
        x0: where to start, (d,).
        k: how many entries may be nonzero; None is no limit.
        groups: (d,) integers; entries with the same number are kept or dropped together, and k then counts groups. All
            groups must have the same size.
        memory: how much of a cut entry survives to the next generation; 0 is the paper's plain hard threshold.
        n: function calls per generation, an even number.
        sigma: size of the random changes that are tried; a number or a schedule such as "linear:0.1:0.01".
        lr: step size (Adam); a number or a schedule.
        shaping: raw, standardize or centered_rank.
        generations: how many updates.
        seed: the same seed gives the same result.
        callback: called after every generation with (generation, x, mean fitness); return True to stop.
    """
    start = np.array(x0, dtype=np.float64)
    if start.ndim != 1 or start.size == 0:
        raise UserError(f"x0 must be a vector with at least one entry, got shape {np.shape(x0)}.")
    if not np.isfinite(start).all():
        raise UserError("x0 must be finite.")
    if not 0 <= seed < WORD:
        raise UserError(f"seed must lie in [0, 2**32), got {seed}.")
    if generations < 1:
        raise UserError(f"generations must be at least 1, got {generations}.")
    if n < 2 or n % 2:
        raise UserError(f"n must be an even number, at least 2, got {n}.")
    units = Units.weights(start.size) if groups is None else _grouped(np.asarray(groups), start.size)
    count = units.counts[0]
    if k is not None and not (isinstance(k, (int, np.integer)) and 1 <= k <= count):
        raise UserError(f"k must be a whole number between 1 and {count}, got {k}.")
    strategy = Strategy(
        units=units,
        n=n,
        sigma=sigma,
        lr=lr,
        k=k or count,
        shaping=shaping,
        optimiser=Adam(),
        sparsifier=HardThreshold(units, memory),
    )
    state = strategy.init(start[None], np.array([seed]))
    history: list[float] = []
    for generation in range(generations):
        progress = np.array([generation / generations])
        population = strategy.ask(state, progress)
        fitness = np.array([[float(f(member)) for member in population.members()[0]]])
        state, _ = strategy.tell(state, population, fitness, progress)
        history.append(float(fitness.mean()))
        if callback is not None and callback(generation, state.theta[0].copy(), history[-1]):
            break
    x = state.theta[0]
    return MaximizeResult(
        x, np.flatnonzero(x), float(f(x.copy())), len(history) * n + 1, len(history), np.array(history)
    )


def _grouped(groups: np.ndarray, size: int) -> Units:
    if groups.shape != (size,):
        raise UserError(f"groups must have one number per entry of x0 ({size}), got shape {groups.shape}.")
    members = [np.flatnonzero(groups == g) for g in np.unique(groups)]
    if len({len(m) for m in members}) != 1:
        raise UserError("all groups must have the same size.")
    return Units(size, (np.array(members),))
