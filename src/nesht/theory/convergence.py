"""How far thresholded iterates are from a stationary point, on problems whose gradient is known.

The theorem speaks of the distance from zero to the Frechet subdifferential of -F_sigma + (0 on k-sparse vectors, else
infinity). With exactly k nonzero entries that subdifferential fixes the gradient on them and leaves the other entries
free, so the distance is the length of the gradient on the kept entries; with fewer it is the length of all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nesht.errors import UserError
from nesht.strategy import HardThreshold, NoSparsity, Strategy, Units, hard_threshold
from nesht.theory.bounds import positive, whole
from nesht.theory.problems import Problem


@dataclass(frozen=True)
class Path:
    """The iterates theta_1 .. theta_T of several runs; arrays are (T, runs)."""

    squares: np.ndarray
    """The squared distance to stationarity."""
    error: np.ndarray
    """|theta - top|^2."""
    theta: np.ndarray
    """(runs, d): the last iterates."""

    def mean_square(self) -> np.ndarray:
        """Return the mean of the squared distances up to every generation: what the proof bounds."""
        count = np.arange(1, len(self.squares) + 1)
        return np.asarray(np.cumsum(self.squares, axis=0) / count[:, None])


def sparse(theta: np.ndarray, k: int) -> np.ndarray:
    """Return theta with all but its k largest entries set to zero; theta is (d,) or (runs, d)."""
    theta = np.asarray(theta, np.float64)
    _check_k(k, theta.shape[-1])
    rows = np.atleast_2d(theta)
    cut = hard_threshold(rows, [np.full(len(rows), k)], Units.weights(theta.shape[-1]))
    return np.asarray(cut).reshape(theta.shape)


def distance_to_stationarity(theta: np.ndarray, gradient: np.ndarray, k: int) -> np.ndarray:
    """Return the distance of k-sparse theta, (..., d), from a stationary point, given the gradient there."""
    _check_k(k, theta.shape[-1])
    kept = theta != 0
    count = kept.sum(axis=-1)
    if np.any(count > k):
        raise UserError(f"theta must have at most k = {k} nonzero entries, got {count.max()}.")
    free = (count == k)[..., None] & ~kept
    return np.sqrt((np.where(free, 0.0, gradient) ** 2).sum(axis=-1))


def follow(
    problem: Problem,
    theta: np.ndarray,
    *,
    sigma: float,
    lr: float,
    n: int,
    generations: int,
    seeds: Sequence[int],
    k: int | None = None,
    rollouts: int = 1,
    memory: float = 0.0,
) -> Path:
    """Run Algorithm 1 from theta, (d,): plain SGD on raw fitness, independent directions, a threshold every update.

    Without k nothing is cut, which is NES. A memory is this library's: what is cut fades instead of vanishing.
    """
    positive("sigma", sigma)
    positive("lr (the step size)", lr)
    whole("generations", generations)
    whole("rollouts", rollouts)
    units = Units.weights(problem.d)
    if k is not None:
        _check_k(k, problem.d)
    sparsifier = NoSparsity() if k is None else HardThreshold(units, memory)
    keep = problem.d if k is None else k
    strategy = Strategy(units, n, sigma, lr, k=keep, mirrored=False, shaping="raw", sparsifier=sparsifier)
    still = np.zeros(len(seeds))
    state = strategy.init(np.tile(np.asarray(theta, np.float64), (len(seeds), 1)), np.asarray(seeds))
    squares, error = np.zeros((2, generations, len(seeds)))
    for t in range(generations):
        population = strategy.ask(state, still)
        state, _ = strategy.tell(state, population, problem.returns(population, rollouts).mean(axis=2), still)
        slope = problem.gradient(state.theta, sigma)
        squares[t] = distance_to_stationarity(state.theta, slope, keep) ** 2
        error[t] = ((state.theta - problem.top) ** 2).sum(axis=1)
    return Path(squares, error, np.asarray(state.theta))


def _check_k(k: int, d: int) -> None:
    if not (1 <= k <= d and k % 1 == 0):
        raise UserError(f"k (the entries that are kept) must be a whole number between 1 and d = {d}, got {k}.")
