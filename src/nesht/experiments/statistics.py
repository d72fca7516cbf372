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
    """Return how often a run of ours beats one of theirs; ties count half (the Mann-Whitney statistic)."""
    a, b = np.asarray(ours, float), np.asarray(theirs, float)
    if min(len(a), len(b)) < 2:
        value = _wins(a, b)
        return Estimate(value, 0.0, 1.0)
    rng = np.random.default_rng(0)
    draws = [_wins(rng.choice(a, len(a)), rng.choice(b, len(b))) for _ in range(RESAMPLES // 10)]
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(draws, [tail, 100 - tail])
    return Estimate(_wins(a, b), float(low), float(high))


def _wins(a: np.ndarray, b: np.ndarray) -> float:
    from scipy import stats  # here: a mean with its interval needs no extra

    return float(stats.mannwhitneyu(a, b).statistic / (len(a) * len(b)))


def _middle(scores: np.ndarray, axis: int = -1) -> np.ndarray:
    from scipy import stats

    return np.asarray(stats.trim_mean(scores, 0.25, axis=axis))


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
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(draws, [tail, 100 - tail])
    return Estimate(value, float(low), float(high))
