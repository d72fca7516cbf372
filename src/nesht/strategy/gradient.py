"""The NES gradient (Wierstra et al., 2014; Salimans et al., 2017): `1 / (n sigma) * sum_i w_i eps_i`.

The sum runs over chunks of a fixed number of directions, added in pairs: neighbours, then neighbours of those. Whoever
sums up a stretch of 1, 2, 4, 8, ... whole chunks makes one number of that tree, so that the bits do not depend on who
computed what. Memory does not grow with the population.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from array_api_compat import array_namespace

from nesht.strategy.perturb import Array, Population

CHUNK = 16
"""Directions per partial sum. A constant, not an option: changing it changes the last bits of every run."""


def chunks(start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of the chunks of some directions."""
    for first in range(start, stop, CHUNK):
        yield first, min(first + CHUNK, stop)


def in_pairs(parts: Iterable[Array]) -> Array:
    """Return the sum of one or more parts: neighbours are added, then neighbours of those, and so on."""
    sums: list[Array] = []  # of 2**i parts each, as the binary digits of their number say
    for count, part in enumerate(parts, start=1):
        sums.append(part)
        for _ in range((count & -count).bit_length() - 1):
            right = sums.pop()
            sums[-1] = sums[-1] + right
    total = sums.pop()
    while sums:
        total = sums.pop() + total
    return total


def nes_gradient(population: Population, weights: Array) -> Array:
    """Return the estimated gradient of the expected fitness at theta, (runs, d).

    `weights` is (runs, n): the shaped fitness of every member, averaged over its rollouts.
    """
    if population.mirrored:  # w+ * eps + w- * (-eps)
        weights = weights[:, 0::2] - weights[:, 1::2]
    return _combined(population, weights) / (population.n * population.sigma[:, None])


def _combined(population: Population, weights: Array) -> Array:
    if population.source is not None:
        return population.source.combine(population, weights)
    return combine(population, weights)


def combine(population: Population, weights: Array, start: int = 0) -> Array:
    """Return the sum of the directions from `start` on, each times its weight of (runs, directions): (runs, d)."""
    xp = array_namespace(population.theta)
    return in_pairs(
        xp.sum(weights[:, first - start : last - start, None] * population.directions(first, last), axis=1)
        for first, last in chunks(start, start + weights.shape[1])
    )


def member_norms(population: Population) -> Array:
    """Return the L1 norm of every member, (runs, n)."""
    if population.source is not None:
        return population.source.norms(population)
    return norms(population, 0, population.n_directions)


def norms(population: Population, start: int, stop: int) -> Array:
    """Return the L1 norm of the members that use directions start..stop."""
    xp = array_namespace(population.theta)
    centre, width = population.theta[:, None, :], population.width[:, None, :]
    parts = []
    for first, last in chunks(start, stop):
        step = width * population.directions(first, last)
        sizes = xp.sum(xp.abs(centre + step), axis=2)
        if population.mirrored:
            pairs = xp.stack([sizes, xp.sum(xp.abs(centre - step), axis=2)], axis=2)
            sizes = xp.reshape(pairs, (pairs.shape[0], -1))
        parts.append(sizes)
    return xp.concat(parts, axis=1)
