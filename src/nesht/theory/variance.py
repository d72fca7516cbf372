"""Measuring what the bounds are about, on the ordinary strategy code: how far gradient estimates and returns scatter.

What is measured is a function of a population, `returns(population, rollouts)`, that gives the return of every episode,
(runs, n, rollouts): `Problem.returns`, or `rollouts.TaskReturns` for a task and a policy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from nesht.errors import UserError
from nesht.strategy import Population, Strategy, Units
from nesht.strategy.gradient import nes_gradient
from nesht.strategy.perturb import Source
from nesht.theory.bounds import positive, whole

Returns = Callable[[Population, int], np.ndarray]


@dataclass(frozen=True)
class Measured:
    """A number with its standard error."""

    value: float
    error: float

    @classmethod
    def mean(cls, samples: np.ndarray) -> Measured:
        """Return the mean of independent samples."""
        return cls(float(samples.mean()), float(samples.std(ddof=1) / len(samples) ** 0.5))

    @property
    def low(self) -> float:
        """The lower end of the 95 % interval."""
        return self.value - 1.96 * self.error

    @property
    def high(self) -> float:
        """The upper end of the 95 % interval."""
        return self.value + 1.96 * self.error


@dataclass(frozen=True)
class Spread:
    """How the returns of episodes scatter around a policy."""

    mean: float
    """The mean return."""
    bound: float
    """The largest magnitude of a member's mean return: B is at least about that."""
    variance: Measured
    """The variance of one episode's return, in the mean over members: C is at least that."""
    worst: float
    """The largest variance that any member showed."""
    signal: float
    """The variance of the members' expected returns: what there is to learn from; may come out below 0 if small."""


def gradients(
    returns: Returns,
    theta: np.ndarray,
    sigma: float,
    n: int,
    rollouts: int = 1,
    repeats: int = 200,
    seed: int = 0,
    source: Source | None = None,
) -> np.ndarray:
    """Return independent estimates of the gradient at theta, (repeats, d), each from a population of its own."""
    positive("sigma", sigma)
    whole("rollouts", rollouts)
    whole("repeats", repeats)
    population = _population(theta, sigma, n, repeats, seed, source)
    return np.asarray(nes_gradient(population, returns(population, rollouts).mean(axis=2)))


def estimator_variance(estimates: np.ndarray) -> Measured:
    """Return the mean squared distance of estimates from their expectation, from independent ones, (repeats, d)."""
    repeats = len(estimates)
    if repeats < 2:
        raise UserError(f"a variance needs at least 2 repeats, got {repeats}.")
    off = estimates - estimates.mean(axis=0)
    return Measured.mean((off * off).sum(axis=1) * repeats / (repeats - 1))


def episode_spread(
    returns: Returns,
    theta: np.ndarray,
    sigma: float = 0.0,
    members: int = 64,
    rollouts: int = 4,
    seed: int = 0,
    source: Source | None = None,
    explore: float = 1.0,
) -> Spread:
    """Return how returns scatter at theta + sigma eps, or with sigma 0 at theta itself.

    `explore` is how far the weights that are zero are perturbed, as a share of sigma.
    """
    if not 0 <= sigma < np.inf:
        raise UserError(f"sigma must be 0 or more, got {sigma}.")
    if rollouts < 2:
        raise UserError(f"a variance needs at least 2 rollouts of every member, got {rollouts}.")
    whole("members", members)
    found = returns(_population(theta, sigma, members, 1, seed, source, explore), rollouts)[0]
    variances, means = found.var(axis=1, ddof=1), found.mean(axis=1)
    return Spread(
        float(found.mean()),
        float(np.abs(means).max()),
        Measured.mean(variances),
        float(variances.max()),
        float(means.var(ddof=1) - variances.mean() / rollouts),
    )


def _population(
    theta: np.ndarray, sigma: float, n: int, runs: int, seed: int, source: Source | None, explore: float = 1.0
) -> Population:
    """Return populations around theta as Algorithm 1 draws them: independent directions, one population per run."""
    theta = np.asarray(theta, np.float64)
    if theta.ndim != 1 or not np.isfinite(theta).all():
        raise UserError(f"theta must be a vector of finite numbers, got shape {theta.shape}.")
    strategy = Strategy(Units.weights(theta.size), n, sigma or 1.0, mirrored=False, shaping="raw", explore=explore)
    state = strategy.init(np.tile(theta, (runs, 1)), seed + np.arange(runs))
    population = replace(strategy.ask(state, np.zeros(runs)), source=source)
    return population if sigma else replace(population, sigma=np.zeros(runs))
