"""Running mean and variance of every feature, merged in a fixed order, and the normaliser made from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

TINY = 1e-8
"""Added to a variance before its root is divided by: a feature that never moved must not become infinite."""


@dataclass(frozen=True)
class Moments:
    """Count, mean and sum of squared deviations, with any leading axes: (...,), (..., features), (..., features)."""

    count: np.ndarray
    mean: np.ndarray
    m2: np.ndarray

    @classmethod
    def none(cls, runs: int, features: int) -> Moments:
        """Return the moments of no data."""
        return cls(np.zeros(runs), np.zeros((runs, features)), np.zeros((runs, features)))

    def merge(self, other: Moments) -> Moments:
        """Return the moments of both data sets together (Chan et al., 1979)."""
        count = self.count + other.count
        share = np.divide(other.count, count, out=np.zeros_like(count), where=count > 0)[..., None]
        delta = other.mean - self.mean
        mean = self.mean + share * delta
        m2 = self.m2 + other.m2 + share * self.count[..., None] * delta * delta
        return Moments(count, mean, m2)

    def total(self) -> Moments:
        """Merge along the last axis of the counts, in a fixed order: neighbours, then neighbours of those.

        The total of rows is, to the bit, that of the totals of stretches of 2, 4, 8, ... of them.
        """
        rows = self
        while (count := rows.count.shape[-1]) > 1:
            pairs = rows._every(slice(0, count - 1, 2)).merge(rows._every(slice(1, count, 2)))
            rows = Moments.joined([pairs, rows._every(slice(count - 1, count))]) if count % 2 else pairs
        if count == 0:
            return Moments(rows.count.sum(axis=-1), rows.mean.sum(axis=-2), rows.m2.sum(axis=-2))
        return Moments(rows.count[..., 0], rows.mean[..., 0, :], rows.m2[..., 0, :])

    def _every(self, some: slice) -> Moments:
        return Moments(self.count[..., some], self.mean[..., some, :], self.m2[..., some, :])

    @staticmethod
    def joined(parts: Sequence[Moments]) -> Moments:
        """Return the rows of several moments, one after the other."""
        return Moments(
            np.concatenate([part.count for part in parts], axis=-1),
            np.concatenate([part.mean for part in parts], axis=-2),
            np.concatenate([part.m2 for part in parts], axis=-2),
        )

    def with_standard_normals(self, count: int) -> Moments:
        """Return the moments with further features that are known to be N(0, 1), at their expected values."""
        shape = (*self.count.shape, count)
        spread = np.broadcast_to(self.count[..., None], shape)
        return Moments(
            self.count,
            np.concatenate([self.mean, np.zeros(shape)], axis=-1),
            np.concatenate([self.m2, spread], axis=-1),
        )

    @property
    def std(self) -> np.ndarray:
        """The standard deviation; 1 where there is no data."""
        count = np.maximum(self.count, 1)[..., None]
        return np.where(self.count[..., None] > 0, np.sqrt(np.maximum(self.m2, 0) / count), 1.0)


@dataclass(frozen=True)
class Normaliser:
    """Shifts and scales features before a policy sees them; one row per run."""

    mean: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, moments: Moments) -> Normaliser:
        """Return the normaliser that gives features zero mean and unit variance under these moments."""
        return cls(moments.mean, 1 / np.sqrt(moments.std**2 + TINY))

    def only(self, which: np.ndarray) -> Normaliser:
        """Return the normaliser that leaves the features of all but some runs as they are."""
        return Normaliser(np.where(which[:, None], self.mean, 0.0), np.where(which[:, None], self.scale, 1.0))

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """Normalise features, row by row."""
        return (features - self.mean) * self.scale

    def rows(self, index: np.ndarray | int) -> Normaliser:
        """Return the normaliser of the given runs, one row each."""
        return Normaliser(self.mean[index], self.scale[index])
