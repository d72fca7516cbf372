"""Honest statistics over seeds: means with bootstrap intervals, and how often one method beats another.

After Agarwal et al. (2021), "Deep Reinforcement Learning at the Edge of the Statistical Precipice".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 10_000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float

    def above(self, other: Estimate) -> bool:
        """Whether this is larger and the intervals do not overlap."""
        return self.low > other.high


def mean(scores: Sequence[float]) -> Estimate:
    """Return the mean over seeds."""
    return _bootstrap([np.asarray(scores, float)], np.mean)


def interquartile_mean(scores: Sequence[float]) -> Estimate:
    """Return the mean of the middle half of the seeds: less moved by single runs than the mean."""
    return _bootstrap([np.asarray(scores, float)], _middle)


def stratified_mean(groups: Sequence[Sequence[float]]) -> Estimate:
    """Return the mean over groups of their means; seeds are drawn again within each group, never across."""
    return _bootstrap([np.asarray(group, float) for group in groups], np.mean)


def probability_of_improvement(ours: Sequence[float], theirs: Sequence[float]) -> Estimate:
    """Return how often a run of ours beats one of theirs; ties count half."""
    a, b = np.asarray(ours, float), np.asarray(theirs, float)
    wins = 0.5 + 0.5 * np.sign(a[:, None] - b)  # of every pair of runs
    value = float(wins.mean())
    if min(len(a), len(b)) < 2:
        return Estimate(value, 0.0, 1.0)
    rng = np.random.default_rng(0)
    first, second = (_resampled(rng, len(scores)) for scores in (a, b))
    low, high = _middle_of(np.einsum("ri,ij,rj->r", first, wins, second, optimize=True))
    return Estimate(value, float(low), float(high))


def mean_curves(curves: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (mean, low, high) at every point of curves, (seeds, points); whole seeds are drawn again."""
    middle = curves.mean(axis=0)
    if len(curves) < 2:
        return middle, middle, middle
    low, high = _middle_of(_resampled(np.random.default_rng(0), len(curves)) @ curves)
    return middle, low, high


def _resampled(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return how much each of n seeds weighs in every resample, (RESAMPLES, n)."""
    return rng.multinomial(n, np.full(n, 1 / n), RESAMPLES) / n


def _middle_of(draws: np.ndarray) -> np.ndarray:
    """Return the ends of the interval that holds CONFIDENCE of the draws, (2, ...)."""
    tail = 50 * (1 - CONFIDENCE)
    return np.asarray(np.percentile(draws, [tail, 100 - tail], axis=0))


def _middle(scores: np.ndarray, axis: int = -1) -> np.ndarray:
    n = scores.shape[axis]
    return np.sort(scores, axis).take(range(n // 4, n - n // 4), axis).mean(axis)


def _bootstrap(groups: Sequence[np.ndarray], statistic: object) -> Estimate:
    """Return the mean over groups of a statistic, with a percentile interval; the seed of the bootstrap is fixed."""
    assert callable(statistic)
    rng = np.random.default_rng(0)
    value = float(np.mean([statistic(group) for group in groups]))
    if any(len(group) < 2 for group in groups):
        return Estimate(value, float("-inf"), float("inf"))
    draws = np.mean(
        [statistic(rng.choice(group, (RESAMPLES, len(group))), axis=-1) for group in groups],
        axis=0,
    )
    low, high = _middle_of(draws)
    return Estimate(value, float(low), float(high))
