"""The NES gradient (Wierstra et al., 2014; Salimans et al., 2017): `1 / (n sigma) * sum_i w_i eps_i`.

The sum runs over chunks of a fixed number of directions, added in a fixed order, so that its bits do not depend on who
computed which chunk, and memory does not grow with the population.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from array_api_compat import array_namespace

from nesht.strategy.perturb import Array, Population

CHUNK = 16
"""Directions per partial sum. A constant, not an option: changing it changes the last bits of every run."""


AHEAD = 1 << 25
"""Numbers that are made at a time on a device, where starting to make some takes longer than making them."""


def chunks(population: Population) -> Iterator[tuple[int, int, Array]]:
    """Yield (start, stop, directions start..stop) over the directions of a population."""
    last, size = population.n_directions, CHUNK
    if not isinstance(population.theta, np.ndarray):
        size = max(1, AHEAD // (CHUNK * population.theta.shape[0] * population.theta.shape[1])) * CHUNK
    for first in range(0, last, size):
        made = population.directions(first, min(first + size, last))
        for start in range(first, min(first + size, last), CHUNK):
            stop = min(start + CHUNK, last)
            yield start, stop, made[:, start - first : stop - first, :]


def nes_gradient(population: Population, weights: Array) -> Array:
    """Return the estimated gradient of the expected fitness at theta, (runs, d).

    `weights` is (runs, n): the shaped fitness of every member, averaged over its rollouts.
    """
    xp = array_namespace(population.theta)
    if population.mirrored:  # w+ * eps + w- * (-eps)
        weights = weights[:, 0::2] - weights[:, 1::2]
    total = xp.zeros_like(population.theta)
    for start, stop, directions in chunks(population):
        total = total + xp.sum(weights[:, start:stop, None] * directions, axis=1)
    return total / (population.n * population.sigma[:, None])


def per_member(population: Population, function: Callable[[Array], Array]) -> Array:
    """Apply `function` from (runs, m, d) to (runs, m) to all members, chunk by chunk; returns (runs, n)."""
    xp = array_namespace(population.theta)
    centre, width = population.theta[:, None, :], population.width[:, None, :]
    parts = []
    for _, _, directions in chunks(population):
        step = width * directions
        values = function(centre + step)
        if population.mirrored:
            pairs = xp.stack([values, function(centre - step)], axis=2)
            values = xp.reshape(pairs, (pairs.shape[0], -1))
        parts.append(values)
    return xp.concat(parts, axis=1)
