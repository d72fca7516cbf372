"""Fitness shaping: from the members' raw fitness, (runs, n), to the weights of their perturbations.

A fitness that is not a finite number (a simulation that diverged) always counts as the worst of its generation. A
generation in which no fitness differs from another, or none is finite, gets all-zero weights: no information, no step.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from array_api_compat import array_namespace, device

from nesht.strategy.perturb import Array
from nesht.strategy.units import largest


def worst_if_not_finite(fitness: Array) -> Array:
    """Replace every NaN and infinity by the worst finite fitness of its run (0 where there is none)."""
    xp = array_namespace(fitness)
    finite = xp.isfinite(fitness)
    worst = xp.min(xp.where(finite, fitness, xp.asarray(xp.inf, dtype=fitness.dtype)), axis=1, keepdims=True)
    worst = xp.where(xp.isfinite(worst), worst, xp.zeros_like(worst))
    return xp.where(finite, fitness, worst)


def raw(fitness: Array) -> Array:
    """Algorithm 1 to the letter: the fitness itself is the weight."""
    return worst_if_not_finite(fitness)


def standardize(fitness: Array) -> Array:
    """Zero mean and unit standard deviation within each run."""
    xp = array_namespace(fitness)
    fitness = worst_if_not_finite(fitness)
    centred = fitness - xp.mean(fitness, axis=1, keepdims=True)
    scale = xp.sqrt(xp.mean(centred * centred, axis=1, keepdims=True))
    # Where all members are equal, rounding still leaves a scale of the size of the last bits: that is no signal.
    # Nor is a difference whose square is too small to be a number.
    flat = (xp.max(fitness, axis=1, keepdims=True) == xp.min(fitness, axis=1, keepdims=True)) | (scale == 0)
    return xp.where(flat, xp.zeros_like(centred), centred / xp.where(flat, xp.ones_like(scale), scale))


def centered_rank(fitness: Array) -> Array:
    """Ranks mapped linearly to [-1/2, 1/2]; equal fitnesses share the mean of their ranks (Salimans et al., 2017)."""
    xp = array_namespace(fitness)
    n = fitness.shape[1]
    if n == 1:
        return xp.zeros_like(fitness)
    # Ranking ties once in index order and once in reverse and averaging gives each tie the mean rank of its group.
    lowest = xp.where(xp.isfinite(fitness), fitness, xp.asarray(-xp.inf, dtype=fitness.dtype))
    forward = _ranks(lowest)
    backward = xp.flip(_ranks(xp.flip(lowest, axis=1)), axis=1)
    rank = xp.astype(forward + backward, fitness.dtype) / 2
    return rank / (n - 1) - 0.5


def _ranks(values: Array) -> Array:
    """Ascending ranks along the last axis, ties in index order."""
    xp = array_namespace(values)
    order = xp.argsort(values, axis=-1, stable=True)
    return xp.argsort(order, axis=-1, stable=True)


def elite(fitness: Array, share: np.ndarray, mirrored: bool) -> Array:
    """Return the factor of every member, (runs, n), when only a share, (runs,), of the directions counts.

    Those with the best member count (Mania et al., 2018), and by as much more as there are fewer of them.
    """
    xp = array_namespace(fitness)
    runs, n = fitness.shape
    best = worst_if_not_finite(fitness)
    if mirrored:
        best = xp.max(xp.reshape(best, (runs, n // 2, 2)), axis=2)
    count = best.shape[1]
    wanted = np.maximum(1, np.rint(share * count)).astype(np.int64)
    factor = xp.asarray(count / wanted, dtype=fitness.dtype, device=device(fitness))[:, None]
    chosen = xp.astype(largest(best, wanted), fitness.dtype) * factor
    return xp.reshape(xp.stack([chosen, chosen], axis=2), (runs, n)) if mirrored else chosen


SHAPINGS: dict[str, Callable[[Array], Array]] = {
    "raw": raw,
    "standardize": standardize,
    "centered_rank": centered_rank,
}
