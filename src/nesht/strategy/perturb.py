"""The population of one generation: a centre, a width, and directions that are regenerated from keys, never stored.

Member i of a run is `theta + sigma * eps_i`. With mirrored sampling members 2j and 2j+1 share direction j with
opposite signs (Salimans et al., 2017); otherwise every member has its own. A direction depends on (seed, generation,
its number) alone, so any worker can make any one of them without the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from array_api_compat import array_namespace, device

from nesht import keys

Array = Any
"""An array of any array-API library; NumPy and torch are tested."""


class Source(Protocol):
    """Makes directions by other means than `keys` and NumPy, and what is computed from all of them."""

    def directions(self, seed: np.ndarray, generation: np.ndarray, start: int, stop: int, d: int) -> np.ndarray:
        """Return directions start..stop of every run, (runs, stop - start, d)."""
        ...

    def combine(self, population: Population, weights: np.ndarray) -> np.ndarray:
        """Return the sum of the directions, each times its weight of (runs, n_directions): (runs, d)."""
        ...

    def norms(self, population: Population) -> np.ndarray:
        """Return the L1 norm of every member, (runs, n)."""
        ...


@dataclass(frozen=True)
class Population:
    """The members of one generation of every run, lazily."""

    theta: Array
    """(runs, d): the centre of each run, which is its current policy."""
    sigma: Array
    """(runs,): the standard deviation of the perturbations."""
    seed: np.ndarray
    """(runs,): the seed of each run."""
    generation: np.ndarray
    """(runs,): the generation each run is in."""
    n: int
    """Members per run."""
    mirrored: bool
    """Whether members come in pairs with opposite perturbations."""
    reach: Array | None = None
    """(runs, d): how far each parameter is perturbed, as a share of sigma; None is all the way."""
    source: Source | None = None
    """Makes the directions; None is NumPy's Philox from `keys`."""

    @property
    def n_directions(self) -> int:
        """How many independent directions the members of a run use."""
        return self.n // 2 if self.mirrored else self.n

    @property
    def width(self) -> Array:
        """The standard deviation of every parameter's perturbation, (runs, d)."""
        xp = array_namespace(self.theta)
        return self.sigma[:, None] * (xp.ones_like(self.theta) if self.reach is None else self.reach)

    def rows(self, runs: np.ndarray) -> Population:
        """Return the population of some of the runs."""
        reach = self.reach[runs] if self.reach is not None else None
        some = {name: getattr(self, name)[runs] for name in ("theta", "sigma", "seed", "generation")}
        return replace(self, reach=reach, **some)

    def direction(self, run: int, number: int) -> np.ndarray:
        """Return direction `number` of a run, (d,) float64, from its key alone."""
        if self.source is not None:
            one = slice(run, run + 1)
            made = self.source.directions(self.seed[one], self.generation[one], number, number + 1, self._d)
            return np.asarray(made[0, 0, :], dtype=np.float64)
        key = keys.pack(self.seed[run], self.generation[run], number)
        return keys.generator(key, keys.Stream.PERTURBATION).standard_normal(self._d)

    @property
    def _d(self) -> int:
        return int(self.theta.shape[1])

    def directions(self, start: int, stop: int) -> Array:
        """Return directions start..stop of every run, (runs, stop - start, d), as the kind of array theta is."""
        xp = array_namespace(self.theta)
        if self.source is not None:
            made = self.source.directions(self.seed, self.generation, start, stop, self._d)
            return xp.asarray(made, dtype=self.theta.dtype, device=device(self.theta))
        eps = [[self.direction(run, j) for j in range(start, stop)] for run in range(len(self.seed))]
        return xp.asarray(np.array(eps), dtype=self.theta.dtype, device=device(self.theta))

    def member(self, run: int, i: int) -> Array:
        """Return the parameters of member i of a run, (d,)."""
        number, sign = (i // 2, 1 - 2 * (i % 2)) if self.mirrored else (i, 1)
        xp = array_namespace(self.theta)
        eps = xp.asarray(self.direction(run, number), dtype=self.theta.dtype, device=device(self.theta))
        step = sign * self.sigma[run] * eps
        return self.theta[run, :] + (step if self.reach is None else self.reach[run, :] * step)

    def members(self) -> Array:
        """Return all members of all runs, (runs, n, d): for black-box functions; engines make them one at a time."""
        xp = array_namespace(self.theta)
        return xp.stack([xp.stack([self.member(run, i) for i in range(self.n)]) for run in range(len(self.seed))])
