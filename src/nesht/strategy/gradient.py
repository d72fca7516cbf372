"""The NES gradient (Wierstra et al., 2014; Salimans et al., 2017): `1 / (n sigma) * sum_i w_i eps_i`.

The sum runs over chunks of a fixed number of directions, added in a fixed order, so that its bits do not depend on who
computed which chunk, and memory does not grow with the population.
"""

from __future__ import annotations

from collections.abc import Iterator

from array_api_compat import array_namespace

from nesht.strategy.perturb import Array, Population

CHUNK = 16
"""Directions per partial sum. A constant, not an option: changing it changes the last bits of every run."""


def chunks(population: Population) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) over the directions of a population."""
    for start in range(0, population.n_directions, CHUNK):
        yield start, min(start + CHUNK, population.n_directions)


def nes_gradient(population: Population, weights: Array) -> Array:
    """Return the estimated gradient of the expected fitness at theta, (runs, d).

    `weights` is (runs, n): the shaped fitness of every member, averaged over its rollouts.
    """
    if population.mirrored:  # w+ * eps + w- * (-eps)
        weights = weights[:, 0::2] - weights[:, 1::2]
    return _combined(population, weights) / (population.n * population.sigma[:, None])


def _combined(population: Population, weights: Array) -> Array:
    """Return the sum of the directions, each times its weight."""
    if population.source is not None:
        return population.source.combine(population, weights)
    xp = array_namespace(population.theta)
    total = xp.zeros_like(population.theta)
    for start, stop in chunks(population):
        total = total + xp.sum(weights[:, start:stop, None] * population.directions(start, stop), axis=1)
    return total


def member_norms(population: Population) -> Array:
    """Return the L1 norm of every member, (runs, n)."""
    if population.source is not None:
        return population.source.norms(population)
    xp = array_namespace(population.theta)
    centre, width = population.theta[:, None, :], population.width[:, None, :]
    parts = []
    for start, stop in chunks(population):
        step = width * population.directions(start, stop)
        norms = xp.sum(xp.abs(centre + step), axis=2)
        if population.mirrored:
            pairs = xp.stack([norms, xp.sum(xp.abs(centre - step), axis=2)], axis=2)
            norms = xp.reshape(pairs, (pairs.shape[0], -1))
        parts.append(norms)
    return xp.concat(parts, axis=1)
